// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/test.h"

#include "base/file/digest.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define MILLION "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" // FIPS 180-2, appendix B.3

static void test_known_answers(void **state)
{
	(void)state;
	char hex[DIGEST_HEX + 1];
	digest_data("", 0, hex);
	assert_string_equal(hex, EMPTY);
	digest_data("abc", 3, hex);
	assert_string_equal(hex, ABC);
	char part[1000];
	memset(part, 'a', sizeof(part));
	struct digest *d = digest_new();
	for (int i = 0; i < 1000; i++)
		digest_add(d, part, sizeof(part));
	digest_hex(d, hex);
	assert_string_equal(hex, MILLION);
}

static void test_file_from_the_current_offset(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	folder_file(&folder, "f", "shell;abc");
	struct err err;
	auto_fd int fd = root_open(&folder.root, "f", O_RDONLY, &err);
	char hex[DIGEST_HEX + 1];
	assert_int_equal(lseek(fd, 6, SEEK_SET), 6);
	assert_int_equal(digest_file(fd, "f", hex, &err), 0);
	assert_string_equal(hex, ABC);
	assert_int_equal(digest_file(fd, "f", hex, &err), 0);
	assert_string_equal(hex, EMPTY);
}

static void test_an_unreadable_file_leaves_the_result(void **state)
{
	(void)state;
	struct err err;
	char hex[DIGEST_HEX + 1] = "untouched";
	auto_fd int fd = open("/", O_RDONLY | O_DIRECTORY);
	assert_int_equal(digest_file(fd, "the root", hex, &err), -1);
	assert_int_equal(err.code, EISDIR);
	assert_string_equal(hex, "untouched");
}

static void test_is_hex(void **state)
{
	(void)state;
	assert_true(digest_is_hex(ABC));
	assert_false(digest_is_hex(NULL));
	assert_false(digest_is_hex(""));
	assert_false(digest_is_hex(ABC "0"));
	assert_false(digest_is_hex(&ABC[1]));
	assert_false(digest_is_hex("BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
	assert_false(digest_is_hex("../816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_answers),
		cmocka_unit_test(test_file_from_the_current_offset),
		cmocka_unit_test(test_an_unreadable_file_leaves_the_result),
		cmocka_unit_test(test_is_hex),
	};
	return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
