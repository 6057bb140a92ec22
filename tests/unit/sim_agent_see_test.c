// SPDX-License-Identifier: Apache-2.0
// What an agent observes and what it reports: the policy's file, what is in the kernel and on the disk, and who holds
// the driver while a coordinator wants to know (upgrade-design 5.2). How often each is read is what an idle node
// costs.
#include "tests/unit/agent_fixture.h"

static void an_idle_node_costs_little(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	fixture_run(&s, 2000);
	assert_int_equal(s.looks, 1);
	unsigned looks = s.looks, policies = s.policies;
	size_t calls = sim_count(s.sim, "agent", NULL);
	fixture_run(&s, 600 * 1000L);
	assert_in_range(s.looks - looks, 9, 11);
	assert_in_range(s.policies - policies, 115, 121);
	assert_int_equal(s.counts, 0); // nobody asked who holds it
	assert_int_equal(sim_count(s.sim, "agent", NULL), calls);
	fixture_end(&s);
}

// 1.0 was found, and what was found is what worked here: its name comes first from then on.
static void what_the_agent_looks_for(void **state)
{
	(void)state;
	struct fixture s;
	auto_str char *why = NULL;
	struct err err;
	auto_agent_journal struct agent_journal j = { 0 };
	const struct target_hash old = fixture_target_hash("1.0");
	fixture_begin(&s);
	s.policy = "{\"pools\": [{\"name\": \"a\", \"target\": {\"driver\": \"2.0\"}, \"selector\": {\"x\": \"y\"}},"
		   "{\"name\": \"b\", \"target\": {\"driver\": \"3.0\"}}]}";
	fixture_run(&s, 1000);
	assert_string_equal(s.names, "2.0 3.0");
	s.found = NULL;
	s.policy = SEAT_POLICY("4.0");
	s.is_policy_new = true;
	fixture_run(&s, 5500); // another policy is looked at at once
	assert_int_equal(s.looks, 2);
	assert_string_equal(s.names, "1.0 4.0");
	assert_int_equal(agent_journal_read(&s.folder.root, &j, &why, &err), 1);
	assert_true(target_hash_eq(&j.current, &old));
	assert_non_null(agent_known(&j, &old));
	// An order to be carried out: what it means comes after what works, and first when it has ended well.
	s.facts.store[1] = fixture_target_hash("4.0");
	fixture_order(&s, "1.1", "replace", "4.0");
	fixture_run(&s, 70000);
	assert_int_equal(s.looks, 4); // at the order, and a minute later
	assert_string_equal(s.names, "1.0 4.0");
	fixture_child_ends(&s, "E_LOAD", FAILING_PERMANENT);
	fixture_run(&s, 1000);
	assert_string_equal(s.names, "1.0 4.0");
	fixture_order(&s, "1.2", "replace", "4.0");
	fixture_run(&s, 1000);
	s.facts.loaded = fixture_target_hash("4.0");
	fixture_child_ends(&s, "", 0);
	fixture_run(&s, 1000);
	assert_string_equal(s.names, "4.0 1.0");
	fixture_end(&s);
}

static void a_foreign_driver_is_not_remembered(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool is_foreign, is_empty;
		const char *says;
	} table[] = {
		{ "another program's driver", true, false, "foreign 1.0 ABC 6.1" },
		{ "no driver", false, true, "none" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct fixture s;
		auto_str char *why = NULL;
		struct err err;
		auto_agent_journal struct agent_journal j = { 0 };
		fixture_begin(&s);
		s.found = NULL;
		s.facts.is_foreign = table[i].is_foreign;
		s.facts.is_empty = table[i].is_empty;
		s.facts.loaded = TARGET_HASH_NONE;
		fixture_run(&s, 2000);
		expect(str_eq(fixture_note(&s, "loaded"), table[i].says), fixture_note(&s, "loaded"));
		assert_true(agent_journal_read(&s.folder.root, &j, &why, &err) >= 0);
		expect(!target_hash_is_set(&j.current) && j.known_count == 0, table[i].text);
		fixture_end(&s);
	}
}

// What is not known stays as it was said: a coordinator does not take it for gone.
static void an_unreadable_node(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	fixture_run(&s, 2000);
	auto_str char *loaded = str_dup(fixture_note(&s, "loaded")), *store = str_dup(fixture_note(&s, "store"));
	char target_hash[TARGET_HASH_TEXT];
	const struct target_hash old = fixture_target_hash("1.0");
	target_hash_text(&old, target_hash);
	auto_str char *says = str_fmt("%s 1.0 ABC 6.1", target_hash);
	assert_string_equal(loaded, says);
	assert_string_equal(store, target_hash);
	s.look_code = E_SYSTEM;
	fixture_again(&s);
	unsigned looks = s.looks;
	fixture_order(&s, "1.1", "stage", "2.0");
	fixture_run(&s, 35000);
	assert_in_range(s.looks - looks, 3, 5); // every ten seconds
	fixture_expect_log(&s, "trouble reading the state of this node: E_SYSTEM the disk is gone\n", "said once");
	assert_string_equal(fixture_note(&s, "loaded"), loaded);
	assert_string_equal(fixture_note(&s, "store"), store);
	s.look_code = 0;
	s.facts.store[1] = fixture_target_hash("2.0");
	fixture_run(&s, 10500);
	fixture_expect_log(&s, "did order 1.1: stage\ndid stage: done: the target is staged already\n", "it goes on");
	fixture_end(&s);
}

