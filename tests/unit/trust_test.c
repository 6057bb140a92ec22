// SPDX-License-Identifier: Apache-2.0
#include "precompiled/trust/trust.h"

#include "kmod/sandbox/jail.h"
#include "tests/unit/sign.h"
#include "tests/unit/tempdir.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

// Public halves, made once.
static char *pems[3], *ids[3], *cert;

static int make_keys(void **state)
{
	(void)state;
	struct err err;
	size_t len;
	struct signer ca = signer_make("Site CA", NULL);
	cert = signer_cert(&ca, true, &len);
	signer_done(&ca);
	for (size_t i = 0; i < ARRAY_SIZE(pems); i++) {
		EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
		BIO *bio = BIO_new(BIO_s_mem());
		char *data;
		assert_int_equal(PEM_write_bio_PUBKEY(bio, pkey), 1);
		long size = BIO_get_mem_data(bio, &data);
		pems[i] = str_ndup(data, (size_t)size);
		auto_key struct key *key = NULL;
		assert_int_equal(key_parse(pems[i], "key", &key, &err), 0);
		ids[i] = str_dup(key->id);
		BIO_free(bio);
		EVP_PKEY_free(pkey);
	}
	return 0;
}

static int drop_keys(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pems); i++) {
		free(pems[i]);
		free(ids[i]);
	}
	free(cert);
	return 0;
}

// The names of the keys that a rule lists, joined.
static char *names_of(const struct trust_rule *rule)
{
	auto_strv struct strv names = { 0 };
	for (size_t i = 0; i < rule->count; i++)
		strv_add(&names, str_dup(rule->keys[i]->name));
	return strv_join(&names, " ");
}

static void expect_rule(const struct trust *t, const char *repository, const char *names, const char *prefix)
{
	auto_trust_rule struct trust_rule rule = { 0 };
	trust_rule(t, repository, &rule);
	auto_str char *have = names_of(&rule);
	expect(str_eq(have, names), repository);
	expect(rule.prefix ? str_eq(rule.prefix, prefix) : !prefix, repository);
}

