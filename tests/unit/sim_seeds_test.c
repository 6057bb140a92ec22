// SPDX-License-Identifier: Apache-2.0
// Rollouts in disorder, by the dice: real coordinators and real agents, of which some are killed and some machines
// booted, an API server that fails in each of its ways, people who cordon, and writers beside ours that change what is
// theirs, also whole objects from old copies. The laws hold at each request; when the disorder has ended every node
// comes to rest (I12), nothing is left behind, and nobody's key is lost. T55, T59.
//   SEED=7 build/asan/unit/sim_seeds_test     one of them; SEEDS=1000: so many
#include "tests/sim/farm_agent.h"
#include "tests/unit/sample.h"

#define MINUTES(n) ((n)*60 * 1000L)
enum { NODES = 3, BOSSES = 2, SEEDS = 24, FOREIGN = 4, PAUSE_MS = 4000 };
static const char plain[] =
	"{'pools':[{'name':'gpus','maxParallel':2,'maxUnavailable':2,'target':{'driver':'535.2'}}]}";

struct post { // where one coordinator after the other sits
	struct farm_coordinator coordinator;
	char name[24];
	unsigned lives;
	bool is_doomed;
	long due_ms;
	struct play *play;
};

struct play {
	struct farm f;
	struct farm_agent agents[NODES];
	struct post posts[BOSSES];
	unsigned seed, pods;
	bool is_over;
	int foreign[NODES][FOREIGN]; // what somebody else wrote last
	json_t *old[NODES];          // a copy of the Node, of some time ago
	bool is_theirs[NODES];       // cordoned by people
};

static unsigned one_of(unsigned count)
{
	return sim_dice() % count;
}

// Coordinators

static void sit(void *ctx)
{
	struct post *p = ctx;
	struct err err;
	struct farm *f = &p->play->f;
	if (f->is_over)
		return;
	if (!p->coordinator.kube && sim_now_ms() >= p->due_ms) {
		snprintf(p->name, sizeof(p->name), "boss%c%u", (char)('a' + (p - p->play->posts)), p->lives++);
		farm_coordinator_begin(f, &p->coordinator, p->name);
	}
	if (p->coordinator.kube && (coordinator_turn(&p->coordinator.c, 0, &err) < 0 || p->is_doomed)) {
		farm_coordinator_kill(&p->coordinator);
		p->is_doomed = false;
		p->due_ms = sim_now_ms() + PAUSE_MS;
	}
	sim_after(500, sit, p);
}

// What goes wrong

static void kill_boss(struct play *p)
{
	struct post *post = &p->posts[one_of(BOSSES)];
	if (!post->coordinator.kube)
		return;
	post->is_doomed = true; // it may be in the middle of a call
	sim_fault(p->f.sim, &(struct sim_fault){ .what = SIM_DIE_BEFORE, .client = post->name });
}

static void kill_agent(struct play *p)
{
	static const enum farm_agent_end hows[] = { FARM_AGENT_KILLED, FARM_AGENT_KILLED, FARM_AGENT_STOPPED,
						    FARM_AGENT_BOOTED };
	farm_agent_die(&p->agents[one_of(NODES)], hows[one_of(ARRAY_SIZE(hows))]);
}

static void break_calls(struct play *p)
{
	static const struct sim_fault faults[] = {
		{ .what = SIM_CUT_BEFORE },
		{ .what = SIM_CUT_AFTER },
		{ .what = SIM_CUT_AFTER, .verb = "patch" },
		{ .what = SIM_STATUS, .status = 500 },
		{ .what = SIM_STATUS, .status = 503 },
		{ .what = SIM_STATUS, .status = 429, .retry_s = 2 },
		{ .what = SIM_TRUNCATE },
		{ .what = SIM_SLOW, .late_ms = 3000 },
		{ .what = SIM_LINGER, .late_ms = 20000 },
		{ .what = SIM_LINGER, .late_ms = 45000, .client = "boss*" },
		{ .what = SIM_FREEZE_BEFORE, .late_ms = 40000, .client = "boss*" },
		{ .what = SIM_FREEZE_AFTER, .late_ms = 40000, .client = "boss*" },
		{ .what = SIM_WATCH_DROP },
		{ .what = SIM_WATCH_TWICE },
		{ .what = SIM_WATCH_SWAP },
		{ .what = SIM_WATCH_GONE },
	};
	struct sim_fault f = faults[one_of(ARRAY_SIZE(faults))];
	f.nth = 1 + one_of(5);
	f.times = f.what == SIM_FREEZE_BEFORE || f.what == SIM_FREEZE_AFTER ? 1 : 1 + one_of(3);
	sim_fault(p->f.sim, &f);
}

static void part(struct play *p)
{
	static const char *const whom[] = { "bossa*", "bossb*", "agent-n00*", "agent-n01*", "agent-n02*" };
	sim_fault(p->f.sim, &(struct sim_fault){ .what = SIM_PARTITION,
						 .client = whom[one_of(ARRAY_SIZE(whom))],
						 .from_ms = sim_now_ms(),
						 .to_ms = sim_now_ms() + 1000 * (1 + one_of(40)) });
}

