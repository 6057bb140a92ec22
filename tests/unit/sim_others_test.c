// SPDX-License-Identifier: Apache-2.0
// Coordinators of other namespaces in one cluster: whose node it is, for how long, and how often that is asked.
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

#define SECONDS(n) ((n)*1000L)
#define MINUTES(n) ((n)*60 * 1000L)
#define LEASES "/apis/coordination.k8s.io/v1/namespaces/theirs/leases"
#define LEASE LEASES "/kmodsmith-coordinator"
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'100%','target':{'driver':'535.2'}}]}";

static void trouble(void *ctx, const char *what, const struct err *err)
{
	str_add((char **)ctx, "%s: %s\n", what, err->text);
}

static size_t asked(const struct farm *f)
{
	size_t count, found = 0;
	const struct sim_call *log = sim_log(f->sim, &count);
	for (size_t i = 0; i < count; i++)
		found += str_eq(log[i].client, "boss") && str_eq(log[i].path, LEASE);
	return found;
}

static void no_lease(struct farm *f)
{
	(void)f;
}
static void has_lease(struct farm *f)
{
	sim_make(f->sim, LEASES,
		 "{'metadata':{'name':'kmodsmith-coordinator','namespace':'theirs'},'spec':{'holderIdentity':'them'}}");
}
static void lease_that_nobody_may_read(struct farm *f)
{
	has_lease(f);
	sim_fault(f->sim, &(struct sim_fault){ .what = SIM_STATUS,
					       .client = "boss",
					       .verb = "get",
					       .resource = "leases",
					       .name = "kmodsmith-coordinator",
					       .status = 403,
					       .times = 100000 });
}
static void renew(void *ctx)
{
	struct farm *f = ctx;
	if (f->is_over)
		return;
	sim_merge(f->sim, LEASE, "{'metadata':{'annotations':{'renewed':'%ld'}}}", sim_now_ms());
	sim_after(MINUTES(9), renew, f);
}
static void lease_that_is_renewed(struct farm *f)
{
	has_lease(f);
	sim_after(MINUTES(9), renew, f);
}

#define LED "another coordinator: some nodes are led by the coordinator of the namespace theirs\n"
static const struct {
	const char *name;
	void (*begin)(struct farm *f);
	long first_ms, last_ms; // when the node is ours; 0 = never
	const char *said;       // it begins so, and that once
} rows[] = {
	{ "its coordinator is not there: at once", no_lease, 1, SECONDS(10), "" },
	{ "silent for ten minutes by our own clock", has_lease, MINUTES(10), MINUTES(12), LED },
	{ "it lives", lease_that_is_renewed, 0, 0, LED },
	{ "nobody can tell", lease_that_nobody_may_read, 0, 0,
	  "another coordinator: GET http://sim" LEASE ": status 403: broken on purpose\n" },
};

static void nodes_of_other_leaders(void **state)
{
	(void)state;
	enum { MOST_S = 30 * 60 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		long taken_ms = 0;
		auto_str char *said = str_dup("");
		farm_begin(&f, 2, plain);
		sim_merge(f.sim, "/api/v1/nodes/n00",
			  "{'metadata':{'annotations':{'kmodsmith.io/coordinator':'theirs',"
			  "'kmodsmith.io/seq':'3.1'},'labels':{'kmodsmith.io/state':'idle'"
			  "}}}");
		rows[i].begin(&f);
		farm_coordinator_begin(&f, &coordinator, "boss");
		coordinator.c.o.callbacks = (struct coordinator_callbacks){ .trouble = trouble, .ctx = &said };
		for (int s = 0; s < MOST_S && !taken_ms; s++) {
			farm_run(&coordinator, 1, SECONDS(1));
			if (!str_eq(farm_note(&f, 0, "kmodsmith.io/coordinator"), "theirs"))
				taken_ms = sim_now_ms();
		}
		expect(str_eq(farm_state(&f, 1), rows[i].first_ms == 1 ? "staging" : "done"), rows[i].name);
		expect(taken_ms >= rows[i].first_ms && taken_ms <= rows[i].last_ms, rows[i].name);
		expect(str_eq(said, rows[i].said), said);
		if (!taken_ms) { // each minute, and nothing else
			expect(asked(&f) >= 28 && asked(&f) <= 31, rows[i].name);
			expect(str_eq(farm_state(&f, 0), "idle"), rows[i].name);
			expect(str_eq(farm_note(&f, 0, "kmodsmith.io/seq"), "3.1"), rows[i].name);
		} else {
			expect(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(20)), rows[i].name);
			expect(str_eq(farm_note(&f, 0, "kmodsmith.io/coordinator"), "kmodsmith"), rows[i].name);
		}
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// Eight of them are asked; the nodes of a ninth are let alone, whatever became of it.
static void the_number_of_leaders_is_limited(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, OTHER_LEADERS_MOST + 2, plain);
	for (unsigned i = 0; i < OTHER_LEADERS_MOST + 1; i++) {
		auto_str char *path = api_node(f.nodes[i].name);
		sim_merge(
			f.sim, path,
			"{'metadata':{'annotations':{'kmodsmith.io/coordinator':'theirs-%u','kmodsmith.io/seq':'3.1'},"
			"'labels':{'kmodsmith.io/state':'idle'}}}",
			i);
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "done", OTHER_LEADERS_MOST + 1, MINUTES(30)));
	farm_run(&coordinator, 1, MINUTES(10));
	assert_int_equal(farm_in(&f, "idle"), 1);
	assert_int_equal(coordinator.c.others.count, OTHER_LEADERS_MOST);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_of_other_leaders),
		cmocka_unit_test(the_number_of_leaders_is_limited),
	};
	return cmocka_run_group_tests_name("others", tests, NULL, NULL);
}