static void fill(const struct folder *folder)
{
	folder_file(folder, "alice.pem", pems[0]);
	folder_file(folder, "bob.pem", pems[1]);
	folder_file(folder, "carol.pem", pems[2]);
	folder_file(folder, "ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
	folder_file(folder, "README", "not a key");
	folder_file(folder, ".hidden.pem", "not a key");
}

static void test_no_directory_and_no_policy(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	auto_trust struct trust none = { 0 }, empty = { 0 }, all = { 0 };
	const struct root absent = ROOT_NONE;
	folder_make(&folder);
	assert_int_equal(trust_open(&absent, &none, &err), 0);
	expect_rule(&none, "docker://reg.example/x", "", NULL);
	assert_int_equal(trust_open(&folder.root, &empty, &err), 0);
	expect_rule(&empty, "docker://reg.example/x", "", NULL);
	fill(&folder);
	assert_int_equal(trust_open(&folder.root, &all, &err), 0);
	expect_rule(&all, "docker://reg.example/x", "alice bob carol", NULL);
	auto_trust_rule struct trust_rule rule = { 0 };
	trust_rule(&all, "oci:/srv/x", &rule);
	assert_int_equal(rule.threshold, 1);
	assert_false(rule.is_unsigned_accepted);
	assert_int_equal(rule.catalog, TRUST_CATALOG_SEEN);
}

static void test_longest_prefix(void **state)
{
	(void)state;
	static const struct {
		const char *repository, *names, *prefix;
	} rows[] = {
		{ "docker://reg.example/x", "alice", "docker://reg.example/x" },
		{ "docker://reg.example/x/deep/er", "alice", "docker://reg.example/x" },
		{ "docker://reg.example/x/y", "bob", "docker://reg.example/x/y" },
		{ "docker://reg.example/x/y/", "bob", "docker://reg.example/x/y" },
		{ "docker://reg.example/x/yz", "alice", "docker://reg.example/x" },
		{ "docker://REG.Example/x/y", "bob", "docker://reg.example/x/y" },
		{ "DOCKER://reg.example/x/y", "bob", "docker://reg.example/x/y" },
		{ "docker://reg.example/X/y", "", "docker://reg.example" },
		{ "docker://reg.example/xy", "", "docker://reg.example" },
		{ "docker://reg.example", "", "docker://reg.example" },
		{ "docker://reg.example:5000/x", "carol", NULL },
		{ "docker://reg.example.evil/x", "carol", NULL },
		{ "docker+http://reg.example/x", "carol", NULL },
		{ "oci:/srv/packages", "alice bob", "oci:" },
		{ "oci-archive:/srv/p.tar", "carol", NULL },
	};
	struct err err;
	auto_folder struct folder folder;
	auto_trust struct trust t = { 0 };
	folder_make(&folder);
	fill(&folder);
	auto_str char *policy = str_fmt("{\"sources\":["
					"{\"prefix\":\"docker://reg.example/x\",\"keys\":[\"alice\"]},"
					"{\"prefix\":\"docker://reg.example/x/y/\",\"keys\":[\"%s\"],\"threshold\":2},"
					"{\"prefix\":\"docker://reg.example\",\"keys\":[]},"
					"{\"prefix\":\"oci:\",\"keys\":[\"bob\",\"alice\",\"%s\"]}]}",
					ids[1], ids[1]);
	folder_file(&folder, "policy.json", policy);
	assert_int_equal(trust_open(&folder.root, &t, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_rule(&t, rows[i].repository, rows[i].names, rows[i].prefix);
	auto_trust_rule struct trust_rule rule = { 0 };
	trust_rule(&t, "docker://reg.example/x/y", &rule);
	assert_int_equal(rule.threshold, 2);
}

static void test_the_rest_of_an_entry(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	auto_trust struct trust t = { 0 };
	auto_trust_rule struct trust_rule rule = { 0 };
	folder_make(&folder);
	fill(&folder);
	folder_file(&folder, "policy.json",
		    "{\"sources\":[{\"prefix\":\"\",\"anchor\":\"ca.pem\",\"unsigned\":\"accept\","
		    "\"catalog\":\"required\",\"threshold\":3},{\"prefix\":\"oci:\",\"keys\":[\"carol\"],"
		    "\"unsigned\":\"refuse\",\"catalog\":\"optional\"}]}");
	assert_int_equal(trust_open(&folder.root, &t, &err), 0);
	expect_rule(&t, "docker://any.example/x", "alice bob", "");
	trust_rule(&t, "docker://any.example/x", &rule);
	assert_true(rule.is_unsigned_accepted);
	assert_int_equal(t.skipped.count, 1);
	assert_non_null(strstr(t.skipped.items[0], "policy.json': 'anchor' has no effect"));
	assert_int_equal(rule.catalog, TRUST_CATALOG_REQUIRED);
	assert_int_equal(rule.threshold, 3);
}

static void test_invalid_policies(void **state)
{
	(void)state;
#define ENTRY(members) "{\"sources\":[{\"prefix\":\"docker://x\"," members "}]}"
	static const struct {
		const char *text, *message;
		int code;
	} rows[] = {
		{ "", "not valid JSON", E_CONFIG },
		{ "[]", "no list \"sources\"", E_CONFIG },
		{ "{}", "no list \"sources\"", E_CONFIG },
		{ "{\"sources\":{}}", "no list \"sources\"", E_CONFIG },
		{ "{\"sources\":[],\"default\":1}", "unknown key 'default'", E_CONFIG },
		{ "{\"sources\":[7]}", "no \"prefix\"", E_CONFIG },
		{ "{\"sources\":[{}]}", "no \"prefix\"", E_CONFIG },
		{ "{\"sources\":[{\"prefix\":7}]}", "no \"prefix\"", E_CONFIG },
		{ "{\"sources\":[{\"prefix\":\"a\"},{\"prefix\":\"a/\"}]}", "'a' has two entries", E_CONFIG },
		{ ENTRY("\"limit\":2"), "unknown key 'limit'", E_CONFIG },
		{ ENTRY("\"threshold\":0"), "'threshold', which must be", E_CONFIG },
		{ ENTRY("\"threshold\":65"), "'threshold', which must be", E_CONFIG },
		{ ENTRY("\"threshold\":\"2\""), "'threshold', which must be", E_CONFIG },
		{ ENTRY("\"keys\":\"alice\""), "'keys', which must be", E_CONFIG },
		{ ENTRY("\"keys\":[\"dave\"]"), "'dave' is not a key", E_CONFIG },
		{ ENTRY("\"keys\":[7]"), "is not a key", E_CONFIG },
		{ ENTRY("\"unsigned\":\"yes\""), "'unsigned', which must be \"refuse\" or \"accept\"", E_CONFIG },
		{ ENTRY("\"unsigned\":true"), "'unsigned', which must be", E_CONFIG },
		{ ENTRY("\"catalog\":\"refuse\""), "'catalog', which must be", E_CONFIG },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	fill(&folder);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		struct trust t = { 0 };
		folder_file(&folder, "policy.json", rows[i].text);
		expect(trust_open(&folder.root, &t, &err) == -1 && err.code == rows[i].code, rows[i].text);
		expect(strstr(err.text, rows[i].message) && strstr(err.text, folder.path), err.text);
		expect(!t.keys && !t.sources, rows[i].text);
	}
}

static void test_invalid_key_files(void **state)
{
	(void)state;
	static const char *const rows[] = { "", "hello", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
					    "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n" };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		struct trust t = { 0 };
		auto_folder struct folder folder;
		folder_make(&folder);
		folder_file(&folder, "alice.pem", pems[0]);
		folder_file(&folder, "broken.pem", rows[i]);
		expect(trust_open(&folder.root, &t, &err) == -1 && err.code == E_KEY, rows[i]);
		expect(strstr(err.text, "/broken.pem'"), err.text);
	}
	struct err err;
	struct trust t = { 0 };
	auto_folder struct folder folder;
	folder_make(&folder);
	folder_file(&folder, "alice.pem", pems[0]);
	folder_file(&folder, "twin.pem", pems[0]);
	assert_int_equal(trust_open(&folder.root, &t, &err), -1);
	assert_int_equal(err.code, E_CONFIG);
}

static void test_rights(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		mode_t mode;
		uid_t owner;
		bool is_ok;
	} rows[] = {
		{ ".", 0755, 0, true },          { ".", 0775, 0, false },           { ".", 0757, 0, false },
		{ ".", 0755, 1, false },         { "alice.pem", 0444, 0, true },    { "alice.pem", 0664, 0, false },
		{ "alice.pem", 0644, 1, false }, { "policy.json", 0646, 0, false }, { "policy.json", 0644, 1, false },
	};
	if (geteuid() != 0)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_trust struct trust t = { 0 };
		auto_folder struct folder folder;
		folder_make(&folder);
		fill(&folder);
		folder_file(&folder, "policy.json", "{\"sources\":[{\"prefix\":\"a\"}]}");
		auto_str char *path = str_fmt("%s/%s", folder.path, rows[i].path);
		assert_int_equal(chown(path, rows[i].owner, 0), 0);
		assert_int_equal(chmod(path, rows[i].mode), 0);
		expect(trust_open(&folder.root, &t, &err) == (rows[i].is_ok ? 0 : -1), path);
		expect(rows[i].is_ok || (err.code == E_RIGHTS && strstr(err.text, "users other than root")), path);
	}
}

