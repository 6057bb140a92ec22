// SPDX-License-Identifier: Apache-2.0
// Two rollouts in one cluster by the dice, each node with something in its way: pods that cannot go, agents that are
// silent, disks that are cleaned, drivers that others replace, jobs. The laws of liveness.c hold all the time, and
// within bounded time every node is done, or says why not; once the obstacles are gone, and somebody asks for a retry,
// all are.
//   SEED=7 build/asan/unit/sim_live_test     one of them; SEEDS=300: so many
#include "tests/sim/farm.h"
#include "tests/unit/sample.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define HOURS(n) ((n)*60 * 60 * 1000L)
enum { NODES = 5, SEEDS = 4, EACH_H = 20 };

enum obstacle {
	FREE,
	BARE,
	FINALIZER,
	BUDGET,
	HOLDER,
	MUTE,
	FORGETFUL,
	CLEANED,
	FLAPPING,
	JOB,
	CORDON,
	ILL,
	OBSTACLES
};
static const char *const names[OBSTACLES] = { "free",      "bare pod", "finalizer", "budget", "holder",         "mute",
					      "forgetful", "cleaned",  "flapping",  "job",    "foreign cordon", "ill" };
struct play {
	struct farm f;
	struct farm_coordinator coordinator;
	enum obstacle what[NODES];
	unsigned seed, lives;
	bool has_windows, is_over;
};

static unsigned one_of(unsigned count)
{
	return sim_dice() % count;
}

static bool in(const struct play *p, unsigned i, const char *state)
{
	return str_eq(farm_state(&p->f, i), state);
}

static char *pod_path(unsigned i, const char *part)
{
	return str_fmt("/api/v1/namespaces/default/pods/pod-%u%s", i, part);
}

static void make_pod(struct play *p, unsigned i)
{
	static const char of_set[] = ",'ownerReferences':[{'apiVersion':'apps/"
				     "v1','kind':'ReplicaSet','name':'x','uid':'x','controller':true}]";
	enum obstacle what = p->what[i];
	auto_str char *status = pod_path(i, "/status");
	sim_make(
		p->f.sim, "/api/v1/namespaces/default/pods",
		"{'metadata':{'name':'pod-%u','namespace':'default','labels':{'app':'pod-%u','kind':'%s'}%s%s},'spec':{"
		"'nodeName':'%s','containers':[{'name':'c','image':'i','resources':{'limits':{'nvidia.com/"
		"gpu':'1'}}}]}}",
		i, i, what == JOB ? "training" : "serving", what == BARE ? "" : of_set,
		what == FINALIZER ? ",'finalizers':['example.org/forever']" : "", p->f.nodes[i].name);
	sim_merge(p->f.sim, status, "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}}");
}

static void node_is(struct play *p, unsigned i, const char *ready, const char *cordoned)
{
	auto_str char *path = api_node(p->f.nodes[i].name), *status = str_fmt("%s/status", path);
	sim_merge(p->f.sim, status, "{'status':{'conditions':[{'type':'Ready','status':'%s'}]}}", ready);
	if (cordoned)
		sim_merge(p->f.sim, path, "{'spec':{'unschedulable':%s}}", cordoned);
}

static void put_in_the_way(struct play *p, unsigned i)
{
	static const bool has_pod[OBSTACLES] = {
		[BARE] = true, [FINALIZER] = true, [BUDGET] = true, [CLEANED] = true, [JOB] = true
	};
	enum obstacle what = p->what[i] = (enum obstacle)one_of(OBSTACLES);
	p->f.nodes[i].holders = what == HOLDER;
	p->f.nodes[i].is_silent = what == MUTE;
	if (has_pod[what])
		make_pod(p, i);
	if (what == BUDGET)
		sim_make(p->f.sim, "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
			 "{'metadata':{'name':'of-%u','namespace':'default'},'spec':{'minAvailable':1,'selector':{"
			 "'matchLabels':{'app':'pod-%u'}}}}",
			 i, i);
	if (what == CORDON || what == ILL)
		node_is(p, i, what == ILL ? "Unknown" : "True", what == CORDON ? "true" : NULL);
}

static void disturb(void *ctx)
{
	struct play *p = ctx;
	if (p->f.is_over || p->is_over)
		return;
	for (unsigned i = 0; i < NODES; i++) {
		struct farm_node *n = &p->f.nodes[i];
		auto_str char *path = pod_path(i, "");
		if (p->what[i] == FORGETFUL)
			n->is_silent = in(p, i, "replacing");
		if (p->what[i] == CLEANED && (in(p, i, "cordoned") || in(p, i, "evicting")))
			n->store[0] = n->store[1] = p->f.old;
		if (p->what[i] == FLAPPING && in(p, i, "done") && one_of(1200) == 0)
			n->loaded = p->f.old;
		if (p->what[i] == JOB && one_of(20000) == 0 && sim_get(p->f.sim, path))
			sim_delete(p->f.sim, path); // it has ended
		if ((p->what[i] == JOB || p->what[i] == CLEANED) && !farm_is_cordoned(&p->f, i) && one_of(1000) == 0 &&
		    !sim_get(p->f.sim, path))
			make_pod(p, i);
	}
	sim_after(500, disturb, p);
}

static void clear_the_way(struct play *p)
{
	p->is_over = true;
	for (unsigned i = 0; i < NODES; i++) {
		auto_str char *path = pod_path(i, ""), *node = api_node(p->f.nodes[i].name);
		p->f.nodes[i].holders = 0;
		p->f.nodes[i].is_silent = false;
		if (sim_get(p->f.sim, path)) {
			sim_merge(p->f.sim, path, "{'metadata':{'finalizers':null}}");
			if (sim_get(p->f.sim, path))
				sim_delete(p->f.sim, path);
		}
		if (p->what[i] == CORDON || p->what[i] == ILL)
			node_is(p, i, "True", p->what[i] == CORDON ? "null" : NULL);
		sim_merge(p->f.sim, node, "{'metadata':{'annotations':{'kmodsmith.io/retry':'%u'}}}", p->seed);
	}
}

