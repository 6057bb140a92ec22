// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/test.h"

#include <ctype.h>
#include <errno.h>
#include <sysexits.h>

static bool is_camel_case(const char *s)
{
	if (!isupper((unsigned char)*s))
		return false;
	while (isalnum((unsigned char)*s))
		s++;
	return *s == '\0';
}

// One line that reads as a part of a sentence: the commands put it behind a colon.
static bool is_phrase(const char *s)
{
	return s && strlen(s) > 10 && strlen(s) < 200 && !strchr(s, '\n') && !str_ends(s, ".") &&
	       !isupper((unsigned char)*s);
}

static void test_every_code_is_complete(void **state)
{
	(void)state;
	size_t count = 0;
	for (int code = E_SYSTEM; code < E_LAST_; code++, count++) {
		const struct err_info *i = err_info(code);
		expect(i->name && str_starts(i->name, "E_"), i->name);
		expect(i->code > 1023, i->name);
		int want = i->code == E_USAGE || i->code == E_CONFIG ? 2 : 1;
		expect(i->exit_status == want || (i->exit_status == EX_TEMPFAIL && i->retryable), i->name);
		expect(is_camel_case(i->reason), i->name);
		expect(is_phrase(i->text), i->name);
		expect(is_phrase(i->next), i->name);
		expect(i->code == code, i->name);
		expect(err_info_by_name(i->name) == i, i->name);
		for (int later = code + 1; later < E_LAST_; later++) {
			const struct err_info *j = err_info(later);
			expect(!str_eq(i->name, j->name), i->name);
			expect(!str_eq(i->reason, j->reason), i->name);
		}
	}
	assert_true(count >= 30);
}

static void test_an_error_has_a_next_step_of_its_own_or_that_of_its_code(void **state)
{
	(void)state;
	struct err err;
	err_set(&err, E_NO_PACKAGE, "no package");
	assert_string_equal(err_next_step(&err), err_info(E_NO_PACKAGE)->next);
	assert_int_equal(err_next(&err, "type %s", "this"), -1);
	err_wrap(&err, "plan");
	assert_string_equal(err_next_step(&err), "type this");
	err_next(&err, "%0*d", ERR_NEXT_MOST, 0); // does not fit, and half a command is none
	assert_string_equal(err_next_step(&err), err_info(E_NO_PACKAGE)->next);
	err_next(&err, "%0*d", ERR_NEXT_MOST - 1, 0);
	assert_int_equal(strlen(err_next_step(&err)), ERR_NEXT_MOST - 1);
	err_code(&err, E_AUTH);
	assert_string_equal(err_next_step(&err), err_info(E_AUTH)->next);
	err_next(&err, "type %s", "this");
	err_set(&err, ENOENT, "open it");
	assert_string_equal(err_next_step(&err), err_info(E_NOT_FOUND)->next);
	err_set(&err, ELOOP, "open it");
	assert_non_null(strstr(err_next_step(&err), "replace the symbolic link"));
	err_set(&err, ENOTDIR, "open it");
	assert_non_null(strstr(err_next_step(&err), "a directory is needed"));
	err_set(&err, EISDIR, "read it");
	assert_non_null(strstr(err_next_step(&err), "a file is needed"));
	err_set(&err, EIO, "read it");
	assert_string_equal(err_next_step(&err), err_info(E_SYSTEM)->next);
}

// explain and the manual put the cause at the beginning of a line and the command on one of its own.
static void test_every_code_has_causes_with_commands(void **state)
{
	(void)state;
	size_t total = 0;
	for (int code = E_SYSTEM; code < E_LAST_; code++) {
		size_t count;
		const struct err_cause *causes = err_causes(code, &count);
		expect(causes && count >= 1 && count <= 3, err_info(code)->name);
		for (size_t i = 0; i < count; i++) {
			expect(causes[i].code == code, err_info(code)->name);
			expect(is_phrase(causes[i].cause) || isupper((unsigned char)*causes[i].cause), causes[i].cause);
			expect(!str_ends(causes[i].cause, "."), causes[i].cause);
			expect(*causes[i].command && !strpbrk(causes[i].command, "`\n"), causes[i].command);
		}
		total += count;
	}
	size_t none;
	assert_null(err_causes(ENOENT, &none));
	assert_int_equal(none, 0);
	assert_true(total > E_LAST_ - E_SYSTEM);
}