// As a Kubernetes ConfigMap is seen in a pod.
static void test_read_only_mount(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	fill(&folder);
	assert_int_equal(chmod(folder.path, 0777), 0);
	pid_t child = fork();
	if (child == 0) {
		struct err err;
		auto_trust struct trust t = { 0 };
		auto_root struct root dir = ROOT_NONE;
		const unsigned long again = MS_REMOUNT | MS_BIND | MS_RDONLY;
		if (unshare(CLONE_NEWNS) != 0 || sandbox_make_private() != 0 ||
		    mount(folder.path, folder.path, NULL, MS_BIND, NULL) != 0)
			_exit(77);
		if (root_init(&dir, folder.path, &err) < 0 || trust_open(&dir, &t, &err) == 0 || err.code != E_RIGHTS)
			_exit(1);
		if (mount(NULL, folder.path, NULL, again, NULL) != 0)
			_exit(77);
		_exit(trust_open(&dir, &t, &err) == 0 && t.count == 3 ? 0 : 2);
	}
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WEXITSTATUS(status) == 77) {
		folder_done(&folder);
		skip();
	}
	assert_int_equal(status, 0);
}

static void test_add_and_remove(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	char id[DIGEST_HEX + 1] = "";
	folder_make(&folder);
	assert_int_equal(trust_add(&folder.root, "vendor", pems[0], "docker://reg.example/x", id, &err), 1);
	assert_string_equal(id, ids[0]);
	folder_expect(&folder, "vendor.pem", pems[0]);
	assert_int_equal(trust_add(&folder.root, NULL, pems[1], NULL, id, &err), 1);
	assert_string_equal(id, ids[1]);
	assert_int_equal(trust_add(&folder.root, NULL, pems[1], NULL, id, &err), 0);
	assert_int_equal(trust_add(&folder.root, "vendor", pems[0], "docker://REG.example/x/", id, &err), 0);
	assert_int_equal(trust_add(&folder.root, "ours", pems[2], "docker://reg.example/x", id, &err), 1);
	auto_str char *short_id = str_ndup(ids[1], 16), *file = str_fmt("%s.pem", short_id);
	assert_true(root_exists(&folder.root, file));
	{
		auto_trust struct trust t = { 0 };
		assert_int_equal(trust_open(&folder.root, &t, &err), 0);
		expect_rule(&t, "docker://reg.example/x", "ours vendor", "docker://reg.example/x");
		expect_rule(&t, "docker://other.example/x", short_id, NULL); // not valid for this source
	}
	assert_int_equal(trust_remove(&folder.root, "vendor", &err), 1);
	assert_int_equal(trust_remove(&folder.root, "vendor", &err), 0);
	assert_int_equal(trust_remove(&folder.root, ids[2], &err), 1);
	assert_int_equal(trust_remove(&folder.root, ids[1], &err), 1);
	auto_trust struct trust t = { 0 };
	assert_int_equal(trust_open(&folder.root, &t, &err), 0);
	expect_rule(&t, "docker://reg.example/x", "", "docker://reg.example/x"); // no key, as opposed to every key
	assert_int_equal(trust_add(&folder.root, "new", pems[0], NULL, id, &err), 1);
	trust_done(&t);
	assert_int_equal(trust_open(&folder.root, &t, &err), 0);
	expect_rule(&t, "docker://reg.example/x", "", "docker://reg.example/x");
}

