// SPDX-License-Identifier: Apache-2.0
// A Kubernetes API server in this process, on a clock that moves only when somebody waits. A test program that links
// tests/sim runs the real client (kube/client.c) and all that stands on it: what is replaced is what lies beneath,
// the HTTP client (http_sim.c) and the client's clocks and dice (clock.c). The same requests give the same answers as a
// real kube-apiserver's: tests/cluster/conform.c asks both.
//
// Who asks is told apart by its token: struct kube *a = sim_client(sim, "a").
// Texts of JSON: ' stands for ".
#pragma once
#include "cluster/kube/api.h"

enum { SIM_EPOCH = 1800000000 }; // 2027-01-15T08:00:00Z, where the clock starts

struct sim_request {
	const char *client;
	const char *method, *path, *type; // as they were sent
	const char *verb;                 // get list watch create update patch delete evict; "" = none
	const char *resource;             // "nodes"; NULL = there is no such path
	const char *namespace, *name, *subresource;
	const json_t *body;
	bool is_late;                 // it was under way, or its client asleep, for long
	const json_t *before, *after; // the object; NULL = there is none. The same where nothing is changed
	long status;                  // of the answer that is given, if nobody breaks it
};

struct sim_call { // one row of the log
	long ms;
	char *client, *path;
	const char *verb;
	long status; // 0 = none was seen by the client
};

struct sim_options {
	// Each request before it is applied, those that are refused and those that the client never hears of, too.
	void (*seen)(void *ctx, const struct sim_request *request);
	void *ctx;
	unsigned call_ms;     // what each call takes; 0 = 2
	unsigned keep;        // changes that are remembered for watches and lists; 0 = 10000
	unsigned bookmark_ms; // 0 = 60000
	int64_t ahead_s;      // of the server's clock
	bool is_bare;         // without kubelets, which end pods, and without the controller of disruption budgets
	unsigned seed;        // of the dice
};

struct sim;
struct sim *sim_new(const struct sim_options *options); // NULL = all default. One at a time
void sim_free(struct sim *s);
static inline void sim_freep(struct sim **s)
{
	sim_free(*s);
}
#define auto_sim __attribute__((cleanup(sim_freep)))
struct kube *sim_client(struct sim *s, const char *name); // kube_free() it; namespace "kmodsmith"
struct kube *sim_client_within(struct sim *s, const char *name, unsigned deadline_ms); // most for each of its calls

void sim_skew(struct sim *s, int64_t ahead_s); // the server's clock steps

// The clock. What is due runs whenever somebody waits, also while another one's call is under way.
long sim_now_ms(void);
void sim_after(long ms, void (*run)(void *ctx), void *ctx);
void sim_pass(long ms);

// As the administrator, whom nothing breaks and nobody counts. Ends the program where it is refused.
json_t *sim_ask(struct sim *s, const char *method, const char *path, const char *json, ...) PRINTF(4, 5); // caller owns
void sim_make(struct sim *s, const char *path, const char *json, ...) PRINTF(3, 4);
void sim_merge(struct sim *s, const char *path, const char *json, ...) PRINTF(3, 4);
void sim_delete(struct sim *s, const char *path);
const json_t *sim_get(struct sim *s, const char *path);       // NULL = absent; borrowed until it is changed
const char *sim_text(const json_t *object, const char *keys); // "metadata name"; NULL = absent, or no string
json_t *sim_at(const json_t *object, const char *keys);
uint32_t sim_dice(void);
void sim_compact(struct sim *s); // all changes until now are forgotten: what was read is too old

// What is broken on purpose. The row is copied; what is returned counts its hits until sim_heal().
enum sim_break {
	SIM_NOTHING,
	SIM_CUT_BEFORE, // the connection ends, and nothing was done
	SIM_CUT_AFTER,  // it was done, and nobody hears of it
	SIM_STATUS,     // refused with status and retry_s; nothing was done
	SIM_TRUNCATE,   // it was done, and the reply ends in the middle
	SIM_SLOW,       // it was done, and the reply comes late_ms later, if the client waits so long
	SIM_DIE_BEFORE, // the client is killed there: no call of it comes through any more
	SIM_DIE_AFTER,
	SIM_FREEZE_BEFORE, // the client sleeps for late_ms with the request on its lips; then all goes on as ever
	SIM_FREEZE_AFTER,  // it was done, and the client sleeps for late_ms before it has the answer
	SIM_LINGER,        // the client gives up; the request comes to the server late_ms later, and is done then
	SIM_DIE_LINGER,    // the same, and the client is killed there
	SIM_PARTITION,     // of the client, from_ms until to_ms of the clock, 0 = for ever; its watches end afterwards
	// Of the events of watches: nth and times count them.
	SIM_WATCH_DROP,  // the connection ends in the middle of it
	SIM_WATCH_TWICE, // it comes two times
	SIM_WATCH_SWAP,  // it comes after the next one, if that is of another object
	SIM_WATCH_GONE,  // 410 comes in its place
	// Of watches that begin from then on.
	SIM_WATCH_LATE, // events come late_ms later
	SIM_WATCH_NO_BOOKMARKS,
};
struct sim_fault {
	enum sim_break what;
	const char *client, *verb, *resource; // NULL = any; "boss*": all that begin so
	unsigned nth, times;                  // the nth that fits is the first that is broken, 0 = 1; so many, 0 = 1
	unsigned one_in;                      // in place of both: each that fits, with that chance, by the dice
	long status;
	unsigned retry_s;
	const char *name, *message; // of the object that is asked for, NULL = any; the server's words, NULL = some
	long from_ms, to_ms, late_ms;
	void (*hit)(void *ctx); // at the first one; NULL = nobody is told
	void *ctx;
	unsigned seen, hits; // that fitted; that were broken
};
const struct sim_fault *sim_fault(struct sim *s, const struct sim_fault *fault);
void sim_heal(struct sim *s);

// What was asked since sim_new(), the administrator left out. client, verb: NULL = any.
size_t sim_count(const struct sim *s, const char *client, const char *verb);
const struct sim_call *sim_log(const struct sim *s, size_t *ret_count);
