// SPDX-License-Identifier: Apache-2.0
// A node whose GPU is used by a pod that nobody may evict is found out before it is cordoned: it is held with the name
// of that pod, its other pods stay, the other nodes go on, and so does it when the pod has gone. T08.
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

#include <stdio.h>

#define MINUTES(n) ((n)*60 * 1000L)
#define NOTE(f) farm_note(f, 0, "kmodsmith.io/reason")
#define POOL(drain) "{'pools':[{'name':'gpus','maxUnavailable':'50%','drain':{" drain "},'target':{'driver':'535.2'}}]}"
#define GPU "'containers':[{'name':'c','image':'i','resources':{'limits':{'nvidia.com/gpu':'1'}}}]"
#define PLAIN "'containers':[{'name':'c','image':'i'}]"
#define OF(kind) \
	",'ownerReferences':[{'apiVersion':'apps/v1','kind':'" kind "','name':'x','uid':'x','controller':true}]"

static const struct row {
	const char *name, *more, *spec; // of the pod: metadata, spec
	const char *drain;              // of the policy
	bool is_holder;
	const char *reason; // "" = it is not held
	const char *looser; // policy that lets it go; NULL = the pod is deleted
} rows[] = {
	{ "a bare pod", "", GPU, "", false,
	  "holder-protected default/x: no controller would recreate it; see drain.force", NULL },
	{ "a bare pod, and the policy is changed", "", GPU, "", false,
	  "holder-protected default/x: no controller would recreate it; see drain.force", POOL("'force':true") },
	{ "a disk", OF("ReplicaSet"), GPU ",'volumes':[{'name':'v','emptyDir':{}}]", "", false,
	  "holder-protected default/x: its emptyDir would be lost; see drain.deleteEmptyDir", NULL },
	{ "a label of its owner", OF("ReplicaSet") ",'labels':{'kmodsmith.io/drain-skip':'true'}", GPU, "", true,
	  "holder-protected default/x: uses the GPU, and its label forbids the eviction", NULL },
	{ "a DaemonSet of others", OF("DaemonSet"), PLAIN, "", true,
	  "holder-protected default/x: has the GPU open, and no gpu.deploy label ends it", NULL },
	{ "a static pod", OF("Node"), PLAIN, "'evict':'none'", true,
	  "holder-protected default/x: has the GPU open, and no gpu.deploy label ends it", NULL },
	{ "an operand", OF("DaemonSet"), PLAIN ",'nodeSelector':{'nvidia.com/gpu.deploy.dcgm':'true'}", "", true, "",
	  NULL },
	{ "a bare job that is waited for", ",'labels':{'app':'train'}", GPU, "'waitFor':'app=train'", false, "", NULL },
	{ "a pod without a GPU", "", PLAIN, "", false, "", NULL },
};

struct watcher {
	struct farm *f;
	bool was_cordoned, was_disturbed;
};
static bool is_there(const struct farm *f, const char *name)
{
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/%s", name);
	const json_t *pod = sim_get(f->sim, path);
	return pod && !sim_at(pod, "metadata deletionTimestamp");
}
static void look(void *ctx)
{
	struct watcher *w = ctx;
	if (w->f->is_over)
		return;
	w->was_cordoned = w->was_cordoned || farm_is_cordoned(w->f, 0);
	w->was_disturbed = w->was_disturbed || !is_there(w->f, "neighbour");
	sim_after(100, look, w);
}

static void begin(struct farm *f, struct farm_coordinator *coordinator, const struct row *row)
{
	auto_str char *policy =
		str_fmt("{'pools':[{'name':'gpus','maxUnavailable':'50%%','drain':{%s},'target':{'driver':"
			"'535.2'}}]}",
			row->drain);
	farm_begin(f, 2, policy);
	sim_make(f->sim, "/api/v1/namespaces/default/pods",
		 "{'metadata':{'name':'x','namespace':'default'%s},'spec':{'nodeName':'n00',%s}}", row->more,
		 row->spec);
	sim_merge(f->sim, "/api/v1/namespaces/default/pods/x/status", "{'status':{'phase':'Running'}}");
	farm_pod(f, 0, "neighbour");
	f->nodes[0].holders = row->is_holder;
	if (row->is_holder)
		snprintf(f->nodes[0].held_by, sizeof(f->nodes[0].held_by), " %s",
			 sim_text(sim_get(f->sim, "/api/v1/namespaces/default/pods/x"), "metadata uid"));
	farm_coordinator_begin(f, coordinator, "boss");
}

static void stop_holding(struct farm *f)
{
	f->nodes[0].holders = 0;
	*f->nodes[0].held_by = '\0';
}

static size_t lists_of_pods(const struct farm *f)
{
	size_t count, lists = 0;
	const struct sim_call *log = sim_log(f->sim, &count);
	for (size_t i = 0; i < count; i++)
		lists += str_eq(log[i].verb, "list") && str_starts(log[i].path, "/api/v1/pods?");
	return lists;
}