static void test_what_cannot_be_added(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	char id[DIGEST_HEX + 1] = "untouched";
	static const char *const names[] = { "", ".x", "a/b", "../x", "a b", "-x", "gr\xc3\xbc" };
	folder_make(&folder);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		expect(trust_add(&folder.root, names[i], pems[0], NULL, id, &err) == -1 && err.code == E_USAGE,
		       names[i]);
	assert_int_equal(trust_add(&folder.root, ids[1], pems[0], NULL, id, &err), -1);
	assert_int_equal(err.code, E_USAGE);
	assert_int_equal(trust_add(&folder.root, "x", cert, NULL, id, &err), -1);
	assert_int_equal(err.code, E_KEY);
	assert_string_equal(id, "untouched");
	assert_int_equal(trust_add(&folder.root, "x", pems[0], NULL, id, &err), 1);
	assert_int_equal(trust_add(&folder.root, "x", pems[1], NULL, id, &err), -1);
	assert_int_equal(err.code, E_USAGE);
	folder_expect(&folder, "x.pem", pems[0]);
	folder_file(&folder, "policy.json", "{\"sources\":[{\"prefix\":\"a\"}]}");
	assert_int_equal(trust_add(&folder.root, "y", pems[1], "a", id, &err), -1);
	assert_int_equal(err.code, E_CONFIG);
	assert_false(root_exists(&folder.root, "y.pem"));
}

