// SPDX-License-Identifier: Apache-2.0
// The corpus of the fuzzers, replayed. A file that ever crashed a parser stays in it.
#include "base/file.h"
#include "tests/fuzz/targets.h"
#include "tests/unit/test.h"

static void replay(const char *dir, int (*target)(const uint8_t *data, size_t len))
{
	struct err err;
	auto_root struct root root = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	assert_int_equal(root_init(&root, dir, &err), 0);
	assert_int_equal(root_list(&root, ".", &names, &err), 1);
	assert_true(names.count >= 4);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *data = NULL;
		size_t len;
		assert_int_equal(root_read(&root, names.items[i], &data, &len, &err), 1);
		expect(target((const uint8_t *)data, len) == 0, names.items[i]);
	}
}

static void test_module(void **state)
{
	(void)state;
	replay("tests/fuzz/corpus/module", fuzz_module);
}

static void test_vmlinuz(void **state)
{
	(void)state;
	replay("tests/fuzz/corpus/vmlinuz", fuzz_vmlinuz);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_module), cmocka_unit_test(test_vmlinuz) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
