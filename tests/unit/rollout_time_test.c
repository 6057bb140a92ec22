// SPDX-License-Identifier: Apache-2.0
// What time decides of one node: windows, and for how long an answer is waited for. A row as in rollout_step_test.
#include "tests/unit/rollout_step.h"

static const struct row rows[] = {
	{ .name = "an order was just repeated: its agent is not silent yet",
	  .phase = PHASE_STAGING,
	  .loaded = OLD,
	  .unstaged = true,
	  .go = VERB_STAGE,
	  .ago = 181,
	  .ordered = 10,
	  STAYS(STAGING),
	  .reason = REASON_STAGING_UNDER_WAY },
	{ .name = "half an hour of the window is left, and that may be needed",
	  .phase = PHASE_EVICTING,
	  OURS,
	  .loaded = OLD,
	  .window = 30,
	  .next = PHASE_REPLACING,
	  .order = VERB_REPLACE },
	{ .name = "the window ends before the way back would",
	  .phase = PHASE_EVICTING,
	  OURS,
	  .loaded = OLD,
	  .window = 29,
	  .next = PHASE_RELEASING,
	  .reason = REASON_WINDOW_CLOSED,
	  .cordon = CORDON_OFF },
	{ .name = "the target is there already: that is proven at any time",
	  .phase = PHASE_EVICTING,
	  OURS,
	  .loaded = NEW,
	  .window = 1,
	  .next = PHASE_VALIDATING,
	  .order = VERB_VALIDATE },
};

static void times(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(times) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
