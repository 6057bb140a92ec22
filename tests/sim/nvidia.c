// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/nvidia.h"

#include "cluster/node_state/nvidia.h"
#include "cluster/node_state/states.h"

#include <stdio.h>

enum { TURN_MS = 5000, AT_ONCE = 1 };
#define PODS "/api/v1/namespaces/gpu-operator/pods"
#define DAEMONSETS "/apis/apps/v1/namespaces/gpu-operator/daemonsets"
#define DEPLOY "nvidia.com/gpu.deploy.driver"

struct site { // one node in one turn
	struct nvidia *own;
	unsigned at;
	const char *node, *pod; // paths
};

static const char *label(const struct farm *f, unsigned at, const char *key)
{
	const char *value = json_string_value(json_object_get(sim_at(f->objects[at], "metadata labels"), key));
	return value ? value : "";
}

const char *nvidia_word(const struct farm *f, unsigned node)
{
	return label(f, node, NVIDIA_STATE);
}

static void set_word(const struct site *s, const char *word) // NULL = none
{
	auto_str char *value = word ? str_fmt("'%s'", word) : str_dup("null");
	sim_merge(s->own->farm->sim, s->node, "{'metadata':{'labels':{'" NVIDIA_STATE "':%s}}}", value);
}

static void set_note(const struct site *s, const char *key, const char *value) // NULL = none
{
	auto_str char *text = value ? str_fmt("'%s'", value) : str_dup("null");
	if (!str_eq(farm_note(s->own->farm, s->at, key), value ? value : ""))
		sim_merge(s->own->farm->sim, s->node, "{'metadata':{'annotations':{'%s':%s}}}", key, text);
}

// Conditions

static bool has_driver_pod(const struct site *s)
{
	return s->pod != NULL;
}
static bool is_of_pod(const struct site *s, const char *key, const char *value)
{
	const json_t *labels = sim_at(sim_get(s->own->farm->sim, s->pod), "metadata labels");
	return str_eq(json_string_value(json_object_get(labels, key)), value);
}
static bool is_driver_pod_outdated(const struct site *s)
{
	auto_str char *newest = str_fmt("%u.%u", s->own->config, s->own->labels);
	return !is_of_pod(s, "controller-revision-hash", newest);
}
static bool is_told_to_skip(const struct site *s)
{
	return str_eq(label(s->own->farm, s->at, UPGRADE_SKIP), "true");
}
// Nodes that are cordoned already do not count against the limit.
static bool may_begin_upgrade(const struct site *s)
{
	const struct farm *f = s->own->farm;
	unsigned busy = 0;
	for (unsigned i = 0; i < f->count; i++) {
		const char *word = nvidia_word(f, i);
		busy += *word && !str_eq(word, "upgrade-done") && !str_eq(word, "upgrade-required");
	}
	return busy < AT_ONCE || farm_is_cordoned(f, s->at);
}
static bool may_begin_restart(const struct site *s)
{
	auto_str char *config = str_fmt("%u", s->own->config);
	return may_begin_upgrade(s) && is_of_pod(s, "digest", config);
}
static bool was_cordoned(const struct site *s)
{
	return *farm_note(s->own->farm, s->at, NVIDIA_NOTE);
}

// Acts

static void note_cordon(const struct site *s)
{
	if (farm_is_cordoned(s->own->farm, s->at))
		set_note(s, NVIDIA_NOTE, "true");
}
static void forget_cordon(const struct site *s)
{
	set_note(s, NVIDIA_NOTE, NULL);
}
static void cordon_site(const struct site *s)
{
	if (!farm_is_cordoned(s->own->farm, s->at))
		s->own->cordons++;
	sim_merge(s->own->farm->sim, s->node, "{'spec':{'unschedulable':true}}");
}
static void uncordon_site(const struct site *s)
{
	if (farm_is_cordoned(s->own->farm, s->at))
		s->own->uncordons++;
	sim_merge(s->own->farm->sim, s->node, "{'spec':{'unschedulable':null}}");
}
static bool has_gpu(const json_t *pod)
{
	const json_t *first = json_array_get(sim_at(pod, "spec containers"), 0);
	return json_object_get(sim_at(first, "resources limits"), "nvidia.com/gpu") != NULL;
}
static void evict_gpu_pods(const struct site *s)
{
	struct sim *sim = s->own->farm->sim;
	auto_json json_t *all = sim_ask(sim, "GET", "/api/v1/namespaces/default/pods", NULL);
	const json_t *items = json_object_get(all, "items");
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *pod = json_array_get(items, i);
		if (!has_gpu(pod) || !str_eq(sim_text(pod, "spec nodeName"), s->own->farm->nodes[s->at].name))
			continue;
		auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/%s", sim_text(pod, "metadata name"));
		sim_delete(sim, path);
		s->own->evictions++;
	}
}
static void restart_driver_pod(const struct site *s)
{
	sim_delete(s->own->farm->sim, s->pod); // its DaemonSet recreates it
	s->own->restarts++;
}

