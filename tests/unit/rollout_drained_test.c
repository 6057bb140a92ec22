// SPDX-License-Identifier: Apache-2.0
// From the cordon to the last moment at which nothing has been unloaded: what exactly is written in each case.
// T04, T06, T11, T17, T23, T25, T82.
#include "tests/unit/rollout_said.h"

#include "tests/unit/rollout_drained.def"
TEST(called_off, check_said)
TEST(drained, check_said)
TEST(asked, check_said)
TEST(told, check_said)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(called_off),
		cmocka_unit_test(drained),
		cmocka_unit_test(asked),
		cmocka_unit_test(told),
	};
	return cmocka_run_group_tests_name("drained", tests, NULL, NULL);
}
