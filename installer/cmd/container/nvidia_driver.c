// SPDX-License-Identifier: Apache-2.0
#include "cmd/container/nvidia_driver.h"

#include "base/formats/yaml.h"
#include "cluster/node_state/nvidia.h"
#include "cmd/common/common.h"
#include "cmd/common/entry.h"
#include "daemons/vgpu_catalog.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <sys/utsname.h>

static const struct verb {
	const char *name;
	const char *words[3];
	const char *takes; // letters of flags that mean something to it
	const char *help;
} verbs[] = {
	{ "init",
	  { "init", "--operator" },
	  "m",
	  "install the driver on this node and keep running; the default without a verb" },
	{ "load", { "install", "--no-compile" }, "", "load what is available" },
	{ "build", { "build" }, "mk", "compile into this node's store, for the running kernel or for -k" },
	{ "update", { "build" }, "mk", "the same, so that the next boot into that kernel compiles nothing" },
	{ "reload_nvidia_peermem", { "peermem", "load" }, "", "load nvidia-peermem and keep running" },
	{ "probe_nvidia_peermem", { "peermem", "probe" }, "", "whether nvidia-peermem is loaded" },
};

static const struct flag {
	struct option option; // .val: the letter
	const char *to;       // our option; NULL = none
	const char *why_not;  // there is none, for a warning; NULL = nothing is lost
} flags[] = {
	{ { "accept-license", no_argument, NULL, 'a' }, NULL, NULL },
	{ { "max-threads", required_argument, NULL, 'm' }, "--jobs", NULL },
	{ { "kernel", required_argument, NULL, 'k' }, "--kernel", NULL },
	{ { "sign", required_argument, NULL, 's' }, NULL, "modules are not signed here" },
	{ { "tag", required_argument, NULL, 't' }, NULL, "packages are named by what they are made of" },
};

static bool is_count(const char *text)
{
	enum { MOST = 4096 };
	uint64_t n;
	return str_u64(text, 10, &n) && n > 0 && n <= MOST;
}

static void translate_flag(const struct verb *verb, const struct flag *flag, const char *value, struct strv *ret,
			   struct strv *ret_warnings)
{
	const char *name = flag->option.name;
	if (flag->why_not)
		strv_add(ret_warnings, str_fmt("--%s is ignored: %s", name, flag->why_not));
	else if (flag->to && !strchr(verb->takes, flag->option.val))
		strv_add(ret_warnings, str_fmt("--%s is ignored: it means nothing to %s", name, verb->name));
	else if (flag->option.val == 'm' && !is_count(value))
		strv_add(ret_warnings, str_fmt("--%s is ignored: '%s' is not a number of threads", name, value));
	else if (flag->to) {
		strv_add(ret, str_dup(flag->to));
		strv_add(ret, str_dup(value));
	}
}

int nvidia_driver_words(int argc, char **argv, struct strv *ret, struct strv *ret_warnings)
{
	struct option longs[ARRAY_SIZE(flags) + 1] = { 0 };
	bool has_verb = argc > 1 && *argv[1] != '-';
	const struct verb *verb = has_verb ? NULL : &verbs[0];
	for (size_t i = 0; has_verb && i < ARRAY_SIZE(verbs); i++)
		if (str_eq(verbs[i].name, argv[1]))
			verb = &verbs[i];
	if (!verb)
		return -1;
	if (!has_verb)
		strv_add(ret_warnings,
			 str_fmt("no verb is given, so it is %s: driver.args of a ClusterPolicy take its place",
				 verb->name));
	for (size_t i = 0; verb->words[i]; i++)
		strv_add(ret, str_dup(verb->words[i]));
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		longs[i] = flags[i].option;
	argc -= has_verb;
	argv += has_verb;
	optind = 0;
	opterr = 0;
	for (int letter; (letter = getopt_long(argc, argv, "+am:k:s:t:", longs, NULL)) != -1;) {
		const struct flag *flag = NULL;
		for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
			if (flags[i].option.val == letter)
				flag = &flags[i];
		if (!flag)
			return -1;
		translate_flag(verb, flag, optarg, ret, ret_warnings);
	}
	return optind < argc ? -1 : 0;
}

static bool has_word(const char *list, const char *text) // list: blank-separated
{
	auto_strv struct strv words = { 0 };
	strv_split(&words, list, " ");
	return strv_has(&words, text);
}

// Each gives what our options take, or NULL. text: small letters without blanks around.
static const char *parse_bool(const char *text)
{
	return has_word("true yes on 1 y t enabled", text)   ? "true" :
	       has_word("false no off 0 n f disabled", text) ? "false" :
							       NULL;
}

