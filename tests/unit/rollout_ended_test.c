// SPDX-License-Identifier: Apache-2.0
// Released, and failed: what exactly ends an attempt, and what leads out of a failure. T26, T33, T35.
#include "tests/unit/rollout_said.h"

#include "tests/unit/rollout_ended.def"
TEST(release_and_failure, check_said)

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(release_and_failure) };
	return cmocka_run_group_tests_name("ended", tests, NULL, NULL);
}
