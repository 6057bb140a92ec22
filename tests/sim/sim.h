// SPDX-License-Identifier: Apache-2.0
// A Kubernetes API server in this process, on a virtual clock that only advances while a caller waits. A test program
// that links tests/sim runs the real client (kube/client.c) and everything above it; replaced are the HTTP client
// (http_sim.c), the client's clocks and random numbers (clock.c). Answers equal those of a real kube-apiserver:
// tests/cluster/conform.c asks both.
//
// Clients are identified by their token: struct kube *a = sim_client(sim, "a"). In JSON strings ' stands for ".
#pragma once
#include "cluster/kube/api.h"

enum { SIM_EPOCH = 1800000000 }; // 2027-01-15T08:00:00Z, when the clock starts

struct sim_request {
	const char *client;
	const char *method, *path, *type; // as they were sent
	const char *verb;                 // get list watch create update patch delete evict; "" = none
	const char *resource;             // "nodes"; NULL = no such path
	const char *namespace, *name, *subresource;
	const json_t *body;
	bool is_late;                 // it was in flight, or its client frozen, for long
	const json_t *before, *after; // the object; NULL = none. The same if nothing changes
	long status;                  // of the answer, without faults
};

struct sim_call { // one row of the log
	long ms;
	char *client, *path;
	const char *verb;
	long status; // 0 = the client got none
};

struct sim_options {
	// Each request before it is applied, including refused ones and those whose answer is lost.
	void (*seen)(void *ctx, const struct sim_request *request);
	void *ctx;
	unsigned call_ms;     // duration of a call; 0 = 2
	unsigned keep;        // changes that are kept for watches and lists; 0 = 10000
	unsigned bookmark_ms; // 0 = 60000
	int64_t ahead_s;      // of the server's clock
	bool is_bare;         // without kubelets, which terminate pods, and without the disruption controller
	unsigned seed;        // of the random numbers
};

struct sim;
struct sim *sim_new(const struct sim_options *options); // NULL = defaults. One at a time
void sim_free(struct sim *s);
static inline void sim_freep(struct sim **s)
{
	sim_free(*s);
}
#define auto_sim __attribute__((cleanup(sim_freep)))
struct kube *sim_client(struct sim *s, const char *name); // kube_free() it; namespace "kmodsmith"
struct kube *sim_client_within(struct sim *s, const char *name, unsigned deadline_ms); // timeout of its calls

void sim_skew(struct sim *s, int64_t ahead_s); // changes the server's clock

// The clock. Due timers run while a caller waits, also during another one's call.
long sim_now_ms(void);
void sim_after(long ms, void (*run)(void *ctx), void *ctx);
void sim_pass(long ms);

// As the administrator: without faults, and not in the log. Aborts if it is refused.
json_t *sim_ask(struct sim *s, const char *method, const char *path, const char *json, ...) PRINTF(4, 5); // caller owns
void sim_make(struct sim *s, const char *path, const char *json, ...) PRINTF(3, 4);
void sim_merge(struct sim *s, const char *path, const char *json, ...) PRINTF(3, 4);
void sim_delete(struct sim *s, const char *path);
const json_t *sim_get(struct sim *s, const char *path);       // NULL = absent; borrowed until it changes
const char *sim_text(const json_t *object, const char *keys); // "metadata name"; NULL = absent, or not a string
json_t *sim_at(const json_t *object, const char *keys);
uint32_t sim_dice(void);
void sim_compact(struct sim *s); // drops the history: older resourceVersions are expired
// etcd is restored from a backup, and the API server is started anew: objects and versions are those of that version,
// and watches end. A watch from a later version hears nothing before that one is reached, like at a real server.
uint64_t sim_version(const struct sim *s);
void sim_restore(struct sim *s, uint64_t version);

// Fault injection. The row is copied; the returned one counts hits until sim_heal().
enum sim_break {
	SIM_NOTHING,
	SIM_CUT_BEFORE, // connection closed, request not applied
	SIM_CUT_AFTER,  // request applied, answer lost
	SIM_STATUS,     // refused with status and retry_s
	SIM_TRUNCATE,   // request applied, reply truncated
	SIM_SLOW,       // request applied, reply late_ms later, if the client waits so long
	SIM_DIE_BEFORE, // client killed: none of its calls gets through any more
	SIM_DIE_AFTER,
	SIM_FREEZE_BEFORE, // client frozen for late_ms before it sends the request
	SIM_FREEZE_AFTER,  // request applied, client frozen for late_ms before it gets the answer
	SIM_LINGER,        // client times out; the request reaches the server late_ms later and is applied
	SIM_DIE_LINGER,    // the same, and the client is killed
	SIM_PARTITION,     // of the client, from from_ms to to_ms, 0 = forever; its watches end afterwards
	// Watch events: nth and times count them.
	SIM_WATCH_DROP,  // connection closed in the middle of it
	SIM_WATCH_TWICE, // delivered twice
	SIM_WATCH_SWAP,  // delivered after the next one, if that is of another object
	SIM_WATCH_GONE,  // replaced by 410 Gone
	// Watches that begin from then on.
	SIM_WATCH_LATE, // events are late_ms late
	SIM_WATCH_NO_BOOKMARKS,
};
struct sim_fault {
	enum sim_break what;
	const char *client, *verb, *resource; // NULL = any; "boss*": a prefix
	unsigned nth, times;                  // the first matching one to break, 0 = 1; how many, 0 = 1
	unsigned one_in;                      // instead of both: each matching one with this chance
	long status;
	unsigned retry_s;
	const char *name, *message; // name of the object, NULL = any; message of the server, NULL = default
	long from_ms, to_ms, late_ms;
	void (*hit)(void *ctx); // called at the first one
	void *ctx;
	unsigned seen, hits; // matching; broken
};
const struct sim_fault *sim_fault(struct sim *s, const struct sim_fault *fault);
void sim_heal(struct sim *s);

// Requests since sim_new(), without the administrator's. client, verb: NULL = any.
size_t sim_count(const struct sim *s, const char *client, const char *verb);
const struct sim_call *sim_log(const struct sim *s, size_t *ret_count);
