// SPDX-License-Identifier: Apache-2.0
// Beside NVIDIA's operator: the DaemonSets that drive nodes for it are known before the nodes are, and whoever they
// serve is held. All others are led as ever, so that a cluster moves from the operator to us, or back, node by node.
#include "cluster/coordinator/coordinator_internal.h"
#include "cluster/kube/api.h"

// Without the right to see them the annotation of a node is all that is known of the operator, and those that were seen
// before: that they are gone is not known either.
static int cannot_see(struct coordinator *c, struct err *err)
{
	if (err->code != E_AUTH)
		return -1;
	coordinator_say(c, "the driver DaemonSets of NVIDIA's operator cannot be seen", err);
	c->sees_drivers = false;
	return 0;
}

static int put_driver(void *ctx, json_t *object, struct err *err)
{
	(void)err;
	driversets_put(ctx, object);
	return 0;
}

int know_drivers(struct coordinator *c, struct err *err)
{
	auto_strv struct strv record = { 0 };
	auto_driversets struct driversets now = { 0 };
	struct kube_list list = { .path = DRIVERSETS_PATH, .query = DRIVERSETS_QUERY, .take = put_driver, .ctx = &now };
	char *version = NULL;
	driversets_record(false, &record);
	list.record = (const char *const *)record.items;
	c->sees_drivers = true;
	if (kube_list(c->o.kube, &list, &version, err) < 0 && cannot_see(c, err) < 0)
		return -1;
	free(c->drivers.version);
	c->drivers.version = version;
	if (c->sees_drivers) {
		driversets_done(&c->driversets);
		c->driversets = now;
		now = (struct driversets){ 0 };
	}
	driversets_serve(&c->driversets, &c->policy);
	return 0;
}

// Which nodes they serve is read with the nodes.
static int on_driver(void *ctx, const char *type, json_t *object, struct err *err)
{
	struct coordinator *c = ctx;
	(void)err;
	if (str_eq(type, "DELETED") ? driversets_remove(&c->driversets, object) :
				      driversets_put(&c->driversets, object))
		c->is_loaded = false;
	return 0;
}

int watch_drivers(struct coordinator *c, struct err *err)
{
	kube_watch_end(&c->drivers);
	strv_done(&c->driver_record);
	driversets_record(true, &c->driver_record);
	c->drivers.path = DRIVERSETS_PATH;
	c->drivers.query = DRIVERSETS_QUERY;
	c->drivers.record = (const char *const *)c->driver_record.items;
	c->drivers.event = on_driver;
	c->drivers.ctx = c;
	return c->sees_drivers ? kube_watch_begin(c->o.kube, &c->drivers, COORDINATOR_WATCH_S, err) : 0;
}

// The reason of each node is on the node; how many there are is told in the log and on the policy, once.
void tell_drivers(struct coordinator *c)
{
	struct err why;
	size_t count = 0;
	const char *first = "";
	for (size_t i = 0; i < c->fleet.count; i++) {
		const struct member *m = &c->fleet.members[i];
		bool is_held = member_is_foreign(m) && policy_pool(&c->policy, m);
		first = is_held && !count ? c->fleet.fellows[i].name : first;
		count += is_held;
	}
	if (count && count != c->told_foreign) {
		err_set(&why, E_HOST_DRIVER,
			"NVIDIA's operator drives %zu of the nodes that pools of the policy take (%s%s): they are "
			"held, and the "
			"others go on; "
			"see kmodsmith-operator(7)",
			count, first, count > 1 ? ", ..." : "");
		coordinator_say(c, "the policy", &why);
		policy_event(c, coordinator_source(c, NULL), "NodesOfOtherOperator", why.text);
	}
	c->told_foreign = count;
}
