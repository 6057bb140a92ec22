// SPDX-License-Identifier: Apache-2.0
// Beside NVIDIA's operator: the DaemonSets that drive nodes for it are known before the nodes are, and whoever they
// serve is held. All others are led as ever, so that a cluster moves from the operator to us, or back, node by node.
#include "cluster/coordinator/coordinator_internal.h"
#include "cluster/kube/api.h"

// Without the right to see them the annotation of a node is all that is known of the operator, and those that were seen
// before: that they are gone is not known either.
static int note_missing_rights(struct coordinator *c, struct err *err)
{
	if (err->code != E_AUTH)
		return -1;
	coordinator_report_trouble(c, "the driver DaemonSets of NVIDIA's operator cannot be seen", err);
	c->sees_drivers = false;
	return 0;
}

static int put_driver_daemonset(void *ctx, json_t *object, struct err *err)
{
	(void)err;
	driver_daemonsets_put(ctx, object);
	return 0;
}

int operator_nodes_load(struct coordinator *c, struct err *err)
{
	auto_strv struct strv record = { 0 };
	auto_driver_daemonsets struct driver_daemonsets now = { 0 };
	struct kube_list list = { .path = DRIVER_DAEMONSETS_PATH,
				  .query = DRIVER_DAEMONSETS_QUERY,
				  .take = put_driver_daemonset,
				  .ctx = &now };
	char *version = NULL;
	driver_daemonsets_record(false, &record);
	list.record = (const char *const *)record.items;
	c->sees_drivers = true;
	if (kube_list(c->o.kube, &list, &version, err) < 0 && note_missing_rights(c, err) < 0)
		return -1;
	free(c->drivers.version);
	c->drivers.version = version;
	if (c->sees_drivers) {
		driver_daemonsets_done(&c->driver_daemonsets);
		c->driver_daemonsets = now;
		now = (struct driver_daemonsets){ 0 };
	}
	driver_daemonsets_apply(&c->driver_daemonsets, &c->policy);
	return 0;
}

// Which nodes they serve is read with the nodes.
static int on_driver_daemonset(void *ctx, const char *type, json_t *object, struct err *err)
{
	struct coordinator *c = ctx;
	(void)err;
	if (str_eq(type, "DELETED") ? driver_daemonsets_remove(&c->driver_daemonsets, object) :
				      driver_daemonsets_put(&c->driver_daemonsets, object))
		c->is_loaded = false;
	return 0;
}

int operator_nodes_watch(struct coordinator *c, struct err *err)
{
	kube_watch_end(&c->drivers);
	strv_done(&c->driver_record);
	driver_daemonsets_record(true, &c->driver_record);
	c->drivers.path = DRIVER_DAEMONSETS_PATH;
	c->drivers.query = DRIVER_DAEMONSETS_QUERY;
	c->drivers.record = (const char *const *)c->driver_record.items;
	c->drivers.event = on_driver_daemonset;
	c->drivers.ctx = c;
	return c->sees_drivers ? kube_watch_begin(c->o.kube, &c->drivers, COORDINATOR_WATCH_S, err) : 0;
}

// The reason of each node is on the node; how many there are is told in the log and on the policy, once.
void operator_nodes_report(struct coordinator *c)
{
	struct err why;
	size_t count = 0;
	const char *first = "";
	for (size_t i = 0; i < c->node_cache.count; i++) {
		const struct node_state *m = &c->node_cache.nodes[i];
		bool is_held = node_state_is_foreign(m) && policy_pool(&c->policy, m);
		first = is_held && !count ? c->node_cache.entries[i].name : first;
		count += is_held;
	}
	if (count && count != c->told_foreign) {
		err_set(&why, E_HOST_DRIVER,
			"NVIDIA's operator drives %zu of the nodes that pools of the policy take (%s%s): they are "
			"held, and the "
			"others go on; "
			"see kmodsmith-operator(7)",
			count, first, count > 1 ? ", ..." : "");
		coordinator_report_trouble(c, "the policy", &why);
		policy_in_force_event(c, coordinator_source(c, NULL), "NodesOfOtherOperator", why.text);
	}
	c->told_foreign = count;
}
