// SPDX-License-Identifier: Apache-2.0
// Watches go on while the coordinator waits for an answer: nodes change, go and come inside of the LIST of pods, of an
// eviction, of a node's patch and of the read after a conflict. AddressSanitizer sees what is kept for too long. T70,
// T71.
#include "cluster/coordinator/metrics.h"
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

#include <stdio.h>

#define MINUTES(n) ((n)*60 * 1000L)
enum { LATE_MS = 3000, MORE = 100 };
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";
static const char N00[] = "/api/v1/nodes/n00";

static void make_node(struct farm *f, const char *name)
{
	sim_make(f->sim, "/api/v1/nodes",
		 "{'metadata':{'name':'%s'},'status':{'conditions':[{'type':'Ready','status':'True'}]}}", name);
}

// The fleet begins as a-0, n00, z-0, z-1; n00 is the one that is drained.
static void it_changes(struct farm *f)
{
	for (int i = 3; i >= 0; i--)
		sim_merge(f->sim, N00, "{'metadata':{'annotations':{'kmodsmith.io/agent.holders':'%d 1 u%d'}}}", i, i);
	sim_merge(f->sim, N00, "{'metadata':{'annotations':{'kmodsmith.io/agent.holders':'0 1'}}}");
}
static void others_go(struct farm *f)
{
	sim_delete(f->sim, "/api/v1/nodes/z-0");
	sim_delete(f->sim, "/api/v1/nodes/z-1");
	sim_delete(f->sim, "/api/v1/nodes/a-0");
}
static void it_goes(struct farm *f)
{
	sim_delete(f->sim, N00);
}
static void it_is_exchanged(struct farm *f)
{
	sim_delete(f->sim, N00);
	free(f->nodes[0].said);
	f->nodes[0] = (struct farm_node){ .loaded = f->old, .store = { f->old } };
	snprintf(f->nodes[0].name, sizeof(f->nodes[0].name), "n00");
	make_node(f, "n00");
}
static void more_come(struct farm *f)
{
	for (int i = 0; i < MORE; i++) {
		auto_str char *name = str_fmt("more-%d", i);
		make_node(f, name);
	}
}
static void one_goes_and_one_comes(struct farm *f)
{
	sim_delete(f->sim, "/api/v1/nodes/a-0");
	make_node(f, "b-0");
}

struct scene {
	const char *name;
	void (*change)(struct farm *f);
	size_t nodes; // in the end
	bool is_gone;
};
static const struct scene scenes[] = {
	{ "it changes", it_changes, 4, false },
	{ "others go", others_go, 1, false },
	{ "it goes", it_goes, 3, true },
	{ "it goes, and another one has its name", it_is_exchanged, 4, false },
	{ "the fleet grows", more_come, 4 + MORE, false },
	{ "as many, and others", one_goes_and_one_comes, 4, false },
};

struct place {
	const char *name, *verb, *resource;
	unsigned nth;
};
static const struct place places[] = {
	{ "pods are listed", "list", "pods", 1 },         { "pods are listed again", "list", "pods", 2 },
	{ "a pod is evicted", "evict", "pods", 1 },       { "the last pod is evicted", "evict", "pods", 3 },
	{ "it is cordoned", "patch", "nodes", 3 },        { "it is drained", "patch", "nodes", 4 },
	{ "it is replaced", "patch", "nodes", 5 },        { "it is read after a conflict", "get", "nodes", 1 },
	{ "an Event is written", "create", "events", 3 },
};

struct hit {
	struct farm *f;
	const struct scene *scene;
};
static void happen(void *ctx)
{
	struct hit *h = ctx;
	h->scene->change(h->f);
}
static void happen_soon(void *ctx) // it is done by then, and its answer is on the way
{
	sim_after(LATE_MS / 2, happen, ctx);
}

static void look_at(const struct farm *f, const struct farm_coordinator *coordinator, const char *name)
{
	for (size_t i = 0; i < coordinator->c.node_cache.count; i++) {
		const struct cache_entry *w = &coordinator->c.node_cache.entries[i];
		auto_str char *path = api_node(w->name);
		expect(str_eq(sim_text(sim_get(f->sim, path), "metadata uid"), coordinator->c.node_cache.nodes[i].uid),
		       name);
		expect(str_eq(coordinator->c.node_cache.nodes[i].name, w->name), name);
		if (str_eq(w->name, "n00"))
			continue;
		expect(coordinator->c.node_cache.nodes[i].facts.seen.pods == PODS_UNSEEN && !w->look_ms && !w->failures,
		       name);
	}
}

