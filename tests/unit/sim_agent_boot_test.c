// SPDX-License-Identifier: Apache-2.0
// What an agent does when its worker, the agent itself or the machine dies during a change (upgrade-design 5.6, T76):
// it continues, but not for ever, and restores what was loaded before.
#include "tests/unit/agent_fixture.h"

static void is_loaded(struct fixture *s, const char *driver)
{
	s->facts.is_empty = !*driver;
	s->facts.loaded = *driver ? fixture_target_hash(driver) : TARGET_HASH_NONE;
	s->found = NULL;
}

// Of a replacement that takes what is loaded out.
static void begin(struct fixture *s)
{
	fixture_begin(s);
	s->facts.store[1] = fixture_target_hash("2.0");
	fixture_run(s, 1000);
	fixture_state(s, "replacing"); // a coordinator decides what comes in
	fixture_order(s, "1.1", "replace", "2.0");
	fixture_run(s, 1000);
	fixture_expect_log(s, "did order 1.1: replace\ndid replace: starting the worker\nbegin swap 2.0\n",
			   "it begins");
	is_loaded(s, "");
}

static void a_change_that_ends_boots_is_undone(void **state)
{
	(void)state;
	struct fixture s;
	begin(&s);
	s.site.boot = "boot-2";
	fixture_again(&s);
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did replace: interrupted: resuming\nbegin swap 2.0\n", "the second boot");
	s.site.boot = "boot-3";
	s.policy = SEAT_POLICY("3.0"); // nobody names 1.0 or 2.0 any more: the agent remembers
	fixture_again(&s);
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did replace: no attempt is left: restoring the previous driver\nbegin swap 1.0\n",
			   "the third boot");
	is_loaded(&s, "1.0");
	fixture_child_ends(&s, "", 0);
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did replace: failed boot-loop: no attempt is left; the previous driver was restored\n",
			   "the way back");
	assert_string_equal(fixture_note(&s, "ack"), "1.1:replace:failed:permanent:boot-loop");
	fixture_end(&s);
}

static void a_killed_worker_is_started_three_times(void **state)
{
	(void)state;
	struct fixture s;
	begin(&s);
	for (int i = 0; i < 2; i++) {
		fixture_child_ends(&s, "E_SYSTEM", FAILING_TRANSIENT);
		s.end.is_crash = true;
		fixture_run(&s, 1000);
		fixture_expect_log(&s, "did replace: worker was killed; retrying\nbegin swap 2.0\n", "again");
	}
	fixture_child_ends(&s, "E_SYSTEM", FAILING_TRANSIENT);
	s.end.is_crash = true;
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did replace: failed E_SYSTEM: the worker failed\n", "and no more");
	fixture_end(&s);
}

// The end of the child was not told, and the kernel says so.
static void a_loaded_target_counts_as_done(void **state)
{
	(void)state;
	struct fixture s;
	begin(&s);
	is_loaded(&s, "2.0");
	fixture_again(&s);
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did replace: done: the target is loaded, which was not reported yet\n", "found");
	assert_string_equal(fixture_note(&s, "ack"), "1.1:replace:done");
	fixture_end(&s);
}

// Between the order and its beginning people pause the node, and the policy goes on to another driver.
static void the_target_of_an_order_outlives_the_policy(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	s.facts.store[1] = fixture_target_hash("2.0");
	fixture_run(&s, 1000);
	sim_merge(s.sim, SEAT_NODE, "{'metadata':{'annotations':{'kmodsmith.io/pause':'true'}}}");
	fixture_order(&s, "1.1", "replace", "2.0");
	fixture_run(&s, 1000);
	s.policy = SEAT_POLICY("3.0");
	s.is_policy_new = true;
	fixture_run(&s, 6000);
	fixture_expect_log(&s, "did order 1.1: replace\n", "paused");
	sim_merge(s.sim, SEAT_NODE, "{'metadata':{'annotations':{'kmodsmith.io/pause':null}}}");
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did replace: starting the worker\nbegin swap 2.0\n", "as it was meant");
	fixture_end(&s);
}

// That it was tried in this boot is on the disk: an agent that is started again does not try once more.
static void a_failed_revival_is_not_repeated_by_the_next_agent(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	fixture_run(&s, 1000);
	is_loaded(&s, "");
	s.site.boot = "boot-2";
	fixture_again(&s);
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did boot: booted: loading the last good driver\nbegin revive 1.0\n", "booted");
	fixture_child_ends(&s, "E_LOAD", FAILING_PERMANENT);
	fixture_run(&s, 1000);
	fixture_again(&s);
	fixture_run(&s, 60000);
	fixture_expect_log(&s, "", "not in this boot");
	s.site.boot = "boot-3";
	fixture_again(&s);
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did boot: booted: loading the last good driver\nbegin revive 1.0\n", "but in the next");
	fixture_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_change_that_ends_boots_is_undone),
		cmocka_unit_test(a_killed_worker_is_started_three_times),
		cmocka_unit_test(a_loaded_target_counts_as_done),
		cmocka_unit_test(the_target_of_an_order_outlives_the_policy),
		cmocka_unit_test(a_failed_revival_is_not_repeated_by_the_next_agent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
