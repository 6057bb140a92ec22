// SPDX-License-Identifier: Apache-2.0
#include "precompiled/repository/credentials.h"

#include "tests/unit/test.h"

#include <sys/socket.h>
#include <sys/un.h>

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
			     "\"number.test\": {\"auth\": 7},"
			     "\"bare.test\": {\"auth\": \"dTpwcQ\"},"       // u:pq, not padded
			     "\"ended.test\": {\"auth\": \"dTpwcQ==\\n\"}," // as `base64` writes it
			     "\"bareended.test\": {\"auth\": \"dTpwcQ\\r\\n\"},"
			     "\"wrapped.test\": {\"auth\": \"dT\\npw\\r\\ncQ==\"},"
			     "\"long.test\": {\"auth\": \"dTpwc\"},"
			     "\"inside.test\": {\"auth\": \"dTo=cHE=\"},"
			     "\"both.test\": {\"username\": \"n\", \"password\": \"w\", \"auth\": \"dTpw\"},"
			     "\"*.glob.test\": {\"auth\": \"ZzE6cA==\"},"                 // g1:p
			     "\"*.*.test\": {\"auth\": \"ZzI6cA==\"},"                    // g2:p
			     "\"https://*.glob.test/v2/team\": {\"auth\": \"ZzM6cA==\"}," // g3:p
			     "\"own.glob.test\": {\"auth\": \"dTpw\"},"
			     "\"void.glob.test\": {},"
			     "\"reg-?.*.glob.test:5000\": {\"auth\": \"ZzQ6cA==\"}," // g4:p
			     "\"[::1]:5000\": {\"auth\": \"dTpw\"},"
			     "\"[a-z]:5000\": {\"auth\": \"dTpw\"},"
			     "\"path.test/v1/team/\": {\"auth\": \"dDpw\"},"
			     "\"path.test/v2/own/x\": {\"auth\": \"eDpw\"},"
			     "\"UPPER.test\": {\"auth\": \"dTpw\"}"
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
		{ "bare.test", "a", "u", "pq", 1 },
		{ "ended.test", "a", "u", "pq", 1 },
		{ "bareended.test", "a", "u", "pq", 1 },
		{ "wrapped.test", "a", "u", "pq", 1 },
		{ "long.test", "a", NULL, NULL, E_CONFIG },
		{ "inside.test", "a", NULL, NULL, E_CONFIG },
		{ "both.test", "a", "u", "p", 1 },
		{ "a.glob.test", "a", "g1", "p", 1 },
		{ "a.glob.test", "team/a", "g3", "p", 1 },
		{ "a.glob.test", "teams", "g1", "p", 1 },
		{ "own.glob.test", "a", "u", "p", 1 },
		{ "own.glob.test", "team", "g3", "p", 1 },
		{ "void.glob.test", "a", "g1", "p", 1 },
		{ "glob.test", "a", NULL, NULL, 0 },
		{ "a.b.glob.test", "a", NULL, NULL, 0 },
		{ "a.glob.test:5000", "a", NULL, NULL, 0 },
		{ "a.other.test", "a", "g2", "p", 1 },
		{ "reg-1.x.glob.test:5000", "a", "g4", "p", 1 },
		{ "reg-12.x.glob.test:5000", "a", NULL, NULL, 0 },
		{ "reg-1.x.glob.test:5001", "a", NULL, NULL, 0 },
		{ "[::1]:5000", "a", "u", "p", 1 },
		{ "[::2]:5000", "a", NULL, NULL, 0 },
		{ "a:5000", "a", NULL, NULL, 0 },
		{ "path.test", "team/a", "t", "p", 1 },
		{ "path.test", "a", NULL, NULL, 0 },
		{ "path.test", "own/x", "x", "p", 1 },
		{ "path.test", "v2/own/x", "x", "p", 1 },
		{ "upper.test", "a", "u", "p", 1 },
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
		expect(r <= 0 || strstr(c.origin, path), rows[i].host);
		expect(!str_eq(rows[i].host, "a.glob.test") || strstr(c.origin, "*.glob.test"), c.origin);
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
		{ "", E_CONFIG },
		{ "{", E_CONFIG },
		{ "secret", E_CONFIG },
		{ "{}", 0 },
		{ "{\"auths\": 3}", 0 },
		{ "[]", 0 },
		{ "{\"auths\": {\"h\": 3}}", 0 },
		{ "\xef\xbb\xbf{\"auths\": {\"h\": {\"auth\": \"dTpw\"}}}", 1 },
		{ "{\"h\": {\"auth\": \"dTpw\", \"email\": \"e\"}}", 1 },
		{ "\xef\xbb", E_CONFIG },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_str char *path = str_fmt("%s/f", folder.path);
	auto_credentials struct credentials c = { 0 };
	struct err err = { 0 };
	assert_int_equal(credentials_find(path, "h", "n", &c, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		folder_file(&folder, "f", rows[i].text);
		expect(credentials_find(path, "h", "n", &c, &err) == (rows[i].result > 1 ? -1 : rows[i].result),
		       rows[i].text);
		expect(rows[i].result <= 1 || (err.code == rows[i].result && !strstr(err.text, "secret")), err.text);
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

// What is no file is named, and does not keep the files behind it from being asked.
static void test_not_a_file(void **state)
{
	(void)state;
	static const char *const kinds[] = { "directory", "fifo", "socket", "loop" };
	auto_folder struct folder folder;
	folder_make(&folder);
	folder_dir(&folder, ".docker");
	folder_dir(&folder, "containers");
	folder_file(&folder, "containers/auth.json", CONFIG);
	auto_str char *path = str_fmt("%s/.docker/config.json", folder.path);
	setenv("HOME", folder.path, 1);
	setenv("XDG_RUNTIME_DIR", folder.path, 1);
	unsetenv("DOCKER_CONFIG");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		auto_credentials struct credentials c = { 0 }, none = { 0 };
		struct err err = { 0 };
		struct sockaddr_un name = { .sun_family = AF_UNIX };
		auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
		assert_int_equal(i == 0 ? mkdir(path, 0700) :
				 i == 1 ? mkfifo(path, 0600) :
				 i == 2 ? bind(fd, (struct sockaddr *)&name, sizeof(name)) :
					  symlink("config.json", path),
				 0);
		expect(credentials_find(NULL, "plain.test", "n", &c, &err) == 1 && strstr(c.origin, "auth.json"),
		       kinds[i]);
		expect(credentials_find(NULL, "none.test", "n", &none, &err) == 0 && strstr(none.failure, path) &&
			       !strstr(none.failure, ": "),
		       kinds[i]);
		expect(credentials_find(path, "plain.test", "n", &none, &err) == -1 && err.code == E_CONFIG &&
			       strstr(err.text, i == 0 ? "is a directory" : "is not a file"),
		       err.text);
		assert_int_equal(remove(path), 0);
	}
	unsetenv("XDG_RUNTIME_DIR");
}

// podman's, where docker's have no entry for the registry.
static void test_podman_files(void **state)
{
	(void)state;
	static const char entry[] = "{\"auths\": {\"%s\": {\"auth\": \"dTpw\"}}}";
	static const struct {
		const char *variable, *value, *file;
	} rows[] = { { "REGISTRY_AUTH_FILE", "/named.json", "named.json" },
		     { "XDG_RUNTIME_DIR", "/run", "run/containers/auth.json" },
		     { "XDG_CONFIG_HOME", NULL, ".config/containers/auth.json" },
		     { "XDG_CONFIG_HOME", "/config", "config/containers/auth.json" } };
	auto_folder struct folder folder;
	struct err err = { 0 };
	folder_make(&folder);
	setenv("HOME", folder.path, 1);
	unsetenv("DOCKER_CONFIG");
	folder_dir(&folder, ".docker");
	folder_file(&folder, ".docker/config.json", CONFIG);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_credentials struct credentials c = { 0 };
		auto_str char *value = rows[i].value ? str_fmt("%s%s", folder.path, rows[i].value) : NULL;
		auto_str char *host = str_fmt("podman%zu.test", i), *text = str_fmt(entry, host);
		auto_str char *places = NULL, *dir = str_dup(rows[i].file);
		if (value)
			setenv(rows[i].variable, value, 1);
		else
			unsetenv(rows[i].variable);
		for (char *slash = dir; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
			*slash = '\0';
			folder_dir(&folder, dir);
		}
		folder_file(&folder, rows[i].file, text);
		expect(credentials_find(NULL, host, "n", &c, &err) == 1 && strstr(c.origin, rows[i].file),
		       rows[i].file);
		expect(credentials_find(NULL, "plain.test", "n", &c, &err) == 1 && strstr(c.origin, ".docker"),
		       rows[i].file);
		places = credentials_places(NULL);
		expect(strstr(places, rows[i].file) && strstr(places, ".docker/config.json"), places);
		unsetenv(rows[i].variable);
	}
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? str_eq(a, b) : !a && !b;
}

