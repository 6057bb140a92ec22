// SPDX-License-Identifier: Apache-2.0
// Nodes that a driver DaemonSet of NVIDIA's operator serves are the operator's, whether it upgrades them by itself or
// not; all others are led, so that a cluster moves from one to the other node by node.
#include "tests/sim/nvidia.h"
#include "tests/unit/test.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define POOL "'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]"
static const char plain[] = "{" POOL "}", allowed[] = "{'besideOperator':'allow'," POOL "}";
static const char sets[] = "/apis/apps/v1/namespaces/gpu-operator/daemonsets";

static void end(struct farm *f, struct farm_coordinator *coordinator)
{
	if (f->laws->count)
		fail_msg("%zu laws were broken, first: %s", f->laws->count, f->laws->items[0]);
	farm_coordinator_kill(coordinator);
	farm_end(f);
}

static bool is_held_by(const struct farm *f, unsigned node, const char *set)
{
	auto_str char *reason = str_fmt("foreign-controller %s", set);
	return str_eq(farm_state(f, node), "held") && str_eq(farm_note(f, node, "kmodsmith.io/reason"), reason) &&
	       !farm_is_cordoned(f, node);
}

static void set_deploy(struct farm *f, const char *value)
{
	sim_merge(f->sim, "/api/v1/nodes/n00", "{'metadata':{'labels':{'nvidia.com/gpu.deploy.driver':'%s'}}}", value);
}

static void make_set(struct farm *f, const char *name, const char *owner, const char *selector)
{
	sim_make(
		f->sim, sets,
		"{'metadata':{'name':'%s','namespace':'gpu-operator','labels':{'app.kubernetes.io/component':"
		"'nvidia-driver'},'ownerReferences':[{%s,'name':'x','uid':'x','controller':true}]},'spec':{'template':{"
		"'spec':{'nodeSelector':{%s}}}}}",
		name, owner, selector);
}
#define NVIDIA_DRIVER "'apiVersion':'nvidia.com/v1alpha1','kind':'NVIDIADriver'"

static unsigned events(struct farm *f) // on the policy, that nodes are held
{
	unsigned count = 0;
	auto_json json_t *all = sim_ask(f->sim, "GET", "/api/v1/namespaces/kmodsmith/events", NULL);
	const json_t *items = json_object_get(all, "items");
	for (size_t i = 0; i < json_array_size(items); i++)
		count += str_eq(sim_text(json_array_get(items, i), "reason"), "NodesOfOtherOperator");
	return count;
}

// autoUpgrade is false, so that no annotation says whose the nodes are. One after the other goes over to us, and back.
static void a_cluster_moves_node_by_node(void **state)
{
	(void)state;
	static const char set[] = "gpu-operator/nvidia-driver-daemonset";
	struct farm f;
	struct farm_coordinator coordinator;
	struct nvidia theirs;
	farm_begin(&f, 2, plain);
	farm_pod(&f, 1, "train-1");
	nvidia_begin(&f, &theirs, true, false);
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, MINUTES(30));
	assert_true(is_held_by(&f, 0, set) && is_held_by(&f, 1, set));
	assert_int_equal(sim_count(f.sim, "boss", "evict"), 0);
	assert_int_equal(events(&f), 1);
	set_deploy(&f, "false");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(10)));
	assert_string_equal(farm_state(&f, 0), "done");
	assert_true(is_held_by(&f, 1, set));
	set_deploy(&f, "true");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_true(is_held_by(&f, 0, set) && is_held_by(&f, 1, set));
	theirs.has_driver = false; // driver.enabled=false: all are ours
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(30)));
	assert_int_equal(sim_count(f.sim, "boss", "evict"), 1);
	assert_int_equal(theirs.cordons + theirs.evictions + theirs.uncordons, 0);
	end(&f, &coordinator);
}

