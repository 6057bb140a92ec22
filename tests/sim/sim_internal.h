// SPDX-License-Identifier: Apache-2.0
// Internals of the simulated API server.
#pragma once
#include "base/http/http.h"
#include "tests/sim/sim.h"

// kinds.c: the resources
struct sim_kind {
	const char *group, *resource, *kind; // group "" = core
	bool is_namespaced;
	bool is_made_by_put;    // PUT may create it
	bool needs_version;     // PUT requires resourceVersion
	bool has_status;        // subresource
	bool is_versioned;      // has metadata.generation
	const char *selectable; // fields, besides those of metadata
	const char *version;    // of a custom resource, which needs its CustomResourceDefinition; NULL = v1, built in
};
enum { SIM_KINDS = 13 };
extern const struct sim_kind sim_kinds[SIM_KINDS];
#define SIM_NODES (&sim_kinds[0])
#define SIM_PODS (&sim_kinds[1])
#define SIM_BUDGETS (&sim_kinds[5])
#define SIM_NAMESPACES (&sim_kinds[8])
#define SIM_DEFINITIONS (&sim_kinds[9])

struct sim_path { // of a request
	const struct sim_kind *kind;
	char *namespace, *name, *subresource; // NULL = none
	char *labels, *fields, *next, *version;
	uint64_t limit, timeout_s;
	bool is_watch, has_bookmarks;
};
bool sim_path_parse(const char *path, struct sim_path *ret); // false = no such path
void sim_path_done(struct sim_path *p);
#define auto_sim_path __attribute__((cleanup(sim_path_done)))
char *sim_key(const struct sim_kind *kind, const char *namespace, const char *name); // of the store

// list.c. false: *ret_field is not supported.
bool sim_can_select(const struct sim_kind *kind, const char *fields, char **ret_field);
bool sim_selects(const struct sim_path *p, const json_t *object);
bool sim_has_labels(const json_t *object, json_t *labels); // matchLabels

// store.c: stored objects are immutable; a change stores a new one.
struct sim_change {
	uint64_t version;
	long ms;
	const struct sim_kind *kind;
	char *key;
	json_t *before, *after; // before NULL = created; of a removal after is the object of its event
	bool is_removal;
};
struct sim_row {
	char *key;
	json_t *object;
};
struct sim_shelf {
	struct sim_row *rows; // by key
	size_t count, room;
};
struct sim_store {
	struct sim_shelf shelves[SIM_KINDS];
	struct sim_change *changes; // by version
	size_t count, room, keep;
	uint64_t version, compacted; // the history up to compacted is dropped
	unsigned restores;           // so often it was restored from a backup
	uint64_t uids;
};
void sim_store_done(struct sim_store *s);
json_t *sim_store_get(const struct sim_store *s, const struct sim_kind *kind, const char *key); // borrowed; NULL = none
void sim_store_put(struct sim_store *s, const struct sim_kind *kind, const char *key, json_t *take);
void sim_store_remove(struct sim_store *s, const struct sim_kind *kind, const char *key);
void sim_store_compact(struct sim_store *s, uint64_t version);
void sim_store_restore(struct sim_store *s, uint64_t version);
size_t sim_store_after(const struct sim_store *s, uint64_t version); // index of the first newer change
// All objects of a kind at that version, by key; the caller frees the rows, not the objects.
size_t sim_store_at(const struct sim_store *s, const struct sim_kind *kind, uint64_t version, struct sim_row **ret);

// patch.c. NULL = it cannot be applied.
json_t *sim_merge_patch(const json_t *object, const json_t *patch);
json_t *sim_json_patch(const json_t *object, const json_t *operations);

// server.c: answers
struct sim_answer {
	long status; // 0 = none
	json_t *reply;
	unsigned retry_s;
	int code;     // if there is no answer
	long took_ms; // in addition to the network
	bool is_cut;  // the reply is truncated
};
void sim_answer_done(struct sim_answer *a);
#define auto_sim_answer __attribute__((cleanup(sim_answer_done)))
void sim_say(struct sim_answer *a, long status, const char *reason, const char *fmt, ...) PRINTF(4, 5);
void sim_say_of(struct sim_answer *a, long status, const char *reason, const struct sim_kind *kind, const char *name,
		const char *fmt, ...) PRINTF(6, 7);
void sim_say_cause(struct sim_answer *a, const char *reason, const char *message, const char *field); // one more

