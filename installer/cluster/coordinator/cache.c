// SPDX-License-Identifier: Apache-2.0
// What the coordinator knows: the policy, the rollout's status, NVIDIA's driver DaemonSets and all nodes, read once and
// then watched.
#include "cluster/coordinator/coordinator_internal.h"
#include "cluster/kube/api.h"

#include <stdio.h>

enum { WATCH_S = 300 };

// The driver DaemonSets of NVIDIA's GPU Operator: two programs that load drivers cannot share a node. They are read
// before the nodes, and the nodes that they serve are held. All others are managed as usual, so that a cluster moves
// from the operator to us, or back, node by node. The operator labels them app.kubernetes.io/component=nvidia-driver,
// and their owner is a ClusterPolicy or an NVIDIADriver (gpu-operator assets/state-driver and manifests/state-driver,
// 0500_daemonset.yaml).

static void clear_daemonset(struct driver_daemonsets *d, size_t at)
{
	free(d->items[at].name);
	strv_done(&d->items[at].selector);
	d->items[at] = d->items[--d->count];
}

static void daemonsets_done(struct driver_daemonsets *d)
{
	while (d->count)
		clear_daemonset(d, 0);
	free(d->items);
	*d = (struct driver_daemonsets){ 0 };
}

static void daemonset_record(bool is_event, struct strv *ret)
{
	static const char *const event[] = { KUBE_EVENT };
	static const char *const rows[] = { "metadata name", "metadata namespace", "metadata ownerReferences kind",
					    "metadata ownerReferences apiVersion", "spec template spec nodeSelector" };
	for (size_t i = 0; is_event && i < ARRAY_SIZE(event); i++)
		strv_add(ret, str_dup(event[i]));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		strv_add(ret, str_fmt("%s%s", is_event ? "object " : "", rows[i]));
}

static char *daemonset_name(const json_t *object)
{
	const json_t *metadata = json_object_get(object, "metadata");
	const char *namespace = json_string_value(json_object_get(metadata, "namespace"));
	const char *name = json_string_value(json_object_get(metadata, "name"));
	return namespace && name ? str_fmt("%s/%s", namespace, name) : NULL;
}

// Other DaemonSets with this label are ignored.
static bool is_nvidias(const json_t *object)
{
	const json_t *owners = json_object_get(json_object_get(object, "metadata"), "ownerReferences");
	for (size_t i = 0; i < json_array_size(owners); i++) {
		const json_t *owner = json_array_get(owners, i);
		const char *kind = json_string_value(json_object_get(owner, "kind"));
		const char *version = json_string_value(json_object_get(owner, "apiVersion"));
		if (version && str_starts(version, "nvidia.com/") &&
		    (str_eq(kind, "ClusterPolicy") || str_eq(kind, "NVIDIADriver")))
			return true;
	}
	return false;
}

static void read_selector(const json_t *object, struct strv *ret)
{
	const json_t *template = json_object_get(json_object_get(object, "spec"), "template");
	const json_t *selector = json_object_get(json_object_get(template, "spec"), "nodeSelector");
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)(uintptr_t)selector, key, value)
	{
		if (json_is_string(value))
			strv_add(ret, str_fmt("%s=%s", key, json_string_value(value)));
	}
	strv_sort(ret);
}

static size_t find_daemonset(const struct driver_daemonsets *d, const char *name)
{
	size_t at = 0;
	while (at < d->count && !str_eq(d->items[at].name, name))
		at++;
	return at;
}

static bool is_same_selector(const struct strv *a, const struct strv *b)
{
	bool is = a->count == b->count;
	for (size_t i = 0; is && i < a->count; i++)
		is = str_eq(a->items[i], b->items[i]);
	return is;
}

// Both: true = other nodes may be served than before.
static bool remove_daemonset(struct driver_daemonsets *d, const json_t *object)
{
	auto_str char *name = daemonset_name(object);
	size_t at = name ? find_daemonset(d, name) : d->count;
	if (at == d->count)
		return false;
	clear_daemonset(d, at);
	return true;
}

