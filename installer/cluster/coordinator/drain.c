// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/drain.h"

#include "cluster/coordinator/pods.h"
#include "cluster/kube/api.h"

#include <stdio.h>

#define DRA_DRIVER "gpu.nvidia.com"

bool drain_is_due(const struct node_cache *f, size_t at)
{
	const struct cache_entry *w = &f->entries[at];
	return !stay_eq(w->looked, node_state_stay(&f->nodes[at])) || kube_now_ms() >= w->look_ms;
}

static int keep_pod(void *ctx, json_t *pod, struct err *err)
{
	(void)err;
	json_array_append(ctx, pod);
	return 0;
}

// A list that was restarted contains some items twice.
static bool is_first_of_pod(const json_t *pods, size_t at)
{
	const json_t *uid = json_object_get(json_object_get(json_array_get(pods, at), "metadata"), "uid");
	for (size_t i = 0; i < at; i++)
		if (json_equal(json_object_get(json_object_get(json_array_get(pods, i), "metadata"), "uid"), uid))
			return false;
	return true;
}

bool drain_is_gpu_claim(const json_t *claim, bool counts_admin)
{
	const json_t *allocation = json_object_get(json_object_get(claim, "status"), "allocation");
	const json_t *devices = json_object_get(json_object_get(allocation, "devices"), "results");
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *device = json_array_get(devices, i);
		if (str_eq(json_string_value(json_object_get(device, "driver")), DRA_DRIVER) &&
		    (counts_admin || !json_is_true(json_object_get(device, "adminAccess"))))
			return true;
	}
	return false;
}

// Wherever the claim lives (T12).
bool drain_claims_gpu(struct kube *k, const json_t *pod, bool counts_admin)
{
	auto_strv struct strv names = { 0 };
	const char *space = json_string_value(json_object_get(json_object_get(pod, "metadata"), "namespace"));
	pod_claims(pod, &names);
	for (size_t i = 0; i < names.count; i++) {
		struct err ignored;
		auto_json json_t *claim = NULL;
		auto_str char *path =
			str_fmt("/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s", space, names.items[i]);
		if (api_get(k, path, &claim, &ignored) <= 0)
			return true;
		if (drain_is_gpu_claim(claim, counts_admin))
			return true;
	}
	return false;
}

struct slices {
	int64_t generation; // of the pool: older ones are about to go
	int devices;
};
static int count_slice(void *ctx, json_t *slice, struct err *err)
{
	struct slices *s = ctx;
	const json_t *spec = json_object_get(slice, "spec");
	int64_t generation = json_integer_value(json_object_get(json_object_get(spec, "pool"), "generation"));
	(void)err;
	if (!str_eq(json_string_value(json_object_get(spec, "driver")), DRA_DRIVER) || generation < s->generation)
		return 0;
	s->devices = generation > s->generation ? 0 : s->devices;
	s->generation = generation;
	s->devices += (int)json_array_size(json_object_get(spec, "devices"));
	return 0;
}

// Before a cordon where the operand runs that publishes them, and later if they are waited for. Without the right, or
// on a server without that version, they are not known.
static int count_devices(struct kube *k, const struct node_state *m, const char *escaped_name, int *ret,
			 struct err *err)
{
	static const char *const record[] = { "spec driver", "spec pool generation", "spec devices name", NULL };
	struct slices slices = { 0 };
	bool is_asked = baseline_has(m->record.baseline, BASELINE_DEVICES);
	for (unsigned i = 0; operands[i].key; i++)
		is_asked = is_asked ||
			   (operands[i].is_last && m->record.phase == PHASE_QUEUED && m->facts.operands & 1U << i);
	if (!is_asked)
		return 0;
	auto_str char *query = str_fmt("fieldSelector=spec.nodeName%%3D%s", escaped_name), *version = NULL;
	struct kube_list list = { .path = "/apis/resource.k8s.io/v1/resourceslices",
				  .query = query,
				  .record = record,
				  .take = count_slice,
				  .ctx = &slices };
	if (kube_list(k, &list, &version, err) < 0)
		return err->code == E_NOT_FOUND || err->code == E_AUTH ? 0 : -1;
	*ret = slices.devices;
	return 0;
}

