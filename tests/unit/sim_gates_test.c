// SPDX-License-Identifier: Apache-2.0
// What people say in the middle of a rollout counts for the nodes that are drained and for those that failed: undo,
// another target, a pin, an abort.
#include "cluster/rollout/undo.h"
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define MAPS "/api/v1/namespaces/kmodsmith/configmaps"
#define POOL(driver)                                                                                                  \
	"{'pools':[{'name':'gpus','maxUnavailable':'50%','drain':{'waitFor':'app=train'},'target':{'driver':'" driver \
	"'}}]}"
enum { NODES = 2 };
static const char first[] = POOL("535.2"), second[] = POOL("535.3"), third[] = POOL("535.4");

static void say_undo(struct farm *f)
{
	struct target_hash instead = farm_target(second);
	auto_json json_t *target = json_pack("{s:s}", "driver", "535.2");
	auto_str char *note = undo_note(NULL, "gpus", &instead, target);
	auto_json json_t *body = json_pack("{s:{s:{s:s}}}", "metadata", "annotations", UNDO_NOTE, note);
	auto_str char *text = json_dumps(body, JSON_COMPACT);
	sim_merge(f->sim, MAPS "/" POLICY_NAME, "%s", text);
}
static void say_third(struct farm *f)
{
	farm_policy(f, third);
}
static void say_pin(struct farm *f)
{
	char target_hash[TARGET_HASH_TEXT];
	target_hash_text(&f->nodes[0].loaded, target_hash);
	sim_merge(f->sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'kmodsmith.io/pin':'%s'}}}", target_hash);
}

// Nothing was unloaded yet, and the target is wanted no more: it is never loaded, and no job ends for it.
static void a_drain_for_an_outdated_target(void **state)
{
	(void)state;
	static const struct {
		const char *during;
		void (*say)(struct farm *f);
		const char *ends_with;
	} rows[] = {
		{ "waiting", say_undo, first },  { "waiting", say_third, third },  { "waiting", say_pin, first },
		{ "evicting", say_undo, first }, { "evicting", say_third, third }, { "evicting", say_pin, first },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		bool is_wait = str_eq(rows[i].during, "waiting");
		struct target_hash never = farm_target(second), last = farm_target(rows[i].ends_with);
		farm_begin(&f, NODES, first);
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(30)));
		is_wait ? farm_pod(&f, 0, "train") : farm_pod_that_stays(&f, 0, "stays");
		farm_policy(&f, second);
		expect(farm_until(&f, &coordinator, 1, rows[i].during, 1, MINUTES(30)), rows[i].during);
		rows[i].say(&f);
		farm_run(&coordinator, 1, MINUTES(2));
		if (!is_wait)
			sim_merge(f.sim, "/api/v1/namespaces/default/pods/stays", "{'metadata':{'finalizers':null}}");
		for (int minutes = 0; minutes < 240; minutes++) {
			farm_run(&coordinator, 1, MINUTES(1));
			expect(!target_hash_eq(&f.nodes[0].loaded, &never), rows[i].during);
		}
		expect(target_hash_eq(&f.nodes[0].loaded, &last), rows[i].during);
		expect(!farm_is_cordoned(&f, 0), rows[i].during);
		lawful(&f);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

static void say_abort(struct farm *f)
{
	char target_hash[TARGET_HASH_TEXT];
	struct target_hash target = farm_target(first);
	target_hash_text(&target, target_hash);
	sim_merge(f->sim, MAPS "/" POLICY_NAME, "{'metadata':{'annotations':{'kmodsmith.io/abort':'gpus@%s'}}}",
		  target_hash);
}
static void say_skip(struct farm *f)
{
	sim_merge(f->sim, "/api/v1/nodes/n00", "{'metadata':{'labels':{'kmodsmith.io/skip':'true'}}}");
}
static void say_no_policy(struct farm *f)
{
	sim_delete(f->sim, MAPS "/" POLICY_NAME);
}

// What its agent says of the driver that it had.
static void be(struct farm *f, unsigned node, bool is_silent, const char *health)
{
	char target_hash[TARGET_HASH_TEXT];
	auto_str char *path = api_node(f->nodes[node].name);
	target_hash_text(&f->nodes[node].loaded, target_hash);
	f->nodes[node].is_silent = is_silent;
	sim_merge(f->sim, path, "{'metadata':{'annotations':{'kmodsmith.io/agent.health':'%s:%s'}}}", target_hash,
		  health);
}