static bool put_daemonset(struct driver_daemonsets *d, const json_t *object)
{
	auto_strv struct strv selector = { 0 };
	auto_str char *name = daemonset_name(object);
	size_t at = name ? find_daemonset(d, name) : d->count;
	if (!name || !is_nvidias(object))
		return remove_daemonset(d, object);
	read_selector(object, &selector);
	if (at < d->count && is_same_selector(&d->items[at].selector, &selector))
		return false;
	if (at == d->count) {
		d->items = mem_grow(d->items, d->count + 1, sizeof(*d->items));
		memset(&d->items[d->count++], 0, sizeof(*d->items));
		d->items[at].name = TAKE(name);
	}
	strv_done(&d->items[at].selector);
	d->items[at].selector = selector;
	selector = (struct strv){ 0 };
	return true;
}

// The bit of a term, which is added to the policy's; 0 = there is no room.
static uint64_t term_of(struct strv *terms, const char *term)
{
	enum { TERMS_MOST = 64 };
	size_t at = 0;
	while (at < terms->count && !str_eq(terms->items[at], term))
		at++;
	if (at == TERMS_MOST)
		return 0;
	if (at == terms->count)
		strv_add(terms, str_dup(term));
	return UINT64_C(1) << at;
}

// As terms of the policy, which decide on nodes. Affinities are ignored, and labels for which the policy has no room:
// one node too many is held rather than one too few.
static void apply_daemonsets(const struct driver_daemonsets *d, struct policy *policy)
{
	free(policy->driver_sets);
	policy->driver_sets = NULL;
	policy->driver_set_count = 0;
	if (policy->beside == BESIDE_ALLOW || !d->count)
		return;
	policy->driver_sets = mem_alloc(d->count * sizeof(*policy->driver_sets));
	for (size_t i = 0; i < d->count; i++) {
		struct driver_set *to = &policy->driver_sets[policy->driver_set_count++];
		snprintf(to->name, sizeof(to->name), "%s", d->items[i].name);
		for (size_t k = 0; k < d->items[i].selector.count; k++)
			to->terms |= term_of(&policy->terms, d->items[i].selector.items[k]);
	}
}

static int on_listed_daemonset(void *ctx, json_t *object, struct err *err)
{
	(void)err;
	put_daemonset(ctx, object);
	return 0;
}

static int load_daemonsets(struct coordinator *c, struct err *err)
{
	auto_strv struct strv record = { 0 };
	__attribute__((cleanup(daemonsets_done))) struct driver_daemonsets now = { 0 };
	struct kube_list list = { .path = DRIVER_DAEMONSETS_PATH,
				  .query = DRIVER_DAEMONSETS_QUERY,
				  .take = on_listed_daemonset,
				  .ctx = &now };
	char *version = NULL;
	daemonset_record(false, &record);
	list.record = (const char *const *)record.items;
	c->sees_drivers = true;
	if (kube_list(c->o.kube, &list, &version, err) < 0) {
		if (err->code != E_AUTH)
			return -1;
		// Without the right to list them, only the annotation of a node tells of the operator. DaemonSets that
		// were seen before stay: nothing says that they are gone.
		coordinator_report_trouble(c, "listing the driver DaemonSets of NVIDIA's operator", err);
		c->sees_drivers = false;
	}
	free(c->drivers.version);
	c->drivers.version = version;
	if (c->sees_drivers) {
		daemonsets_done(&c->driver_daemonsets);
		c->driver_daemonsets = now;
		now = (struct driver_daemonsets){ 0 };
	}
	apply_daemonsets(&c->driver_daemonsets, &c->source.policy);
	return 0;
}

// The nodes that they serve are found when the nodes are read.
static int on_driver_daemonset(void *ctx, const char *type, json_t *object, struct err *err)
{
	struct coordinator *c = ctx;
	(void)err;
	if (str_eq(type, "DELETED") ? remove_daemonset(&c->driver_daemonsets, object) :
				      put_daemonset(&c->driver_daemonsets, object))
		c->is_loaded = false;
	return 0;
}

static int watch_daemonsets(struct coordinator *c, struct err *err)
{
	kube_watch_end(&c->drivers);
	strv_done(&c->driver_record);
	daemonset_record(true, &c->driver_record);
	c->drivers.path = DRIVER_DAEMONSETS_PATH;
	c->drivers.query = DRIVER_DAEMONSETS_QUERY;
	c->drivers.record = (const char *const *)c->driver_record.items;
	c->drivers.event = on_driver_daemonset;
	c->drivers.ctx = c;
	return c->sees_drivers ? kube_watch_begin(c->o.kube, &c->drivers, WATCH_S, err) : 0;
}

