// SPDX-License-Identifier: Apache-2.0
// Whole rollouts on the simulated API server: the coordinator as it is, agents that follow a script, and the laws
// looked at on every request. T02, T20, T27, T38, T50, T70, T71, T74, T83.
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";

// Everywhere the same, nobody cordoned, nothing borrowed, the ledger empty.
static void tidy(const struct farm *f, const struct target_hash *loaded)
{
	const json_t *lease =
		sim_get(f->sim, "/apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator");
	const char *ledger =
		json_string_value(json_object_get(sim_at(lease, "metadata annotations"), "kmodsmith.io/slots"));
	for (unsigned i = 0; i < f->count; i++) {
		expect(target_hash_eq(&f->nodes[i].loaded, loaded), f->nodes[i].name);
		expect(!farm_is_cordoned(f, i), f->nodes[i].name);
		expect(!*farm_note(f, i, "kmodsmith.io/cordon"), f->nodes[i].name);
		expect(!*farm_note(f, i, "kmodsmith.io/paused"), f->nodes[i].name);
		expect(!*farm_note(f, i, "karpenter.sh/do-not-disrupt"), f->nodes[i].name);
	}
	assert_true(!ledger || !*ledger);
}

static void all_is_well(void **state)
{
	(void)state;
	enum { NODES = 6 };
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash target = farm_target(plain);
	farm_begin(&f, NODES, plain);
	for (unsigned i = 0; i < NODES; i++) {
		auto_str char *pod = str_fmt("train-%u", i);
		farm_pod(&f, i, pod);
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	if (!farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(30)))
		fail_msg("%u of %d are done; n00 is %s: %s", farm_in(&f, "done"), NODES, farm_state(&f, 0),
			 farm_note(&f, 0, "kmodsmith.io/reason"));
	farm_run(&coordinator, 1, MINUTES(1));
	lawful(&f);
	tidy(&f, &target);
	assert_null(sim_get(f.sim, "/api/v1/namespaces/default/pods/train-0"));
	size_t patches = sim_count(f.sim, "boss", "patch");
	print_message("%.1f patches a node, %zu evictions, %zu lists, %zu writes of the Lease\n",
		      (double)patches / NODES, sim_count(f.sim, "boss", "evict"), sim_count(f.sim, "boss", "list"),
		      sim_count(f.sim, "boss-lease", "update"));
	assert_true(patches <= 9 * NODES); // S5, I10
	assert_int_equal(sim_count(f.sim, "boss", "evict"), NODES);
	farm_run(&coordinator, 1, MINUTES(20)); // I11
	assert_int_equal(sim_count(f.sim, "boss", "patch"), patches);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// D2: a target that cannot be loaded, and one that loads and is not healthy.
static void a_bad_target_is_undone(void **state)
{
	(void)state;
	enum { NODES = 5 };
	for (int is_sick = 0; is_sick <= 1; is_sick++) {
		struct farm f;
		struct farm_coordinator coordinator;
		farm_begin(&f, NODES, plain);
		f.bad = farm_target(plain);
		f.is_sick = is_sick;
		farm_coordinator_begin(&f, &coordinator, "boss");
		bool is_back = farm_until(&f, &coordinator, 1, "rolledback", 1, MINUTES(60));
		expect(is_back, is_sick ? "sick" : "cannot be loaded");
		farm_run(&coordinator, 1, MINUTES(60));
		lawful(&f);
		tidy(&f, &f.old);
		assert_int_equal(farm_in(&f, "rolledback"), 1); // the breaker: 1 of 5 is more than 10 %
		assert_int_equal(farm_in(&f, "queued") + farm_in(&f, "idle"), NODES - 1);
		assert_string_equal(
			sim_text(sim_get(f.sim, "/api/v1/namespaces/kmodsmith/configmaps/kmodsmith-rollout"),
				 "metadata name"),
			"kmodsmith-rollout");
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// T20, T27: somebody else's cordon stays; without a policy what is under way is let go.
static void others_and_nothing(void **state)
{
	(void)state;
	enum { NODES = 4 };
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, NODES, plain);
	sim_merge(f.sim, "/api/v1/nodes/n03", "{'spec':{'unschedulable':true}}");
	for (unsigned i = 0; i < NODES; i++) {
		auto_str char *pod = str_fmt("stays-%u", i);
		farm_pod_that_stays(&f, i, pod);
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(10)));
	assert_string_equal(farm_note(&f, 0, "kmodsmith.io/paused"), "dcgm");
	sim_delete(f.sim, "/api/v1/namespaces/kmodsmith/configmaps/" POLICY_NAME);
	farm_run(&coordinator, 1, MINUTES(40));
	lawful(&f);
	for (unsigned i = 0; i < NODES - 1; i++)
		expect(!farm_is_cordoned(&f, i) && !*farm_note(&f, i, "kmodsmith.io/paused"), f.nodes[i].name);
	assert_true(farm_is_cordoned(&f, 3));
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// T70, T71: a node goes while it is drained, and another one comes under its name.
static void a_node_goes_and_comes(void **state)
{
	(void)state;
	enum { NODES = 3 };
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash target = farm_target(plain);
	farm_begin(&f, NODES, plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	unsigned gone = 0;
	while (!str_eq(farm_state(&f, gone), "replacing"))
		gone++;
	auto_str char *path = api_node(f.nodes[gone].name);
	sim_delete(f.sim, path);
	free(f.nodes[gone].said);
	f.nodes[gone] = (struct farm_node){ .loaded = f.old, .store = { f.old } };
	snprintf(f.nodes[gone].name, sizeof(f.nodes[gone].name), "n%02u", gone);
	farm_run(&coordinator, 1, MINUTES(1));
	sim_make(f.sim, "/api/v1/nodes",
		 "{'metadata':{'name':'%s'},'status':{'conditions':[{'type':'Ready','status':'True'}]}}",
		 f.nodes[gone].name);
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(30)));
	farm_run(&coordinator, 1, MINUTES(1));
	lawful(&f);
	tidy(&f, &target);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// T83: a policy, or a status, of a later version: nothing is done, and nothing is lost.
static void what_is_newer_is_left_alone(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash target = farm_target(plain);
	farm_begin(&f, 2, "{'schema':99,'pools':[]}");
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, MINUTES(5));
	assert_int_equal(sim_count(f.sim, "boss", "patch"), 0);
	sim_make(f.sim, "/api/v1/namespaces/kmodsmith/configmaps",
		 "{'metadata':{'name':'kmodsmith-rollout'},'data':{'status.json':'{\\'schema\\':99}'}}");
	farm_policy(&f, plain);
	farm_run(&coordinator, 1, MINUTES(5));
	assert_int_equal(sim_count(f.sim, "boss", "patch"), 0);
	sim_delete(f.sim, "/api/v1/namespaces/kmodsmith/configmaps/kmodsmith-rollout");
	farm_policy(&f, plain);
	sim_merge(f.sim, "/api/v1/namespaces/kmodsmith/configmaps/" POLICY_NAME,
		  "{'metadata':{'annotations':{'x':'y'}}}");
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(30)));
	farm_run(&coordinator, 1, MINUTES(1));
	lawful(&f);
	tidy(&f, &target);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// T02, T74: an agent that never answers, and nodes beside it.
