// SPDX-License-Identifier: Apache-2.0
// The real agents of a farm are killed before and after each of their calls and at each step of their children, alone,
// with all of their container, and with the machine: the end is always the same (upgrade-design 5.6; T36, T57, T76).
#include "tests/sim/farm_agent.h"
#include "tests/unit/sample.h"

#define MINUTES(n) ((n)*60 * 1000L)
enum { NODES = 2 };
enum aiming { GOOD, BAD, SICK, TARGETS };
static const char *const target_names[TARGETS] = { "a good target", "a target that cannot be loaded",
						   "a target that loads and does not work" };
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";

struct scene {
	struct farm f;
	struct farm_agent agents[NODES];
	struct farm_coordinator coordinator;
	enum aiming target;
};

static void scene_begin(struct scene *s, enum aiming target)
{
	s->target = target;
	farm_begin(&s->f, NODES, plain);
	farm_agents_begin(&s->f, s->agents);
	farm_pod(&s->f, 0, "train-0");
	if (target != GOOD)
		s->f.bad = farm_target(plain);
	s->f.is_sick = target == SICK;
	farm_coordinator_begin(&s->f, &s->coordinator, "boss");
}

static void scene_end(struct scene *s)
{
	farm_coordinator_kill(&s->coordinator);
	farm_agents_end(s->agents, NODES);
	farm_end(&s->f);
}

static void play(struct scene *s)
{
	bool is_good = s->target == GOOD;
	farm_until(&s->f, &s->coordinator, 1, is_good ? "done" : "rolledback", is_good ? NODES : 1, MINUTES(45));
	farm_run(&s->coordinator, 1, MINUTES(1));
}

static void expect_end(const struct scene *s, const char *row)
{
	const struct farm *f = &s->f;
	struct target_hash target = farm_target(plain);
	const struct target_hash *end = s->target == GOOD ? &target : &f->old;
	if (f->laws->count)
		fail_msg("%s: %zu laws were broken, first: %s", row, f->laws->count, f->laws->items[0]);
	for (unsigned i = 0; i < NODES; i++)
		if (!target_hash_eq(&f->nodes[i].loaded, end) || farm_is_cordoned(f, i) ||
		    *farm_note(f, i, "kmodsmith.io/paused"))
			fail_msg("%s: node %u is %s: %s; go %s, ack %s", row, i, farm_state(f, i),
				 farm_note(f, i, "kmodsmith.io/reason"), farm_note(f, i, "kmodsmith.io/go"),
				 farm_note(f, i, "kmodsmith.io/agent.ack"));
	expect(s->target == GOOD ? farm_in(f, "done") == NODES : farm_in(f, "rolledback") == 1, row);
}

struct counts {
	size_t calls[NODES], moments[NODES];
};

static struct counts undisturbed(enum aiming target)
{
	struct scene s;
	struct counts c;
	scene_begin(&s, target);
	play(&s);
	expect_end(&s, target_names[target]);
	for (unsigned i = 0; i < NODES; i++) {
		c.calls[i] = sim_count(s.f.sim, s.agents[i].name, NULL);
		c.moments[i] = s.agents[i].moments;
		assert_true(sim_count(s.f.sim, s.agents[i].name, "patch") <= 2 * 6); // S5: to the target, and back
	}
	scene_end(&s);
	return c;
}

struct blow {
	struct farm_agent *farm_agent;
	enum farm_agent_end how;
};
static void strike(void *ctx)
{
	const struct blow *b = ctx;
	farm_agent_die(b->farm_agent, b->how);
}

static const char *const hows[] = {
	[FARM_AGENT_KILLED] = "killed", [FARM_AGENT_STOPPED] = "stopped with its child", [FARM_AGENT_BOOTED] = "booted"
};

static void at_call(enum aiming target, unsigned node, size_t call, enum sim_break kind, enum farm_agent_end how)
{
	struct scene s;
	auto_str char *row = str_fmt("%s: n%02u %s %s call %zu", target_names[target], node, hows[how],
				     kind == SIM_DIE_BEFORE ? "before" : "after", call);
	scene_begin(&s, target);
	struct blow blow = { &s.agents[node], how };
	auto_str char *name = str_fmt("agent-n%02u.0", node);
	sim_fault(s.f.sim, &(struct sim_fault){
				   .what = kind, .client = name, .nth = (unsigned)call, .hit = strike, .ctx = &blow });
	play(&s);
	expect(s.agents[node].lives == 2, row);
	expect_end(&s, row);
	scene_end(&s);
}

static void at_moment(enum aiming target, unsigned node, unsigned moment, enum farm_agent_end how)
{
	struct scene s;
	auto_str char *row = str_fmt("%s: n%02u %s at step %u", target_names[target], node, hows[how], moment);
	scene_begin(&s, target);
	s.agents[node].die_at = moment;
	s.agents[node].die_how = how;
	play(&s);
	expect(s.agents[node].lives == 2, row);
	expect_end(&s, row);
	scene_end(&s);
}

static void killed_everywhere(void **state)
{
	(void)state;
	for (enum aiming t = GOOD; t < TARGETS; t++) {
		const struct counts c = undisturbed(t);
		struct sample kills = { 0 };
		size_t calls = 0, moments = 0;
		for (unsigned n = 0; n < NODES; n++) {
			calls += c.calls[n];
			moments += c.moments[n];
			for (size_t call = 1; call <= c.calls[n]; call++) {
				if (sample_next(&kills))
					at_call(t, n, call, SIM_DIE_BEFORE, FARM_AGENT_STOPPED);
				if (sample_next(&kills))
					at_call(t, n, call, SIM_DIE_AFTER, FARM_AGENT_KILLED);
			}
			for (unsigned m = 1; m <= c.moments[n]; m++) {
				if (sample_next(&kills))
					at_moment(t, n, m, FARM_AGENT_KILLED);
				if (sample_next(&kills))
					at_moment(t, n, m, FARM_AGENT_STOPPED);
			}
		}
		print_message("%s: %zu calls, %zu steps of children, killed %zu times: the same end\n", target_names[t],
			      calls, moments, kills.taken);
		sample_tell(&kills, target_names[t]);
	}
}

// T23: somebody uncordons a node after the order to replace, and before its agent has begun. It is cordoned and drained
// again, and in service in the end.
static void uncordon_after_the_order(void *ctx)
{
	struct scene *s = ctx;
	if (!strstr(farm_note(&s->f, 0, "kmodsmith.io/go"), ":replace:")) {
		sim_after(1, uncordon_after_the_order, s);
		return;
	}
	sim_merge(s->f.sim, "/api/v1/nodes/n00", "{'spec':{'unschedulable':null}}");
	farm_pod(&s->f, 0, "late-0");
}

static void uncordoned_before_it_begins(void **state)
{
	(void)state;
	struct scene s;
	scene_begin(&s, GOOD);
	sim_after(1, uncordon_after_the_order, &s);
	play(&s);
	expect_end(&s, "uncordoned");
	assert_null(sim_get(s.f.sim, "/api/v1/namespaces/default/pods/late-0")); // evicted, and not under a dead driver
	scene_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(uncordoned_before_it_begins),
					    cmocka_unit_test(killed_everywhere) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
