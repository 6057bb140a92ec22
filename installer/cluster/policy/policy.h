// SPDX-License-Identifier: Apache-2.0
// What a site wants, as one document in JSON or YAML (a ConfigMap): pools of nodes, what each is to run, how fast and
// when. Every refusal names the field. Pure: a text in, a struct out. Defaults: upgrade-design 5.9.
#pragma once
#include "cluster/node_state/node_state.h"
#include "cluster/policy/json_fields.h"

enum {
	POLICY_SCHEMA = 1,
	POLICY_BYTES = 512 * 1024, // the copy of it and the status are one ConfigMap
	POOLS_MOST = 64,
	WAVES_MOST = 32,
	WINDOWS_MOST = 32
};

// Of a total. A part is rounded down, and is at least 1; an explicit 0 is 0: pause (T80).
unsigned policy_limit(const struct limit *limit, unsigned total);

enum evict { EVICT_GPU, EVICT_HOLDERS, EVICT_ALL, EVICT_NOTHING };
enum on_timeout { TIMEOUT_RELEASE, TIMEOUT_HOLD };
enum on_wait_timeout { WAIT_EVICT, WAIT_RELEASE };
enum mode { MODE_COORDINATOR, MODE_SELF /* one node, which has no coordinator: see single_node.h */ };
enum on_halt { HALT_FINISH, HALT_ROLLBACK, HALT_ROLLBACK_ALL };
enum foreign_cordon { CORDON_IGNORE, CORDON_USE_FIRST };
enum overflow { OVERFLOW_ALONE, OVERFLOW_HOLD };
enum beside { BESIDE_HOLD, BESIDE_ALLOW };

struct wave {
	char name[WORD_TEXT];
	uint64_t terms;          // of its selector; 0 = by percent or count
	unsigned percent, count; // of the pool; 0 = by the selector
	unsigned soak;           // seconds
	bool is_manual;          // opens only when it is approved
	unsigned failures;       // that it allows
	unsigned done;           // nodes that must have the target, in this one and those before, before the next opens
};

struct window {            // in UTC
	uint8_t days;      // bits, Monday is 1; of its beginning
	unsigned from, to; // minutes of the day; to <= from: it ends on the next day
};

struct pool {
	char name[WORD_TEXT];
	uint64_t terms; // of its selector; 0 = every node
	struct target target;
	struct limit parallel, unavailable;
	unsigned waiting; // nodes that wait for jobs
	unsigned attempts;
	unsigned spans[SPAN_COUNT]; // seconds, never 0
	enum evict evict;
	unsigned drain_attempts; // drains that one target is worth on a node
	enum on_timeout on_timeout;
	enum on_wait_timeout on_wait_timeout;
	char *wait_for; // label selector of the jobs that are waited for; NULL = none are
	bool is_forced, deletes_empty_dir;
	enum foreign_cordon foreign_cordon;
	enum overflow overflow;
	enum on_halt on_halt;
	bool is_by_zone;
	unsigned breaker_percent, breaker_row;
	struct wave *waves;
	size_t wave_count;
	struct window *windows;
	size_t window_count;
};

struct driver_set { // a DaemonSet of NVIDIA's operator that loads drivers: see driver_daemonsets.h
	char name[OBJECT_TEXT];
	uint64_t terms; // of the nodes that it serves; 0 = every node
};

struct policy {
	unsigned schema;
	bool is_paused, has_mirror;
	enum mode mode;
	struct limit parallel, unavailable; // of the whole cluster
	unsigned staging;
	char *group_by, *zone; // keys of labels; NULL = none
	struct strv terms;     // "key=value" of all selectors; the index is the bit in facts.terms
	struct pool *pools;
	size_t pool_count;
	enum beside beside;
	struct driver_set *driver_sets;
	size_t driver_set_count;
};
#define POLICY_NONE ((struct policy){ 0 })

// E_CONFIG with the field: "pools[0].waves[2].soak: ...".
// Its text alone: JSON where it begins with {, else YAML. Of a DriverRollout its spec.
int policy_document(const char *text, size_t len, json_t **ret, struct err *err);
int policy_read(const json_t *document, struct policy *ret, struct err *err);
int policy_parse(const char *text, size_t len, struct policy *ret, struct err *err);
void policy_done(struct policy *p);
#define auto_policy __attribute__((cleanup(policy_done)))

extern const unsigned span_defaults[SPAN_COUNT];
extern const char *const span_names[SPAN_COUNT];
unsigned policy_span(const struct pool *pool, enum span span); // pool NULL: the default

// A label of a node, in terms of the policy: what selectors it meets, its group, its zone.
void policy_label(const struct policy *p, const char *key, const char *value, struct node_facts *facts);
void policy_keys(const struct policy *p, struct strv *ret); // of the labels that have one; each once
// The pool that has the node: that of its unfinished plan, else that of its label, else the first whose selector it
// meets. NULL = none has it.
const struct pool *policy_pool(const struct policy *p, const struct node_state *m);
// Which of them serves it; NULL = none.
const struct driver_set *policy_driver_set(const struct policy *p, const struct node_facts *facts);
const struct pool *policy_home(const struct policy *p, const struct node_state *m); // that it has without a plan

// Whether a window is open at that time with so many seconds left. No window at all: always open.
bool policy_window_is_open(const struct pool *pool, int64_t now, unsigned margin);
int64_t policy_window_next(const struct pool *pool, int64_t now,
			   unsigned margin); // when it will be so; 0 = it is, or never
// What may follow the order to replace: it is not given where a window has less left.
unsigned policy_window_rest(const struct pool *pool);
const char *policy_wave_name(const struct pool *pool, unsigned wave); // "rest" for the one behind the last
