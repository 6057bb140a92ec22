// SPDX-License-Identifier: Apache-2.0
// What the coordinator knows: two ConfigMaps, the DriverRollout and all nodes, read once and then watched.
#include "cluster/coordinator/coordinator_internal.h"
#include "cluster/kube/api.h"

enum { WATCH_S = 300, KIND_MS = 60 * 1000 };

// Beside NVIDIA's operator: its driver DaemonSets are read before the nodes, and the nodes that they
// serve are held. All others are managed as usual, so that a cluster moves from the operator to us, or back, node by
// node.

// Without the right to see them the annotation of a node is all that is known of the operator, and those that were seen
// before: that they are gone is not known either.
static int note_missing_rights(struct coordinator *c, struct err *err)
{
	if (err->code != E_AUTH)
		return -1;
	coordinator_report_trouble(c, "listing the driver DaemonSets of NVIDIA's operator", err);
	c->sees_drivers = false;
	return 0;
}

static int put_driver_daemonset(void *ctx, json_t *object, struct err *err)
{
	(void)err;
	driver_daemonsets_put(ctx, object);
	return 0;
}

static int operator_nodes_load(struct coordinator *c, struct err *err)
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

static int operator_nodes_watch(struct coordinator *c, struct err *err)
{
	kube_watch_end(&c->drivers);
	strv_done(&c->driver_record);
	driver_daemonsets_record(true, &c->driver_record);
	c->drivers.path = DRIVER_DAEMONSETS_PATH;
	c->drivers.query = DRIVER_DAEMONSETS_QUERY;
	c->drivers.record = (const char *const *)c->driver_record.items;
	c->drivers.event = on_driver_daemonset;
	c->drivers.ctx = c;
	return c->sees_drivers ? kube_watch_begin(c->o.kube, &c->drivers, WATCH_S, err) : 0;
}

// Each node carries its reason; their number is reported once, in the log and on the policy.
static void operator_nodes_report(struct coordinator *c)
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
			"NVIDIA's operator manages the driver on %zu of the nodes that the policy selects (%s%s): "
			"these are held, the others continue; see kmodsmith-operator(7)",
			count, first, count > 1 ? ", ..." : "");
		coordinator_report_trouble(c, "the policy", &why);
		policy_in_force_event(c, coordinator_source(c, NULL), "NodesOfOtherOperator", why.text);
	}
	c->told_foreign = count;
}

// Coordinators of other namespaces: Leases are of a namespace and nodes are not, so a node names the namespace whose
// coordinator leads it (kmodsmith.io/coordinator). No other coordinator writes to it until that Lease is gone, or not
// renewed for DEAD_MS by our own clock; a Lease that cannot be read counts as alive.

enum { ASK_MS = 60 * 1000, DEAD_MS = 10 * 60 * 1000 };

void cache_forget_other_leaders(struct other_leaders *o)
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

void cache_check_other_leaders(struct coordinator *c)
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

static const char *const map_event[] = { KUBE_EVENT, NULL };
static const char *const object_event[] = { KUBE_EVENT, "object metadata uid", "object metadata generation",
					    "object metadata annotations", NULL };

static int get_configmap(struct coordinator *c, const char *name, json_t **map, struct err *err)
{
	auto_str char *path = api_configmap(c->o.namespace, name);
	json_t *now = NULL;
	if (api_get(c->o.kube, path, &now, err) < 0)
		return -1;
	json_decref(*map);
	*map = now;
	return 0;
}

static void read_status(struct coordinator *c)
{
	json_error_t problem;
	const char *text = coordinator_configmap_value(c->status_map, ROLLOUT_STATUS_KEY);
	json_decref(TAKE(c->status_doc));
	memset(c->rollouts, 0, sizeof(c->rollouts));
	if (!text)
		return;
	c->status_doc = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
	if (!c->status_doc)
		err_set(&c->blind, E_CONFIG, "line %d of the rollout's status is not JSON: %s", problem.line,
			problem.text);
	if (!c->status_doc || rollout_status_read(c->status_doc, &c->policy, c->rollouts, &c->blind) < 0)
		coordinator_report_trouble(c, "the rollout's status", &c->blind);
}

int cache_load_status(struct coordinator *c, struct err *err)
{
	if (get_configmap(c, ROLLOUT_STATUS_NAME, &c->status_map, err) < 0)
		return -1;
	read_status(c);
	return 0;
}

static int ignore_object(void *ctx, json_t *object, struct err *err)
{
	(void)ctx, (void)object, (void)err;
	return 0;
}

