// SPDX-License-Identifier: Apache-2.0
// The operator comes, upgrades, gives nodes up and takes them back at any moment of a rollout of ours, and
// coordinators die meanwhile. No law is broken; and when the operator has given all nodes up, every one of them is done
// and in service. SEED=7 runs one of them, SEEDS=1000 so many.
#include "tests/sim/nvidia.h"
#include "tests/unit/test.h"

#include <stdlib.h>

#define MINUTES(n) ((n)*60 * 1000L)
enum { NODES = 3, ROUNDS = 40, SEEDS = 24 };

// Half of the policies take no notice of DaemonSets, so that nodes are ours while driver pods of the operator are
// there.
static char *policy_of(unsigned version, bool is_allowed)
{
	return str_fmt("{'besideOperator':'%s','pools':[{'name':'gpus','maxParallel':2,'maxUnavailable':'100%%',"
		       "'deadlines':{'evict':'5m','backoff':'10s','backoffMost':'1m'},'target':{'driver':'535.%u'}}]}",
		       is_allowed ? "allow" : "hold", version);
}

struct world {
	struct farm f;
	struct farm_coordinator coordinator;
	struct nvidia theirs;
	unsigned version, births;
};

// It is not in the middle of an upgrade: whoever switches it off then has the nodes that it cordoned.
static bool is_at_rest(const struct world *w)
{
	for (unsigned i = 0; i < NODES; i++) {
		const char *word = nvidia_word(&w->f, i);
		if (*word && !str_eq(word, "upgrade-done"))
			return false;
	}
	return true;
}

// With a budget that lets nobody go drains last, so that much happens in them.
static void set_budget(struct world *w, bool is_tight)
{
	static const char all[] = "/apis/policy/v1/namespaces/default/poddisruptionbudgets", one[] = "/all";
	auto_str char *path = str_fmt("%s%s", all, one);
	if (sim_get(w->f.sim, path))
		sim_delete(w->f.sim, path);
	if (is_tight)
		sim_make(w->f.sim, all,
			 "{'metadata':{'name':'all','namespace':'default'},'spec':{'maxUnavailable':0,'selector':{"
			 "'matchLabels':{'kind':'job'}}}}");
}

static void disturb(struct world *w)
{
	unsigned node = sim_dice() % NODES;
	auto_str char *path = api_node(w->f.nodes[node].name), *policy = NULL;
	bool is_ours = sim_dice() % 2;
	switch (sim_dice() % 8) {
	case 0:
		w->theirs.has_driver = is_at_rest(w) ? !w->theirs.has_driver : w->theirs.has_driver;
		return;
	case 1:
		w->theirs.auto_upgrade = is_at_rest(w) ? !w->theirs.auto_upgrade : w->theirs.auto_upgrade;
		return;
	case 2:
		w->theirs.auto_upgrade = true; // and at once, perhaps in the middle of a drain of ours
		if (is_ours)
			w->theirs.config++;
		else
			w->theirs.labels++;
		return;
	case 6:
		set_budget(w, is_ours);
		return;
	case 3:
		if (is_at_rest(w))
			sim_merge(w->f.sim, path, "{'metadata':{'labels':{'nvidia.com/gpu.deploy.driver':'%s'}}}",
				  is_ours ? "false" : "true");
		return;
	case 4:
	case 5:
		policy = policy_of(2 + ++w->version, is_ours);
		farm_policy(&w->f, policy);
		return;
	default:
		farm_coordinator_kill(&w->coordinator);
		farm_coordinator_begin(&w->f, &w->coordinator, sim_dice() % 2 ? "boss1" : "boss2");
	}
}

static void make_job(struct world *w, unsigned node, const char *name)
{
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/%s", name);
	farm_pod(&w->f, node, name);
	sim_merge(w->f.sim, path, "{'metadata':{'labels':{'kind':'job'}}}");
}

static void keep_pods(struct world *w) // one that asks for a GPU on each node that takes any
{
	for (unsigned i = 0; i < NODES; i++) {
		auto_str char *name = str_fmt("job-%u-%u", i, w->births++);
		if (!farm_is_cordoned(&w->f, i) && sim_dice() % 3 == 0)
			make_job(w, i, name);
	}
}

static void run_seed(unsigned seed)
{
	struct world w = { 0 };
	auto_str char *policy = policy_of(2, false);
	auto_str char *what = str_fmt("seed %u", seed);
	farm_begin_by(&w.f, NODES, policy, seed);
	nvidia_begin(&w.f, &w.theirs, sim_dice() % 2, sim_dice() % 2);
	farm_coordinator_begin(&w.f, &w.coordinator, "boss1");
	for (int i = 0; i < ROUNDS; i++) {
		disturb(&w);
		keep_pods(&w);
		farm_run(&w.coordinator, 1, 1000L * (1 + sim_dice() % 120));
	}
	farm_run(&w.coordinator, 1, MINUTES(10)); // the operator's upgrades end
	expect(is_at_rest(&w), what);
	set_budget(&w, false);
	w.theirs.has_driver = false;
	bool is_done = farm_until(&w.f, &w.coordinator, 1, "done", NODES, MINUTES(180));
	for (unsigned i = 0; i < NODES && !is_done; i++)
		print_message("%s: n%02u %s, %s, cordoned %d\n", what, i, farm_state(&w.f, i),
			      farm_note(&w.f, i, "kmodsmith.io/reason"), farm_is_cordoned(&w.f, i));
	expect(is_done, what);
	for (unsigned i = 0; i < NODES; i++)
		expect(!farm_is_cordoned(&w.f, i), what);
	if (w.f.laws->count)
		fail_msg("%s: %zu laws were broken, first: %s", what, w.f.laws->count, w.f.laws->items[0]);
	farm_coordinator_kill(&w.coordinator);
	farm_end(&w.f);
}

static unsigned number(const char *name, unsigned or_else)
{
	const char *text = getenv(name);
	return text ? (unsigned)atoi(text) : or_else;
}

static void both_in_one_cluster(void **state)
{
	(void)state;
	unsigned first = number("SEED", 1), count = getenv("SEED") ? 1 : number("SEEDS", SEEDS);
	for (unsigned i = 0; i < count; i++)
		run_seed(first + i);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(both_in_one_cluster) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