static char *policy_of(const struct play *p, const char *driver)
{
	// Halts and budgets would be reasons of their own to wait. Windows are open when it is looked at: at 4 and 24.
	return str_fmt("{'pools':[{'name':'gpus','maxParallel':%u,'maxUnavailable':'100%%','breaker':{'percent':100,"
		       "'inARow':1000},'drain':{%s'waitFor':'kind=training'},%s'target':{'driver':'%s'}}]}",
		       1 + p->seed % 3, p->seed % 4 == 1 ? "'onTimeout':'hold'," : "",
		       p->has_windows ? "'windows':[{'from':'22:00','to':'16:00'}]," : "", driver);
}

static void lead(struct play *p, long ms)
{
	for (long end = sim_now_ms() + ms; sim_now_ms() < end;) {
		long some = MINUTES(10) + one_of(MINUTES(600)), left = end - sim_now_ms();
		farm_run(&p->coordinator, 1, some < left ? some : left);
		if (p->coordinator.is_dead || one_of(3) == 0) {
			auto_str char *name = str_fmt("boss%u", p->lives++);
			farm_coordinator_kill(&p->coordinator);
			farm_coordinator_begin(&p->f, &p->coordinator, name);
		}
	}
}

static bool is_halted(const struct play *p)
{
	const char *text = sim_text(sim_get(p->f.sim, "/api/v1/namespaces/kmodsmith/configmaps/" ROLLOUT_STATUS_NAME),
				    "data " ROLLOUT_STATUS_KEY);
	return text && strstr(text, "\"halted\": true");
}

// Where a node may be for ever: with the target, or with a word that says why not.
static void expect_rest(const struct play *p, unsigned i, const char *when)
{
	const char *reason = farm_note(&p->f, i, "kmodsmith.io/reason");
	bool is_waiting =
		p->what[i] == CORDON || p->what[i] == ILL || p->what[i] == MUTE || p->has_windows || is_halted(p);
	bool is_end =
		in(p, i, "done") || ((in(p, i, "held") || in(p, i, "failed") || in(p, i, "rolledback")) && *reason);
	bool is_kept = farm_is_cordoned(&p->f, i) && !in(p, i, "failed") && p->what[i] != CORDON;
	if (p->f.laws->count)
		fail_msg("SEED=%u: %zu laws were broken, first: %s", p->seed, p->f.laws->count, p->f.laws->items[0]);
	if ((!is_end && !is_waiting) || is_kept)
		fail_msg("SEED=%u, %s: n%02u (%s) is %s: %s; cordoned %d, drains %s, %u so far", p->seed, when, i,
			 names[p->what[i]], farm_state(&p->f, i), reason, farm_is_cordoned(&p->f, i),
			 farm_note(&p->f, i, "kmodsmith.io/drains"), p->f.nodes[i].life.cordons);
}

static void play(unsigned seed)
{
	struct play p = { .seed = seed, .has_windows = seed % 3 == 0 };
	auto_str char *first = policy_of(&p, "535.2"), *second = policy_of(&p, "535.3");
	struct target_hash target = farm_target(second);
	farm_begin_by(&p.f, NODES, first, seed);
	p.f.bad = seed % 5 == 2 ? farm_target(first) : TARGET_HASH_NONE;
	p.f.is_sick = seed % 2;
	for (unsigned i = 0; i < NODES; i++)
		put_in_the_way(&p, i);
	sim_after(1, disturb, &p);
	farm_coordinator_begin(&p.f, &p.coordinator, "boss");
	lead(&p, HOURS(EACH_H));
	for (unsigned i = 0; i < NODES; i++)
		if (p.what[i] != FLAPPING && p.what[i] != JOB && p.what[i] != CLEANED)
			expect_rest(&p, i, "first target");
	farm_policy(&p.f, second);
	lead(&p, HOURS(EACH_H));
	for (unsigned i = 0; i < NODES; i++)
		if (p.what[i] != JOB)
			expect_rest(&p, i, "second target");
	clear_the_way(&p);
	lead(&p, HOURS(3));
	for (unsigned i = 0; i < NODES; i++)
		if (!in(&p, i, "done") || !target_hash_eq(&p.f.nodes[i].loaded, &target) || farm_is_cordoned(&p.f, i))
			fail_msg("SEED=%u, at the end: n%02u (%s) is %s: %s; cordoned %d", seed, i, names[p.what[i]],
				 farm_state(&p.f, i), farm_note(&p.f, i, "kmodsmith.io/reason"),
				 farm_is_cordoned(&p.f, i));
	expect_rest(&p, 0, "at the end");
	farm_coordinator_kill(&p.coordinator);
	farm_end(&p.f);
}

static unsigned number(const char *name, unsigned or_else)
{
	const char *text = getenv(name);
	return text && *text ? (unsigned)atoi(text) : or_else;
}

static void every_roll_out_ends(void **state)
{
	(void)state;
	unsigned wanted = number("SEED", 0), first = wanted ? wanted : 1,
		 count = wanted ? 1 : sample_seeds(1, SEEDS, 10);
	assert_true(count > 0);
	for (unsigned seed = first; seed < first + count; seed++)
		play(seed);
	print_message("%u seeds from %u\n", count, first);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_roll_out_ends) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
