// SPDX-License-Identifier: Apache-2.0
// The policy, one document in JSON or YAML: pools of nodes, their targets, and how fast and when nodes are upgraded.
// Every error names the field. Pure: a text in, a struct out. Defaults: upgrade-design 5.9.
#pragma once
#include "cluster/node_state/node_state.h"
#include "cluster/policy/json_fields.h"

enum {
	POLICY_SCHEMA = 1,
	POLICY_BYTES = 512 * 1024, // its copy and the status are in one ConfigMap
	POOLS_MOST = 64,
	WAVES_MOST = 32,
	WINDOWS_MOST = 32
};

// Of a total. A percentage is rounded down, and at least 1; an explicit 0 pauses (T80).
unsigned policy_limit(const struct limit *limit, unsigned total);

enum evict { EVICT_GPU, EVICT_HOLDERS, EVICT_ALL, EVICT_NOTHING };
enum on_timeout { TIMEOUT_RELEASE, TIMEOUT_HOLD };
enum on_wait_timeout { WAIT_EVICT, WAIT_RELEASE };
enum on_release_timeout { RELEASE_HOLD, RELEASE_ANYWAY, RELEASE_FAIL };
enum mode { MODE_COORDINATOR, MODE_SELF /* one node, which has no coordinator: see single_node.h */ };
enum on_halt { HALT_FINISH, HALT_ROLLBACK, HALT_ROLLBACK_ALL };
enum foreign_cordon { CORDON_IGNORE, CORDON_USE_FIRST };
enum unhealthy_before { UNHEALTHY_HOLD, UNHEALTHY_REPLACE };
enum overflow { OVERFLOW_ALONE, OVERFLOW_HOLD };
enum beside { BESIDE_HOLD, BESIDE_ALLOW };

struct wave {
	char name[WORD_TEXT];
	uint64_t terms;          // of its selector; 0 = by percent or count
	unsigned percent, count; // of the pool; 0 = by the selector
	unsigned soak;           // seconds
	bool is_manual;          // opens only after an approval
	unsigned failures;       // that are allowed
	unsigned done;           // nodes that must be done in this and earlier waves before the next one opens
};

struct window {            // in UTC
	uint8_t days;      // bits, Monday is 1; on which it begins
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
	unsigned drain_attempts; // drains of a node for one target
	enum on_timeout on_timeout;
	enum on_wait_timeout on_wait_timeout;
	char *wait_for; // label selector of the jobs that a drain waits for; NULL = none
	bool is_forced, deletes_empty_dir;
	enum on_release_timeout on_release_timeout;
	char *job;             // PodTemplate that a node has to pass before it is uncordoned; NULL = none
	unsigned job_deadline; // seconds
	enum foreign_cordon foreign_cordon;
	enum overflow overflow;
	enum on_halt on_halt;
	bool is_by_zone;
	unsigned breaker_percent, breaker_row;
	unsigned hardware_errors; // nodes of a wave with such errors of their GPUs that halt it; 0 = none do
	enum unhealthy_before unhealthy_before;
	struct wave *waves;
	size_t wave_count;
	struct window *windows;
	size_t window_count;
};

struct driver_set { // a DaemonSet of NVIDIA's operator that loads drivers
	char name[OBJECT_TEXT];
	uint64_t terms; // of its nodeSelector; 0 = every node
};

struct policy {
	unsigned schema;
	bool is_paused, has_mirror;
	enum mode mode;
	struct limit parallel, unavailable; // of the whole cluster
	unsigned staging;
	char *group_by, *zone; // label keys; NULL = none
	struct strv terms;     // "key=value" of all selectors; the index is the bit in facts.terms
	struct pool *pools;
	size_t pool_count;
	enum beside beside;
	struct driver_set *driver_sets;
	size_t driver_set_count;
};
#define POLICY_NONE ((struct policy){ 0 })

// E_CONFIG with the field: "pools[0].waves[2].soak: ...".
// Only its syntax: JSON if it begins with {, else YAML. Of a DriverRollout its spec.
int policy_document(const char *text, size_t len, json_t **ret, struct err *err);
int policy_read(const json_t *document, struct policy *ret, struct err *err);
int policy_parse(const char *text, size_t len, struct policy *ret, struct err *err);
void policy_done(struct policy *p);
#define auto_policy __attribute__((cleanup(policy_done)))

extern const unsigned span_defaults[SPAN_COUNT];
extern const char *const span_names[SPAN_COUNT];
static inline unsigned policy_span(const struct pool *pool, enum span span) // pool NULL: the default
{
	return pool ? pool->spans[span] : span_defaults[span];
}

static inline unsigned policy_job_span(const struct pool *pool)
{
	return pool->job ? pool->job_deadline : 0;
}

// Evaluates a label of a node: which selector terms it meets, its group, its zone.
void policy_label(const struct policy *p, const char *key, const char *value, struct node_facts *facts);
void policy_keys(const struct policy *p, struct strv *ret); // keys of the labels that the policy uses; each once
// The pool of the node: the recorded one while it is in progress, else that of its label, else the first whose selector
// it meets. NULL = none.
const struct pool *policy_pool(const struct policy *p, const struct node_state *m);
const struct pool *policy_home(const struct policy *p, const struct node_state *m); // ignoring the recorded one

// Whether a window is open with so many seconds left. No window at all: always open.
bool policy_window_is_open(const struct pool *pool, int64_t now, unsigned margin);
int64_t policy_window_next(const struct pool *pool, int64_t now,
			   unsigned margin); // when one opens; 0 = one is open, or never
// The longest time after the order to replace, which is not given if a window has less left.
unsigned policy_window_rest(const struct pool *pool);
static inline const char *policy_wave_name(const struct pool *pool, unsigned wave)
{
	return wave < pool->wave_count ? pool->waves[wave].name : "rest";
}
