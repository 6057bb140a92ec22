// SPDX-License-Identifier: Apache-2.0
// T15, T57: what an agent says of an older order is no answer to this one, whatever it says: each answer that moves a
// node, and the same words with the number of the order before, which move nothing.
#include "tests/unit/rollout_step.h"

#include "tests/unit/rollout_older.def"

static void answers_to_older_orders_are_ignored(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(answers_rows); i++) {
		struct row older = answers_rows[i];
		auto_str char *name = str_fmt("of an older order: %s", older.name);
		check(&older);
		older.name = name;
		older.is_older = older.nothing = true;
		older.reason = older.phase == PHASE_STAGING ? REASON_STAGING_UNDER_WAY : REASON_WORKING;
		older.order = VERB_NONE;
		older.cordon = CORDON_KEEP;
		older.now_failed = 0;
		check(&older);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(answers_to_older_orders_are_ignored) };
	return cmocka_run_group_tests_name("older", tests, NULL, NULL);
}