// From before it is read, so that no change falls in between.
static int read_list_version(struct coordinator *c, struct kube_watch *w, struct err *err)
{
	static const char *const record[] = { "metadata name", NULL };
	struct kube_list list = { .path = w->path, .query = w->query, .record = record, .take = ignore_object };
	char *version = NULL;
	if (kube_list(c->o.kube, &list, &version, err) < 0)
		return -1;
	free(w->version);
	w->version = version;
	return 0;
}

// Where the kind is not installed, or its rows are not in our role, the ConfigMap is all there is. But who has had a
// DriverRollout and may not read it any more does not know that it is gone.
static int check_driver_rollout_crd(struct coordinator *c, struct err *err)
{
	const char *kind = coordinator_configmap_value(c->status_map, ROLLOUT_STATUS_KIND_KEY);
	bool had_object = c->policy_object || str_eq(kind, DRIVER_ROLLOUT_KIND);
	c->kind_ms = kube_now_ms() + KIND_MS;
	c->has_kind = read_list_version(c, &c->objects, err) == 0;
	if (c->has_kind || err->code == E_NOT_FOUND)
		return 0;
	return err->code == E_AUTH && !had_object ? 0 : -1;
}

static int get_driver_rollout(struct coordinator *c, struct err *err)
{
	auto_str char *path = api_driver_rollout(c->o.namespace, POLICY_NAME);
	json_t *now = NULL;
	if (check_driver_rollout_crd(c, err) < 0 || (c->has_kind && api_get(c->o.kube, path, &now, err) < 0))
		return -1;
	json_decref(c->policy_object);
	json_decref(TAKE(c->object_said));
	c->policy_object = now;
	return 0;
}

static int load_configmaps(struct coordinator *c, struct err *err)
{
	c->blind = (struct err){ 0 };
	if (get_configmap(c, POLICY_NAME, &c->policy_map, err) < 0 ||
	    get_configmap(c, ROLLOUT_STATUS_NAME, &c->status_map, err) < 0 || get_driver_rollout(c, err) < 0)
		return -1;
	policy_in_force_choose(c); // before the status, whose pools are the policy's
	read_status(c);
	c->is_dirty = true;
	return 0;
}

static int cache_node(void *ctx, json_t *node, struct err *err)
{
	struct coordinator *c = ctx;
	struct err why;
	(void)err;
	node_cache_put(&c->node_cache, node, &c->policy);
	if (leader_keep(&c->leader, &why) < 0) // thousands of nodes take their time
		coordinator_report_trouble(c, "renewing the Lease", &why);
	return 0;
}

// What labels mean depends on the policy, so all nodes are read again when the policy changes.
static int load_nodes(struct coordinator *c, struct err *err)
{
	auto_strv struct strv record = { 0 };
	node_cache_record(&c->policy, false, &record);
	struct kube_list list = {
		.path = "/api/v1/nodes", .record = (const char *const *)record.items, .take = cache_node, .ctx = c
	};
	char *version = NULL;
	node_cache_list_begin(&c->node_cache);
	if (kube_list(c->o.kube, &list, &version, err) < 0)
		return -1;
	node_cache_list_end(&c->node_cache);
	free(c->nodes.version);
	c->nodes.version = version;
	for (size_t i = 0; i < c->node_cache.count; i++)
		c->node_cache.nodes[i].facts.is_ours = str_eq(c->node_cache.entries[i].name, c->o.own_node);
	return 0;
}

static int on_cached_node_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	struct coordinator *c = ctx;
	(void)err;
	if (str_eq(type, "DELETED"))
		node_cache_remove(&c->node_cache, object);
	else if (!node_cache_put(&c->node_cache, object, &c->policy))
		return 0;
	c->is_dirty = true;
	return 0;
}

// The policy is read again, and all nodes with it.
static int on_configmap_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	struct coordinator *c = ctx;
	(void)type, (void)object, (void)err;
	c->is_loaded = false;
	return 0;
}

// Its status is written by ourselves.
bool cache_put_driver_rollout(struct coordinator *c, const json_t *object)
{
	static const char *const parts[] = { "uid", "generation", "annotations" };
	const json_t *now = json_object_get(object, "metadata"), *known = json_object_get(c->policy_object, "metadata");
	bool is_same = known != NULL;
	for (size_t i = 0; is_same && i < ARRAY_SIZE(parts); i++) {
		const json_t *a = json_object_get(now, parts[i]), *b = json_object_get(known, parts[i]);
		is_same = a == b || json_equal(a, b);
	}
	c->is_loaded = c->is_loaded && is_same;
	return is_same;
}