static void an_unreadable_policy_changes_nothing(void **state)
{
	(void)state;
	static const struct {
		const char *text, *policy, *says;
	} table[] = {
		{ "it is gone", NULL, "trouble reading the policy: E_NOT_FOUND there is no policy\n" },
		{ "it is nonsense", "{\"pools\": 7}", "trouble reading the policy: E_CONFIG " },
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct fixture s;
		fixture_begin(&s);
		fixture_run(&s, 2000);
		s.policy = table[i].policy;
		s.is_policy_new = true;
		fixture_run(&s, 30000);
		expect(str_starts(s.log, table[i].says), s.log);
		expect(strchr(s.log, '\n') == s.log + strlen(s.log) - 1, s.log); // once
		s.log[0] = '\0';
		s.policy = NULL;
		s.facts.store[1] = fixture_target_hash("2.0");
		fixture_order(&s, "1.1", "stage", "2.0"); // as the one of before has it
		fixture_run(&s, 1000);
		expect(strstr(s.log, "did stage: done: the target is staged already\n"), s.log);
		fixture_end(&s);
	}
}

// Who holds the driver

enum how { NOT, ROUGHLY, EXACTLY };
static const struct row {
	const char *phase, *reason;
	enum how how;
} rows[] = {
	{ "idle", "", NOT },
	{ "staging", "", NOT },
	{ "queued", "", ROUGHLY },
	{ "loading", "", NOT },
	{ "cordoned", "", EXACTLY },
	{ "waiting", "", ROUGHLY },
	{ "evicting", "", EXACTLY },
	{ "replacing", "", EXACTLY },
	{ "validating", "", NOT },
	{ "restoring", "", EXACTLY },
	{ "releasing", "", NOT },
	{ "done", "", NOT },
	{ "rolledback", "", NOT },
	{ "failed", "", NOT },
	{ "held", "holder-protected a/b", ROUGHLY },
	{ "held", "policy-gone", NOT },
};

static void holders_are_counted_on_demand(void **state)
{
	(void)state;
	static const char *const says[] = { [NOT] = "", [ROUGHLY] = "1 1 pod-0 pod-1", [EXACTLY] = "2 1 pod-0 pod-1" };
	static const unsigned in_a_minute[][2] = { [NOT] = { 0, 0 }, [ROUGHLY] = { 3, 5 }, [EXACTLY] = { 28, 31 } };
	for (const struct row *w = rows; w < rows + ARRAY_SIZE(rows); w++) {
		struct fixture s;
		fixture_begin(&s);
		s.holders = 2;
		fixture_run(&s, 1000);
		fixture_state(&s, w->phase);
		if (*w->reason)
			sim_merge(s.sim, SEAT_NODE, "{'metadata':{'annotations':{'kmodsmith.io/reason':'%s'}}}",
				  w->reason);
		fixture_run(&s, 1000);
		expect(str_eq(fixture_note(&s, "holders"), says[w->how]), w->phase);
		unsigned counts = s.counts;
		fixture_run(&s, 60000);
		counts = s.counts - counts;
		expect(counts >= in_a_minute[w->how][0] && counts <= in_a_minute[w->how][1], w->phase);
		fixture_state(&s, "idle"); // what nobody asks about any more is not said any more
		fixture_run(&s, 1000);
		expect(*fixture_note(&s, "holders") == '\0', w->phase);
		fixture_end(&s);
	}
}

static void changes_are_reported_while_the_coordinator_waits(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	fixture_state(&s, "evicting");
	s.holders = 2;
	fixture_run(&s, 1000);
	s.holders = 1;
	fixture_run(&s, 2500);
	assert_string_equal(fixture_note(&s, "holders"), "1 2 pod-0");
	s.holders = 0;
	fixture_run(&s, 2500);
	assert_string_equal(fixture_note(&s, "holders"), "0 3");
	s.holders = AGENT_UNKNOWN;
	fixture_run(&s, 2500);
	assert_string_equal(fixture_note(&s, "holders"), "unknown 4");
	fixture_end(&s);
}

