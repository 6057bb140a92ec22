// SPDX-License-Identifier: Apache-2.0
// An agent that cannot be reached for some time, in each state of an upgrade, and is well again: whatever was counted
// meanwhile, its node is soon back in service. What it wrote before stays on the Node all the time, and proves nothing.
#include "tests/unit/lawful.h"

#include <stdio.h>

#define MINUTES(n) ((n)*60 * 1000L)
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";

enum { NODES = 2, SOON_S = 90 };

static unsigned node_in(const struct farm *f, const char *phase)
{
	unsigned i = 0;
	while (i < NODES && !str_eq(farm_state(f, i), phase))
		i++;
	return i;
}

struct silence {
	const char *phase;
	bool has_loaded; // it loads the target meanwhile
	bool is_bad;     // which cannot be loaded
};

static void silent_for(const struct silence *s, unsigned minutes)
{
	auto_str char *name = str_fmt("silent in %s for %u min%s", s->phase, minutes,
				      s->has_loaded ? ", and loads the target meanwhile" : "");
	struct farm f;
	struct farm_coordinator coordinator;
	unsigned at = NODES;
	farm_begin(&f, NODES, plain);
	const struct target_hash target = farm_target(plain);
	f.bad = s->is_bad ? target : TARGET_HASH_NONE;
	for (unsigned i = 0; i < NODES; i++)
		f.nodes[i].holders = str_eq(s->phase, "evicting");
	farm_coordinator_begin(&f, &coordinator, "boss");
	for (int i = 0; i < 3000 && (at = node_in(&f, s->phase)) == NODES; i++)
		farm_run(&coordinator, 1, 100);
	expect(at < NODES, name);
	struct farm_node *n = &f.nodes[at];
	n->is_silent = true;
	n->holders = 0;
	if (s->has_loaded)
		n->loaded = target;
	farm_run(&coordinator, 1, MINUTES(minutes));
	n->is_silent = n->is_told = false;
	long well = sim_now_ms();
	while (farm_is_cordoned(&f, at) && sim_now_ms() < well + MINUTES(120))
		farm_run(&coordinator, 1, 1000);
	long took_s = (sim_now_ms() - well) / 1000;
	expect(took_s <= SOON_S, name);
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

static void a_node_that_is_well_again_is_soon_in_service(void **state)
{
	(void)state;
	static const struct silence rows[] = {
		{ .phase = "staging" },
		{ .phase = "queued" },
		{ .phase = "evicting" },
		{ .phase = "replacing" },
		{ .phase = "replacing", .has_loaded = true },
		{ .phase = "validating" },
		{ .phase = "restoring", .is_bad = true },
	};
	static const unsigned minutes[] = { 5, 40, 85 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t m = 0; m < ARRAY_SIZE(minutes); m++)
			silent_for(&rows[i], minutes[m]);
}

// The target is in every store, from before, and a typo in the image keeps the agents from starting: nothing but the
// coordinator stands between that and the pods.
static void nobody_is_evicted_for_agents_that_cannot_start(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	const struct target_hash target = farm_target(plain);
	farm_begin(&f, NODES, plain);
	for (unsigned i = 0; i < NODES; i++) {
		farm_store(&f.nodes[i], &target);
		farm_pod(&f, i, i ? "b" : "a");
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	for (int i = 0; i < 300 && node_in(&f, "queued") == NODES; i++)
		farm_run(&coordinator, 1, 100);
	for (unsigned i = 0; i < NODES; i++)
		f.nodes[i].is_silent = true;
	farm_run(&coordinator, 1, MINUTES(60));
	for (unsigned i = 0; i < NODES; i++) {
		assert_string_equal(farm_state(&f, i), "held");
		assert_string_equal(farm_note(&f, i, "kmodsmith.io/reason"), "agent-silent");
		assert_int_equal(f.nodes[i].life.cordons, 0);
	}
	assert_int_equal(sim_count(f.sim, "boss", "evict"), 0);
	for (unsigned i = 0; i < NODES; i++)
		f.nodes[i].is_silent = f.nodes[i].is_told = false;
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(20)));
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// It accepts the order, and dies: the other node gets its turn.
static void who_dies_before_its_answer_keeps_no_slot(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	unsigned at = NODES;
	const struct target_hash target = farm_target(plain);
	farm_begin(&f, NODES, plain);
	for (unsigned i = 0; i < NODES; i++)
		farm_store(&f.nodes[i], &target);
	farm_coordinator_begin(&f, &coordinator, "boss");
	for (int i = 0; i < 600 && at == NODES; i++) {
		farm_run(&coordinator, 1, 100);
		for (unsigned k = 0; k < NODES; k++)
			at = str_ends(farm_note(&f, k, "kmodsmith.io/agent.ack"), ":stage:accepted") ? k : at;
	}
	assert_true(at < NODES);
	assert_string_equal(farm_state(&f, at), "queued");
	f.nodes[at].is_silent = true;
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(15)));
	assert_string_equal(farm_state(&f, at), "staging");
	assert_int_equal(f.nodes[at].life.cordons, 0);
	f.nodes[at].is_silent = f.nodes[at].is_told = false;
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(20)));
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_that_is_well_again_is_soon_in_service),
		cmocka_unit_test(nobody_is_evicted_for_agents_that_cannot_start),
		cmocka_unit_test(who_dies_before_its_answer_keeps_no_slot),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
