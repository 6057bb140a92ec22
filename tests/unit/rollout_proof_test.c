// SPDX-License-Identifier: Apache-2.0
// From the order to replace to the proof: what exactly is written in each case, and what stays.
#include "tests/unit/rollout_said.h"

#include "tests/unit/rollout_proof.def"
TEST(from_the_order, check_said)
TEST(until_the_proof, check_said)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_the_order),
		cmocka_unit_test(until_the_proof),
	};
	return cmocka_run_group_tests_name("proof", tests, NULL, NULL);
}
