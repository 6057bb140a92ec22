// SPDX-License-Identifier: Apache-2.0
// Whoever holds a key, a password or a token leaves no core dump, and whoever holds none does.
#include "base/core/secret.h"

#include "base/crypto/key.h"
#include "base/options/opt.h"
#include "cluster/kube/kubeconfig.h"
#include "kmod/module/modsign.h"
#include "precompiled/repository/credentials.h"
#include "tests/unit/test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void read_key(const char *path)
{
	struct err err;
	auto_key struct key *key = NULL;
	key_open(path, NULL, &key, &err);
}

static void make_key(const char *path)
{
	struct err err;
	auto_str char *key = NULL, *cert = NULL;
	(void)path;
	assert_int_equal(module_key_make("h", &key, &cert, &err), 0);
}

static void read_credentials(const char *path)
{
	struct err err;
	auto_credentials struct credentials c = { 0 };
	assert_int_equal(credentials_find(path, "h", "n", &c, &err), 1);
}

static void read_kubeconfig(const char *path)
{
	struct err err;
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	kube_config_file(path, NULL, &c, &err);
}

struct values {
	char *proxy;
	struct strv from;
};

static void give(const char *option, const char *value)
{
	static const struct opt opts[] = { { "proxy", 0, "X", NULL, OPT_SECRET, offsetof(struct values, proxy), "x" },
					   { "from", 0, "X", NULL, OPT_SECRETS, offsetof(struct values, from), "x" },
					   { 0 } };
	static const struct cmd cmd = { .name = "c", .opts = { opts }, .values_size = sizeof(struct values) };
	char *argv[] = { (char *)(uintptr_t) "c", (char *)(uintptr_t)option, (char *)(uintptr_t)value, NULL };
	const struct cmd *const all[] = { &cmd, NULL };
	const struct opt_input in = { .all = all, .argc = 3, .argv = argv };
	struct values v = { 0 };
	struct opt_parsed parsed;
	struct err err;
	assert_int_equal(opt_parse(&cmd, &in, &v, &parsed, &err), 0);
	opt_done(&cmd, &v);
}

static void give_proxy(const char *path)
{
	(void)path;
	give("--proxy", "http://user:password@proxy:3128");
}

static void give_source(const char *path)
{
	(void)path;
	give("--from", "https://h/x,https://user:password@h/y");
}

static void give_no_password(const char *path)
{
	(void)path;
	give("--proxy", "http://proxy:3128");
	give("--from", "https://h/x,docker://h/y");
}

static void test_who_holds_one(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		void (*run)(const char *path);
		bool is_guarded;
	} rows[] = {
		{ "key", read_key, true },
		{ "made key", make_key, true },
		{ "credentials", read_credentials, true },
		{ "kubeconfig", read_kubeconfig, true },
		{ "password of a proxy", give_proxy, true },
		{ "password of a source", give_source, true },
		{ "no password", give_no_password, false },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	folder_file(&folder, "f", "{\"auths\": {\"h\": {\"auth\": \"dTpw\"}}}");
	auto_str char *path = str_fmt("%s/f", folder.path);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
		rows[i].run(path);
		expect((prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0) == rows[i].is_guarded, rows[i].name);
	}
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static void test_no_core(void **state)
{
	(void)state;
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
		setrlimit(RLIMIT_CORE, &all);
		signal(SIGABRT, SIG_DFL);
		secret_guard();
		abort();
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_false(WCOREDUMP(status));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_holds_one),
		cmocka_unit_test(test_no_core),
	};
	return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