static void forget(struct play *p)
{
	sim_compact(p->f.sim);
}

static void be_ill(struct play *p) // a node, as its kubelet says, and well again at the next time
{
	auto_str char *path = str_fmt("/api/v1/nodes/n%02u/status", one_of(NODES));
	sim_merge(p->f.sim, path, "{'status':{'conditions':[{'type':'Ready','status':'%s'}]}}",
		  one_of(3) ? "True" : "Unknown");
}

static void cordon(struct play *p) // by people, who leave alone what is ours
{
	unsigned i = one_of(NODES);
	if (*farm_note(&p->f, i, "kmodsmith.io/cordon") || farm_is_cordoned(&p->f, i) != p->is_theirs[i])
		return;
	p->is_theirs[i] = !p->is_theirs[i];
	auto_str char *path = api_node(p->f.nodes[i].name);
	sim_merge(p->f.sim, path, "{'spec':{'unschedulable':%s}}", p->is_theirs[i] ? "true" : "null");
}

static void run_pod(struct play *p)
{
	auto_str char *name = str_fmt("train-%u", p->pods++);
	unsigned i = one_of(NODES);
	if (!farm_is_cordoned(&p->f, i))
		farm_pod(&p->f, i, name);
}

// Other writers: each key has one, and whatever we do its value stays.

static void write_foreign(struct play *p)
{
	unsigned i = one_of(NODES), k = one_of(FOREIGN);
	auto_str char *path = api_node(p->f.nodes[i].name);
	p->foreign[i][k] = (int)one_of(1000) + 1;
	sim_merge(p->f.sim, path, "{'metadata':{'%s':{'example.org/k%u':'%d'}}}", k % 2 ? "labels" : "annotations", k,
		  p->foreign[i][k]);
}

// As controllers do that read, change and write whole objects: from an old copy it is refused, and then they read anew.
static void write_whole(struct play *p)
{
	unsigned i = one_of(NODES);
	auto_str char *path = api_node(p->f.nodes[i].name);
	const json_t *now = sim_get(p->f.sim, path);
	bool is_old = p->old[i] && !str_eq(sim_text(p->old[i], "metadata resourceVersion"),
					   sim_text(now, "metadata resourceVersion"));
	if (p->old[i] && !is_old) {
		p->foreign[i][0] = (int)one_of(1000) + 1;
		auto_str char *value = str_fmt("%d", p->foreign[i][0]);
		if (!sim_at(p->old[i], "metadata annotations"))
			json_object_set_new(sim_at(p->old[i], "metadata"), "annotations", json_object());
		json_object_set_new(sim_at(p->old[i], "metadata annotations"), "example.org/k0", json_string(value));
		auto_str char *text = json_dumps(p->old[i], JSON_COMPACT);
		json_decref(sim_ask(p->f.sim, "PUT", path, "%s", text));
		now = sim_get(p->f.sim, path);
	}
	json_decref(p->old[i]);
	p->old[i] = json_deep_copy(now);
}

static void disturb(void *ctx)
{
	static void (*const troubles[])(struct play * p) = { kill_boss,   kill_agent,   kill_agent, break_calls,
							     break_calls, break_calls,  part,       forget,
							     be_ill,      cordon,       run_pod,    write_foreign,
							     write_whole, write_foreign };
	struct play *p = ctx;
	if (p->is_over)
		return;
	troubles[one_of(ARRAY_SIZE(troubles))](p);
	sim_after(200 + one_of(PAUSE_MS), disturb, p);
}