static bool take_eviction_token(struct evictor *d)
{
	long now = kube_now_ms(), filled = (now - d->filled_ms) * DRAIN_RATE / 1000;
	if (!d->filled_ms || filled > 0) {
		d->tokens = !d->filled_ms || d->tokens + (unsigned long)filled > DRAIN_RATE ?
				    DRAIN_RATE :
				    d->tokens + (unsigned)filled;
		d->filled_ms = now;
	}
	return d->tokens && d->tokens--;
}

struct look {
	int pods, jobs;
	bool has_evicted, is_blocked, is_refused; // is_blocked: by a budget
	bool has_plugin, has_validator;
	int devices;
	long retry_ms; // Retry-After of the server
	struct reason blocker;
	char job[OBJECT_TEXT]; // the first of them
};

// The worst blocker is reported: one that needs people before one that only needs time; the first one of a kind.
static void name_blocker(struct look *l, enum reason_code code, const char *object)
{
	static const enum reason_code order[] = {
		REASON_NONE,       REASON_HOLDERS, REASON_PODS_LEFT, REASON_HOLDER_PROTECTED, REASON_EVICTION_REFUSED,
		REASON_PDB_BLOCKED
	};
	size_t was = 0, is = 0;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		was = order[i] == l->blocker.code ? i : was;
		is = order[i] == code ? i : is;
	}
	if (is <= was)
		return;
	l->blocker = (struct reason){ .code = code };
	// One line of plain characters: it becomes an annotation, and is compared with the present one.
	for (size_t i = 0; i < OBJECT_TEXT - 1 && object[i]; i++)
		l->blocker.object[i] = object[i] >= ' ' && object[i] <= '~' ? object[i] : '?';
}

static void note_eviction_refusal(struct look *l, const struct api_eviction *done, const char *space, const char *name)
{
	static const char before[] = "The disruption budget ";
	bool is_budget = done->what == API_BLOCKED;
	l->is_blocked = l->is_blocked || is_budget;
	l->is_refused = true;
	l->retry_ms = (long)done->retry_ms > l->retry_ms ? (long)done->retry_ms : l->retry_ms;
	if (!is_budget) {
		auto_str char *text = str_fmt("%s/%s: %s", space, name, done->why.text);
		name_blocker(l, REASON_EVICTION_REFUSED, text);
		return;
	}
	// The pod, and the budget if the server's message names it (pkg/registry/core/pod/storage/eviction.go).
	const char *budget = strstr(done->why.text, before);
	budget = budget ? budget + strlen(before) : "";
	int len = (int)strcspn(budget, " ");
	auto_str char *text = str_fmt("%s/%s%s%.*s", space, name, len ? ", budget " : "", len, budget);
	name_blocker(l, REASON_PDB_BLOCKED, text);
}

static int evict_pod(struct evictor *d, const json_t *pod, struct look *l, struct err *err)
{
	const json_t *m = json_object_get(pod, "metadata");
	const char *space = json_string_value(json_object_get(m, "namespace"));
	const char *name = json_string_value(json_object_get(m, "name"));
	struct api_eviction done;
	d->asked++;
	if (api_evict(d->kube, space, name, json_string_value(json_object_get(m, "uid")), &done, err) < 0)
		return -1;
	if (done.what == API_ENDING) {
		auto_str char *text = str_fmt("%s/%s: its namespace is ending", space, name);
		name_blocker(l, REASON_PODS_LEFT, text);
	} else if (done.what == API_OTHER) {
		auto_str char *text = str_fmt("%s/%s: %s", space, name, done.why.text);
		name_blocker(l, REASON_PODS_LEFT, text);
		l->has_evicted = true; // so that it is looked at soon
	} else if (done.what == API_BLOCKED || done.what == API_REFUSED) {
		d->blocked += done.what == API_BLOCKED;
		note_eviction_refusal(l, &done, space, name);
	} else {
		d->evicted += done.what == API_EVICTED;
		l->pods -= done.what == API_GONE;
		l->has_evicted = true;
	}
	return 0;
}