// Each row: a DaemonSet, and whether n00 is held by it; n01 never is.
static void which_nodes_are_served(void **state)
{
	(void)state;
	static const struct {
		const char *policy, *owner, *selector;
		bool is_held;
	} rows[] = {
		{ plain, NVIDIA_DRIVER, "'site/driver':'nvidia'", true },
		{ plain, "'apiVersion':'nvidia.com/v1','kind':'ClusterPolicy'", "'site/driver':'nvidia'", true },
		{ plain, NVIDIA_DRIVER, "'site/driver':'nvidia','kernel':'6.1'", true },
		{ plain, NVIDIA_DRIVER, "'site/driver':'nvidia','kernel':'6.12'", false },
		{ plain, NVIDIA_DRIVER, "'site/driver':'other'", false },
		{ plain, "'apiVersion':'apps/v1','kind':'ClusterPolicy'", "'site/driver':'nvidia'", false },
		{ plain, "'apiVersion':'nvidia.com/v1','kind':'Other'", "'site/driver':'nvidia'", false },
		{ allowed, NVIDIA_DRIVER, "'site/driver':'nvidia'", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		farm_begin(&f, 2, rows[i].policy);
		sim_merge(f.sim, "/api/v1/nodes/n00",
			  "{'metadata':{'labels':{'site/driver':'nvidia','kernel':'6.1'}}}");
		make_set(&f, "set", rows[i].owner, rows[i].selector);
		farm_coordinator_begin(&f, &coordinator, "boss");
		expect(farm_until(&f, &coordinator, 1, "done", rows[i].is_held ? 1 : 2, MINUTES(30)), rows[i].selector);
		farm_run(&coordinator, 1, MINUTES(10));
		expect(is_held_by(&f, 0, "gpu-operator/set") == rows[i].is_held, rows[i].selector);
		expect(str_eq(farm_state(&f, 1), "done"), rows[i].selector);
		end(&f, &coordinator);
	}
}

static size_t lists_of_nodes(const struct farm *f)
{
	size_t count, found = 0;
	const struct sim_call *calls = sim_log(f->sim, &count);
	for (size_t i = 0; i < count; i++)
		found += str_eq(calls[i].verb, "list") && str_starts(calls[i].path, "/api/v1/nodes");
	return found;
}

// One that comes while a node is drained calls the drain off; one that serves other nodes from now on is looked at
// anew; when it has gone, all goes on.
static void daemonsets_come_change_and_go(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 1, plain);
	farm_pod(&f, 0, "train-0");
	sim_make(f.sim, "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
		 "{'metadata':{'name':'all','namespace':'default'},'spec':{'maxUnavailable':0,'selector':{'matchLabels'"
		 ":{"
		 "'app':'train-0'}}}}");
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(10)));
	make_set(&f, "late", NVIDIA_DRIVER, "");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_true(is_held_by(&f, 0, "gpu-operator/late"));
	sim_merge(f.sim, "/apis/apps/v1/namespaces/gpu-operator/daemonsets/late",
		  "{'spec':{'template':{'spec':{'nodeSelector':{'site/driver':'nvidia'}}}}}");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_false(is_held_by(&f, 0, "gpu-operator/late"));
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'labels':{'site/driver':'nvidia'}}}");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_true(is_held_by(&f, 0, "gpu-operator/late"));
	size_t lists = lists_of_nodes(&f);
	sim_merge(f.sim, "/apis/apps/v1/namespaces/gpu-operator/daemonsets/late/status",
		  "{'status':{'numberReady':1}}");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_int_equal(lists_of_nodes(&f), lists); // what changes all the time costs nothing
	sim_delete(f.sim, "/apis/apps/v1/namespaces/gpu-operator/daemonsets/late");
	sim_delete(f.sim, "/apis/policy/v1/namespaces/default/poddisruptionbudgets/all");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(90)));
	end(&f, &coordinator);
}

// The operator is uninstalled and leaves its annotation: what holds the node is named as it is now, and once it is
// removed, too, the node is ours.
static void an_annotation_is_left_behind(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 1, plain);
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'" NVIDIA_ENABLED "':'true'}}}");
	make_set(&f, "set", NVIDIA_DRIVER, "");
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_true(is_held_by(&f, 0, "gpu-operator/set"));
	sim_delete(f.sim, "/apis/apps/v1/namespaces/gpu-operator/daemonsets/set");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_true(is_held_by(&f, 0, NVIDIA_ENABLED));
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'" NVIDIA_ENABLED "':null}}}");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	end(&f, &coordinator);
}

// The rights of an earlier version: it is said, and the annotation of a node still counts.
static unsigned unseen;
static void hear(void *ctx, const char *what, const struct err *why)
{
	(void)ctx;
	unseen += strstr(what, "driver DaemonSets of NVIDIA's operator") && why->code == E_AUTH;
}

static void without_the_right_to_list_them(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2, plain);
	make_set(&f, "set", NVIDIA_DRIVER, "");
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'" NVIDIA_ENABLED "':'true'}}}");
	sim_fault(f.sim,
		  &(struct sim_fault){ .what = SIM_STATUS, .resource = "daemonsets", .times = 10000, .status = 403 });
	farm_coordinator_begin(&f, &coordinator, "boss");
	coordinator.c.o.callbacks.trouble = hear;
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	assert_true(is_held_by(&f, 0, "nvidia.com/gpu-driver-upgrade-enabled"));
	assert_int_equal(unseen, 1);
	end(&f, &coordinator);
}

// Taken away while it leads, by an older rbac.yaml for instance: who has seen them does not know that they are gone.
static void the_right_to_list_them_is_lost(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2, plain);
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'labels':{'site/driver':'nvidia'}}}");
	make_set(&f, "set", NVIDIA_DRIVER, "'site/driver':'nvidia'");
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	assert_true(is_held_by(&f, 0, "gpu-operator/set"));
	sim_fault(f.sim,
		  &(struct sim_fault){ .what = SIM_STATUS, .resource = "daemonsets", .times = 10000, .status = 403 });
	farm_policy(&f, "{'paused':false," POOL "}"); // all is read anew
	farm_run(&coordinator, 1, MINUTES(30));
	assert_true(is_held_by(&f, 0, "gpu-operator/set"));
	sim_heal(f.sim);
	sim_delete(f.sim, "/apis/apps/v1/namespaces/gpu-operator/daemonsets/set");
	farm_policy(&f, plain);
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(60)));
	end(&f, &coordinator);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cluster_moves_node_by_node),   cmocka_unit_test(which_nodes_are_served),
		cmocka_unit_test(daemonsets_come_change_and_go),  cmocka_unit_test(without_the_right_to_list_them),
		cmocka_unit_test(the_right_to_list_them_is_lost), cmocka_unit_test(an_annotation_is_left_behind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
