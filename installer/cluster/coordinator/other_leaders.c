// SPDX-License-Identifier: Apache-2.0
// Coordinators of other namespaces: Leases are of a namespace and nodes are not, so a node names the namespace whose
// coordinator leads it (kmodsmith.io/coordinator). Nobody else writes on it until that one's Lease is gone, or silent
// for so long by our own clock; one that cannot be read is believed to be alive.
#include "cluster/coordinator/coordinator_internal.h"
#include "cluster/kube/api.h"

enum { ASK_MS = 60 * 1000, DEAD_MS = 10 * 60 * 1000 };

void other_leaders_done(struct other_leaders *o)
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
	auto_str char *path = api_lease(o->namespace, LEADER_LEASE);
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

void other_leaders_check(struct coordinator *c)
{
	auto_strv struct strv names = { 0 }; // copied: the nodes may change while somebody is asked
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
