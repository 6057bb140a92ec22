// SPDX-License-Identifier: Apache-2.0
// What becomes of a node up to the last moment at which nothing was unloaded.
#include "tests/unit/rollout_step.h"

#include "tests/unit/rollout_step.def"
TEST(steps, check_steps)

// T17: whatever is disruptive, and staging, has a span.
static void t17_every_state_has_a_deadline(void **state)
{
	(void)state;
	for (enum node_phase p = 0; p < PHASE_UNKNOWN; p++) {
		const struct node_phase_info *info = node_phase_info(p);
		bool is_timed = info->is_disruptive || p == PHASE_STAGING || p == PHASE_LOADING;
		expect(is_timed == (info->span != SPAN_NONE), info->name);
		expect(info->mirrored && node_phase_parse(info->name) == p, info->name);
	}
}

// A drain's time is given once: what comes back from a busy driver has no more than is left (5.4.3).
static void one_deadline_for_all_drains(void **state)
{
	(void)state;
	static const struct row busy = { AT(REPLACING), OURS, TOUCHED, ATTEMPTS(1), GO(REPLACE), FAILS(BUSY) };
	struct decision d;
	pool = (struct pool){ .name = "gpu", .attempts = 2 };
	memcpy(pool.spans, span_defaults, sizeof(pool.spans));
	rollout = (struct rollout){ .target = sides[NEW] };
	describe(&busy);
	m.record.receipt.until = NOW + 7;
	struct view v = {
		.m = &m, .pool = &pool, .rollout = &rollout, .slot = SLOT_WORK, .wave = "", .epoch = 1, .now = NOW
	};
	transition(&v, &d);
	assert_int_equal(d.next.phase, PHASE_EVICTING);
	assert_true(d.next.deadline == NOW + 7);
	assert_int_equal(d.next.attempts, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(steps), cmocka_unit_test(t17_every_state_has_a_deadline),
					    cmocka_unit_test(one_deadline_for_all_drains) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
