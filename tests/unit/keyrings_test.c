// SPDX-License-Identifier: Apache-2.0
// Which keyrings are asked, and what each answer means. A real kernel is asked by tests/vm/24-secure-boot.
#include "kmod/load/keyrings.h"
#include "tests/unit/test.h"

static const char KEYS[] = "0a0b0c0d I------     1 perm 1f0b0000     0     0 keyring   .builtin_trusted_keys: 1\n"
			   "1a0b0c0d I------     1 perm 1f0f0000     0     0 keyring   .secondary_trusted_keys: 1\n"
			   "2a0b0c0d I------     1 perm 1f0b0000     0     0 keyring   .platform_of_theirs: empty\n"
			   "3a0b0c0d I------     1 perm 1f030000     0     0 asymmetri SnakeOil: 63b8: X509.rsa b8 []\n"
			   "fa0b0c0d I------     1 perm 1f0b0000     0     0 keyring   .machine: empty\n"
			   "5a0b0c0d I------     1 perm 1f0b0000     0     0 keyring   .blacklist: 2\n"
			   "4a0b0c0d I--Q---     1 perm 3f030000     0     0 keyring   _ses: 1\n";

struct answers {
	struct sys sys;
	int of_first, of_others, of_blacklist; // errno; 0 = found
	unsigned asked;
};

static int search(const struct sys *sys, int keyring, const char *description)
{
	struct answers *a = (struct answers *)(uintptr_t)sys;
	assert_string_equal(description, "ex:12ab");
	a->asked++;
	errno = keyring == 0x0a0b0c0d ? a->of_first : keyring == 0x5a0b0c0d ? a->of_blacklist : a->of_others;
	return errno ? -1 : 0;
}

static void test_answers(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		int of_first, of_others, want;
		unsigned asked;
	} rows[] = {
		{ "none has it", ENOKEY, ENOKEY, 0, 3 },
		{ "the first has it", 0, ENOKEY, 1, 1 },
		{ "another has it, which cannot be linked", ENOKEY, EACCES, 1, 2 },
		{ "a filter forbids to ask", EPERM, EPERM, 1, 3 },
		{ "no such call", ENOSYS, ENOSYS, 1, 3 },
	};
	struct folder t;
	folder_make(&t);
	folder_dir(&t, "proc");
	folder_file(&t, "proc/keys", KEYS);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct answers a = { .sys = { .key_search = search },
				     .of_first = rows[i].of_first,
				     .of_others = rows[i].of_others };
		struct keyrings k;
		keyrings_read(&t.root, &a.sys, &k);
		assert_int_equal(k.count, 3);
		expect(keyrings_has(&k, "12ab") == rows[i].want && a.asked == rows[i].asked, rows[i].name);
	}
	folder_done(&t);
}

static void test_revoked(void **state)
{
	(void)state;
	static const struct {
		const char *name, *keys;
		int of_blacklist, want;
	} rows[] = {
		{ "it is on the list", KEYS, 0, 1 }, { "it is, and cannot be linked", KEYS, EACCES, 1 },
		{ "it is not", KEYS, ENOKEY, 0 },    { "a filter forbids to ask", KEYS, EPERM, 0 },
		{ "no list is shown", "", 0, 0 },
	};
	struct folder t;
	folder_make(&t);
	folder_dir(&t, "proc");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct answers a = { .sys = { .key_search = search }, .of_blacklist = rows[i].of_blacklist };
		struct keyrings k;
		folder_file(&t, "proc/keys", rows[i].keys);
		keyrings_read(&t.root, &a.sys, &k);
		expect(keyrings_has_revoked(&k, "12ab") == rows[i].want, rows[i].name);
	}
	folder_done(&t);
}

static void test_none(void **state) // a container: whatever it is, the load tells
{
	(void)state;
	struct answers a = { .sys = { .key_search = search } };
	struct keyrings k;
	struct folder t;
	folder_make(&t);
	keyrings_read(&t.root, &a.sys, &k);
	assert_int_equal(keyrings_has(&k, "12ab"), 1);
	folder_dir(&t, "proc");
	folder_link(&t, "/dev/null", "proc/keys");
	keyrings_read(&t.root, &a.sys, &k);
	assert_int_equal(keyrings_has(&k, "12ab"), 1);
	unlinkat(t.root.fd, "proc/keys", 0);
	folder_dir(&t, "proc/keys"); // neither is the runtimes' /dev/null a regular file
	keyrings_read(&t.root, &a.sys, &k);
	assert_int_equal(keyrings_has(&k, "12ab"), 1);
	assert_int_equal(a.asked, 0);
	folder_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_answers), cmocka_unit_test(test_revoked),
					    cmocka_unit_test(test_none) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
