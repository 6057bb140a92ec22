// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/coordinator_internal.h"
#include "cluster/coordinator/driver_rollout.h"
#include "cluster/kube/api.h"
#include "cluster/rollout/node_patch.h"
#include "cluster/rollout/operator_requests.h"

#include <ctype.h>
#include <stdio.h>

// Before anything is granted, together with the policy that it is granted by; a new leader writes in any case. 0 =
// another process wrote it: it was read, and everything is planned again.
static int record_rollouts(struct coordinator *c, const struct rollout *rollouts, struct err *err)
{
	auto_json json_t *doc =
		rollout_status_make(&c->source.policy, rollouts, c->status_doc, leader_epoch(&c->leader));
	auto_str char *undone =
		c->source.replaced ? json_dumps(c->source.replaced, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	const char *kept = api_configmap_value(c->status_map, POLICY_KEY);
	const char *kept_undone = api_configmap_value(c->status_map, ROLLOUT_STATUS_UNDONE_KEY);
	bool is_recorded = (c->source.text ? str_eq(kept, c->source.text) : !kept) &&
			   (undone ? str_eq(kept_undone, undone) : !kept_undone);
	if (is_recorded && json_equal(doc, c->status_doc))
		return 1;
	auto_str char *text = json_dumps(doc, JSON_INDENT(1) | JSON_SORT_KEYS);
	auto_str char *path = api_path(API_CONFIGMAP, c->o.namespace, c->status_map ? ROLLOUT_STATUS_NAME : NULL);
	const json_t *metadata = json_object_get(c->status_map, "metadata");
	auto_json json_t *body =
		json_pack("{s:s, s:s, s:{s:s, s:s*}, s:{s:s, s:s*, s:s*, s:s*}}", "apiVersion", "v1", "kind",
			  "ConfigMap", "metadata", "name", ROLLOUT_STATUS_NAME, "resourceVersion",
			  json_string_value(json_object_get(metadata, "resourceVersion")), "data", ROLLOUT_STATUS_KEY,
			  text, POLICY_KEY, c->source.text, ROLLOUT_STATUS_KIND_KEY, policy_source_kind(&c->source),
			  ROLLOUT_STATUS_UNDONE_KEY, undone);
	auto_json json_t *now = NULL;
	int r = c->status_map ? api_change(c->o.kube, API_REPLACE, path, body, &now, err) :
				api_create(c->o.kube, path, body, &now, err);
	if (r == 0 && cache_load_status(c, err) < 0)
		return -1;
	if (r <= 0)
		return r;
	json_decref(c->status_map);
	json_decref(c->status_doc);
	c->status_map = TAKE(now);
	c->status_doc = TAKE(doc);
	memcpy(c->rollouts, rollouts, c->source.policy.pool_count * sizeof(*rollouts));
	return 1;
}

// For `kubectl describe node`. An Event that cannot be written is no reason to stop.
static void report_phase_change(struct coordinator *c, const struct phase_change *t, const char *uid)
{
	struct err why;
	const struct node_reason_info *info = node_reason_info(t->reason->code);
	const char *name = node_phase_info(t->to)->name;
	bool is_bad = t->warns || t->to == PHASE_FAILED || t->to == PHASE_HELD || t->to == PHASE_ROLLEDBACK ||
		      t->to == PHASE_RESTORING;
	auto_str char *reason = str_fmt("Rollout%c%s", toupper((unsigned char)*name), name + 1);
	auto_str char *cause = t->reason->code == REASON_NONE ?
				       str_dup("") :
				       str_fmt(" (%s%s%s; next: %s)", info->code, *t->reason->object ? " " : "",
					       t->reason->object, info->next);
	auto_str char *message = str_fmt("%s -> %s: %s%s", node_phase_info(t->from)->name, name, t->rule, cause);
	const struct api_event event = { .node = t->node,
					 .uid = uid,
					 .reason = reason,
					 .message = message,
					 .is_warning = is_bad,
					 .component = "kmodsmith-coordinator" };
	if (c->o.callbacks.moved)
		c->o.callbacks.moved(c->o.callbacks.ctx, t);
	if (api_event(c->o.kube, &event, &why) < 0)
		coordinator_report_trouble(c, "an event", &why);
}

// Of a node across a request; see node_cache_find().
struct node_id {
	char *name, uid[UID_TEXT];
};
static void node_id_done(struct node_id *id)
{
	free(TAKE(id->name));
}
#define auto_id __attribute__((cleanup(node_id_done)))

static struct cache_entry *entry_of(struct coordinator *c, const struct node_id *id) // NULL = it is gone
{
	size_t at = node_cache_find(&c->node_cache, id->name, id->uid);
	return at < c->node_cache.count ? &c->node_cache.entries[at] : NULL;
}

// A node's failure does not stop the others (T74): its next try is after 1 s, 2 s, ... 32 s.
static void back_off_node(struct coordinator *c, const struct node_id *id, const struct err *why)
{
	enum { SHIFT_MOST = 6 };
	struct cache_entry *w = entry_of(c, id);
	if (w) {
		w->failures = (uint8_t)(w->failures < SHIFT_MOST ? w->failures + 1 : SHIFT_MOST);
		w->retry_ms = kube_now_ms() + (1000L << (w->failures - 1));
	}
	coordinator_report_trouble(c, id->name, why);
}

// Another writer was faster: read, and decide again. With a back-off, since an API server that rejects a value answers
// the same.
static int reread_node(struct coordinator *c, const struct node_id *id, struct err *err)
{
	enum { PATIENCE = 3 };
	struct err why;
	auto_json json_t *node = NULL;
	auto_str char *path = api_node(id->name);
	struct cache_entry *w = entry_of(c, id);
	c->conflicts++;
	if (w && ++w->failures > PATIENCE) {
		err_set(&why, E_CONFLICT, "its patches are refused repeatedly");
		back_off_node(c, id, &why);
	}
	int r = api_get(c->o.kube, path, &node, err);
	if (r > 0)
		node_cache_renew(&c->node_cache, node, &c->source.policy);
	size_t at = node_cache_find(&c->node_cache, id->name, id->uid);
	if (r == 0 && at < c->node_cache.count)
		node_cache_forget(&c->node_cache, at);
	return r < 0 ? -1 : 0;
}

static int write_node(struct coordinator *c, const struct node_id *id, size_t at, const struct decision *d,
		      struct err *err)
{
	auto_json json_t *now = NULL;
	auto_node_patch struct node_patch patch = { 0 };
	const struct cache_entry *w = &c->node_cache.entries[at];
	auto_str char *version = str_dup(w->version), *loaded = str_dup(w->loaded), *holders = str_dup(w->holders);
	const struct node_patch_seen seen = { version, loaded, holders };
	struct node_state before = c->node_cache.nodes[at];
	before.name = id->name;
	node_patch_make(&before, d, c->source.policy.has_mirror, &patch);
	c->writes++;
	int r = node_patch_write(c->o.kube, &before, &seen, &patch, &now, err);
	if (r < 0)
		return -1;
	if (r == 0)
		return reread_node(c, id, err);
	struct cache_entry *there = entry_of(c, id);
	if (there)
		there->failures = 0;
	node_cache_renew(&c->node_cache, now, &c->source.policy);
	const struct record *was = &before.record;
	bool has_failed =
		before.report.ack.result == RESULT_FAILED && node_seq_cmp(before.report.ack.seq, was->go.seq) == 0;
	bool is_timed = was->since && was->has_phase && d->next.since >= was->since && was->phase != d->next.phase;
	const struct phase_change change = { .node = id->name,
					     .rule = d->rule->text,
					     .from = was->phase,
					     .to = d->next.phase,
					     .seq = d->next.seq,
					     .reason = d->warns ? &d->waits : &d->next.reason,
					     .seconds = is_timed ? d->next.since - was->since : -1,
					     .failing = has_failed ? before.report.ack.failing : FAILING_NONE,
					     .warns = d->warns };
	if (change.from != change.to || !was->has_phase || d->warns)
		report_phase_change(c, &change, before.uid);
	return 0;
}

// Its pods matter: it is drained, or is about to be, or is rolled back, or is held because of one of them, or its
// operands have to be back.
static bool is_drain_phase(const struct view *v)
{
	enum node_phase phase = v->m->record.phase;
	bool is_held = phase == PHASE_HELD && v->m->record.reason.code == REASON_HOLDER_PROTECTED;
	if (v->pool && (is_held || transition_looks_at_operands(v->m)))
		return true;
	return v->pool && v->slot != SLOT_NONE &&
	       (phase == PHASE_QUEUED || phase == PHASE_CORDONED || phase == PHASE_WAITING || phase == PHASE_EVICTING ||
		phase == PHASE_RESTORING);
}

// 1 = something was written or seen, 0 = there is nothing to do for it now. cl and s are not used after a request: the
// cache may have changed.
static int reconcile_node(struct coordinator *c, const struct cluster *cl, const struct slots *s, size_t at)
{
	struct view v = scheduler_view(cl, s, at);
	struct decision d;
	struct err why;
	if (c->node_cache.entries[at].retry_ms > kube_now_ms())
		return 0;
	transition(&v, &d);
	if (!d.rule && (!is_drain_phase(&v) || !drain_is_due(&c->node_cache, at)))
		return 0;
	auto_id struct node_id id = { .name = str_dup(c->node_cache.entries[at].name) };
	memcpy(id.uid, c->node_cache.nodes[at].uid, sizeof(id.uid));
	int r = d.rule ? write_node(c, &id, at, &d, &why) :
			 drain_check_pods(&c->drain, &c->node_cache, at, v.pool, d.evicts, cl->now, &why);
	if (r < 0)
		back_off_node(c, &id, &why);
	return r < 0 ? 0 : d.rule || r > 0;
}

// etcd may have been restored from a backup: everything is read again before anything else is decided. A watch that
// continues from a version of before would hear nothing for hours.
static bool is_history_gone(const struct coordinator *c)
{
	return c->resets != c->leader.lease.resets;
}

// moves: of the node cache when cl and s were made. 1 = something changed, so plan again.
static int reconcile_nodes(struct coordinator *c, const struct cluster *cl, const struct slots *s, unsigned long moves)
{
	struct err why;
	bool has_changed = false;
	for (size_t i = 0; c->node_cache.moves == moves && i < c->node_cache.count && leader_is_sure(&c->leader) &&
			   !is_history_gone(c);
	     i++) {
		has_changed = reconcile_node(c, cl, s, i) > 0 || has_changed;
		leader_keep(&c->leader, &why);
	}
	return has_changed || c->node_cache.moves != moves;
}

// Coordinators of other namespaces: a Lease has a namespace and a node has none, so the node names the namespace of the
// coordinator that manages it (kmodsmith.io/coordinator). No other coordinator writes to it until that Lease is gone,
// or was not renewed for DEAD_MS by our own clock; a Lease that cannot be read counts as alive.

enum { ASK_MS = 60 * 1000, DEAD_MS = 10 * 60 * 1000 };

static void forget_other_leaders(struct other_leaders *o)
{
	for (size_t i = 0; i < o->count; i++) {
		free(o->items[i].namespace);
		free(o->items[i].version);
	}
	strv_done(&o->gone);
	*o = (struct other_leaders){ 0 };
}

static struct other_leader *find_other_leader(struct other_leaders *o, const char *namespace)
{
	for (size_t i = 0; i < o->count; i++)
		if (str_eq(o->items[i].namespace, namespace))
			return &o->items[i];
	if (o->count == OTHER_LEADERS_MOST)
		return NULL;
	o->items[o->count] = (struct other_leader){ .namespace = str_dup(namespace) };
	return &o->items[o->count++];
}

static void ask_other_leader(struct coordinator *c, struct other_leader *o)
{
	struct err why;
	auto_json json_t *lease = NULL;
	auto_str char *path = api_path(API_LEASE, o->namespace, LEADER_LEASE);
	bool is_first = !o->asked_ms;
	o->asked_ms = kube_now_ms();
	int r = api_get(c->o.kube, path, &lease, &why);
	const char *version = json_string_value(json_object_get(json_object_get(lease, "metadata"), "resourceVersion"));
	if (r < 0 || !str_eq(o->version ? o->version : "", version ? version : "")) {
		free(o->version);
		o->version = str_dup(version);
		o->seen_ms = o->asked_ms;
	}
	o->is_gone = r == 0 || (r > 0 && o->asked_ms - o->seen_ms >= DEAD_MS);
	if (is_first && r > 0)
		err_set(&why, E_CONFLICT, "some nodes are led by the coordinator of the namespace %s", o->namespace);
	if (is_first && r != 0)
		coordinator_report_trouble(c, "another coordinator", &why);
}

static void check_other_leaders(struct coordinator *c)
{
	auto_strv struct strv names = { 0 }; // copied: the nodes may change during a request
	for (size_t i = 0; i < c->node_cache.count; i++) {
		const char *leader = c->node_cache.nodes[i].record.leader;
		if (*leader && !str_eq(leader, c->o.namespace) && !strv_has(&names, leader))
			strv_add(&names, str_dup(leader));
	}
	strv_done(&c->others.gone);
	for (size_t i = 0; i < names.count; i++) {
		struct other_leader *o = find_other_leader(&c->others, names.items[i]);
		if (o && (!o->asked_ms || kube_now_ms() - o->asked_ms >= ASK_MS))
			ask_other_leader(c, o);
		if (o && o->is_gone)
			strv_add(&c->others.gone, str_dup(o->namespace));
	}
}

// Plan, record, grant, and one write a node, until there is nothing more to do now. E_CONFLICT: the lead was lost.
static int reconcile(struct coordinator *c, struct err *err)
{
	enum { ROUNDS_MOST = 32 };
	check_other_leaders(c);
	for (int round = 0; round < ROUNDS_MOST && !is_history_gone(c); round++) {
		auto_slots struct slots slots = SLOTS_NONE;
		const char *requests[GATE_COUNT];
		for (unsigned i = 0; i < GATE_COUNT; i++)
			requests[i] = policy_source_annotation(&c->source, gate_keys[i]);
		operator_requests_apply(requests, &c->source.policy, c->rollouts);
		unsigned long moves = c->node_cache.moves;
		struct cluster cl = coordinator_cluster(c);
		scheduler_plan(&cl, &slots);
		int r = record_rollouts(c, slots.rollouts, err);
		if (r < 0)
			return -1;
		if (r == 0) // another leader wrote the status
			continue;
		if (slots.granted || slots.freed) { // which counts from the next round, once the ledger was written
			if (leader_write(&c->leader, &slots.ledger, err) <= 0)
				return c->leader.is_leading ?
					       -1 :
					       err_set(err, E_CONFLICT, "another coordinator holds the Lease");
			scheduler_ledger_done(&c->ledger);
			c->ledger = slots.ledger;
			slots.ledger = (struct slot_ledger){ 0 };
			continue;
		}
		cl = coordinator_cluster(c);
		if (reconcile_nodes(c, &cl, &slots, moves) || validation_check(c, &cl, &slots) ||
		    c->node_cache.moves != moves)
			continue;
		if (c->o.callbacks.rests) // before the next request: the nodes are still those of the plan
			c->o.callbacks.rests(c->o.callbacks.ctx, &slots);
		cl = coordinator_cluster(c);
		driver_rollout_write_status(&c->source, &cl, &slots, &c->blind);
		return 0;
	}
	c->is_dirty = true;
	return 0;
}

static int fail_lost_lead(struct err *err)
{
	return err_set(err, E_CONFLICT, "another coordinator leads now, or this one could not renew its Lease in time");
}

static void report_turn(const struct coordinator *c)
{
	if (c->o.callbacks.turns)
		c->o.callbacks.turns(c->o.callbacks.ctx);
}

// Each call may take long, so the Lease is renewed between any two of them (T56), and a leader that may have lost it
// makes no more requests (T51).
static int keep_lead(void *ctx, struct err *err)
{
	struct coordinator *c = ctx;
	struct err why;
	report_turn(c);
	if (!c->has_led)
		return 0;
	if (leader_keep(&c->leader, &why) < 0)
		coordinator_report_trouble(c, "renewing the Lease", &why);
	if (!leader_is_sure(&c->leader))
		return fail_lost_lead(err);
	// What is known of a history that is gone, a drain in progress included, leads to nothing more.
	if (is_history_gone(c) && c->is_loaded && !c->source.is_stale)
		return err_set(err, E_CONFLICT, "etcd was restored: everything is read again first");
	return 0;
}

static void report_policy_trouble(void *ctx, const char *what, const struct err *err)
{
	coordinator_report_trouble(ctx, what, err);
}

void coordinator_init(const struct coordinator_options *o, struct coordinator *ret)
{
	*ret = (struct coordinator){ .o = *o, .node_cache = NODE_CACHE_NONE };
	ret->validations.namespace = str_fmt("%s-validation", o->namespace);
	ret->drain =
		(struct evictor){ .kube = o->kube, .own_uid = o->own_uid, .validations = ret->validations.namespace };
	leader_init(o->lease_kube, o->namespace, o->holder, &ret->leader);
	kube_before(o->kube, keep_lead, ret);
	policy_source_init(o->kube, o->namespace, report_policy_trouble, ret, &ret->source);
	cache_init(ret);
}

void coordinator_done(struct coordinator *c)
{
	if (c->o.kube)
		kube_before(c->o.kube, NULL, NULL);
	cache_done(c);
	leader_done(&c->leader);
	scheduler_ledger_done(&c->ledger);
	node_cache_done(&c->node_cache);
	forget_other_leaders(&c->others);
	policy_source_done(&c->source);
	free(c->validations.namespace);
	free(c->validations.jobs);
	json_decref(c->status_map);
	json_decref(c->status_doc);
	*c = (struct coordinator){ 0 };
}

struct cluster coordinator_cluster(const struct coordinator *c)
{
	return (struct cluster){
		.policy = &c->source.policy,
		.rollouts = c->rollouts,
		.nodes = c->node_cache.nodes,
		.count = c->node_cache.count,
		.ledger = &c->ledger,
		.epoch = leader_epoch(&c->leader),
		.now = kube_time(c->o.kube),
		.leader = c->o.namespace,
		.gone = &c->others.gone,
		.has_status = json_array_size(json_object_get(c->status_doc, "pools")) > 0,
		.led = c->led,
		.jobs = c->validations.jobs,
		.job_count = c->validations.count,
	};
}

// 1 = we lead, 0 = another one does, or it is unknown.
static int take_lead(struct coordinator *c, struct err *err)
{
	struct err why;
	int r;
	if (c->has_led) {
		r = leader_keep(&c->leader, &why);
		if (r < 0)
			coordinator_report_trouble(c, "renewing the Lease", &why);
		if (is_history_gone(c)) {
			scheduler_ledger_done(&c->ledger);
			leader_ledger(&c->leader, &c->ledger);
			c->is_loaded = false;
			c->resets = c->leader.lease.resets;
			c->led = kube_time(c->o.lease_kube);
		}
		return r == 0 || !leader_is_sure(&c->leader) ? fail_lost_lead(err) : 1;
	}
	r = leader_try(&c->leader, &c->ledger, &why);
	if (r < 0)
		coordinator_report_trouble(c, "asking for the Lease", &why);
	c->has_led = r > 0;
	c->led = kube_time(c->o.lease_kube);
	if (r > 0 && c->o.callbacks.leads)
		c->o.callbacks.leads(c->o.callbacks.ctx);
	return r > 0;
}

// A failed read is retried a little later; the lead is kept meanwhile.
static int put_off_retry(struct coordinator *c, const char *what, const struct err *why)
{
	enum { PAUSE_MS = 2000 };
	coordinator_report_trouble(c, what, why);
	c->retry_ms = kube_now_ms() + PAUSE_MS;
	return 1;
}

static int sleep_for_events(struct kube *kube, int wait_ms)
{
	struct err ignored;
	kube_step(kube, wait_ms, &ignored);
	return 1;
}

enum { DUE_MS = 5000, RESYNC_MS = 30 * 60 * 1000 };

int coordinator_turn(struct coordinator *c, int wait_ms, struct err *err)
{
	struct err why;
	report_turn(c);
	int r = take_lead(c, err);
	if (r <= 0) {
		if (r == 0)
			sleep_for_events(c->o.lease_kube, wait_ms); // where the Lease is watched
		return r;
	}
	if (c->retry_ms > kube_now_ms())
		return sleep_for_events(c->o.kube, wait_ms);
	bool is_old = kube_now_ms() - c->listed_ms >= RESYNC_MS;
	if (!c->is_loaded || c->source.is_stale || is_old) {
		if (cache_load(c, true, &why) < 0)
			return put_off_retry(c, "reading the cluster", &why);
	} else if (cache_update(c, wait_ms, &why) < 0) {
		return put_off_retry(c, "watching the cluster", &why);
	}
	if (!c->is_dirty && kube_now_ms() < c->due_ms)
		return 1;
	if (!leader_is_sure(&c->leader))
		return fail_lost_lead(err);
	c->is_dirty = false;
	c->due_ms = kube_now_ms() + DUE_MS;
	if (c->blind.code) {
		struct cluster cl = coordinator_cluster(c);
		driver_rollout_write_status(&c->source, &cl, NULL, &c->blind);
		if (c->o.callbacks.rests)
			c->o.callbacks.rests(c->o.callbacks.ctx, NULL);
	}
	if (c->blind.code || reconcile(c, &why) == 0)
		return 1;
	if (!c->leader.is_leading)
		return fail_lost_lead(err);
	return put_off_retry(c, "a step of the rollout", &why);
}

int coordinator_look(struct coordinator *c, struct err *err)
{
	if (lease_read(&c->leader.lease, err) < 0)
		return -1;
	leader_ledger(&c->leader, &c->ledger);
	if (cache_load(c, false, err) < 0)
		return -1;
	check_other_leaders(c);
	return 0;
}

int coordinator_leave(struct coordinator *c, struct err *err)
{
	return leader_leave(&c->leader, err) < 0 ? -1 : 0;
}
