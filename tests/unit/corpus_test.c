// SPDX-License-Identifier: Apache-2.0
// The corpus of the fuzzers, replayed. A file that ever crashed a parser stays in it. Where a file's name begins with
// "ok-" its target must take it, with "bad-" it must refuse it; of other files only the way is of interest.
#include "base/file/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/test.h"

#define CORPUS "tests/fuzz/corpus"

static const struct fuzz_target *find(const char *name)
{
	const struct fuzz_target *t = fuzz_targets();
	while (t && !str_eq(t->name, name))
		t = t->next;
	return t;
}

static void test_every_folder_of_the_corpus_has_a_target(void **state)
{
	(void)state;
	struct err err;
	auto_root struct root root = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	assert_int_equal(root_init(&root, CORPUS, &err), 0);
	assert_int_equal(root_list(&root, ".", &names, &err), 1);
	for (size_t i = 0; i < names.count; i++)
		expect(find(names.items[i]) != NULL, names.items[i]);
}

static void replay(const struct fuzz_target *target, const struct root *root)
{
	struct err err;
	auto_strv struct strv names = { 0 };
	unsigned taken = 0, refused = 0;
	expect(root_list(root, ".", &names, &err) == 1, target->name);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *data = NULL, *row = str_fmt("%s/%s", target->name, names.items[i]);
		size_t len;
		expect(root_read(root, names.items[i], &data, &len, &err) == 1, row);
		bool is_ok = str_starts(names.items[i], "ok-"), is_bad = str_starts(names.items[i], "bad-");
		int r = fuzz_run(target, data, len);
		expect(r == 0 || r == 1, row);
		expect(!(is_ok && r == 0), row);
		expect(!(is_bad && r == 1), row);
		taken += is_ok;
		refused += is_bad;
	}
	expect(taken > 0 && refused > 0, target->name); // a target that takes nothing, or all, is tested by nothing
}

static void test_every_target_takes_and_refuses_what_its_corpus_says(void **state)
{
	(void)state;
	struct err err;
	auto_root struct root corpus = ROOT_NONE;
	assert_int_equal(root_init(&corpus, CORPUS, &err), 0);
	assert_non_null(fuzz_targets());
	for (const struct fuzz_target *t = fuzz_targets(); t; t = t->next) {
		auto_root struct root root = ROOT_NONE;
		expect(root_sub(&corpus, t->name, &root, &err) == 0, t->name);
		replay(t, &root);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_folder_of_the_corpus_has_a_target),
		cmocka_unit_test(test_every_target_takes_and_refuses_what_its_corpus_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
