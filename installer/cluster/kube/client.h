// SPDX-License-Identifier: Apache-2.0
// A client of the Kubernetes API. Every call has a deadline that includes its repetitions; what is repeated is what the
// server has not done for certain (429, and an error with Retry-After), and reads. Waits grow, with jitter, and
// Retry-After is obeyed. A token file is read again when it is a minute old or was refused.
//
// Answers are judged here: E_AUTH (401, 403), E_NOT_FOUND (404), E_CONFLICT (409, and 422 for another uid, or of a JSON
// patch whose test did not hold), E_KUBE (all others, with the server's own words); E_NETWORK, E_TLS, E_TIMEOUT when
// none came.
//
// What is handed records or events must not ask the same client anything.
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
// Before each call, and each repetition of one. Negative: it is not sent, with that error. run must not ask this
// client.
void kube_before(struct kube *k, int (*run)(void *ctx, struct err *err), void *ctx);
const char *kube_namespace(const struct kube *k);
// What was asked since it was opened. Watches count when they begin, with status 0.
enum { KUBE_COUNTS = 48 };
struct kube_count {
	char verb[8]; // GET, POST, PUT, PATCH, WATCH
	long status;  // of the answer; 0 = none came
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
	unsigned try_ms;                       // of one try that is no list; 0 = 10000
	bool is_repeatable;                    // doing it twice does no harm; reads always are
	bool is_busy_final;                    // 429 is an answer: nothing is repeated for it
	const struct json_stream_table *table; // read in parts: see take; NULL = the whole reply, at most 1 MiB
	int (*take)(void *ctx, json_t *record, struct err *err); // a record may come again when a read is repeated
	void *ctx;
	// What came back.
	long status;       // of the last answer; 0 = there was none
	json_t *reply;     // parsed; NULL = no JSON, or an error
	char *reason;      // of an error: "NotFound", "Conflict", ...; NULL = none
	char *message;     // of an error: the server's words; NULL = none
	json_t *causes;    // of an error: what stands beside that; NULL = nothing
	unsigned retry_ms; // what Retry-After says; 0 = nothing
};
int kube_run(struct kube *k, struct kube_call *call, struct err *err);
void kube_call_done(struct kube_call *call);
// The cause with that value, such as "reason" "DisruptionBudget"; NULL = there is none.
const json_t *kube_cause(const struct kube_call *call, const char *key, const char *value);
#define auto_kube_call __attribute__((cleanup(kube_call_done)))

// All objects of a collection, page after page, reduced on the way: path "/api/v1/nodes", query NULL or
// "labelSelector=x", record: paths of what is kept of each. A list that expired in the middle (410) starts over, and
// take sees records again. *ret_version: where a watch goes on. Caller frees.
struct kube_list {
	const char *path, *query;
	const char *const *record;
	unsigned limit; // of a page; 0 = 500
	int (*take)(void *ctx, json_t *object, struct err *err);
	void *ctx;
	unsigned pages; // that were read
};
int kube_list(struct kube *k, struct kube_list *list, char **ret_version, struct err *err);

// What happens to a collection from a version on, until the server ends the stream. Bookmarks only move the version.
#define KUBE_EVENT \
	"type", "object kind", "object metadata resourceVersion", "object code", "object reason", "object message"
struct kube_watch {
	const char *path, *query;
	const char *const *record; // rows of KUBE_EVENT, and "object ..." for what else is kept
	int (*event)(void *ctx, const char *type, json_t *object, struct err *err); // ADDED, MODIFIED, DELETED
	void *ctx;
	char *version;      // of the last event; begin again with it
	bool is_gone;       // the server has forgotten it (410): list anew
	unsigned bookmarks; // that came
	struct kube_stream *own;
};
int kube_watch_begin(struct kube *k, struct kube_watch *w, unsigned seconds, struct err *err);
int kube_step(struct kube *k, int wait_ms, struct err *err); // moves every watch on
// 1 = it goes on, 0 = the server ended it in good order, or is_gone; negative: what went wrong.
int kube_watch_look(struct kube_watch *w, struct err *err);
void kube_watch_end(struct kube_watch *w); // version and is_gone stay
void kube_watch_done(struct kube_watch *w);
#define auto_kube_watch __attribute__((cleanup(kube_watch_done)))