// A node that is busy now and idle then writes nothing all day; it says so when it stays so for a minute.
static void short_changes_are_not_reported_while_it_chooses(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	fixture_state(&s, "queued");
	s.holders = 2;
	fixture_run(&s, 1000);
	assert_string_equal(fixture_note(&s, "holders"), "1 1 pod-0 pod-1");
	size_t patches = sim_count(s.sim, "agent", "patch");
	for (int i = 0; i < 10; i++) {
		s.holders = i % 2 ? 3 : 0;
		fixture_run(&s, 45000);
	}
	s.holders = 3; // as busy as it was
	fixture_run(&s, 120000);
	assert_int_equal(sim_count(s.sim, "agent", "patch"), patches);
	s.holders = 0;
	fixture_run(&s, 40000);
	assert_int_equal(sim_count(s.sim, "agent", "patch"), patches);
	fixture_run(&s, 50000);
	assert_int_equal(sim_count(s.sim, "agent", "patch"), patches + 1);
	assert_true(str_starts(fixture_note(&s, "holders"), "0 "));
	s.holders = 1;
	fixture_run(&s, 90000);
	assert_true(str_starts(fixture_note(&s, "holders"), "1 "));
	assert_int_equal(sim_count(s.sim, "agent", "patch"), patches + 2);
	fixture_end(&s);
}

// A drain that begins does not wait for the next rough look, nor for the minute.
static void a_drain_gets_exact_counts_at_once_and_coarse_ones_after(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	s.holders = 2;
	fixture_state(&s, "queued");
	fixture_run(&s, 2000);
	assert_string_equal(fixture_note(&s, "holders"), "1 1 pod-0 pod-1");
	fixture_state(&s, "cordoned");
	fixture_run(&s, 500);
	assert_string_equal(fixture_note(&s, "holders"), "2 1 pod-0 pod-1");
	s.holders = 3;
	fixture_state(&s, "waiting");
	fixture_run(&s, 2500);
	assert_string_equal(fixture_note(&s, "holders"), "1 2 pod-0 pod-1 pod-2");
	fixture_end(&s);
}

// While a child is young the node says what is new of holders, and forgets nothing that it said: its end tells.
static void holders_while_a_worker_has_just_started(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	s.holders = 1;
	s.facts.store[1] = fixture_target_hash("2.0");
	fixture_state(&s, "evicting");
	fixture_run(&s, 3000);
	assert_string_equal(fixture_note(&s, "holders"), "1 1 pod-0");
	fixture_state(&s, "idle");
	fixture_order(&s, "1.1", "replace", "2.0");
	fixture_run(&s, 3000);
	assert_int_equal(s.children, 1);
	assert_string_equal(fixture_note(&s, "holders"), "1 1 pod-0");
	fixture_child_ends(&s, "E_LOAD", FAILING_PERMANENT);
	fixture_run(&s, 1000);
	assert_string_equal(fixture_note(&s, "holders"), "");
	fixture_end(&s);
}

// Trouble with the API server

static void a_failed_write_is_repeated(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	sim_fault(s.sim, &(struct sim_fault){
				 .what = SIM_STATUS, .status = 403, .client = "agent", .verb = "patch", .times = 3 });
	fixture_run(&s, 60000);
	assert_true(str_starts(s.log, "trouble writing to the Node: "));
	assert_ptr_equal(strchr(s.log, '\n'), s.log + strlen(s.log) - 1); // said once
	assert_true(*fixture_note(&s, "loaded"));
	// What was told is over, and the same trouble is another one then.
	s.log[0] = '\0';
	s.facts.release[0] = '7';
	sim_fault(s.sim, &(struct sim_fault){
				 .what = SIM_STATUS, .status = 403, .client = "agent", .verb = "patch", .times = 1 });
	fixture_run(&s, 90000);
	assert_true(str_starts(s.log, "trouble writing to the Node: "));
	fixture_end(&s);
}

static void a_failed_observation_is_repeated(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	sim_fault(s.sim, &(struct sim_fault){
				 .what = SIM_STATUS, .status = 403, .client = "agent", .verb = "get", .times = 2 });
	s.facts.store[1] = fixture_target_hash("2.0");
	fixture_order(&s, "1.1", "stage", "2.0");
	fixture_run(&s, 20000);
	assert_true(str_starts(s.log, "trouble watching the Node: "));
	auto_str char *rest = str_dup(strchr(s.log, '\n') + 1);
	assert_string_equal(rest, "did order 1.1: stage\ndid stage: done: the target is staged already\n");
	fixture_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idle_node_costs_little),
		cmocka_unit_test(what_the_agent_looks_for),
		cmocka_unit_test(a_foreign_driver_is_not_remembered),
		cmocka_unit_test(an_unreadable_node),
		cmocka_unit_test(an_unreadable_policy_changes_nothing),
		cmocka_unit_test(holders_are_counted_on_demand),
		cmocka_unit_test(changes_are_reported_while_the_coordinator_waits),
		cmocka_unit_test(short_changes_are_not_reported_while_it_chooses),
		cmocka_unit_test(a_drain_gets_exact_counts_at_once_and_coarse_ones_after),
		cmocka_unit_test(holders_while_a_worker_has_just_started),
		cmocka_unit_test(a_failed_write_is_repeated),
		cmocka_unit_test(a_failed_observation_is_repeated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