struct drained_node { // that is looked at
	const struct node_cache *node_cache;
	const char *name, *uid;
	struct stay stay;
	bool waits; // for jobs, if it has any
};
// Checked before each eviction: the previous one may have taken long.
static bool is_still_ours(const struct drained_node *n)
{
	size_t at = node_cache_find(n->node_cache, n->name, n->uid);
	const struct node_state *m = at < n->node_cache->count ? &n->node_cache->nodes[at] : NULL;
	return m && stay_eq(node_state_stay(m), n->stay) && m->record.receipt.is_there && m->facts.is_unschedulable;
}

static bool is_before_drain(enum node_phase phase)
{
	return phase == PHASE_QUEUED || phase == PHASE_HELD;
}

static int judge_node_pods(struct evictor *d, const struct drained_node *n, const json_t *pods,
			   const struct pod_rules *rules, bool evicts, struct look *l, struct err *err)
{
	for (size_t i = 0; n->waits && i < json_array_size(pods); i++)
		evicts = evicts && !pod_is_job(json_array_get(pods, i), rules->pool);
	for (size_t i = 0; i < json_array_size(pods); i++) {
		const json_t *pod = json_array_get(pods, i);
		char why[OBJECT_TEXT];
		if (!is_first_of_pod(pods, i))
			continue;
		const char *operand = pod_ready_operand(pod);
		l->has_plugin = l->has_plugin || str_eq(operand, BASELINE_PLUGIN);
		l->has_validator = l->has_validator || str_eq(operand, BASELINE_VALIDATOR);
		bool is_claim = rules->pool->evict == EVICT_GPU && drain_claims_gpu(d->kube, pod, false);
		enum pod_verdict verdict = pod_judge(pod, rules, is_claim, why);
		bool is_job = pod_is_job(pod, rules->pool);
		if (is_job && !l->jobs++) {
			const json_t *m = json_object_get(pod, "metadata");
			const char *space = json_string_value(json_object_get(m, "namespace"));
			const char *name = json_string_value(json_object_get(m, "name"));
			snprintf(l->job, sizeof(l->job), "%s/%s", space ? space : "", name ? name : "");
		}
		l->pods += pod_has_to_go(verdict);
		if (*why && !(is_job && is_before_drain(n->stay.phase))) // the drain will wait for jobs
			name_blocker(l,
				     verdict == POD_STUCK || verdict == POD_FIXED ? REASON_HOLDER_PROTECTED :
				     verdict == POD_HOLDS                         ? REASON_HOLDERS :
										    REASON_PODS_LEFT,
				     why);
		bool is_to_go = verdict == POD_GOES && evicts && is_still_ours(n);
		if (is_to_go && take_eviction_token(d) && evict_pod(d, pod, l, err) < 0)
			return -1;
	}
	return 0;
}

// 5 s, half as much longer each time that no pod may be evicted, at most a minute (T04, T05); likewise while operands
// come back. A node that is held, or failed, waits for people: one minute to ten.
static long next_pod_check(struct cache_entry *w, enum node_phase phase, const struct look *l)
{
	bool is_held = phase == PHASE_HELD || phase == PHASE_FAILED;
	bool is_stuck = is_held || phase == PHASE_RELEASING || (l->is_refused && !l->has_evicted);
	long wait = is_held ? DRAIN_HELD_MS : DRAIN_LOOK_MS, most = is_held ? DRAIN_HELD_MOST_MS : DRAIN_LOOK_MOST_MS;
	w->blocked = is_stuck ? (uint8_t)(w->blocked < 10 ? w->blocked + 1 : 10) : 0;
	for (unsigned i = 1; i < w->blocked; i++)
		wait += wait / 2;
	wait = wait < most ? wait : most;
	return kube_now_ms() + (l->retry_ms > wait ? l->retry_ms : wait);
}