static void make_peace(struct play *p)
{
	p->is_over = true;
	sim_heal(p->f.sim);
	for (unsigned i = 0; i < NODES; i++) {
		auto_str char *status = str_fmt("/api/v1/nodes/n%02u/status", i), *path = api_node(p->f.nodes[i].name);
		sim_merge(p->f.sim, status, "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
		if (!p->is_theirs[i] || *farm_note(&p->f, i, "kmodsmith.io/cordon"))
			continue;
		sim_merge(p->f.sim, path, "{'spec':{'unschedulable':null}}");
		p->is_theirs[i] = false;
	}
}

// The end

static bool is_halted(const struct play *p)
{
	const char *text = sim_text(sim_get(p->f.sim, "/api/v1/namespaces/kmodsmith/configmaps/" ROLLOUT_STATUS_NAME),
				    "data " ROLLOUT_STATUS_KEY);
	auto_json json_t *status = text ? json_loads(text, 0, NULL) : NULL;
	return json_is_true(json_object_get(json_array_get(json_object_get(status, "pools"), 0), "halted"));
}

static bool rests(const struct play *p, unsigned i)
{
	static const char *const ends[] = { "done", "failed", "held", "rolledback" };
	const char *state = farm_state(&p->f, i);
	for (size_t k = 0; k < ARRAY_SIZE(ends); k++)
		if (str_eq(state, ends[k]))
			return true;
	return is_halted(p) && (str_eq(state, "idle") || str_eq(state, "queued"));
}

static bool all_rest(const struct play *p)
{
	bool is_all = true;
	for (unsigned i = 0; i < NODES; i++)
		is_all = is_all && rests(p, i);
	return is_all;
}

static void expect_node(const struct play *p, unsigned i)
{
	const struct farm *f = &p->f;
	const struct target_hash *loaded = &f->nodes[i].loaded;
	struct target_hash target = farm_target(plain);
	const char *state = farm_state(f, i);
	bool is_failed = str_eq(state, "failed");
	if (!rests(p, i) ||
	    (!is_failed && (farm_is_cordoned(f, i) != p->is_theirs[i] || *farm_note(f, i, "kmodsmith.io/paused"))))
		fail_msg("SEED=%u: n%02u is %s: %s; go %s, ack %s, cordon %s, cordoned %d", p->seed, i, state,
			 farm_note(f, i, "kmodsmith.io/reason"), farm_note(f, i, "kmodsmith.io/go"),
			 farm_note(f, i, "kmodsmith.io/agent.ack"), farm_note(f, i, "kmodsmith.io/cordon"),
			 farm_is_cordoned(f, i));
	if (str_eq(state, "done") && !target_hash_eq(loaded, &target))
		fail_msg("SEED=%u: n%02u is done, and has another driver", p->seed, i);
	if (!target_hash_eq(loaded, &target) && !target_hash_eq(loaded, &f->old))
		fail_msg("SEED=%u: n%02u is %s, and has no driver", p->seed, i, state);
}

static void expect_foreign(const struct play *p, unsigned i)
{
	auto_str char *path = api_node(p->f.nodes[i].name);
	const json_t *node = sim_get(p->f.sim, path);
	for (unsigned k = 0; k < FOREIGN; k++) {
		auto_str char *key = str_fmt("example.org/k%u", k);
		const char *value = json_string_value(
			json_object_get(sim_at(node, k % 2 ? "metadata labels" : "metadata annotations"), key));
		if (atoi(value ? value : "0") != p->foreign[i][k])
			fail_msg("SEED=%u: n%02u: %s is %s and not %d", p->seed, i, key, value, p->foreign[i][k]);
	}
}

static void expect_peace(const struct play *p)
{
	if (p->f.laws->count)
		fail_msg("SEED=%u: %zu laws were broken, first: %s", p->seed, p->f.laws->count, p->f.laws->items[0]);
	if (p->f.is_unseen)
		fail_msg("SEED=%u: what a leader of before recorded late was never read", p->seed);
	for (unsigned i = 0; i < NODES; i++) {
		expect_node(p, i);
		expect_foreign(p, i);
	}
}

static void begin(struct play *p, unsigned seed)
{
	*p = (struct play){ .seed = seed };
	farm_begin_by(&p->f, NODES, plain, seed);
	farm_agents_begin(&p->f, p->agents);
	unsigned kind = one_of(4);
	if (kind < 2)
		p->f.bad = farm_target(plain);
	p->f.is_sick = kind == 1;
	for (unsigned i = 0; i < BOSSES; i++) {
		p->posts[i].play = p;
		sim_after(i, sit, &p->posts[i]);
	}
	sim_after(PAUSE_MS, disturb, p);
}

static void end(struct play *p)
{
	for (unsigned i = 0; i < BOSSES; i++)
		farm_coordinator_kill(&p->posts[i].coordinator);
	for (unsigned i = 0; i < NODES; i++)
		json_decref(p->old[i]);
	farm_agents_end(p->agents, NODES);
	farm_end(&p->f);
}

static void play(unsigned seed)
{
	struct play p;
	begin(&p, seed);
	sim_pass(MINUTES(2) + one_of(MINUTES(2)));
	make_peace(&p);
	for (long until = sim_now_ms() + MINUTES(150); sim_now_ms() < until && !all_rest(&p);)
		sim_pass(MINUTES(1) / 4);
	sim_pass(MINUTES(1)); // so that what should not follow would be seen
	expect_peace(&p);
	end(&p);
}

static unsigned number(const char *name, unsigned or_else)
{
	const char *text = getenv(name);
	return text && *text ? (unsigned)atoi(text) : or_else;
}

static void peace_follows_every_disorder(void **state)
{
	(void)state;
	unsigned seed_wanted = number("SEED", 0), first = seed_wanted ? seed_wanted : 1;
	unsigned count = seed_wanted ? 1 : sample_seeds(SEEDS, SEEDS, 200);
	assert_true(count > 0);
	for (unsigned seed = first; seed < first + count; seed++)
		play(seed);
	print_message("%u seeds from %u\n", count, first);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(peace_follows_every_disorder) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