static void a_silent_agent_holds_nobody_up(void **state)
{
	(void)state;
	enum { NODES = 4 };
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, NODES, plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "staging", 1, MINUTES(2)));
	f.nodes[1].is_silent = true;
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES - 1, MINUTES(40)));
	farm_run(&coordinator, 1, MINUTES(5));
	assert_string_equal(farm_state(&f, 1), "held");
	assert_string_equal(farm_note(&f, 1, "kmodsmith.io/reason"), "agent-silent");
	assert_false(farm_is_cordoned(&f, 1));
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// T04, T05, T82: a budget that lets nobody go: asked with patience, named, and in the end the slot is given back with
// the driver that was there.
static void a_budget_blocks(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2, plain);
	farm_pod(&f, 0, "db");
	sim_make(f.sim, "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
		 "{'metadata':{'name':'all','namespace':'default'},'spec':{'minAvailable':1,'selector':{'matchLabels':{"
		 "'app':'db'}}}}");
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(5)));
	size_t before = sim_count(f.sim, "boss", "evict");
	farm_run(&coordinator, 1, MINUTES(5));
	assert_true(sim_count(f.sim, "boss", "evict") > before);
	assert_true(sim_count(f.sim, "boss", "evict") - before <= 60);
	assert_string_equal(farm_note(&f, 0, "kmodsmith.io/reason"), "pdb-blocked default/db, budget all");
	for (int i = 0; i < 30 && !str_eq(farm_state(&f, 1), "done"); i++)
		farm_run(&coordinator, 1, MINUTES(1));
	assert_string_equal(farm_state(&f, 1), "done"); // the slot came free for the other one
	lawful(&f);
	assert_true(target_hash_eq(&f.nodes[0].loaded, &f.old));
	assert_non_null(sim_get(f.sim, "/api/v1/namespaces/default/pods/db"));
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// T59: whatever happens on the way to the API server, the end is the same.
static void trouble_on_the_way_changes_nothing(void **state)
{
	(void)state;
	enum { NODES = 3 };
	static const struct sim_fault troubles[] = {
		{ .what = SIM_WATCH_DROP, .nth = 3, .times = 20 },
		{ .what = SIM_WATCH_TWICE, .nth = 1, .times = 1000 },
		{ .what = SIM_WATCH_SWAP, .nth = 1, .times = 1000 },
		{ .what = SIM_WATCH_GONE, .nth = 2, .times = 20 },
		{ .what = SIM_WATCH_LATE, .late_ms = 7000, .times = 1000 },
		{ .what = SIM_STATUS, .status = 500, .nth = 5, .times = 40 },
		{ .what = SIM_STATUS, .status = 429, .retry_s = 3, .nth = 9, .times = 20 },
		{ .what = SIM_CUT_AFTER, .verb = "patch", .nth = 2, .times = 12 },
		{ .what = SIM_CUT_BEFORE, .nth = 8, .times = 30 },
		{ .what = SIM_TRUNCATE, .verb = "patch", .nth = 1, .times = 10 },
		{ .what = SIM_PARTITION, .from_ms = 30000, .to_ms = 45000 },
	};
	struct target_hash target = farm_target(plain);
	for (size_t i = 0; i < ARRAY_SIZE(troubles); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct sim_fault fault = troubles[i];
		fault.client = "boss";
		auto_str char *row = str_fmt("trouble %zu", i);
		farm_begin(&f, NODES, plain);
		farm_coordinator_begin(&f, &coordinator, "boss");
		const struct sim_fault *done = sim_fault(f.sim, &fault);
		expect(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)), row);
		expect(done->hits > 0 || fault.what == SIM_PARTITION || fault.what == SIM_WATCH_LATE, row);
		farm_run(&coordinator, 1, MINUTES(1));
		lawful(&f);
		tidy(&f, &target);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_well),
		cmocka_unit_test(a_bad_target_is_undone),
		cmocka_unit_test(others_and_nothing),
		cmocka_unit_test(a_node_goes_and_comes),
		cmocka_unit_test(what_is_newer_is_left_alone),
		cmocka_unit_test(a_silent_agent_holds_nobody_up),
		cmocka_unit_test(a_budget_blocks),
		cmocka_unit_test(trouble_on_the_way_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
