// SPDX-License-Identifier: Apache-2.0
// A node at rest: where it is to go, why it does not begin, and what exactly is written when it does; and what every
// write has in common. D2, D3, T03, T33, T71, T75.
#include "tests/unit/rollout_said.h"

static void seen(enum reason_code code, const char *object)
{
	m.facts.seen.blocker.code = code;
	memset(m.facts.seen.blocker.object, 0, OBJECT_TEXT);
	snprintf(m.facts.seen.blocker.object, OBJECT_TEXT, "%.*s", OBJECT_TEXT - 1, object);
}

#include "tests/unit/rollout_rests.def"
TEST(goals, check_said)
TEST(rests, check_said)
TEST(written, check_said)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goals),
		cmocka_unit_test(rests),
		cmocka_unit_test(written),
	};
	return cmocka_run_group_tests_name("rests", tests, NULL, NULL);
}