static const struct {
	const char *word;
	bool (*when)(const struct site *s);
	void (*act)(const struct site *s);
	const char *next;
} table[] = {
#define X(word, when, act, next) { word, when, act, next },
#include "tests/sim/nvidia.def"
#undef X
};

static void turn_node(const struct site *s)
{
	const char *word = nvidia_word(s->own->farm, s->at);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (!str_eq(table[i].word, word) || !table[i].when(s))
			continue;
		if (table[i].act)
			table[i].act(s);
		if (table[i].next)
			set_word(s, table[i].next);
		return;
	}
}

// A pod on each node that the DaemonSet selects, of the newest revision at its creation (updateStrategy OnDelete).
static void keep_pod(const struct site *s)
{
	const char *name = s->own->farm->nodes[s->at].name;
	bool is_wanted = s->own->has_driver && str_eq(label(s->own->farm, s->at, DEPLOY), "true");
	bool is_there = sim_get(s->own->farm->sim, s->pod) != NULL;
	if (is_there && !is_wanted)
		sim_delete(s->own->farm->sim, s->pod);
	if (is_there || !is_wanted)
		return;
	sim_make(s->own->farm->sim, PODS,
		 "{'metadata':{'name':'driver-%s','namespace':'gpu-operator','labels':{'app':'nvidia-driver-daemonset',"
		 "'app.kubernetes.io/component':'nvidia-driver','controller-revision-hash':'%u.%u','digest':'%u'},"
		 "'ownerReferences':[{"
		 "'apiVersion':'apps/v1','kind':'DaemonSet','name':'nvidia-driver-daemonset','uid':'d','controller':"
		 "true}]},'spec':{'nodeName':'%s','terminationGracePeriodSeconds':0,'containers':[{'name':"
		 "'nvidia-driver-ctr','image':'i'}]}}",
		 name, s->own->config, s->own->labels, s->own->config, name);
}

static void keep_daemonset(const struct nvidia *n)
{
	static const char path[] = DAEMONSETS "/nvidia-driver-daemonset";
	bool is_there = sim_get(n->farm->sim, path) != NULL;
	if (is_there && !n->has_driver)
		sim_delete(n->farm->sim, path);
	if (is_there || !n->has_driver)
		return;
	sim_make(n->farm->sim, DAEMONSETS,
		 "{'metadata':{'name':'nvidia-driver-daemonset','namespace':'gpu-operator','labels':{'app':"
		 "'nvidia-driver-daemonset','app.kubernetes.io/component':'nvidia-driver'},'ownerReferences':[{"
		 "'apiVersion':'nvidia.com/v1','kind':'ClusterPolicy','name':'cluster-policy','uid':'p','controller':"
		 "true}]},'spec':{'selector':{'matchLabels':{'app':'nvidia-driver-daemonset'}},'template':{'spec':{"
		 "'nodeSelector':{'" DEPLOY "':'true'}}}}}");
}

// The operator removes the labels if autoUpgrade is off, and its annotation if it has no driver, too (gpu-operator
// controllers/upgrade_controller.go, nodelabeling_controller.go).
static void turn_one_operator(const struct site *s)
{
	bool is_marked = s->own->has_driver && s->own->auto_upgrade;
	set_note(s, NVIDIA_ENABLED, is_marked ? "true" : NULL);
	if (!s->own->auto_upgrade && *nvidia_word(s->own->farm, s->at))
		set_word(s, NULL);
}

static void turn_operators(void *ctx)
{
	struct nvidia *n = ctx;
	if (n->farm->is_over)
		return;
	keep_daemonset(n);
	for (unsigned i = 0; i < n->farm->count; i++) {
		const char *name = n->farm->nodes[i].name;
		auto_str char *node = api_node(name), *pod = str_fmt(PODS "/driver-%s", name);
		const struct site site = { n, i, node, pod };
		turn_one_operator(&site);
		if (n->auto_upgrade && sim_get(n->farm->sim, pod))
			turn_node(&site);
		keep_pod(&site);
	}
	sim_after(TURN_MS, turn_operators, n);
}

void nvidia_begin(struct farm *f, struct nvidia *ret, bool has_driver, bool auto_upgrade)
{
	static bool is_told;
	auto_str char *sources = is_told ? NULL : nvidia_sources_text();
	if (sources)
		printf("# the upgrade controller is simulated, by %s\n", sources);
	is_told = true;
	*ret = (struct nvidia){ .farm = f, .has_driver = has_driver, .auto_upgrade = auto_upgrade, .config = 1 };
	for (unsigned i = 0; i < f->count; i++) {
		auto_str char *path = api_node(f->nodes[i].name);
		sim_merge(f->sim, path,
			  "{'metadata':{'labels':{'nvidia.com/gpu.present':'true','" DEPLOY "':'true'}}}");
	}
	turn_operators(ret);
}
