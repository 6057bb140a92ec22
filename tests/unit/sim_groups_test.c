// SPDX-License-Identifier: Apache-2.0
// Groups (groupBy) beside what else decides about nodes: waves, and members that never move. A group goes as one, and
// the rollout ends.
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define POLICY(waves)                                                                                            \
	"{'groupBy':'rack','pools':[{'name':'gpus','maxParallel':2,'maxUnavailable':'100%','waves':[" waves "]," \
	"'target':{'driver':'535.2'}}]}"
enum { NODES = 6 };

// Racks of two nodes: n00 and n01 in a, n02 and n03 in b, ...
static void begin(struct farm *f, struct farm_coordinator *coordinator, const char *policy)
{
	farm_begin(f, NODES, policy);
	for (unsigned i = 0; i < NODES; i++) {
		auto_str char *path = api_node(f->nodes[i].name);
		sim_merge(f->sim, path, "{'metadata':{'labels':{'rack':'%c'}}}", 'a' + i / 2);
	}
	farm_coordinator_begin(f, coordinator, "boss");
}
static void end(struct farm *f, struct farm_coordinator *coordinator)
{
	lawful(f);
	farm_coordinator_kill(coordinator);
	farm_end(f);
}

// A wave takes groups, not some of their nodes, which would wait for the others for ever.
static void a_group_is_of_one_wave(void **state)
{
	(void)state;
	static const char *const policies[] = {
		POLICY("{'name':'canary','count':1}"),
		POLICY("{'name':'canary','count':3},{'name':'more','count':1}"),
		POLICY("{'name':'canary','percent':40},{'name':'more','percent':30}"),
		POLICY("{'name':'canary','selector':{'kubernetes.io/hostname':'n03'}}"),
	};
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		begin(&f, &coordinator, policies[i]);
		sim_merge(f.sim, "/api/v1/nodes/n03", "{'metadata':{'labels':{'kubernetes.io/hostname':'n03'}}}");
		expect(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)), policies[i]);
		for (unsigned n = 0; n < NODES; n += 2)
			assert_string_equal(farm_note(&f, n, "kmodsmith.io/wave-assigned"),
					    farm_note(&f, n + 1, "kmodsmith.io/wave-assigned"));
		end(&f, &coordinator);
	}
}

// One that never moves keeps its group where it is, and nobody else.
static void a_blocked_group_does_not_block_others(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator, POLICY("{'name':'canary','selector':{'tier':'canary'}}"));
	for (unsigned i = 0; i < 4; i++) {
		auto_str char *path = api_node(f.nodes[i].name);
		sim_merge(f.sim, path, "{'metadata':{'labels':{'tier':'canary'}}}");
	}
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'kmodsmith.io/pause':'true'}}}");
	assert_true(farm_until(&f, &coordinator, 1, "done", 4, MINUTES(60)));
	assert_string_equal(farm_state(&f, 1), "queued");
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'kmodsmith.io/pause':null}}}");
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
	end(&f, &coordinator);
}

// Larger than any of the limits: alone, or held with that reason.
static void a_group_larger_than_a_limit(void **state)
{
	(void)state;
	static const char *const limits[] = { "'maxParallel':1", "'maxUnavailable':1", "'maxParallel':'20%'" };
	static const char *const pools[] = {
		"'maxParallel':1,'maxUnavailable':'100%'", "'maxParallel':6,'maxUnavailable':1",
		"'maxParallel':6,'maxUnavailable':'100%','drain':{'waitFor':'app=train'}"
	};
	static const char *const overflows[] = { "alone", "hold" };
	for (size_t i = 0; i < 2 * (ARRAY_SIZE(limits) + ARRAY_SIZE(pools)); i++) {
		size_t n = i / 2;
		bool is_held = i % 2;
		const char *of_all = n < ARRAY_SIZE(limits) ? limits[n] : "'schema':1";
		const char *of_pool = n < ARRAY_SIZE(limits) ? "'maxParallel':6,'maxUnavailable':'100%'" :
							       pools[n - ARRAY_SIZE(limits)];
		auto_str char *policy = str_fmt("{'groupBy':'rack',%s,'pools':[{'name':'gpus','groupOverflow':'%s',%s,"
						"'target':{'driver':'535.2'}}]}",
						of_all, overflows[is_held], of_pool);
		struct farm f;
		struct farm_coordinator coordinator;
		begin(&f, &coordinator, policy);
		bool is_done = farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60));
		expect(is_done == !is_held, policy);
		if (is_held) {
			assert_int_equal(farm_in(&f, "queued"), NODES);
			struct cluster c = coordinator_cluster(&coordinator.c);
			auto_slots struct slots slots = SLOTS_NONE;
			scheduler_plan(&c, &slots);
			expect(slots.node_plans[0].refused == REASON_GROUP_TOO_BIG, policy);
		}
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_group_is_of_one_wave),
		cmocka_unit_test(a_blocked_group_does_not_block_others),
		cmocka_unit_test(a_group_larger_than_a_limit),
	};
	return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}