// Blockers that are no pod to evict: jobs that the drain waits for, and processes outside of pods.
static void name_foreign_holders(struct look *l, const struct drained_node *n, int holders)
{
	enum node_phase phase = n->stay.phase;
	if (phase == PHASE_WAITING || (phase == PHASE_EVICTING && n->waits && l->jobs)) {
		l->blocker = (struct reason){ .code = l->jobs ? REASON_JOBS : REASON_NONE };
		memcpy(l->blocker.object, l->job, sizeof(l->job));
	} else if (!is_before_drain(phase) && l->pods == 0 && holders != 0) {
		name_blocker(l, REASON_HOLDERS,
			     holders > 0 ? "processes outside any pod on this node" : "the agent cannot tell which");
	}
}

// Kept for the stay that the pods were listed in. 1 = it differs from the last check.
static int keep_pod_check(struct node_state *m, struct cache_entry *w, struct stay stay, const struct look *l,
			  int64_t now)
{
	struct pods_seen *was = &m->facts.seen, none = { .pods = PODS_UNSEEN, .devices = DEVICES_UNKNOWN };
	bool is_first_check = !stay_eq(was->stay, stay), is_blocked = l->is_blocked && !l->has_evicted;
	*was = is_first_check ? none : *was;
	bool is_same = !is_first_check && was->blocker.code == l->blocker.code &&
		       str_eq(was->blocker.object, l->blocker.object);
	struct pods_seen seen = { .stay = stay,
				  .pods = l->pods,
				  .jobs = l->jobs,
				  .blocked_since = !is_blocked        ? 0 :
						   was->blocked_since ? was->blocked_since :
									now,
				  .blocker = l->blocker,
				  .blocker_since = is_same ? was->blocker_since : now,
				  .devices = l->devices,
				  .has_plugin = l->has_plugin,
				  .has_validator = l->has_validator };
	bool is_other = !is_same || seen.pods != was->pods || seen.jobs != was->jobs ||
			seen.blocked_since != was->blocked_since || seen.devices != was->devices ||
			seen.has_plugin != was->has_plugin || seen.has_validator != was->has_validator;
	*was = seen;
	w->look_ms = next_pod_check(w, stay.phase, l);
	return is_other;
}

int drain_check_pods(struct evictor *d, struct node_cache *f, size_t at, const struct pool *pool, bool evicts,
		     int64_t now, struct err *err)
{
	static const char *const record[] = { PODS_RECORD, NULL };
	auto_str char *name = str_dup(f->entries[at].name), *uid = str_dup(f->nodes[at].uid);
	auto_str char *holders = str_dup(f->entries[at].holders);
	struct stay stay = node_state_stay(&f->nodes[at]);
	const struct drained_node node = { f, name, uid, stay, pool->wait_for && !f->nodes[at].record.receipt.waited };
	const struct pod_rules rules = { pool, holders, f->count == 1 ? d->own_uid : NULL, d->validations };
	struct look l = { .devices = DEVICES_UNKNOWN };
	auto_json json_t *pods = json_array();
	int held = f->nodes[at].report.holders;
	auto_str char *escaped = http_escape(name), *version = NULL;
	auto_str char *query = str_fmt("fieldSelector=spec.nodeName%%3D%s", escaped);
	const struct node_state before = f->nodes[at];
	struct kube_list list = {
		.path = "/api/v1/pods", .query = query, .record = record, .take = keep_pod, .ctx = pods
	};
	bool is_seen = kube_list(d->kube, &list, &version, err) == 0 &&
		       judge_node_pods(d, &node, pods, &rules, evicts, &l, err) == 0 &&
		       count_devices(d->kube, &before, escaped, &l.devices, err) == 0;
	name_foreign_holders(&l, &node, held);
	at = node_cache_find(f, name, uid);
	if (at == f->count)
		return is_seen ? 0 : -1;
	struct cache_entry *w = &f->entries[at];
	w->blocked = stay_eq(w->looked, stay) ? w->blocked : 0;
	w->looked = stay;
	if (is_seen)
		return keep_pod_check(&f->nodes[at], w, stay, &l, now);
	w->look_ms = kube_now_ms() + DRAIN_LOOK_MS;
	return -1;
}
