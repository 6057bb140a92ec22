// SPDX-License-Identifier: Apache-2.0
// What time decides of one node: windows, and for how long an answer is waited for. A row as in rollout_step_test.
#include "tests/unit/rollout_step.h"

#include "tests/unit/rollout_time.def"
TEST(times, check_steps)

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(times) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
