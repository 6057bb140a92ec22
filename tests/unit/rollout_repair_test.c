// SPDX-License-Identifier: Apache-2.0
// What people and accidents did to our keys, in every state: what exactly is written then, and what is not touched.
// T13, T17, T62.
#include "cluster/node_state/annotations.h"
#include "tests/unit/rollout_said.h"

#include "tests/unit/rollout_repair.def"
TEST(unknown, check_said)
TEST(unlabelled, check_said)
TEST(receipts, check_said)
TEST(deadlines, check_said)
TEST(leftovers, check_said)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown),   cmocka_unit_test(unlabelled), cmocka_unit_test(receipts),
		cmocka_unit_test(deadlines), cmocka_unit_test(leftovers),
	};
	return cmocka_run_group_tests_name("repair", tests, NULL, NULL);
}