static const char *parse_count(const char *text)
{
	return is_count(text) ? text : NULL;
}

static const char *parse_flavour(const char *text)
{
	return has_word("auto open proprietary", text) ? text : NULL;
}

static const char *parse_version(const char *text)
{
	return isdigit((unsigned char)*text) && strspn(text, "0123456789.") == strlen(text) ? text : NULL;
}

static const struct variable {
	const char *name, *wanted;
	const char *(*as)(const char *text);
} variables[] = {
	{ "DISABLE_VGPU_VERSION_CHECK", "true or false", parse_bool },
	{ "DRIVER_VERSION", "a version such as 580.95.05", parse_version },
	{ "KERNEL_MODULE_TYPE", "auto, open or proprietary", parse_flavour },
	{ "OPEN_KERNEL_MODULES_ENABLED", "true or false", parse_bool },
	{ "GPU_DIRECT_RDMA_ENABLED", "true or false", parse_bool },
	{ "USE_HOST_MOFED", "true or false", parse_bool },
	{ "GDS_ENABLED", "true or false", parse_bool },
	{ "GDRCOPY_ENABLED", "true or false", parse_bool },
	{ "MAX_THREADS", "a number of threads", parse_count },
	{ "ENABLE_GPU_POD_EVICTION", "true or false", parse_bool },
	{ "ENABLE_AUTO_DRAIN", "true or false", parse_bool },
	{ "DRAIN_USE_FORCE", "true or false", parse_bool },
	{ "DRAIN_DELETE_EMPTYDIR_DATA", "true or false", parse_bool },
	{ "FORCE_REINSTALL", "true or false", parse_bool },
};

void nvidia_driver_environment(struct strv *ret_warnings)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const struct variable *v = &variables[i];
		auto_str char *copy = str_dup(getenv(v->name));
		char *text = copy ? str_trim(copy) : NULL;
		for (char *c = text; c && *c; c++)
			*c = (char)tolower((unsigned char)*c);
		const char *value = text && *text ? v->as(text) : NULL;
		if (value)
			setenv(v->name, value, 1);
		else
			unsetenv(v->name);
		if (text && *text && !value)
			strv_add(ret_warnings, str_fmt("the environment's %s is ignored: it is '%s', not %s", v->name,
						       text, v->wanted));
	}
	if (str_eq(getenv("OPEN_KERNEL_MODULES_ENABLED"), "true") && !getenv("KERNEL_MODULE_TYPE"))
		setenv("KERNEL_MODULE_TYPE", "open", 1);
}

// Something is mounted at or below dir. Of a subscription the operator itself mounts redhat.repo, from the host.
static bool is_mounted(const struct strv *mountinfo, const char *dir)
{
	enum { POINT = 4 };
	for (size_t i = 0; i < mountinfo->count; i++) {
		auto_strv struct strv fields = { 0 };
		strv_split(&fields, mountinfo->items[i], " ");
		const char *point = fields.count > POINT ? fields.items[POINT] + 1 : "";
		const char *below = str_starts(point, dir) ? point + strlen(dir) : NULL;
		if (below && (!*below || *below == '/') && !str_eq(below, "/redhat.repo"))
			return true;
	}
	return false;
}

static void read_mountinfo(const struct root *self, struct strv *ret)
{
	auto_str char *text = NULL;
	struct err ignored;
	if (root_read(self, "proc/self/mountinfo", &text, NULL, &ignored) > 0)
		strv_split(ret, text, "\n");
}

void nvidia_driver_unused(const struct root *self, struct strv *ret_warnings)
{
	auto_strv struct strv mountinfo = { 0 };
	read_mountinfo(self, &mountinfo);
	for (const struct nvidia_input *x = nvidia_inputs; x->name; x++) {
		const char *value = getenv(x->name);
		bool is_there = x->kind == INPUT_VARIABLE ? value && *value :
				x->kind == INPUT_FILE     ? root_exists(self, x->name) :
				x->kind == INPUT_MOUNT    ? is_mounted(&mountinfo, x->name) :
							    false; // translate_flag(), cmd_dtk_run
		if (is_there && !x->is_used)
			strv_add(ret_warnings,
				 str_fmt("%s%s has no effect: %s",
					 x->kind == INPUT_FILE || x->kind == INPUT_MOUNT ? "/" : "", x->name, x->text));
	}
}

void nvidia_driver_sources(const struct root *self, const struct strv *dirs)
{
	auto_strv struct strv paths = { 0 };
	for (size_t i = 0; i < dirs->count; i++)
		strv_add(&paths, root_path(self, dirs->items[i]));
	auto_str char *list = strv_join(&paths, ",");
	if (paths.count)
		setenv("KMODSMITH_HEADERS_REPOSITORIES", list, 0);
}

