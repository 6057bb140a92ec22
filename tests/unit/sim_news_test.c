// SPDX-License-Identifier: Apache-2.0
// What a coordinator believes while its news of the nodes are late, or were missed. T53, T59, T70, T71.
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define SECONDS(n) ((n)*1000L)
enum { LATE_MS = 20000 };
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";

static size_t gets_of_nodes(const struct farm *f)
{
	size_t count, gets = 0;
	const struct sim_call *log = sim_log(f->sim, &count);
	for (size_t i = 0; i < count; i++)
		gets += str_eq(log[i].client, "boss") && str_eq(log[i].verb, "get") &&
			str_starts(log[i].path, "/api/v1/nodes/");
	return gets;
}

// Until the only node is staged, which the coordinator hears of LATE_MS later.
static void until_staged(struct farm *f, struct farm_coordinator *coordinator)
{
	farm_begin(f, 1, plain);
	sim_fault(f->sim, &(struct sim_fault){
				  .what = SIM_WATCH_LATE, .client = "boss", .resource = "nodes", .late_ms = LATE_MS });
	farm_coordinator_begin(f, coordinator, "boss");
	for (int i = 0; i < 300 && !strstr(farm_note(f, 0, "kmodsmith.io/agent.ack"), ":stage:done"); i++)
		farm_run(coordinator, 1, 500);
	assert_string_equal(farm_state(f, 0), "staging");
}

static void write_number(struct farm *f) // as the coordinator does that led for a moment
{
	sim_merge(f->sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'kmodsmith.io/seq':'1.70'}}}");
}
static void remove_it(struct farm *f)
{
	sim_delete(f->sim, "/api/v1/nodes/n00");
}
static void exchange(struct farm *f)
{
	remove_it(f);
	sim_make(f->sim, "/api/v1/nodes",
		 "{'metadata':{'name':'n00'},'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
}

// Its patch is refused, since somebody was faster: it reads the node, and does not ask again until the watch tells.
static void a_conflict_rereads_the_node(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		void (*change)(struct farm *f);
		size_t left;
	} rows[] = { { "another coordinator writes", write_number, 1 },
		     { "the Node is deleted", remove_it, 0 },
		     { "the Node is another one", exchange, 1 } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		until_staged(&f, &coordinator);
		farm_run(&coordinator, 1, SECONDS(8));
		rows[i].change(&f);
		const json_t *node = sim_get(f.sim, "/api/v1/nodes/n00");
		auto_str char *uid = str_dup(sim_text(node, "metadata uid"));
		size_t gets = gets_of_nodes(&f);
		for (int s = 0; s < 36 && coordinator.c.conflicts == 0; s++)
			farm_run(&coordinator, 1, 500);
		farm_run(&coordinator, 1, 500);
		expect(coordinator.c.conflicts == 1, rows[i].name);
		expect(gets_of_nodes(&f) == gets + 1, rows[i].name);
		expect(coordinator.c.node_cache.count == rows[i].left, rows[i].name);
		if (rows[i].left)
			expect(str_eq(coordinator.c.node_cache.nodes[0].uid, uid), rows[i].name);
		farm_run(&coordinator, 1, SECONDS(4)); // of the change the watch has not told yet
		expect(coordinator.c.conflicts == 1, rows[i].name);
		lawful(&f);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// What the watch tells late was so before the answers to its own writes: nothing is decided by it once more.
static void stale_events_are_ignored(void **state)
{
	(void)state;
	enum { NODES = 3 };
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, NODES, plain);
	sim_fault(f.sim, &(struct sim_fault){
				 .what = SIM_WATCH_LATE, .client = "boss", .resource = "nodes", .late_ms = 7000 });
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
	farm_run(&coordinator, 1, MINUTES(1));
	print_message("%lu writes, %lu refused\n", coordinator.c.writes, coordinator.c.conflicts);
	assert_int_equal(coordinator.c.conflicts, 0);
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// T70: the server has forgotten that a Node was deleted, so that nothing but a new list tells of it. It was being
// drained, and its slot is free for the others then.
static void a_node_that_is_gone_from_the_list_is_forgotten(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2, plain);
	for (unsigned i = 0; i < 2; i++) {
		auto_str char *pod = str_fmt("stays-%u", i);
		farm_pod_that_stays(&f, i, pod);
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(5)));
	assert_string_equal(farm_state(&f, 0), "evicting");
	size_t lists = sim_count(f.sim, "boss", "list");
	const struct sim_fault *gone =
		sim_fault(f.sim, &(struct sim_fault){ .what = SIM_WATCH_GONE, .client = "boss", .resource = "nodes" });
	sim_delete(f.sim, "/api/v1/nodes/n00");
	sim_merge(f.sim, "/api/v1/namespaces/default/pods/stays-1", "{'metadata':{'finalizers':null}}");
	sim_compact(f.sim);
	farm_run(&coordinator, 1, SECONDS(10));
	assert_int_equal(gone->hits, 1);
	assert_true(sim_count(f.sim, "boss", "list") > lists);
	assert_int_equal(coordinator.c.node_cache.count, 1);
	assert_string_equal(coordinator.c.node_cache.entries[0].name, "n01");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(3)));
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_conflict_rereads_the_node),
		cmocka_unit_test(stale_events_are_ignored),
		cmocka_unit_test(a_node_that_is_gone_from_the_list_is_forgotten),
	};
	return cmocka_run_group_tests_name("news", tests, NULL, NULL);
}
