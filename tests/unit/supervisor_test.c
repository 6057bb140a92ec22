// SPDX-License-Identifier: Apache-2.0
// R-P1: a daemon that ends is started again, and one that cannot stay up does not take the node's time. The clock is a
// number.
#include "supervisor/restart_policy.h"

#include "tests/unit/test.h"

static int64_t now;
static struct supervised s;

static int setup(void **state)
{
	(void)state;
	now = 1000;
	s = SUPERVISED;
	return 0;
}

static unsigned event(enum supervised_event_kind kind, const char *text)
{
	const struct supervised_event e = { .kind = kind, .pid = 42, .start = 7, .text = text, .after_ms = 500 };
	return restart_policy_step(&s, &e, now);
}

// To the next moment at which something is due.
static unsigned next(void)
{
	now = s.due_ms > now ? s.due_ms : now;
	return event(EVENT_TICK, NULL);
}

static void a_first_start(void **state)
{
	(void)state;
	assert_int_equal(event(EVENT_TICK, NULL), ACTION_START);
	assert_int_equal(event(EVENT_LAUNCHED, NULL), 0);
	assert_string_equal(restart_policy_state_name(s.state), "starting");
	assert_int_equal(event(EVENT_TICK, NULL), 0);
	assert_int_equal(event(EVENT_UP, NULL), ACTION_AFTER);
	assert_int_equal(s.state, SUPERVISED_UP);
	assert_int_equal(s.pid, 42);
	assert_true(s.due_ms == SUPERVISED_NEVER);
	assert_int_equal(s.restarts, 0);
	now += 1000 * 1000;
	assert_int_equal(event(EVENT_TICK, NULL), 0);
}

static void what_never_comes_up_is_ended(void **state)
{
	(void)state;
	event(EVENT_TICK, NULL);
	event(EVENT_LAUNCHED, NULL);
	int64_t began = now;
	assert_int_equal(next(), ACTION_END);
	assert_int_equal(now - began, STARTING_MOST_MS);
	event(EVENT_ENDED, "did not come up");
	assert_int_equal(s.state, SUPERVISED_DOWN);
	assert_string_equal(s.why_not, "did not come up");
}

static void back_off(void **state)
{
	(void)state;
	static const int waits[] = { 1, 2, 4, 8, 16, 32, 60, 60, 60 };
	event(EVENT_TICK, NULL);
	event(EVENT_UP, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(waits); i++) {
		now += 100; // flapping
		int64_t ended = now;
		event(EVENT_ENDED, "exit status 1");
		assert_int_equal(s.state, SUPERVISED_DOWN);
		assert_int_equal(event(EVENT_TICK, NULL), 0);
		assert_int_equal(next(), ACTION_START);
		assert_int_equal(now - ended, waits[i] * 1000);
		assert_int_equal(event(EVENT_UP, NULL), 0); // what belongs behind the first start is not done again
		assert_int_equal(s.restarts, i + 1);
		assert_string_equal(s.last, "exit status 1");
		assert_string_equal(s.why_not, "");
	}
	now += BACKOFF_RESET_MS - 1;
	event(EVENT_ENDED, "signal 9");
	assert_int_equal(s.due_ms - now, BACKOFF_MOST_MS);
	next();
	event(EVENT_UP, NULL);
	now += BACKOFF_RESET_MS;
	event(EVENT_ENDED, "signal 9");
	assert_int_equal(s.due_ms - now, BACKOFF_FIRST_MS);
}

static void a_start_that_fails_backs_off_too(void **state)
{
	(void)state;
	event(EVENT_TICK, NULL);
	event(EVENT_ENDED, "no memory");
	assert_int_equal(s.due_ms - now, BACKOFF_FIRST_MS);
	assert_int_equal(next(), ACTION_START);
	event(EVENT_ENDED, "no memory");
	assert_int_equal(s.due_ms - now, 2 * BACKOFF_FIRST_MS);
	assert_int_equal(s.restarts, 0);
}

static void one_that_runs_is_taken(void **state)
{
	(void)state;
	event(EVENT_TICK, NULL);
	assert_int_equal(event(EVENT_ADOPTED, NULL), 0);
	assert_int_equal(s.state, SUPERVISED_UP);
	assert_int_equal(s.restarts, 0);
	event(EVENT_ENDED, "ended");
	next();
	assert_int_equal(event(EVENT_UP, NULL), 0);
	assert_int_equal(s.restarts, 1);
}

static void waiting_is_no_failure(void **state)
{
	(void)state;
	int64_t began = now;
	unsigned actions, told = 0;
	for (event(EVENT_TICK, NULL); now - began < 2 * WAITING_MOST_MS;) {
		event(EVENT_BLOCKED, "module ib_umad is not loaded");
		assert_int_equal(s.state, SUPERVISED_WAITING);
		actions = next();
		assert_true(actions & ACTION_START);
		if (actions & ACTION_TELL) {
			told++;
			assert_true(now - began >= WAITING_MOST_MS);
		}
	}
	assert_int_equal(told, 1);
	assert_string_equal(s.why_not, "module ib_umad is not loaded");
	assert_int_equal(s.backoff_ms, BACKOFF_FIRST_MS);
	event(EVENT_UP, NULL);
	assert_string_equal(s.why_not, "");
}

static void who_follows(void **state)
{
	(void)state;
	assert_true(restart_policy_follower_due_ms(&s) == SUPERVISED_NEVER);
	event(EVENT_UP, NULL);
	assert_int_equal(restart_policy_follower_due_ms(&s), now + FOLLOW_MS);
	event(EVENT_ENDED, "signal 11");
	assert_true(restart_policy_follower_due_ms(&s) == SUPERVISED_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_first_start, setup),
		cmocka_unit_test_setup(what_never_comes_up_is_ended, setup),
		cmocka_unit_test_setup(back_off, setup),
		cmocka_unit_test_setup(a_start_that_fails_backs_off_too, setup),
		cmocka_unit_test_setup(one_that_runs_is_taken, setup),
		cmocka_unit_test_setup(waiting_is_no_failure, setup),
		cmocka_unit_test_setup(who_follows, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
