// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/coordinator_internal.h"

static int fail_lost_lead(struct err *err)
{
	return err_set(err, E_CONFLICT, "another coordinator leads now, or this one could not renew its Lease in time");
}

static void report_turn(const struct coordinator *c)
{
	if (c->o.callbacks.turns)
		c->o.callbacks.turns(c->o.callbacks.ctx);
}

// Each call may take long, so the Lease is renewed between any two of them (T56), and whoever may have been deposed
// meanwhile asks for nothing more (T51).
static int keep_lead(void *ctx, struct err *err)
{
	struct coordinator *c = ctx;
	struct err why;
	report_turn(c);
	if (!c->has_led)
		return 0;
	if (leader_keep(&c->leader, &why) < 0)
		coordinator_report_trouble(c, "renewing the Lease", &why);
	return leader_is_sure(&c->leader) ? 0 : fail_lost_lead(err);
}

void coordinator_init(const struct coordinator_options *o, struct coordinator *ret)
{
	*ret = (struct coordinator){ .o = *o, .policy = POLICY_NONE, .node_cache = NODE_CACHE_NONE };
	ret->drain = (struct evictor){ .kube = o->kube, .own_uid = o->own_uid };
	leader_init(o->lease_kube, o->namespace, o->holder, &ret->leader);
	kube_before(o->kube, keep_lead, ret);
	cache_init(ret);
}

void coordinator_done(struct coordinator *c)
{
	if (c->o.kube)
		kube_before(c->o.kube, NULL, NULL);
	kube_watch_done(&c->nodes);
	kube_watch_done(&c->maps);
	kube_watch_done(&c->drivers);
	strv_done(&c->driver_record);
	driver_daemonsets_done(&c->driver_daemonsets);
	kube_watch_done(&c->objects);
	strv_done(&c->node_record);
	leader_done(&c->leader);
	scheduler_ledger_done(&c->ledger);
	node_cache_done(&c->node_cache);
	other_leaders_done(&c->others);
	policy_done(&c->policy);
	free(c->maps_path);
	free(c->objects_path);
	strv_done(&c->undone);
	json_decref(c->replaced);
	free(c->policy_text);
	free(c->told);
	json_decref(c->policy_map);
	json_decref(c->policy_object);
	json_decref(c->object_said);
	json_decref(c->status_map);
	json_decref(c->status_doc);
	*c = (struct coordinator){ 0 };
}

void coordinator_report_trouble(const struct coordinator *c, const char *what, const struct err *err)
{
	if (c->o.callbacks.trouble)
		c->o.callbacks.trouble(c->o.callbacks.ctx, what, err);
}

struct cluster coordinator_cluster(const struct coordinator *c)
{
	return (struct cluster){
		.policy = &c->policy,
		.rollouts = c->rollouts,
		.nodes = c->node_cache.nodes,
		.count = c->node_cache.count,
		.ledger = &c->ledger,
		.epoch = leader_epoch(&c->leader),
		.now = kube_time(c->o.kube),
		.leader = c->o.namespace,
		.gone = &c->others.gone,
		.has_status = json_array_size(json_object_get(c->status_doc, "pools")) > 0,
	};
}

// 1 = we lead, 0 = another one does, or nobody can tell.
static int take_lead(struct coordinator *c, struct err *err)
{
	struct err why;
	int r;
	if (c->has_led) {
		r = leader_keep(&c->leader, &why);
		if (r < 0)
			coordinator_report_trouble(c, "renewing the Lease", &why);
		return r == 0 || !leader_is_sure(&c->leader) ? fail_lost_lead(err) : 1;
	}
	r = leader_try(&c->leader, &c->ledger, &why);
	if (r < 0)
		coordinator_report_trouble(c, "asking for the Lease", &why);
	c->has_led = r > 0;
	if (r > 0 && c->o.callbacks.leads)
		c->o.callbacks.leads(c->o.callbacks.ctx);
	return r > 0;
}

// What cannot be read is tried again a little later; the lead is kept meanwhile.
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
	bool is_old = kube_now_ms() - c->listed_ms >= COORDINATOR_RESYNC_MS;
	if (!c->is_loaded || is_old) {
		if (cache_load(c, &why) < 0)
			return put_off_retry(c, "reading the cluster", &why);
	} else if (cache_update(c, wait_ms, &why) < 0) {
		return put_off_retry(c, "watching the cluster", &why);
	}
	if (!c->is_dirty && kube_now_ms() < c->due_ms)
		return 1;
	if (!leader_is_sure(&c->leader))
		return fail_lost_lead(err);
	c->is_dirty = false;
	c->due_ms = kube_now_ms() + COORDINATOR_DUE_MS;
	if (c->blind.code) {
		driver_rollout_write_status(c, NULL);
		if (c->o.callbacks.rests)
			c->o.callbacks.rests(c->o.callbacks.ctx, NULL);
	}
	if (c->blind.code || reconcile(c, &why) == 0)
		return 1;
	if (!c->leader.is_leading)
		return fail_lost_lead(err);
	return put_off_retry(c, "a step of the roll-out", &why);
}

int coordinator_look(struct coordinator *c, struct err *err)
{
	if (lease_read(&c->leader.lease, err) < 0)
		return -1;
	leader_ledger(&c->leader, &c->ledger);
	if (cache_load_once(c, err) < 0)
		return -1;
	other_leaders_check(c);
	return 0;
}

int coordinator_leave(struct coordinator *c, struct err *err)
{
	return leader_leave(&c->leader, err) < 0 ? -1 : 0;
}
