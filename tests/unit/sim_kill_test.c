// SPDX-License-Identifier: Apache-2.0
// The coordinator is killed before and after each write of a rollout, a new one goes on: the end is always the same
// (upgrade-design 5.6; T16, T28, T50). And two of them, one of which sleeps and wakes at every point (T51, T52, T58).
#include "tests/sim/farm.h"
#include "tests/unit/sample.h"

#define MINUTES(n) ((n)*60 * 1000L)
enum { NODES = 2 };
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";

static void farm_of_two(struct farm *f, bool is_bad)
{
	farm_begin(f, NODES, plain);
	farm_pod(f, 0, "train-0");
	if (is_bad)
		f->bad = farm_target(plain);
}

static void expect_end(const struct farm *f, bool is_bad, const char *row)
{
	struct target_hash target = farm_target(plain);
	const struct target_hash *end = is_bad ? &f->old : &target;
	if (f->laws->count)
		fail_msg("%s: %zu laws were broken, first: %s", row, f->laws->count, f->laws->items[0]);
	expect(is_bad ? farm_in(f, "rolledback") == 1 : farm_in(f, "done") == NODES, row);
	for (unsigned i = 0; i < NODES; i++) {
		expect(target_hash_eq(&f->nodes[i].loaded, end), row);
		expect(!farm_is_cordoned(f, i), row);
		expect(!*farm_note(f, i, "kmodsmith.io/paused"), row);
	}
}

// To the end and a little further, so that what should not follow would be seen.
static void go_on(struct farm *f, struct farm_coordinator *coordinators, size_t count, bool is_bad)
{
	farm_until(f, coordinators, count, is_bad ? "rolledback" : "done", is_bad ? 1 : NODES, MINUTES(45));
	farm_run(coordinators, count, MINUTES(1) / 2);
}

// How many calls a rollout has that nobody disturbs.
static size_t calls_of(bool is_bad)
{
	struct farm f;
	struct farm_coordinator coordinator;
	farm_of_two(&f, is_bad);
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_until(&f, &coordinator, 1, is_bad ? "rolledback" : "done", is_bad ? 1 : NODES, MINUTES(45));
	size_t calls = sim_count(f.sim, NULL, NULL);
	farm_run(&coordinator, 1, MINUTES(1));
	expect_end(&f, is_bad, "nobody is killed");
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
	return calls;
}

static void kill_at(size_t call, enum sim_break kind, bool is_bad)
{
	struct farm f;
	struct farm_coordinator coordinators[2] = { { .is_dead = true }, { .is_dead = true } };
	auto_str char *row = str_fmt("killed %s call %zu%s", kind == SIM_DIE_BEFORE ? "before" : "after", call,
				     is_bad ? ", bad target" : "");
	farm_of_two(&f, is_bad);
	farm_coordinator_begin(&f, &coordinators[0], "boss");
	sim_fault(f.sim, &(struct sim_fault){ .what = kind, .nth = (unsigned)call });
	while (sim_count(f.sim, NULL, NULL) < call && sim_now_ms() < MINUTES(30))
		farm_run(coordinators, 1, 500);
	farm_coordinator_kill(&coordinators[0]);
	sim_heal(f.sim);
	sim_pass(MINUTES(1)); // until its Lease is over
	farm_coordinator_begin(&f, &coordinators[1], "boss2");
	go_on(&f, &coordinators[1], 1, is_bad);
	expect_end(&f, is_bad, row);
	farm_coordinator_kill(&coordinators[1]);
	farm_end(&f);
}

static void killed_at_every_call(void **state)
{
	(void)state;
	for (int is_bad = 0; is_bad <= 1; is_bad++) {
		struct sample kills = { 0 };
		size_t calls = calls_of(is_bad);
		for (size_t call = 1; call <= calls; call++) {
			if (sample_next(&kills))
				kill_at(call, SIM_DIE_BEFORE, is_bad);
			if (sample_next(&kills))
				kill_at(call, SIM_DIE_AFTER, is_bad);
		}
		print_message("%s: %zu calls, killed before and after: the same end %zu times\n",
			      is_bad ? "a bad target" : "a good target", calls, kills.taken);
		sample_tell(&kills, is_bad ? "kills, a bad target" : "kills, a good target");
	}
}

// One sleeps from some call on for longer than its Lease lasts, another takes over, and then it wakes.
static void a_sleeper_does_no_harm(void **state)
{
	(void)state;
	struct sample naps = { 0 };
	size_t calls = calls_of(false);
	for (size_t call = 1; call <= calls; call++) {
		struct farm f;
		struct farm_coordinator coordinators[2];
		if (!sample_next(&naps))
			continue;
		auto_str char *row = str_fmt("asleep from call %zu", call);
		farm_of_two(&f, false);
		farm_coordinator_begin(&f, &coordinators[0], "boss");
		farm_coordinator_begin(&f, &coordinators[1], "boss2");
		while (sim_count(f.sim, NULL, NULL) < call && sim_now_ms() < MINUTES(30))
			farm_run(coordinators, 1, 100);
		farm_run(&coordinators[1], 1, MINUTES(1));
		go_on(&f, coordinators, 2, false);
		expect(coordinators[0].is_dead, row);
		expect_end(&f, false, row);
		farm_coordinator_kill(&coordinators[0]);
		farm_coordinator_kill(&coordinators[1]);
		farm_end(&f);
	}
	print_message("asleep at %zu of %zu calls: the same end\n", naps.taken, calls);
	sample_tell(&naps, "a sleeper");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(killed_at_every_call),
					    cmocka_unit_test(a_sleeper_does_no_harm) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