static void test_foreign_codes_are_system_errors(void **state)
{
	(void)state;
	static const int codes[] = { 0, -1, EIO, 1023, E_LAST_, 1 << 30 };
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		assert_int_equal(err_info(codes[i])->code, E_SYSTEM);
	assert_null(err_info_by_name("E_NO_SUCH_CODE"));
	assert_null(err_info_by_name(NULL));
}

static void test_reasons_of_the_system_that_a_user_can_act_on(void **state)
{
	(void)state;
	static const int rows[][2] = { { ENOENT, E_NOT_FOUND }, { EACCES, E_RIGHTS },   { EPERM, E_RIGHTS },
				       { ENOSPC, E_NO_SPACE },  { EDQUOT, E_NO_SPACE }, { ENOTDIR, E_SYSTEM },
				       { EROFS, E_READ_ONLY } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(err_info(rows[i][0])->code, rows[i][1]);
}

static void test_set_says_the_reason_of_an_errno_only(void **state)
{
	(void)state;
	struct err err;
	assert_int_equal(err_set(&err, ENOENT, "open '%s'", "x"), -1);
	assert_int_equal(err.code, ENOENT);
	assert_string_equal(err.text, "open 'x': No such file or directory");
	assert_int_equal(err_set(&err, E_ABI, "3 symbols differ"), -1);
	assert_int_equal(err.code, E_ABI);
	assert_string_equal(err.text, "3 symbols differ");
}

static void test_wrap_goes_in_front_and_keeps_the_code(void **state)
{
	(void)state;
	struct err err;
	err_set(&err, E_ELF, "no section");
	assert_int_equal(err_wrap(&err, "look at '%s'", "nvidia.ko"), -1);
	assert_int_equal(err_wrap(&err, "install"), -1);
	assert_string_equal(err.text, "install: look at 'nvidia.ko': no section");
	assert_int_equal(err.code, E_ELF);
	assert_int_equal(err_code(&err, E_ABI), -1);
	assert_int_equal(err.code, E_ABI);
	assert_string_equal(err.text, "install: look at 'nvidia.ko': no section");
}

static void test_the_old_text_may_be_an_argument(void **state)
{
	(void)state;
	struct err err;
	err_set(&err, E_ELF, "no section");
	err_set(&err, E_ABI, "module 1: %s, module 2: %s", err.text, err.text);
	assert_string_equal(err.text, "module 1: no section, module 2: no section");
	err_wrap(&err, "again '%s'", err.text);
	assert_true(str_starts(err.text, "again 'module 1: no section"));
}

static void test_long_texts_are_cut_not_overrun(void **state)
{
	(void)state;
	char big[2000];
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	struct err err;
	for (size_t cut = sizeof(err.text) - 4; cut < sizeof(err.text) + 4; cut++) {
		err_set(&err, ENOENT, "%.*s", (int)cut, big);
		assert_in_range(strnlen(err.text, sizeof(err.text)), sizeof(err.text) - 4, sizeof(err.text) - 1);
		err_set(&err, E_ELF, "inner");
		err_wrap(&err, "%.*s", (int)cut, big);
		assert_in_range(strnlen(err.text, sizeof(err.text)), sizeof(err.text) - 4, sizeof(err.text) - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_code_is_complete),
		cmocka_unit_test(test_an_error_has_a_next_step_of_its_own_or_that_of_its_code),
		cmocka_unit_test(test_every_code_has_causes_with_commands),
		cmocka_unit_test(test_foreign_codes_are_system_errors),
		cmocka_unit_test(test_reasons_of_the_system_that_a_user_can_act_on),
		cmocka_unit_test(test_set_says_the_reason_of_an_errno_only),
		cmocka_unit_test(test_wrap_goes_in_front_and_keeps_the_code),
		cmocka_unit_test(test_the_old_text_may_be_an_argument),
		cmocka_unit_test(test_long_texts_are_cut_not_overrun),
	};
	return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
