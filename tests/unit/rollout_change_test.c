// SPDX-License-Identifier: Apache-2.0
// What becomes of a node from the order to replace its driver on, and of one whose keys somebody changed.
#include "tests/unit/rollout_step.h"

#include "tests/unit/rollout_change.def"
TEST(steps, check_steps)

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(steps) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