static int on_driver_rollout_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	struct coordinator *c = ctx;
	(void)err;
	if (str_eq(type, "DELETED"))
		c->is_loaded = false;
	else
		cache_put_driver_rollout(c, object);
	return 0;
}

void cache_init(struct coordinator *c)
{
	c->objects_path = api_driver_rollout(c->o.namespace, NULL);
	c->objects = (struct kube_watch){ .path = c->objects_path,
					  .query = "fieldSelector=metadata.name%3D" POLICY_NAME,
					  .record = object_event,
					  .event = on_driver_rollout_event,
					  .ctx = c };
	c->maps_path = api_configmap(c->o.namespace, NULL);
	c->nodes = (struct kube_watch){ .path = "/api/v1/nodes", .event = on_cached_node_event, .ctx = c };
	c->maps = (struct kube_watch){ .path = c->maps_path,
				       .query = "fieldSelector=metadata.name%3D" POLICY_NAME,
				       .record = map_event,
				       .event = on_configmap_event,
				       .ctx = c };
}

static int watch_nodes(struct coordinator *c, struct err *err)
{
	kube_watch_end(&c->nodes);
	strv_done(&c->node_record);
	node_cache_record(&c->policy, true, &c->node_record);
	c->nodes.record = (const char *const *)c->node_record.items;
	return kube_watch_begin(c->o.kube, &c->nodes, WATCH_S, err);
}

static int watch_configmaps(struct coordinator *c, struct err *err)
{
	return kube_watch_begin(c->o.kube, &c->maps, WATCH_S, err);
}

static int watch_driver_rollouts(struct coordinator *c, struct err *err)
{
	return c->has_kind ? kube_watch_begin(c->o.kube, &c->objects, WATCH_S, err) : 0;
}

int cache_load_once(struct coordinator *c, struct err *err)
{
	return load_configmaps(c, err) < 0 || operator_nodes_load(c, err) < 0 ? -1 : load_nodes(c, err);
}

int cache_load(struct coordinator *c, struct err *err)
{
	kube_watch_end(&c->nodes);
	kube_watch_end(&c->maps);
	kube_watch_end(&c->drivers);
	kube_watch_end(&c->objects);
	if (read_list_version(c, &c->maps, err) < 0 || cache_load_once(c, err) < 0 || watch_nodes(c, err) < 0 ||
	    watch_configmaps(c, err) < 0 || watch_driver_rollouts(c, err) < 0 || operator_nodes_watch(c, err) < 0)
		return -1;
	c->is_loaded = true;
	c->is_dirty = true;
	c->listed_ms = kube_now_ms();
	policy_in_force_report(c);
	operator_nodes_report(c);
	return 0;
}

// A watch that ended continues where it was; if the server has forgotten that version, everything is read again.
static int resume_watch(struct coordinator *c, struct kube_watch *w, int (*begin)(struct coordinator *, struct err *),
			struct err *err)
{
	int r = kube_watch_look(w, err);
	if (r > 0)
		return 0;
	if (w->is_gone) {
		c->is_loaded = false;
		return 0;
	}
	if (r < 0)
		coordinator_report_trouble(c, "a watch", err);
	return begin(c, err);
}

// The kind may be installed at any time.
static int resume_driver_rollout_watch(struct coordinator *c, struct err *err)
{
	if (c->has_kind)
		return resume_watch(c, &c->objects, watch_driver_rollouts, err);
	if (kube_now_ms() < c->kind_ms)
		return 0;
	if (check_driver_rollout_crd(c, err) < 0)
		coordinator_report_trouble(c, "looking for the kind " DRIVER_ROLLOUT_KIND, err);
	c->is_loaded = c->is_loaded && !c->has_kind;
	return 0;
}

int cache_update(struct coordinator *c, int wait_ms, struct err *err)
{
	if (kube_step(c->o.kube, wait_ms, err) < 0 || resume_watch(c, &c->nodes, watch_nodes, err) < 0 ||
	    resume_watch(c, &c->maps, watch_configmaps, err) < 0 || resume_driver_rollout_watch(c, err) < 0 ||
	    (c->sees_drivers && resume_watch(c, &c->drivers, operator_nodes_watch, err) < 0)) {
		c->is_loaded = false;
		return -1;
	}
	return 0;
}