// driver.repoConfig
static void take_mounted_sources(const struct root *self)
{
	auto_strv struct strv mountinfo = { 0 }, dirs = { 0 };
	read_mountinfo(self, &mountinfo);
	for (const struct nvidia_input *x = nvidia_inputs; x->name; x++)
		if (x->kind == INPUT_MOUNT && is_mounted(&mountinfo, x->name))
			strv_add(&dirs, str_dup(x->name));
	nvidia_driver_sources(self, &dirs);
}

static int read_catalog(const struct root *self, json_t **ret, struct err *err)
{
	static const char CATALOG[] = "drivers/vgpuDriverCatalog.yaml";
	auto_str char *text = NULL;
	size_t len = 0;
	int r = root_read(self, CATALOG, &text, &len, err);
	return r <= 0 ? (r < 0 ? -1 : err_set(err, E_NOT_FOUND, "there is no '/%s'", CATALOG)) :
			yaml_read(text, len, CATALOG, false, ret, err);
}

int nvidia_driver_guest(const struct root *self, const struct root *kern, struct err *err)
{
	auto_strv struct strv versions = { 0 };
	auto_json json_t *catalog = NULL;
	auto_str char *choice = NULL;
	struct vgpu_host host;
	struct utsname machine;
	static const char OTHERS[] = "KMODSMITH_VGPU_DRIVERS";
	const char *own = getenv("DRIVER_VERSION");
	auto_str char *others = str_dup(getenv(OTHERS));
	unsetenv(OTHERS); // no option of a command has it
	if (!str_eq(getenv("DRIVER_TYPE"), "vgpu") || !str_eq(getenv("DISABLE_VGPU_VERSION_CHECK"), "false"))
		return 0;
	int r = vgpu_host_read(kern, &host, err);
	if (r <= 0)
		return r;
	if (own)
		strv_add(&versions, str_dup(own));
	strv_split(&versions, others ? others : "", ", ");
	uname(&machine);
	if (read_catalog(self, &catalog, err) < 0 ||
	    vgpu_catalog_choose(catalog, &host, machine.machine, &versions, &choice, err) < 0)
		return err_wrap(err, "DISABLE_VGPU_VERSION_CHECK=false");
	log_info("the host's vGPU manager is %s (%s): guest driver %s", host.version, host.branch, choice);
	setenv("DRIVER_VERSION", choice, 1);
	return 0;
}

int nvidia_driver_environment_init(struct strv *ret_warnings, struct err *err)
{
	auto_root struct root self = ROOT_NONE;
	const char *recorded = getenv("KMODSMITH_ROOT");
	nvidia_driver_environment(ret_warnings);
	if (root_init(&self, recorded ? recorded : "/", err) < 0)
		return -1;
	take_mounted_sources(&self);
	nvidia_driver_unused(&self, ret_warnings);
	return nvidia_driver_guest(&self, &self, err);
}

static int nvidia_driver_usage(FILE *out, int status)
{
	fprintf(out, "Usage: nvidia-driver [VERB] [FLAGS]\n\nVerbs:\n");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		fprintf(out, "  %-22s %s\n", verbs[i].name, verbs[i].help);
	fprintf(out, "\nFlags, for every verb; a verb ignores those that mean nothing to it:\n");
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		fprintf(out, "  -%c, --%s%s\n", flags[i].option.val, flags[i].option.name,
			flags[i].option.has_arg ? " VALUE" : "");
	auto_str char *sources = nvidia_sources_text();
	fprintf(out,
		"\nEverything else is set by the environment; see `kmodsmith init --help`. As read in NVIDIA's %s.\n",
		sources);
	return status;
}

int nvidia_driver_refuse(const struct err *err)
{
	log_err(err);
	return err_info(err->code)->exit_status;
}

int nvidia_driver_main(int argc, char **argv)
{
	auto_strv struct strv words = { 0 }, warnings = { 0 };
	struct err err;
	log_setup(LOG_LEVEL_INFO, str_eq(getenv("KMODSMITH_LOG_FORMAT"), "json"));
	if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h") || str_eq(argv[1], "help")))
		return nvidia_driver_usage(stdout, 0);
	if (nvidia_driver_words(argc, argv, &words, &warnings) < 0)
		return nvidia_driver_usage(stderr, 1);
	int r = nvidia_driver_environment_init(&warnings, &err);
	for (size_t i = 0; i < warnings.count; i++)
		log_warn("%s", warnings.items[i]);
	if (r < 0)
		return nvidia_driver_refuse(&err);
	return entry_run_words((int)words.count, words.items);
}