static void one(const struct scene *scene, const struct place *place)
{
	auto_str char *name = str_fmt("%s while %s", scene->name, place->name);
	struct farm f;
	struct farm_coordinator coordinator;
	struct hit hit = { &f, scene };
	farm_begin(&f, 1, plain);
	make_node(&f, "a-0");
	make_node(&f, "z-0");
	make_node(&f, "z-1");
	for (int i = 0; i < 3; i++) {
		auto_str char *pod = str_fmt("train-%d", i);
		farm_pod(&f, 0, pod);
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	if (str_eq(place->verb, "get"))
		sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
						      .client = "boss",
						      .verb = "patch",
						      .resource = "nodes",
						      .nth = 4,
						      .status = 409 });
	const struct sim_fault *late = sim_fault(f.sim, &(struct sim_fault){ .what = SIM_SLOW,
									     .client = "boss",
									     .verb = place->verb,
									     .resource = place->resource,
									     .nth = place->nth,
									     .late_ms = LATE_MS,
									     .hit = happen_soon,
									     .ctx = &hit });
	for (int i = 0; i < 600 && !late->hits; i++)
		farm_run(&coordinator, 1, 1000);
	expect(late->hits == 1, name);
	farm_run(&coordinator, 1, 10 * 1000L);
	look_at(&f, &coordinator, name);
	expect(coordinator.c.node_cache.count == scene->nodes, name);
	if (!scene->is_gone) {
		expect(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(10)), name);
		expect(!farm_is_cordoned(&f, 0), name);
	}
	farm_run(&coordinator, 1, MINUTES(1));
	look_at(&f, &coordinator, name);
	if (f.laws->count)
		fail_msg("%s: %s", name, f.laws->items[0]);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

static void nodes_change_while_somebody_waits_for_an_answer(void **state)
{
	(void)state;
	for (size_t p = 0; p < ARRAY_SIZE(places); p++)
		for (size_t s = 0; s < ARRAY_SIZE(scenes); s++)
			one(&scenes[s], &places[p]);
}

// Whoever counts nodes at rest counts those that were planned with, also where something was written after the plan.
static void count_them(void *ctx, const struct slots *s)
{
	const struct farm_coordinator *coordinator = ctx;
	struct counters counters = { 0 };
	auto_str char *text = metrics_text(&coordinator->c, s, &counters);
	assert_non_null(text);
}

static void metrics_are_of_the_nodes_that_were_planned(void **state)
{
	(void)state;
	static const struct scene scene = { "the fleet grows", more_come, 4 + MORE, false };
	struct farm f;
	struct farm_coordinator coordinator;
	struct hit hit = { &f, &scene };
	farm_begin(&f, 1, plain);
	sim_make(f.sim, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		 "{'metadata':{'name':'driverrollouts.kmodsmith.io'}}");
	sim_make(f.sim, "/apis/kmodsmith.io/v1alpha1/namespaces/kmodsmith/driverrollouts",
		 "{'metadata':{'name':'" POLICY_NAME "'},'spec':%s}", plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	coordinator.c.o.callbacks.rests = count_them;
	coordinator.c.o.callbacks.ctx = &coordinator;
	const struct sim_fault *late = sim_fault(f.sim, &(struct sim_fault){ .what = SIM_SLOW,
									     .client = "boss",
									     .resource = "driverrollouts",
									     .verb = "patch",
									     .late_ms = LATE_MS,
									     .hit = happen_soon,
									     .ctx = &hit });
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	farm_run(&coordinator, 1, MINUTES(1));
	assert_int_equal(late->hits, 1);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

struct scrape {
	const struct coordinator *c;
	size_t samples, bytes; // of the last one
};
static void scrape(void *ctx, const struct slots *s)
{
	struct scrape *to = ctx;
	struct counters counters = { 0 };
	auto_str char *text = metrics_text(to->c, s, &counters);
	to->bytes = strlen(text);
	to->samples = 0;
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		to->samples += *line != '#';
}

// No sample is of one node: what Prometheus keeps does not grow with the fleet.
static void a_scrape_is_as_large_for_a_thousand_nodes(void **state)
{
	(void)state;
	enum { THOUSAND = 1000, DIGITS = 64 };
	struct scrape few = { 0 }, many = { 0 };
	for (int i = 0; i < 2; i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct scrape *to = i ? &many : &few;
		farm_begin(&f, 1, plain);
		for (int n = 1; i && n < THOUSAND; n++) {
			auto_str char *name = str_fmt("more-%d", n);
			make_node(&f, name);
		}
		farm_coordinator_begin(&f, &coordinator, "boss");
		to->c = &coordinator.c;
		coordinator.c.o.callbacks.rests = scrape;
		coordinator.c.o.callbacks.ctx = to;
		farm_run(&coordinator, 1, MINUTES(1));
		assert_int_equal(coordinator.c.node_cache.count, i ? THOUSAND : 1);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
	assert_true(many.samples > PHASE_COUNT); // of each state, and more
	assert_int_equal(many.samples, few.samples);
	assert_true(many.bytes < few.bytes + DIGITS);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(nodes_change_while_somebody_waits_for_an_answer),
					    cmocka_unit_test(metrics_are_of_the_nodes_that_were_planned),
					    cmocka_unit_test(a_scrape_is_as_large_for_a_thousand_nodes) };
	return cmocka_run_group_tests_name("fleet", tests, NULL, NULL);
}