// docker-credential-helpers' protocol.
static void test_helpers(void **state)
{
	(void)state;
	static const char config[] =
		"{\"credHelpers\": {\"cloud.test\": \"cloud\", \"away.test\": \"away\", \"path.test\": \"../x\"},"
		"\"auths\": {\"cloud.test\": {\"auth\": \"dTpw\"}, \"stored.test\": {},"
		"\"plain.test\": {\"auth\": \"dTpw\"}}, \"credsStore\": \"%s\"}";
	static const char answer[] = "{\"ServerURL\": \"%%s\", \"Username\": \"%s\",\n\"Secret\": \"s3cret\"}";
	static const struct {
		const char *store, *host, *script; // what docker-credential-cloud runs
		int result;
		const char *user, *secret, *identity, *text;
	} rows[] = {
		{ "cloud", "cloud.test", "user", 1, "user", "s3cret", NULL, NULL }, // the helper before the entry
		{ "cloud", "cloud.test", "<token>", 1, NULL, NULL, "s3cret", NULL },
		{ "cloud", "stored.test", "user", 1, "user", "s3cret", NULL, NULL },
		{ "cloud", "plain.test", "exit 1", 1, "u", "p", NULL, NULL },
		{ "cloud", "cloud.test", "echo credentials not found in native keychain; exit 1", 0, NULL, NULL, NULL,
		  NULL },
		{ "cloud", "cloud.test", "echo no region >&2; exit 3", E_AUTH, NULL, NULL, NULL,
		  "failed for 'cloud.test': no region" },
		{ "cloud", "cloud.test", "echo '{}'", E_AUTH, NULL, NULL, NULL, "without user name and secret" },
		{ "cloud", "cloud.test", "head -c 3000000 /dev/zero | tr '\\0' x", E_AUTH, NULL, NULL, NULL,
		  "without user name and secret" },
		{ "cloud", "away.test", "exit 1", E_AUTH, NULL, NULL, NULL, "docker-credential-away' of" },
		{ "cloud", "path.test", "exit 1", E_CONFIG, NULL, NULL, NULL,
		  "names no credential helper for 'path.test'" },
		{ "desktop", "other.test", "exit 1", 0, NULL, NULL, NULL, "docker-credential-desktop" },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_str char *path = str_fmt("%s/config.json", folder.path),
		      *program = str_fmt("%s/docker-credential-cloud", folder.path);
	auto_str char *before = str_dup(getenv("PATH")), *search = str_fmt("%s:%s", folder.path, before);
	setenv("PATH", search, 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_credentials struct credentials c = { 0 };
		struct err err = { 0 };
		bool is_script = strchr(rows[i].script, ' ') != NULL;
		auto_str char *text = str_fmt(config, rows[i].store), *json = str_fmt(answer, rows[i].script);
		auto_str char *said = str_fmt("echo a warning >&2; printf '%s\\n' \"$host\"", json);
		auto_str char *script = str_fmt("#!/bin/sh\n[ \"$*\" = get ] || exit 9\nread -r host\n%s\n",
						is_script ? rows[i].script : said);
		folder_file(&folder, "config.json", text);
		folder_file(&folder, "docker-credential-cloud", script);
		assert_int_equal(chmod(program, 0755), 0);
		int r = credentials_find(path, rows[i].host, "n", &c, &err);
		expect(r == (rows[i].result > 1 ? -1 : rows[i].result), rows[i].script);
		expect(r >= 0 || err.code == rows[i].result, err.text);
		expect(r <= 0 || (is_same(c.user, rows[i].user) && is_same(c.password, rows[i].secret) &&
				  is_same(c.identity, rows[i].identity)),
		       rows[i].script);
		expect(!rows[i].text || strstr(r < 0     ? err.text :
					       c.failure ? c.failure :
							   "",
					       rows[i].text),
		       r < 0 ? err.text : "");
		expect(!strstr(err.text, "s3cret"), err.text);
	}
	setenv("PATH", before, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries),       cmocka_unit_test(test_files),
		cmocka_unit_test(test_default_files), cmocka_unit_test(test_podman_files),
		cmocka_unit_test(test_not_a_file),    cmocka_unit_test(test_helpers),
	};
	return cmocka_run_group_tests_name("credentials", tests, NULL, NULL);
}