// object.c
bool sim_is_typed(const struct sim_kind *kind, const json_t *object);
bool sim_is_valid(const struct sim_kind *kind, const char *namespace, const char *name, const json_t *object,
		  struct sim_answer *a);
json_t *sim_born(struct sim *s, const struct sim_kind *kind, const char *namespace, const json_t *body);
bool sim_may_follow(const struct sim_kind *kind, const char *name, const json_t *before, const json_t *after,
		    struct sim_answer *a);
json_t *sim_next(const struct sim_kind *kind, const char *subresource, const json_t *before, const json_t *wanted);
void sim_set(json_t *object, const char *keys, json_t *take); // "metadata name"; creates parents

// server.c: the effect of a request, computed before it is applied
struct sim_effect {
	const struct sim_kind *kind;
	char *key;
	json_t *before, *after; // of the object; after NULL = removed
	json_t *budget;         // after an eviction
	bool is_write;
	struct sim_answer answer;
};
void sim_serve(struct sim *s, struct sim_request *r, const struct sim_path *p, struct sim_answer *ret);
void sim_list(struct sim *s, const struct sim_path *p, struct sim_answer *ret);                             // list.c
void sim_evict(struct sim *s, const struct sim_request *r, struct sim_effect *e);                           // budgets.c
json_t *sim_ended(struct sim *s, const struct sim_kind *kind, const json_t *object, const json_t *options); // pods.c
bool sim_holds(const json_t *before, const json_t *options, const char *name, const struct sim_kind *kind,
	       struct sim_answer *a); // the preconditions of a deletion
void sim_commit(struct sim *s, const struct sim_kind *kind, const char *key, json_t *take); // NULL = removed
// Kubelets and controllers after a change.
struct sim_ending;
void sim_kubelet(struct sim *s, const char *key); // pods.c: terminates a pod
void sim_endings_free(struct sim_ending *e);
void sim_budgets(struct sim *s, const char *namespace); // budgets.c: their status
bool sim_may_be_made(struct sim *s, const struct sim_kind *kind, const char *namespace, const char *name,
		     struct sim_answer *a); // not in a terminating namespace

// watch.c
struct sim_watch {
	struct sim *sim;
	char *first; // key of the last initial object that was sent; NULL = none
	struct sim_path path;
	uint64_t version; // changes up to this one were sent
	long end_ms, bookmark_ms;
	long lag_ms;       // delay of events
	char *key;         // of the last event
	unsigned restores; // of the store, when it began
	bool is_over;
};
struct sim_watch *sim_watch_new(struct sim *s, struct sim_path *take);
void sim_watch_free(struct sim_watch *w);
char *sim_watch_too_old(struct sim_watch *w);
char *sim_watch_next(struct sim_watch *w);     // events as text, caller frees; NULL = nothing now
long sim_watch_due(const struct sim_watch *w); // when a bookmark or the end is due

// faults.c
struct sim_fault_row {
	struct sim_fault fault;
	char *client;
	struct sim_fault_row *next;
};
bool sim_parted(const struct sim *s, const char *client, long *ret_until);
const struct sim_fault *sim_fault_hit(struct sim *s, const char *client, const char *verb, const char *resource,
				      const char *name);
bool sim_fault_before(const struct sim_fault *f, struct sim_answer *ret);
void sim_fault_after(const struct sim_fault *f, struct sim_answer *ret);
void sim_fault_stream(const struct sim *s, const char *client, struct sim_watch *w);

// server.c: requests in flight after their client gave up
struct sim_ghost;
void sim_linger(struct sim *s, const struct sim_request *r, long late_ms);
void sim_ghosts_free(struct sim_ghost *g);

// clock.c
void sim_clock_start(unsigned seed);
bool sim_clock_step(long until_ms); // runs the next due timer; false = until_ms was reached

struct sim {
	struct sim_options o;
	struct sim_store store;
	struct sim_ending *endings;
	struct sim_fault_row *faults;
	struct sim_ghost *ghosts;
	struct sim_call *calls;
	size_t calls_count, calls_room;
};
struct sim *sim_current(void);
int64_t sim_time(const struct sim *s); // its clock
void sim_note(struct sim *s, const struct sim_request *r, long status);
void sim_address(struct sim_request *r, struct sim_path *p);
void sim_exchange(struct sim *s, struct sim_request *r, struct sim_path *p, struct sim_answer *ret);
