// SPDX-License-Identifier: Apache-2.0
// Two leaders, one of which stops in the middle of each of its calls for longer than its Lease lasts: before the
// request is sent, before the answer is read, or it gives up (and goes on, or is killed) while the request is still
// under way and comes to the server when another one leads. The laws hold at every request, and the end is the same
// (upgrade-design 4.4.5, 5.6; T51, T52, T58).
#include "tests/sim/farm.h"
#include "tests/unit/sample.h"

#define MINUTES(n) ((n)*60 * 1000L)
enum { NODES = 2, ASLEEP_MS = 40 * 1000, UNTIL_IT_LEADS = 2 /* calls */ };
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";

struct scene {
	struct farm f;
	struct farm_coordinator coordinators[2];
	bool is_bad;
};

static void begin(struct scene *s, bool is_bad)
{
	s->is_bad = is_bad;
	farm_begin(&s->f, NODES, plain);
	farm_pod(&s->f, 0, "train-0");
	if (is_bad)
		s->f.bad = farm_target(plain);
	farm_coordinator_begin(&s->f, &s->coordinators[0], "boss1");
	farm_coordinator_begin(&s->f, &s->coordinators[1], "boss2");
}

static void play(struct scene *s)
{
	farm_until(&s->f, s->coordinators, 1, s->is_bad ? "rolledback" : "done", s->is_bad ? 1 : NODES, MINUTES(45));
	farm_run(s->coordinators, 1, ASLEEP_MS);
}

static void end(struct scene *s, const char *row)
{
	const struct farm *f = &s->f;
	struct target_hash target = farm_target(plain);
	if (f->laws->count)
		fail_msg("%s: %zu laws were broken, first: %s", row, f->laws->count, f->laws->items[0]);
	for (unsigned i = 0; i < NODES; i++) {
		expect(target_hash_eq(&f->nodes[i].loaded, s->is_bad ? &f->old : &target), row);
		expect(!farm_is_cordoned(f, i), row);
		expect(!*farm_note(f, i, "kmodsmith.io/paused"), row);
	}
	expect(s->is_bad ? farm_in(f, "rolledback") == 1 : farm_in(f, "done") == NODES, row);
	farm_coordinator_kill(&s->coordinators[0]);
	farm_coordinator_kill(&s->coordinators[1]);
	farm_end(&s->f);
}

static size_t calls_of(bool is_bad)
{
	struct scene s;
	begin(&s, is_bad);
	play(&s);
	size_t calls = sim_count(s.f.sim, "boss1", NULL) + sim_count(s.f.sim, "boss1-lease", NULL);
	assert_int_equal(sim_count(s.f.sim, "boss2", "patch"), 0);
	end(&s, "undisturbed");
	return calls;
}

static const struct {
	enum sim_break what;
	const char *name;
	bool is_deposed;
} kinds[] = {
	{ SIM_FREEZE_BEFORE, "asleep before it sends", true },
	{ SIM_FREEZE_AFTER, "asleep before it hears", true },
	{ SIM_LINGER, "gives up what is under way", false },
	{ SIM_DIE_LINGER, "dies while it is under way", false },
};

static void at_call(size_t kind, size_t call, bool is_bad)
{
	struct scene s;
	auto_str char *row = str_fmt("%s, call %zu%s", kinds[kind].name, call, is_bad ? ", bad target" : "");
	begin(&s, is_bad);
	const struct sim_fault *done = sim_fault(s.f.sim, &(struct sim_fault){ .what = kinds[kind].what,
									       .client = "boss1*",
									       .nth = (unsigned)call,
									       .late_ms = ASLEEP_MS });
	farm_coordinator_run_beside(&s.coordinators[1]);
	play(&s);
	expect(done->hits > 0, row);
	if (kinds[kind].is_deposed && call > UNTIL_IT_LEADS)
		expect(s.coordinators[0].is_dead && sim_count(s.f.sim, "boss2", NULL) > 0, row);
	end(&s, row);
}

static void at_every_call(bool is_bad)
{
	struct sample points = { 0 };
	size_t calls = calls_of(is_bad);
	for (size_t kind = is_bad ? 1 : 0; kind < ARRAY_SIZE(kinds); kind += is_bad ? 2 : 1) {
		size_t before = points.taken;
		for (size_t call = 1; call <= calls; call++)
			if (sample_next(&points))
				at_call(kind, call, is_bad);
		print_message("%s target, %s, at %zu of %zu calls: the same end\n", is_bad ? "bad" : "good",
			      kinds[kind].name, points.taken - before, calls);
	}
	sample_tell(&points, is_bad ? "sleeps, a bad target" : "sleeps, a good target");
}

static void a_good_target(void **state)
{
	(void)state;
	at_every_call(false);
}

static void a_bad_target(void **state)
{
	(void)state;
	at_every_call(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_good_target), cmocka_unit_test(a_bad_target) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