// Killed between its two writes, adding and removing leave a name without a key, and the same command mends that.
static void test_half_done(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	struct trust t = { 0 };
	char id[DIGEST_HEX + 1];
	folder_make(&folder);
	folder_file(&folder, "policy.json", "{\"sources\":[{\"prefix\":\"a\",\"keys\":[\"x\"]}]}");
	assert_int_equal(trust_open(&folder.root, &t, &err), -1);
	assert_int_equal(trust_add(&folder.root, "x", pems[0], "a", id, &err), 1);
	assert_int_equal(trust_open(&folder.root, &t, &err), 0);
	trust_done(&t);
	assert_int_equal(root_unlink(&folder.root, "x.pem", &err), 1);
	assert_int_equal(trust_remove(&folder.root, "x", &err), 1);
	assert_int_equal(trust_open(&folder.root, &t, &err), 0);
	trust_done(&t);
}

enum { WRITERS = 8, EACH = 6 };

static void add_many(const struct root *dir, int who)
{
	struct err err;
	char id[DIGEST_HEX + 1];
	for (int i = 0; i < EACH; i++) {
		auto_str char *prefix = str_fmt("docker://reg.example/%d/%d", who, i);
		if (trust_add(dir, "vendor", pems[0], prefix, id, &err) < 0)
			_exit(1);
	}
	_exit(0);
}

// Each of them reads the policy, adds an entry and writes all: no entry is lost.
static void test_concurrent_writers(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	auto_trust struct trust t = { 0 };
	folder_make(&folder);
	for (int i = 0; i < WRITERS; i++)
		if (fork() == 0)
			add_many(&folder.root, i);
	for (int i = 0; i < WRITERS; i++) {
		int status;
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(trust_open(&folder.root, &t, &err), 0);
	assert_int_equal(t.source_count, WRITERS * EACH);
}

static void test_directory(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	auto_root struct root dir = ROOT_NONE, again = ROOT_NONE, named = ROOT_NONE;
	folder_make(&folder);
	assert_int_equal(trust_dir(&folder.root, NULL, &dir, &err), 0);
	assert_int_equal(dir.fd, -1);
	assert_int_equal(trust_dir_make(&folder.root, NULL, &dir, &err), 0);
	assert_true(root_exists(&folder.root, "etc/kmodsmith/trust"));
	assert_int_equal(trust_dir(&folder.root, NULL, &again, &err), 1);
	assert_int_equal(trust_dir(&folder.root, folder.path, &named, &err), 1);
	assert_string_equal(named.name, folder.path);
	root_done(&named);
	assert_int_equal(trust_dir(&folder.root, "/no/such/dir", &named, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_directory_and_no_policy),
		cmocka_unit_test(test_longest_prefix),
		cmocka_unit_test(test_the_rest_of_an_entry),
		cmocka_unit_test(test_invalid_policies),
		cmocka_unit_test(test_invalid_key_files),
		cmocka_unit_test(test_rights),
		cmocka_unit_test(test_read_only_mount),
		cmocka_unit_test(test_add_and_remove),
		cmocka_unit_test(test_what_cannot_be_added),
		cmocka_unit_test(test_half_done),
		cmocka_unit_test(test_concurrent_writers),
		cmocka_unit_test(test_directory),
	};
	return cmocka_run_group_tests_name("trust", tests, make_keys, drop_keys);
}
