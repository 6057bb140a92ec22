// SPDX-License-Identifier: Apache-2.0
// A client of the Kubernetes API. Every call has a deadline that includes its retries. Reads are retried, and what
// the server has certainly not done (429, and an error with Retry-After). Waits grow, with jitter, and Retry-After is
// obeyed. A token file is read again once it is a minute old or was refused.
//
// Error codes: E_AUTH (401, 403), E_NOT_FOUND (404), E_CONFLICT (409, and 422 for another uid or a failed test of a
// JSON patch), E_KUBE (all others, with the server's message); E_NETWORK, E_TLS, E_TIMEOUT without an answer.
//
// Callbacks that get records or events must not use the same client.
#pragma once
#include "base/formats/json_stream.h"
#include "base/http/http.h"
#include "cluster/kube/clock.h"
#include "cluster/kube/kubeconfig.h"

struct kube;
int kube_open(struct kube_config *take, struct kube **ret, struct err *err); // no request yet
void kube_free(struct kube *k);
static inline void kube_freep(struct kube **k)
{
	kube_free(*k);
}
#define auto_kube __attribute__((cleanup(kube_freep)))
// run is called before each call and each retry. Negative: the call fails with that error. run must not use this
// client.
void kube_before(struct kube *k, int (*run)(void *ctx, struct err *err), void *ctx);
const char *kube_namespace(const struct kube *k);
// Requests since it was opened. A watch counts when it begins, with status 0.
enum { KUBE_COUNTS = 48 };
struct kube_count {
	char verb[8]; // GET, POST, PUT, PATCH, WATCH
	long status;  // of the answer; 0 = no answer
	unsigned long count;
};
const struct kube_count *kube_counts(const struct kube *k, size_t *ret_count);
// The API server's clock, seconds since 1970: ours, corrected by the Date headers of its answers to calls and lists.
int64_t kube_time(const struct kube *k);

struct kube_call {
	const char *method;                    // NULL = GET
	const char *path;                      // "/api/v1/nodes/n1?...", escaped
	const char *type;                      // of the body; NULL = application/json
	const json_t *body;                    // NULL = none
	unsigned deadline_ms;                  // 0 = 30000
	unsigned try_ms;                       // of one attempt, lists excepted; 0 = 10000
	bool is_repeatable;                    // doing it twice is harmless; always so for reads
	bool is_busy_final;                    // 429 is an answer, not a reason to retry
	const struct json_stream_table *table; // stream the reply to take; NULL = whole, at most 1 MiB
	int (*take)(void *ctx, json_t *record, struct err *err); // a retry delivers records again
	void *ctx;
	// What came back.
	long status;       // of the last answer; 0 = no answer
	json_t *reply;     // parsed; NULL = no JSON, or an error
	char *reason;      // of an error: "NotFound", "Conflict", ...; NULL = none
	char *message;     // of an error: the server's message; NULL = none
	json_t *causes;    // of an error: details.causes; NULL = none
	unsigned retry_ms; // of Retry-After; 0 = none
};
int kube_run(struct kube *k, struct kube_call *call, struct err *err);
void kube_call_done(struct kube_call *call);
// The cause with that value, such as "reason" "DisruptionBudget"; NULL = there is none.
const json_t *kube_cause(const struct kube_call *call, const char *key, const char *value);
#define auto_kube_call __attribute__((cleanup(kube_call_done)))

// All objects of a collection, page by page, reduced while they are read. path: "/api/v1/nodes"; query: NULL or
// "labelSelector=x"; record: paths of what is kept of each. A list that expires halfway (410) starts over, and take
// gets records again. *ret_version: where a watch continues. Caller frees.
struct kube_list {
	const char *path, *query;
	const char *const *record;
	unsigned limit; // of a page; 0 = 500
	int (*take)(void *ctx, json_t *object, struct err *err);
	void *ctx;
	unsigned pages; // read
};
int kube_list(struct kube *k, struct kube_list *list, char **ret_version, struct err *err);

// Changes to a collection since a version, until the server ends the stream. Bookmarks only move the version.
#define KUBE_EVENT \
	"type", "object kind", "object metadata resourceVersion", "object code", "object reason", "object message"
struct kube_watch {
	const char *path, *query;
	const char *const *record; // KUBE_EVENT, and "object ..." for what else is kept
	int (*event)(void *ctx, const char *type, json_t *object, struct err *err); // ADDED, MODIFIED, DELETED
	void *ctx;
	char *version;      // of the last event: where to begin again
	bool is_gone;       // too old for the server (410): list again
	unsigned bookmarks; // received
	struct kube_stream *own;
};
int kube_watch_begin(struct kube *k, struct kube_watch *w, unsigned seconds, struct err *err);
int kube_step(struct kube *k, int wait_ms, struct err *err); // receives for every watch
// 1 = it continues, 0 = the server ended it, or is_gone; negative = an error.
int kube_watch_look(struct kube_watch *w, struct err *err);
void kube_watch_end(struct kube_watch *w); // version and is_gone stay
void kube_watch_done(struct kube_watch *w);
#define auto_kube_watch __attribute__((cleanup(kube_watch_done)))