// Who fails and is left alone then is not left with our cordon: well again, it goes back to service with what it has.
static void healthy_nodes_do_not_stay_cordoned(void **state)
{
	(void)state;
	static void (*const says[])(struct farm *) = { say_abort, say_skip, say_no_policy };
	for (size_t i = 0; i < ARRAY_SIZE(says); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		farm_begin(&f, 1, first);
		struct target_hash old = f.nodes[0].loaded;
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
		be(&f, 0, true, "fail:E_NOT_READY");
		assert_true(farm_until(&f, &coordinator, 1, "failed", 1, MINUTES(60)));
		says[i](&f);
		farm_run(&coordinator, 1, MINUTES(120));
		assert_true(farm_is_cordoned(&f, 0)); // it is not well
		be(&f, 0, false, "ok");
		farm_run(&coordinator, 1, MINUTES(30));
		expect(!farm_is_cordoned(&f, 0), farm_note(&f, 0, "kmodsmith.io/reason"));
		assert_true(target_hash_eq(&f.nodes[0].loaded, &old));
		lawful(&f);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// It failed, there is another target meanwhile, and its turn may be days away: well again, it does not wait for that
// under our cordon.
static void healthy_nodes_do_not_wait_cordoned(void **state)
{
	(void)state;
	static const char *const laters[] = {
		"{'paused':true,'pools':[{'name':'gpus','target':{'driver':'535.4'}}]}",
		"{'pools':[{'name':'gpus','windows':[{'days':['Mon'],'from':'00:00','to':'04:00'}],'target':{'driver':"
		"'535.4'}}]}",
		"{'pools':[{'name':'gpus','waves':[{'name':'canary','selector':{'a':'b'}}],'target':{'driver':'535.4'}}"
		"]}",
	};
	for (size_t i = 0; i < 2 * ARRAY_SIZE(laters); i++) {
		bool is_well_first = i % 2;
		struct farm f;
		struct farm_coordinator coordinator;
		farm_begin(&f, 1, first);
		struct target_hash old = f.nodes[0].loaded;
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
		be(&f, 0, true, "fail:E_NOT_READY");
		assert_true(farm_until(&f, &coordinator, 1, "failed", 1, MINUTES(60)));
		farm_policy(&f, laters[i / 2]);
		farm_run(&coordinator, 1, is_well_first ? 1000 : MINUTES(30));
		be(&f, 0, false, "ok");
		farm_run(&coordinator, 1, MINUTES(120));
		expect(!farm_is_cordoned(&f, 0), laters[i / 2]);
		assert_true(target_hash_eq(&f.nodes[0].loaded, &old));
		lawful(&f);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// All nodes had it before, so that no wave is to prove it: nobody soaks, and nobody is asked, on the way back.
static void rollbacks_have_no_waves(void **state)
{
	(void)state;
#define IN_WAVES(driver)                                                                                           \
	"{'pools':[{'name':'gpus','maxUnavailable':'50%','waves':[{'name':'a','count':1,'soak':'6h'},{'name':'b'," \
	"'count':1,'soak':'6h','approval':'manual'}],'target':{'driver':'" driver "'}}]}"
	struct farm f;
	struct farm_coordinator coordinator;
	char target_hash[TARGET_HASH_TEXT];
	struct target_hash good = farm_target(first), bad = farm_target(second);
	farm_begin(&f, 3, first);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "done", 3, MINUTES(60)));
	target_hash_text(&bad, target_hash);
	sim_merge(f.sim, MAPS "/" POLICY_NAME, "{'metadata':{'annotations':{'kmodsmith.io/approve':'gpus:b@%s'}}}",
		  target_hash);
	farm_policy(&f, IN_WAVES("535.3"));
	for (int hours = 0; hours < 8; hours++)
		farm_run(&coordinator, 1, MINUTES(60));
	unsigned moved = 0;
	for (unsigned i = 0; i < 3; i++)
		moved += target_hash_eq(&f.nodes[i].loaded, &bad);
	assert_int_equal(moved, 2);
	say_undo(&f);
	farm_run(&coordinator, 1, MINUTES(60));
	for (unsigned i = 0; i < 3; i++)
		expect(target_hash_eq(&f.nodes[i].loaded, &good), f.nodes[i].name);
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// The list of what we paused is deleted (`kubectl annotate node n00 kmodsmith.io/paused-` for a pause), or means
// nothing: the operands come back all the same.
static void operands_come_back(void **state)
{
	(void)state;
	static const struct {
		const char *to, *end; // of the second the drain fails first: it returns with the driver that it had
	} edits[] = { { "null", "done" }, { "'true'", "rolledback" } };
	for (size_t i = 0; i < ARRAY_SIZE(edits); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		farm_begin(&f, 1, first);
		sim_merge(f.sim, "/api/v1/nodes/n00",
			  "{'metadata':{'labels':{'nvidia.com/gpu.deploy.device-plugin':'true'}}}");
		farm_pod_that_stays(&f, 0, "stays");
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(10)));
		sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'kmodsmith.io/paused':%s}}}",
			  edits[i].to);
		farm_run(&coordinator, 1, MINUTES(1));
		sim_merge(f.sim, "/api/v1/namespaces/default/pods/stays", "{'metadata':{'finalizers':null}}");
		sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'kmodsmith.io/retry':'1'}}}");
		assert_true(farm_until(&f, &coordinator, 1, edits[i].end, 1, MINUTES(30)));
		assert_string_equal(sim_text(f.objects[0], "metadata labels nvidia.com/gpu.deploy.device-plugin"),
				    "true");
		lawful(&f);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// Its agent was away for hours, and what it had said last was that all is well: proofs were tried and had no answer.
static void an_agent_that_comes_back_late(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 1, first);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	be(&f, 0, true, "ok");
	farm_run(&coordinator, 1, MINUTES(180));
	assert_string_equal(farm_state(&f, 0), "failed");
	size_t patches = sim_count(f.sim, "boss", "patch");
	farm_run(&coordinator, 1, MINUTES(120));
	assert_int_equal(sim_count(f.sim, "boss", "patch"), patches);
	be(&f, 0, false, "ok");
	assert_true(farm_until(&f, &coordinator, 1, "rolledback", 1, MINUTES(5))); // with the driver that it had
	assert_false(farm_is_cordoned(&f, 0));
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_drain_for_an_outdated_target),
		cmocka_unit_test(healthy_nodes_do_not_stay_cordoned),
		cmocka_unit_test(healthy_nodes_do_not_wait_cordoned),
		cmocka_unit_test(rollbacks_have_no_waves),
		cmocka_unit_test(operands_come_back),
		cmocka_unit_test(an_agent_that_comes_back_late),
	};
	return cmocka_run_group_tests_name("gates", tests, NULL, NULL);
}
