// SPDX-License-Identifier: Apache-2.0
// The words and the environment of NVIDIA's driver containers (contract 1.2, 1.4).
#include "cmd/container/nvidia_driver.h"

#include "cluster/node_state/nvidia.h"
#include "cmd/common/entry.h"
#include "tests/unit/tempdir.h"

// Words, and a command that they are of.
static int translate(const char *line, char **ret, struct strv *ret_warnings)
{
	auto_strv struct strv given = { 0 }, words = { 0 };
	strv_add(&given, str_dup("nvidia-driver"));
	strv_split(&given, line, " ");
	int r = nvidia_driver_words((int)given.count, given.items, &words, ret_warnings);
	*ret = strv_join(&words, " ");
	int count;
	if (r == 0 && !entry_find((int)words.count, words.items, &count))
		fail_msg("'%s' is no command", *ret);
	return r;
}

static void test_words(void **state)
{
	(void)state;
	static const struct {
		const char *given, *ours; // NULL = usage
		const char *warning;      // a part of it; NULL = none
	} rows[] = {
		// The verbs and flags of all images.
		{ "init", "init --operator", NULL },
		{ "init -a", "init --operator", NULL },
		{ "init --accept-license", "init --operator", NULL },
		{ "init -m 8", "init --operator --jobs 8", NULL },
		{ "init -m8 -a", "init --operator --jobs 8", NULL },
		{ "init --max-threads=8", "init --operator --jobs 8", NULL },
		{ "init --max-threads 8 --accept-license", "init --operator --jobs 8", NULL },
		{ "load", "install --no-compile", NULL },
		{ "build", "build", NULL },
		{ "build -a -m 4", "build --jobs 4", NULL },
		{ "build -t builtin", "build", "--tag is ignored" },
		{ "build -k 6.1.0-49-amd64", "build --kernel 6.1.0-49-amd64", NULL },
		{ "update -k 6.1.0-49-amd64", "build --kernel 6.1.0-49-amd64", NULL },
		{ "update --kernel 6.1.0-49-amd64 -s key.pem -m 2", "build --kernel 6.1.0-49-amd64 --jobs 2",
		  "--sign is ignored: modules are not signed here" },
		{ "reload_nvidia_peermem", "peermem load", NULL },
		{ "probe_nvidia_peermem", "peermem probe", NULL },
		// driver.args of a ClusterPolicy in the place of `init`.
		{ "", "init --operator", "no verb is given" },
		{ "-m 8", "init --operator --jobs 8", "no verb is given" },
		{ "--accept-license", "init --operator", "no verb is given" },
		// What means nothing is left out, and said.
		{ "init -k 6.1.0-49-amd64", "init --operator", "--kernel is ignored: it means nothing to init" },
		{ "load -m 8", "install --no-compile", "--max-threads is ignored: it means nothing to load" },
		{ "init -m many", "init --operator", "--max-threads is ignored: 'many' is not a number" },
		{ "init -m 0", "init --operator", "'0' is not a number of threads" },
		{ "init -m -1", "init --operator", "'-1' is not a number of threads" },
		{ "init -m 99999999999999999999", "init --operator", "is not a number of threads" },
		// Usage.
		{ "start", NULL, NULL },
		{ "init extra", NULL, NULL },
		{ "init -x", NULL, NULL },
		{ "init --unknown", NULL, NULL },
		{ "init -m", NULL, NULL },
		{ "init --accept-license=yes", NULL, NULL },
		{ "update -k", NULL, NULL },
		{ "-m 8 init", NULL, NULL },
		{ "uninstall_driver", NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv warnings = { 0 };
		auto_str char *words = NULL;
		int r = translate(rows[i].given, &words, &warnings);
		auto_str char *warned = warnings.count ? strv_join(&warnings, "; ") : str_dup("");
		bool is_usage = !rows[i].ours;
		if ((r < 0) != is_usage || (!is_usage && !str_eq(words, rows[i].ours)))
			fail_msg("'%s': %d, '%s'", rows[i].given, r, words);
		if (!is_usage && (rows[i].warning ? !strstr(warned, rows[i].warning) : *warned != '\0'))
			fail_msg("'%s' warns '%s'", rows[i].given, warned);
	}
}

static const char *const names[] = {
	"DRIVER_VERSION",
	"KERNEL_MODULE_TYPE",
	"OPEN_KERNEL_MODULES_ENABLED",
	"GPU_DIRECT_RDMA_ENABLED",
	"USE_HOST_MOFED",
	"MAX_THREADS",
	"ENABLE_GPU_POD_EVICTION",
	"ENABLE_AUTO_DRAIN",
	"DRAIN_USE_FORCE",
	"DRAIN_DELETE_EMPTYDIR_DATA",
	"FORCE_REINSTALL",
};

static char *environment_text(void)
{
	char *text = str_dup("");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (getenv(names[i]))
			str_add(&text, "%s%s=%s", *text ? " " : "", names[i], getenv(names[i]));
	return text;
}

static void set_environment(const char *line)
{
	auto_strv struct strv pairs = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unsetenv(names[i]);
	strv_split(&pairs, line, ";");
	for (size_t i = 0; i < pairs.count; i++) {
		char *name = pairs.items[i], *value = name + strcspn(name, "=");
		*value++ = '\0';
		setenv(name, value, 1);
	}
}

static void test_environment(void **state)
{
	(void)state;
	static const struct {
		const char *given, *ours;
		const char *warning; // a part of it; NULL = none
	} rows[] = {
		{ "", "", NULL },
		{ "DRIVER_VERSION=580.95.05", "DRIVER_VERSION=580.95.05", NULL },
		{ "DRIVER_VERSION=latest", "", "DRIVER_VERSION is ignored: it is 'latest'" },
		{ "DRIVER_VERSION=", "", NULL },
		{ "KERNEL_MODULE_TYPE=auto", "KERNEL_MODULE_TYPE=auto", NULL },
		{ "KERNEL_MODULE_TYPE= Open ", "KERNEL_MODULE_TYPE=open", NULL },
		{ "KERNEL_MODULE_TYPE=closed", "", "it is 'closed', not auto, open or proprietary" },
		{ "OPEN_KERNEL_MODULES_ENABLED=true", "KERNEL_MODULE_TYPE=open OPEN_KERNEL_MODULES_ENABLED=true",
		  NULL },
		{ "OPEN_KERNEL_MODULES_ENABLED=true;KERNEL_MODULE_TYPE=proprietary",
		  "KERNEL_MODULE_TYPE=proprietary OPEN_KERNEL_MODULES_ENABLED=true", NULL },
		{ "OPEN_KERNEL_MODULES_ENABLED=True;KERNEL_MODULE_TYPE=?",
		  "KERNEL_MODULE_TYPE=open OPEN_KERNEL_MODULES_ENABLED=true", "KERNEL_MODULE_TYPE is ignored" },
		{ "OPEN_KERNEL_MODULES_ENABLED=0", "OPEN_KERNEL_MODULES_ENABLED=false", NULL },
		{ "OPEN_KERNEL_MODULES_ENABLED=2", "", "it is '2', not true or false" },
		{ "GPU_DIRECT_RDMA_ENABLED=YES;USE_HOST_MOFED=off", "GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=false",
		  NULL },
		// What allows to disturb others is off where it is not understood.
		{ "ENABLE_GPU_POD_EVICTION=True;ENABLE_AUTO_DRAIN=F",
		  "ENABLE_GPU_POD_EVICTION=true ENABLE_AUTO_DRAIN=false", NULL },
		{ "DRAIN_USE_FORCE=1;DRAIN_DELETE_EMPTYDIR_DATA=;FORCE_REINSTALL=0",
		  "DRAIN_USE_FORCE=true FORCE_REINSTALL=false", NULL },
		{ "ENABLE_GPU_POD_EVICTION=sometimes", "", "it is 'sometimes', not true or false" },
		{ "MAX_THREADS=16", "MAX_THREADS=16", NULL },
		{ "MAX_THREADS=", "", NULL },
		{ "MAX_THREADS=  ", "", NULL },
		{ "MAX_THREADS=all", "", "it is 'all', not a number of threads" },
		{ "MAX_THREADS=-3", "", "it is '-3', not a number of threads" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv warnings = { 0 };
		set_environment(rows[i].given);
		nvidia_driver_environment(&warnings);
		auto_str char *ours = environment_text(),
			      *warned = warnings.count ? strv_join(&warnings, "; ") : str_dup("");
		if (!str_eq(ours, rows[i].ours))
			fail_msg("'%s' becomes '%s'", rows[i].given, ours);
		if (rows[i].warning ? !strstr(warned, rows[i].warning) : *warned != '\0')
			fail_msg("'%s' warns '%s'", rows[i].given, warned);
	}
	set_environment("");
}

// Each row of nvidia.def: the line that is logged, if any, is the one that kmodsmith-operator(7) prints.
static void test_inputs(void **state)
{
	(void)state;
	struct folder folder;
	struct err err;
	auto_root struct root top = ROOT_NONE;
	auto_str char *page = NULL;
	size_t rows = 0;
	assert_int_equal(root_init(&top, ".", &err), 0);
	assert_true(root_read(&top, "docs/man/kmodsmith-operator.7.scd", &page, NULL, &err) > 0);
	for (const struct nvidia_input *x = nvidia_inputs; x->name; x++, rows++) {
		bool is_file = x->kind == INPUT_FILE || x->kind == INPUT_MOUNT, is_flag = x->kind == INPUT_ARGUMENT;
		auto_strv struct strv warnings = { 0 };
		auto_str char *mount = str_fmt("9 1 0:1 /x /%s/a.repo ro - ext4 d rw\n", x->name), *words = NULL;
		auto_str char *flag = str_fmt("init --%s=8", x->name);
		folder_make(&folder);
		if (x->kind == INPUT_FILE)
			tempdir_write(&folder, x->name, "");
		tempdir_write(&folder, "proc/self/mountinfo", x->kind == INPUT_MOUNT ? mount : "\n");
		setenv(x->name, "true", 1);
		if (is_flag && !x->is_used)
			assert_int_equal(translate(flag, &words, &warnings), 0);
		else
			nvidia_driver_unused(&folder.root, &warnings);
		unsetenv(x->name);
		folder_done(&folder);
		const char *says = x->is_used ? "" : is_flag ? " is ignored: " : " has no effect: ";
		auto_str char *line = str_fmt("%s%s%s%s", is_file ? "/" : is_flag ? "--" : "", x->name, says, x->text);
		expect(warnings.count == !x->is_used && (x->is_used || str_eq(warnings.items[0], line)), x->name);
		auto_str char *row = str_fmt("\n- *%s%s*%s: %s\n",
					     is_file ? "/" :
					     is_flag ? "--" :
						       "",
					     x->name, x->kind == INPUT_TOOLKIT ? " with the driver toolkit" : "",
					     x->is_used ? x->text : line);
		auto_str char *plain = str_dup(page);
		char *to = plain;
		for (const char *from = page; *from; from++)
			if (*from != '\\')
				*to++ = *from;
		*to = '\0';
		expect(strstr(plain, row) != NULL, row);
	}
	const char *list = strstr(page, "# VARIABLES, MOUNTS"), *end = list ? strstr(list + 1, "\n# ") : NULL;
	for (const char *c = list; c && (c = strstr(c + 1, "\n- *")) && c < end;)
		rows--;
	assert_int_equal(rows, 0);
}

// Each variable that has an effect is one of an option, or has a test of its own.
static void test_used_variables(void **state)
{
	(void)state;
	static const char *const elsewhere[] = {
		"DRIVER_TYPE", "NVFM_CONFIG_FIELD", // tests/unit/daemons_test.c
		"OPEN_KERNEL_MODULES_ENABLED",      // test_environment()
		"DISABLE_VGPU_VERSION_CHECK",       // tests/cli/operator.bats
	};
	extern const struct cmd cmd_init, cmd_dtk_run;
	const struct cmd *const commands[] = { &cmd_init, &cmd_dtk_run };
	for (const struct nvidia_input *x = nvidia_inputs; x->name; x++) {
		bool is_seen = (x->kind != INPUT_VARIABLE && x->kind != INPUT_TOOLKIT) || !x->is_used;
		for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++)
			is_seen = is_seen || str_eq(elsewhere[i], x->name);
		for (size_t c = 0; c < ARRAY_SIZE(commands); c++)
			for (size_t t = 0; t < ARRAY_SIZE(commands[c]->opts) && commands[c]->opts[t]; t++)
				for (const struct opt *o = commands[c]->opts[t]; o->name; o++)
					is_seen = is_seen || str_eq(o->env, x->name);
		expect(is_seen, x->name);
	}
}

// driver.repoConfig, as files or as a directory; a subscription's own file is none of it.
static void test_sources(void **state)
{
	(void)state;
	static const char NAME[] = "KMODSMITH_HEADERS_REPOSITORIES";
	static const struct {
		const char *text, *mounts, *set, *seen;
	} rows[] = {
		{ "nothing", "/drivers", NULL, NULL },
		{ "a file", "/etc/apt/sources.list.d/site.list", NULL, "etc/apt/sources.list.d" },
		{ "two, and a directory", "/etc/yum.repos.d/a.repo /etc/yum.repos.d/b.repo /etc/zypp/repos.d", NULL,
		  "etc/yum.repos.d,etc/zypp/repos.d" },
		{ "a subscription", "/etc/yum.repos.d/redhat.repo", NULL, NULL },
		{ "beside it", "/etc/apt/sources.list.d.old /etc/apt", NULL, NULL },
		{ "the pod says otherwise", "/etc/apt/sources.list.d/site.list", "/mine", "/mine" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct folder folder;
		struct err err;
		auto_strv struct strv mounts = { 0 }, dirs = { 0 }, paths = { 0 }, warnings = { 0 };
		auto_str char *text = str_dup("");
		folder_make(&folder);
		strv_split(&mounts, rows[i].mounts, " ");
		for (size_t k = 0; k < mounts.count; k++)
			str_add(&text, "9 1 0:1 /x %s ro - ext4 d rw\n", mounts.items[k]);
		tempdir_write(&folder, "proc/self/mountinfo", text);
		unsetenv(NAME);
		if (rows[i].set)
			setenv(NAME, rows[i].set, 1);
		setenv("KMODSMITH_ROOT", folder.root.name, 1);
		assert_int_equal(nvidia_driver_environment_init(&warnings, &err), 0);
		unsetenv("KMODSMITH_ROOT");
		strv_split(&dirs, rows[i].seen ? rows[i].seen : "", ",");
		for (size_t k = 0; k < dirs.count; k++)
			strv_add(&paths, *dirs.items[k] == '/' ? str_dup(dirs.items[k]) :
								 root_path(&folder.root, dirs.items[k]));
		auto_str char *want = paths.count ? strv_join(&paths, ",") : NULL;
		const char *is = getenv(NAME);
		expect(want ? str_eq(is, want) : !is, rows[i].text);
		expect(warnings.count == 0, rows[i].text);
		folder_done(&folder);
	}
	unsetenv(NAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),   cmocka_unit_test(test_environment),
		cmocka_unit_test(test_inputs),  cmocka_unit_test(test_used_variables),
		cmocka_unit_test(test_sources),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
