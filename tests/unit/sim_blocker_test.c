// SPDX-License-Identifier: Apache-2.0
// Who keeps a drain from its end is told on the node, once, for as long as it is true, and after the drain. T04, T08,
// T10b.
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define NOTE(f) farm_note(f, 0, "kmodsmith.io/reason")
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";
static const char BUDGETS[] = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

static void begin(struct farm *f, struct farm_coordinator *coordinator)
{
	farm_begin(f, 1, plain);
	farm_coordinator_begin(f, coordinator, "boss");
}
static void end(struct farm *f, struct farm_coordinator *coordinator)
{
	if (f->laws->count)
		fail_msg("%zu laws were broken, first: %s", f->laws->count, f->laws->items[0]);
	farm_coordinator_kill(coordinator);
	farm_end(f);
}

static void until_evicting(struct farm *f, struct farm_coordinator *coordinator)
{
	assert_true(farm_until(f, coordinator, 1, "evicting", 1, MINUTES(5)));
}

// A drain without trouble tells nothing; what takes longer than pods are given to end is told, and is told of the drain
// when that is over.
static void a_terminating_pod_is_named(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator);
	farm_pod_that_stays(&f, 0, "stuck");
	until_evicting(&f, &coordinator);
	farm_run(&coordinator, 1, MINUTES(1));
	assert_string_equal(NOTE(&f), "");
	farm_run(&coordinator, 1, MINUTES(4));
	assert_string_equal(NOTE(&f), "pods-left default/stuck: waits for example.com/keep");
	assert_true(*farm_note(&f, 0, "kmodsmith.io/reason-since"));
	size_t patches = sim_count(f.sim, "boss", "patch");
	farm_run(&coordinator, 1, MINUTES(10));
	assert_int_equal(sim_count(f.sim, "boss", "patch"), patches); // once
	assert_true(farm_until(&f, &coordinator, 1, "idle", 1, MINUTES(30)));
	assert_string_equal(NOTE(&f), "drain-timeout default/stuck: waits for example.com/keep");
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'spec':{'unschedulable':true}}"); // so that it stays queued
	assert_true(farm_until(&f, &coordinator, 1, "queued", 1, MINUTES(60)));
	assert_string_equal(NOTE(&f), "drain-timeout default/stuck: waits for example.com/keep");
	end(&f, &coordinator);
}

// A budget that lets one go after the other is nobody's trouble.
static void a_blocking_budget_is_reported(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator);
	farm_pod(&f, 0, "a");
	farm_pod(&f, 0, "b");
	sim_merge(f.sim, "/api/v1/namespaces/default/pods/b", "{'metadata':{'labels':{'app':'a'}}}");
	sim_make(f.sim, BUDGETS,
		 "{'metadata':{'name':'one','namespace':'default'},'spec':{'minAvailable':1,'selector':{'matchLabels':{"
		 "'app':'a'}}}}");
	until_evicting(&f, &coordinator);
	for (int i = 0; i < 100 && sim_count(f.sim, "boss", "evict") < 2; i++)
		farm_run(&coordinator, 1, 100);
	farm_run(&coordinator, 1, 2000);
	assert_int_equal(sim_count(f.sim, "boss", "evict"), 2);
	assert_string_equal(NOTE(&f), "");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_string_equal(NOTE(&f), "pdb-blocked default/b, budget one");
	end(&f, &coordinator);
}

// The next coordinator finds the deadline over before it has looked: what the last one told is still known.
static void the_reported_blocker_is_kept(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinators[2];
	begin(&f, &coordinators[0]);
	farm_pod_that_stays(&f, 0, "stuck");
	until_evicting(&f, &coordinators[0]);
	farm_run(&coordinators[0], 1, MINUTES(5));
	farm_coordinator_kill(&coordinators[0]);
	sim_pass(MINUTES(40));
	farm_coordinator_begin(&f, &coordinators[1], "boss2");
	assert_true(farm_until(&f, &coordinators[1], 1, "idle", 1, MINUTES(2)));
	assert_string_equal(NOTE(&f), "drain-timeout default/stuck: waits for example.com/keep");
	end(&f, &coordinators[1]);
}

