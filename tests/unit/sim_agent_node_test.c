// SPDX-License-Identifier: Apache-2.0
// How an agent hears of its own Node when the API server has forgotten what was before. T59.
#include "cluster/agent_node.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

static void wait_s(struct agent_node *n, int seconds)
{
	struct err err = { 0 };
	for (int i = 0; i < seconds; i++) {
		n->is_new = false; // as an agent that has looked at it
		agent_node_wait(n, 1000, &err);
	}
}

// The Node did not change since, so its own version is forgotten, too: to watch from there is refused for ever.
static void a_quiet_node_is_watched_again(void **state)
{
	(void)state;
	struct agent_node n;
	auto_sim struct sim *s = sim_new(NULL);
	sim_make(s, "/api/v1/nodes", "{'metadata':{'name':'mine'}}");
	sim_make(s, "/api/v1/nodes", "{'metadata':{'name':'noise'}}");
	auto_kube struct kube *kube = sim_client(s, "agent");
	agent_node_init(kube, "mine", &n);
	wait_s(&n, 5);
	assert_true(n.is_read);
	for (int i = 0; i < 3; i++)
		sim_merge(s, "/api/v1/nodes/noise", "{'metadata':{'labels':{'turn':'%d'}}}", i);
	sim_compact(s);
	sim_fault(s, &(struct sim_fault){ .what = SIM_WATCH_GONE, .client = "agent" });
	sim_merge(s, "/api/v1/nodes/mine", "{'metadata':{'labels':{'a':'b'}}}");
	sim_merge(s, "/api/v1/nodes/noise", "{'metadata':{'labels':{'turn':'last'}}}");
	sim_compact(s);
	wait_s(&n, 10);
	size_t watches = sim_count(s, "agent", "watch");
	wait_s(&n, 30);
	assert_int_equal(sim_count(s, "agent", "watch"), watches); // it stays
	sim_merge(s, "/api/v1/nodes/mine", "{'metadata':{'annotations':{'kmodsmith.io/go':'1.1:stage:%016x-%016x'}}}",
		  1, 1);
	wait_s(&n, 5);
	assert_int_equal(n.m.record.go.verb, VERB_STAGE);
	agent_node_done(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_quiet_node_is_watched_again) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
