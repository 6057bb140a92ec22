// SPDX-License-Identifier: Apache-2.0
#include "precompiled/repository/credentials.h"

#include "tests/unit/test.h"

static const char CONFIG[] = "{\"auths\": {"
			     "\"plain.test\": {\"auth\": \"dTpw\"},"                // u:p
			     "\"https://full.test/v1/\": {\"auth\": \"dTpwOnE=\"}," // u:p:q
			     "\"https://hub.test/v2\": {\"username\": \"n\", \"password\": \"w\"},"
			     "\"port.test:5000\": {\"auth\": \"dTpw\"},"
			     "\"deep.test\": {\"auth\": \"dTpw\"},"
			     "\"deep.test/team\": {\"auth\": \"dDpw\"},"                             // t:p
			     "\"deep.test/team/x\": {\"auth\": \"eDpw\"},"                           // x:p
			     "\"token.test\": {\"auth\": \"dTo=\", \"identitytoken\": \"refresh\"}," // u:
			     "\"empty.test\": {},"
			     "\"blank.test\": {\"auth\": \"\"},"
			     "\"bad.test\": {\"auth\": \"###\"},"
			     "\"colon.test\": {\"auth\": \"dXA=\"}," // up
			     "\"number.test\": {\"auth\": 7}"
			     "}, \"credsStore\": \"none\"}";

static void test_entries(void **state)
{
	(void)state;
	static const struct {
		const char *host, *name, *user, *password;
		int result; // 1 = found, 0 = none, else the code
	} rows[] = {
		{ "plain.test", "a/b", "u", "p", 1 },
		{ "full.test", "a", "u", "p:q", 1 },
		{ "hub.test", "a", "n", "w", 1 },
		{ "port.test:5000", "a", "u", "p", 1 },
		{ "port.test", "a", NULL, NULL, 0 },
		{ "port.test:5001", "a", NULL, NULL, 0 },
		{ "deep.test", "other", "u", "p", 1 },
		{ "deep.test", "team", "t", "p", 1 },
		{ "deep.test", "team/y", "t", "p", 1 },
		{ "deep.test", "team/x", "x", "p", 1 },
		{ "deep.test", "team/x/z", "x", "p", 1 },
		{ "deep.test", "teamwork", "u", "p", 1 },
		{ "token.test", "a", "u", "", 1 },
		{ "empty.test", "a", NULL, NULL, 0 },
		{ "blank.test", "a", NULL, NULL, 0 },
		{ "bad.test", "a", NULL, NULL, E_CONFIG },
		{ "colon.test", "a", NULL, NULL, E_CONFIG },
		{ "number.test", "a", NULL, NULL, 0 },
		{ "none.test", "a", NULL, NULL, 0 },
		{ "test", "a", NULL, NULL, 0 },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	folder_file(&folder, "config.json", CONFIG);
	auto_str char *path = str_fmt("%s/config.json", folder.path);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_credentials struct credentials c = { 0 };
		struct err err = { 0 };
		int r = credentials_find(path, rows[i].host, rows[i].name, &c, &err);
		expect(r == (rows[i].result > 1 ? -1 : rows[i].result), rows[i].host);
		expect(r >= 0 || (err.code == rows[i].result && !strstr(err.text, "###")), err.text);
		expect(r <= 0 || (str_eq(c.user, rows[i].user) && str_eq(c.password, rows[i].password)), rows[i].name);
		expect(r <= 0 || (strstr(c.origin, path) && strstr(c.origin, rows[i].host)), rows[i].host);
		expect(!str_eq(rows[i].host, "token.test") || str_eq(c.identity, "refresh"), rows[i].host);
	}
}

static void test_files(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int result;
	} rows[] = {
		{ "", E_CONFIG },        { "{", E_CONFIG }, { "secret", E_CONFIG },           { "{}", 0 },
		{ "{\"auths\": 3}", 0 }, { "[]", 0 },       { "{\"auths\": {\"h\": 3}}", 0 },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_str char *path = str_fmt("%s/f", folder.path);
	struct credentials c = { 0 };
	struct err err = { 0 };
	assert_int_equal(credentials_find(path, "h", "n", &c, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		folder_file(&folder, "f", rows[i].text);
		expect(credentials_find(path, "h", "n", &c, &err) == (rows[i].result ? -1 : 0), rows[i].text);
		expect(!rows[i].result || (err.code == rows[i].result && !strstr(err.text, "secret")), err.text);
	}
	assert_int_equal(credentials_find(folder.path, "h", "n", &c, &err), -1);
	assert_int_equal(err.code, E_CONFIG);
}

static void test_default_files(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_credentials struct credentials c = { 0 };
	struct err err = { 0 };
	folder_make(&folder);
	auto_str char *docker = str_fmt("%s/docker", folder.path);
	setenv("HOME", folder.path, 1);
	unsetenv("DOCKER_CONFIG");
	assert_int_equal(credentials_find(NULL, "plain.test", "n", &c, &err), 0); // may be absent
	folder_dir(&folder, ".docker");
	folder_file(&folder, ".docker/config.json", CONFIG);
	assert_int_equal(credentials_find(NULL, "plain.test", "n", &c, &err), 1);
	credentials_done(&c);
	setenv("DOCKER_CONFIG", docker, 1);
	assert_int_equal(credentials_find(NULL, "plain.test", "n", &c, &err), 0);
	folder_dir(&folder, "docker");
	folder_file(&folder, "docker/config.json", CONFIG);
	assert_int_equal(credentials_find(NULL, "plain.test", "n", &c, &err), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_default_files),
	};
	return cmocka_run_group_tests_name("credentials", tests, NULL, NULL);
}