static void read_status(struct coordinator *c)
{
	json_error_t problem;
	const char *text = api_configmap_value(c->status_map, ROLLOUT_STATUS_KEY);
	json_decref(TAKE(c->status_doc));
	memset(c->rollouts, 0, sizeof(c->rollouts));
	if (!text)
		return;
	c->status_doc = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
	if (!c->status_doc)
		err_set(&c->blind, E_CONFIG, "line %d of the rollout's status is not JSON: %s", problem.line,
			problem.text);
	if (!c->status_doc || rollout_status_read(c->status_doc, &c->source.policy, c->rollouts, &c->blind) < 0)
		coordinator_report_trouble(c, "the rollout's status", &c->blind);
}

static int get_status_map(struct coordinator *c, struct err *err)
{
	auto_str char *path = api_path(API_CONFIGMAP, c->o.namespace, ROLLOUT_STATUS_NAME);
	json_t *now = NULL;
	if (api_get(c->o.kube, path, &now, err) < 0)
		return -1;
	json_decref(c->status_map);
	c->status_map = now;
	return 0;
}

int cache_load_status(struct coordinator *c, struct err *err)
{
	if (get_status_map(c, err) < 0)
		return -1;
	read_status(c);
	return 0;
}

// The policy before the status, whose pools are the policy's.
static int load_policy(struct coordinator *c, bool is_watched, struct err *err)
{
	c->blind = (struct err){ 0 };
	if (get_status_map(c, err) < 0 || policy_source_load(&c->source, c->status_map, is_watched, &c->blind, err) < 0)
		return -1;
	read_status(c);
	c->is_dirty = true;
	return 0;
}

static int cache_node(void *ctx, json_t *node, struct err *err)
{
	struct coordinator *c = ctx;
	struct err why;
	(void)err;
	node_cache_put(&c->node_cache, node, &c->source.policy);
	if (leader_keep(&c->leader, &why) < 0) // thousands of nodes take their time
		coordinator_report_trouble(c, "renewing the Lease", &why);
	return 0;
}

// The policy decides which labels matter, so all nodes are read again when the policy changes.
static int load_nodes(struct coordinator *c, struct err *err)
{
	auto_strv struct strv record = { 0 };
	node_cache_record(&c->source.policy, false, &record);
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
	else if (!node_cache_put(&c->node_cache, object, &c->source.policy))
		return 0;
	c->is_dirty = true;
	return 0;
}

void cache_init(struct coordinator *c)
{
	c->nodes = (struct kube_watch){ .path = "/api/v1/nodes", .event = on_cached_node_event, .ctx = c };
}

void cache_done(struct coordinator *c)
{
	kube_watch_done(&c->nodes);
	kube_watch_done(&c->drivers);
	strv_done(&c->driver_record);
	strv_done(&c->node_record);
	daemonsets_done(&c->driver_daemonsets);
}

static int watch_nodes(struct coordinator *c, struct err *err)
{
	kube_watch_end(&c->nodes);
	strv_done(&c->node_record);
	node_cache_record(&c->source.policy, true, &c->node_record);
	c->nodes.record = (const char *const *)c->node_record.items;
	return kube_watch_begin(c->o.kube, &c->nodes, WATCH_S, err);
}

int cache_load(struct coordinator *c, bool is_watched, struct err *err)
{
	if (is_watched) {
		kube_watch_end(&c->nodes);
		kube_watch_end(&c->drivers);
	}
	if (load_policy(c, is_watched, err) < 0 || load_daemonsets(c, err) < 0 || load_nodes(c, err) < 0)
		return -1;
	if (!is_watched) // a coordinator writes its status before it begins a node: the one that was read may be older
		return cache_load_status(c, err);
	if (watch_nodes(c, err) < 0 || policy_source_watch(&c->source, err) < 0 || watch_daemonsets(c, err) < 0)
		return -1;
	c->is_loaded = true;
	c->source.is_stale = false;
	c->is_dirty = true;
	c->listed_ms = kube_now_ms();
	policy_source_report(&c->source, c->node_cache.nodes, c->node_cache.count, &c->blind);
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

int cache_update(struct coordinator *c, int wait_ms, struct err *err)
{
	if (kube_step(c->o.kube, wait_ms, err) < 0 || resume_watch(c, &c->nodes, watch_nodes, err) < 0 ||
	    policy_source_resume(&c->source, c->status_map, err) < 0 ||
	    (c->sees_drivers && resume_watch(c, &c->drivers, watch_daemonsets, err) < 0)) {
		c->is_loaded = false;
		return -1;
	}
	return 0;
}
