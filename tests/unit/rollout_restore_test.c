// SPDX-License-Identifier: Apache-2.0
// The way back: what exactly is written in each case, how often it is tried, and what stays.
#include "tests/unit/rollout_said.h"

#include "tests/unit/rollout_restore.def"
TEST(the_way_back, check_said)

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_way_back) };
	return cmocka_run_group_tests_name("restore", tests, NULL, NULL);
}