// What was so yesterday is not told today: the budget is gone, and a pod is left that nobody may evict.
static void a_reason_is_replaced_by_the_next_one(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator);
	farm_pod(&f, 0, "db");
	sim_make(f.sim, BUDGETS,
		 "{'metadata':{'name':'all','namespace':'default'},'spec':{'minAvailable':1,'selector':{'matchLabels':{"
		 "'app':'db'}}}}");
	until_evicting(&f, &coordinator);
	farm_run(&coordinator, 1, MINUTES(1));
	assert_string_equal(NOTE(&f), "pdb-blocked default/db, budget all");
	sim_make(
		f.sim, "/api/v1/namespaces/default/pods",
		"{'metadata':{'name':'alone','namespace':'default'},'spec':{'nodeName':'n00','containers':[{'name':'c',"
		"'image':'i','resources':{'limits':{'nvidia.com/gpu':'1'}}}]}}");
	auto_str char *path = str_fmt("%s/all", BUDGETS);
	sim_delete(f.sim, path);
	farm_run(&coordinator, 1, MINUTES(2));
	assert_string_equal(NOTE(&f),
			    "holder-protected default/alone: no controller would recreate it; see drain.force");
	sim_delete(f.sim, "/api/v1/namespaces/default/pods/alone");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(5)));
	assert_string_equal(NOTE(&f), "");
	assert_string_equal(farm_note(&f, 0, "kmodsmith.io/reason-since"), "");
	end(&f, &coordinator);
}

static void a_refusal_is_reported_in_the_servers_words(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator);
	farm_pod(&f, 0, "a");
	sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
					      .verb = "evict",
					      .status = 403,
					      .message = "admission webhook \"keep\" denied the request:\n\tnot today",
					      .times = 100000 });
	until_evicting(&f, &coordinator);
	farm_run(&coordinator, 1, MINUTES(1));
	assert_string_equal(NOTE(&f),
			    "eviction-refused default/a: admission webhook \"keep\" denied the request:??not today");
	size_t patches = sim_count(f.sim, "boss", "patch");
	farm_run(&coordinator, 1, MINUTES(10));
	assert_int_equal(sim_count(f.sim, "boss", "patch"), patches);
	end(&f, &coordinator);
}

// Holders that no eviction ends: by the pod where there is one, and by what is known where there is none.
static void a_holder_is_named(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator);
	f.nodes[0].holders = 2;
	until_evicting(&f, &coordinator);
	farm_run(&coordinator, 1, MINUTES(5));
	bool is_named = str_eq(NOTE(&f), "holders processes outside any pod on this node");
	expect(is_named, NOTE(&f));
	f.nodes[0].holders = 0;
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(5)));
	end(&f, &coordinator);
}

// That somebody else was faster is no proof that the pod has gone: its kubelet may just have written its status.
static void an_eviction_conflict_is_retried(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator);
	farm_pod(&f, 0, "a");
	sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
					      .verb = "evict",
					      .status = 409,
					      .message = "the object has been modified; please apply your changes",
					      .times = 60 });
	until_evicting(&f, &coordinator);
	farm_run(&coordinator, 1, MINUTES(4));
	assert_string_equal(NOTE(&f), "pods-left default/a: the object has been modified; please apply your changes");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(10)));
	end(&f, &coordinator);
}

// Who waits for jobs and gives up says for which one.
static void a_long_job_is_named(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(
		&f, 1,
		"{'pools':[{'name':'gpus','drain':{'waitFor':'app=train','onWaitTimeout':'release'},'target':{'driver'"
		":'535.2'}}]}");
	farm_pod(&f, 0, "train");
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "waiting", 1, MINUTES(5)));
	assert_true(farm_until(&f, &coordinator, 1, "idle", 1, MINUTES(150)));
	assert_string_equal(NOTE(&f), "jobs default/train");
	end(&f, &coordinator);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_terminating_pod_is_named),
		cmocka_unit_test(a_blocking_budget_is_reported),
		cmocka_unit_test(the_reported_blocker_is_kept),
		cmocka_unit_test(a_reason_is_replaced_by_the_next_one),
		cmocka_unit_test(a_refusal_is_reported_in_the_servers_words),
		cmocka_unit_test(a_holder_is_named),
		cmocka_unit_test(an_eviction_conflict_is_retried),
		cmocka_unit_test(a_long_job_is_named),
	};
	return cmocka_run_group_tests_name("blocker", tests, NULL, NULL);
}
