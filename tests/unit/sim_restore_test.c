// SPDX-License-Identifier: Apache-2.0
// etcd is restored from a backup: objects are as they were some time ago, and resourceVersions go back with them.
// Whoever compares versions, or watches from one that does not exist any more, hears nothing for hours.
#include "tests/sim/farm_agent.h"
#include "tests/unit/lawful.h"

#include <stdio.h>

#define MINUTES(n) ((n)*60 * 1000L)
enum { NODES = 2 };
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";

static bool is_halted(const struct farm *f)
{
	const char *text = sim_text(sim_get(f->sim, "/api/v1/namespaces/kmodsmith/configmaps/" ROLLOUT_STATUS_NAME),
				    "data " ROLLOUT_STATUS_KEY);
	return text && strstr(text, "\"halted\": true");
}

// A coordinator that ends, because another one leads according to the backup, is started again.
static bool run_until_done(struct farm *f, struct farm_coordinator *coordinator, long ms)
{
	for (long end = sim_now_ms() + ms; sim_now_ms() < end;) {
		if (farm_until(f, coordinator, 1, "done", NODES, 1000))
			return true;
		if (coordinator->is_dead)
			farm_coordinator_begin(f, coordinator, "boss");
	}
	return false;
}

static bool run_until(struct farm *f, struct farm_coordinator *coordinator, const char *state)
{
	enum { LOOKS = 6000, EACH_MS = 100 };
	for (int i = 0; i < LOOKS && !farm_in(f, state); i++)
		farm_run(coordinator, 1, EACH_MS);
	return farm_in(f, state) > 0;
}

// The backup is of the moment when the first node got to one state, and is restored when it got to another one.
static void restore_between(const char *from, const char *to, long later_ms, bool has_agents)
{
	auto_str char *name = str_fmt("from %s, restored %ld s after %s, %s", from, later_ms / 1000, to,
				      has_agents ? "agents" : "scripts");
	struct farm f;
	struct farm_coordinator coordinator;
	struct farm_agent agents[NODES];
	farm_begin(&f, NODES, plain);
	if (has_agents)
		farm_agents_begin(&f, agents);
	for (unsigned i = 0; i < NODES; i++) {
		auto_str char *pod = str_fmt("train-%u", i);
		farm_pod(&f, i, pod);
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	expect(run_until(&f, &coordinator, from), name);
	uint64_t backup = sim_version(f.sim);
	expect(run_until(&f, &coordinator, to), name);
	farm_run(&coordinator, 1, later_ms);
	farm_restore(&f, backup);
	bool is_done = run_until_done(&f, &coordinator, MINUTES(10));
	if (!is_done)
		fail_msg("%s: n00 %s %s, n01 %s %s", name, farm_state(&f, 0), farm_note(&f, 0, "kmodsmith.io/reason"),
			 farm_state(&f, 1), farm_note(&f, 1, "kmodsmith.io/reason"));
	expect(!is_halted(&f), name);
	farm_run(&coordinator, 1, MINUTES(1));
	for (unsigned i = 0; i < NODES; i++)
		expect(!farm_is_cordoned(&f, i) && !*farm_note(&f, i, "kmodsmith.io/cordon"), name);
	if (f.laws->count)
		fail_msg("%s: %zu laws were broken, first: %s", name, f.laws->count, f.laws->items[0]);
	farm_coordinator_kill(&coordinator);
	if (has_agents)
		farm_agents_end(agents, NODES);
	farm_end(&f);
}

static void the_rollout_goes_on_after_a_restore_of_etcd(void **state)
{
	(void)state;
	static const char *const states[] = { "staging", "evicting", "replacing", "validating", "done" };
	for (size_t from = 0; from < ARRAY_SIZE(states); from++)
		for (size_t to = from; to < ARRAY_SIZE(states); to++)
			for (int has_agents = 0; has_agents <= 1; has_agents++)
				restore_between(states[from], states[to], 5000, has_agents);
}

// Each deadline in the backup is over, and says nothing about a node that went on meanwhile.
static void a_deadline_that_was_over_before_the_restore_blames_nobody(void **state)
{
	(void)state;
	static const char *const states[] = { "staging", "evicting", "replacing", "validating" };
	for (size_t from = 0; from < ARRAY_SIZE(states); from++)
		for (int has_agents = 0; has_agents <= 1; has_agents++)
			restore_between(states[from], states[from], MINUTES(60), has_agents);
}

static uint64_t backup_of_drain;
static void restore_drain(void *ctx)
{
	farm_restore(ctx, backup_of_drain);
}
static void restore_soon(void *ctx)
{
	sim_after(1000, restore_drain, ctx);
}

// What was known of its pods is of a history that is gone.
static void a_drain_in_progress_evicts_nobody_after_a_restore(void **state)
{
	(void)state;
	enum { PODS = 8 };
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 1, plain);
	for (unsigned i = 0; i < PODS; i++) {
		auto_str char *pod = str_fmt("train-%u", i);
		farm_pod(&f, 0, pod);
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(run_until(&f, &coordinator, "staging"));
	backup_of_drain = sim_version(f.sim);
	const struct sim_fault *slow = sim_fault(f.sim, &(struct sim_fault){ .what = SIM_SLOW,
									     .client = "boss",
									     .verb = "evict",
									     .nth = 2,
									     .late_ms = 6000,
									     .hit = restore_soon,
									     .ctx = &f });
	for (int i = 0; i < 600 && !slow->hits; i++)
		farm_run(&coordinator, 1, 100);
	farm_run(&coordinator, 1, 10000);
	size_t count, at = 0;
	unsigned evictions = 0;
	const struct sim_call *log = sim_log(f.sim, &count);
	while (at < count && (evictions += str_eq(log[at].verb, "evict")) < 2)
		at++;
	while (++at < count && !(str_eq(log[at].verb, "list") && str_starts(log[at].path, "/api/v1/nodes")))
		evictions += str_eq(log[at].verb, "evict");
	assert_true(at < count);
	assert_int_equal(evictions, 2);
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(10)));
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rollout_goes_on_after_a_restore_of_etcd),
		cmocka_unit_test(a_drain_in_progress_evicts_nobody_after_a_restore),
		cmocka_unit_test(a_deadline_that_was_over_before_the_restore_blames_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