static void held_until_it_goes(struct farm *f, struct farm_coordinator *coordinator, const struct row *row)
{
	static struct watcher w; // looked at until the end of the farm
	w = (struct watcher){ .f = f };
	sim_after(1, look, &w);
	expect(farm_until(f, coordinator, 1, "done", 1, MINUTES(30)), row->name);
	expect(farm_until(f, coordinator, 1, "held", 1, MINUTES(1)), row->name);
	expect(str_eq(NOTE(f), row->reason), NOTE(f));
	size_t patches = sim_count(f->sim, "boss", "patch"), lists = lists_of_pods(f);
	farm_run(coordinator, 1, MINUTES(180));
	expect(sim_count(f->sim, "boss", "patch") == patches, row->name);
	size_t looks = lists_of_pods(f) - lists;
	expect(looks >= 17 && looks <= 24, row->name); // after a minute first, and each ten minutes in the end
	expect(!w.was_cordoned && !w.was_disturbed, row->name);
	if (row->looser)
		farm_policy(f, row->looser);
	else
		sim_delete(f->sim, "/api/v1/namespaces/default/pods/x");
	stop_holding(f);
	expect(farm_until(f, coordinator, 1, "done", 2, MINUTES(20)), row->name);
	bool evicts = !strstr(row->drain, "none");
	expect(w.was_cordoned && w.was_disturbed == evicts && !is_there(f, "x"), row->name);
}

static void drained_as_ever(struct farm *f, struct farm_coordinator *coordinator, const struct row *row)
{
	for (long until = sim_now_ms() + MINUTES(10); sim_now_ms() < until && !farm_is_cordoned(f, 0);)
		farm_run(coordinator, 1, 1000);
	expect(farm_is_cordoned(f, 0), row->name);
	farm_run(coordinator, 1, MINUTES(1));
	stop_holding(f);
	if (strstr(row->name, "job"))
		sim_merge(f->sim, "/api/v1/namespaces/default/pods/x/status", "{'status':{'phase':'Succeeded'}}");
	expect(farm_until(f, coordinator, 1, "done", 2, MINUTES(20)), row->name);
}

static void a_protected_pod_holds_its_node_before_the_cordon(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		begin(&f, &coordinator, &rows[i]);
		if (*rows[i].reason)
			held_until_it_goes(&f, &coordinator, &rows[i]);
		else
			drained_as_ever(&f, &coordinator, &rows[i]);
		if (f.laws->count)
			fail_msg("%s: %s", rows[i].name, f.laws->items[0]);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// Another pod that nobody may evict: the node tells of the one that is there, and is not let go between.
static void the_next_one_is_named(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator, &rows[0]);
	assert_true(farm_until(&f, &coordinator, 1, "held", 1, MINUTES(30)));
	sim_make(f.sim, "/api/v1/namespaces/default/pods",
		 "{'metadata':{'name':'y','namespace':'default'},'spec':{'nodeName':'n00'," GPU "}}");
	sim_delete(f.sim, "/api/v1/namespaces/default/pods/x");
	for (int i = 0; i < 30; i++) {
		farm_run(&coordinator, 1, MINUTES(1));
		assert_string_equal(farm_state(&f, 0), "held");
	}
	assert_string_equal(NOTE(&f), "holder-protected default/y: no controller would recreate it; see drain.force");
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// A group goes as one or not at all: nobody of it is cordoned before the pods of all of them were looked at.
static void its_group_waits_for_it(void **state)
{
	(void)state;
	static const char groups[] =
		"{'groupBy':'rack','pools':[{'name':'gpus','maxParallel':3,'maxUnavailable':'100%',"
		"'target':{'driver':'535.2'}}]}";
	for (unsigned where = 0; where < 2; where++) {
		struct farm f;
		struct farm_coordinator coordinator;
		farm_begin(&f, 3, groups);
		for (unsigned i = 0; i < 2; i++) { // n02 is of none
			auto_str char *path = str_fmt("/api/v1/nodes/n%02u", i);
			sim_merge(f.sim, path, "{'metadata':{'labels':{'rack':'a'}}}");
		}
		sim_make(f.sim, "/api/v1/namespaces/default/pods",
			 "{'metadata':{'name':'x','namespace':'default'},'spec':{'nodeName':'n%02u'," GPU "}}", where);
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "held", 1, MINUTES(10)));
		assert_string_equal(farm_state(&f, where), "held");
		for (int i = 0; i < 60; i++) {
			farm_run(&coordinator, 1, MINUTES(1));
			expect(!farm_is_cordoned(&f, 0) && !farm_is_cordoned(&f, 1), farm_state(&f, 1 - where));
			expect(target_hash_eq(&f.nodes[1 - where].loaded, &f.old), farm_state(&f, 1 - where));
		}
		assert_string_equal(farm_state(&f, 2), "done");
		sim_delete(f.sim, "/api/v1/namespaces/default/pods/x");
		assert_true(farm_until(&f, &coordinator, 1, "done", 3, MINUTES(30)));
		if (f.laws->count)
			fail_msg("%s", f.laws->items[0]);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_protected_pod_holds_its_node_before_the_cordon),
		cmocka_unit_test(the_next_one_is_named),
		cmocka_unit_test(its_group_waits_for_it),
	};
	return cmocka_run_group_tests_name("protected", tests, NULL, NULL);
}
