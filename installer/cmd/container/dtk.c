// SPDX-License-Identifier: Apache-2.0
// dtk run, dtk build: a compile in OpenShift's driver toolkit.
#include "cmd/container/dtk.h"

#include "cmd/common/entry.h"
#include "cmd/container/nvidia_driver.h"
#include "driver_toolkit/dtk.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

#define PATIENCE_HELP "how long the toolkit may show no sign of life before the driver comes without it; default 600"

static const struct opt shared_opts[] = {
	{ "shared", 0, "DIR", "KMODSMITH_DTK_SHARED", OPT_STR, offsetof(struct dtk_values, shared),
	  "the directory that both containers see; default " DTK_SHARED },
	{ "image-missing", 0, NULL, "RHCOS_IMAGE_MISSING", OPT_FLAG, offsetof(struct dtk_values, is_image_missing),
	  "the cluster has no toolkit image of this node's system: no hand-over" },
	{ 0 },
};
static const struct opt run_opts[] = {
	{ "program", 0, "FILE", "KMODSMITH_STATIC", OPT_STR, offsetof(struct dtk_values, program),
	  "statically linked kmodsmith for the toolkit's container; default /usr/libexec/kmodsmith" },
	{ "toolkit-timeout", 0, "SECONDS", "KMODSMITH_DTK_TIMEOUT", OPT_UINT, offsetof(struct dtk_values, patience_s),
	  PATIENCE_HELP },
	{ 0 },
};

static void stop_signals(sigset_t *ret)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	sigemptyset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(ret, signals[i]);
}

void dtk_block_signals(void)
{
	sigset_t set;
	stop_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void dtk_unblock_signals(void)
{
	sigset_t set;
	stop_signals(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int dtk_wait_second(void)
{
	const struct timespec second = { .tv_sec = 1 };
	sigset_t set;
	stop_signals(&set);
	int signal = sigtimedwait(&set, NULL, &second);
	return signal > 0 ? signal : 0;
}

static int run_dtk(void *values, char **args, size_t count, struct err *err)
{
	return dtk_run(values, args, count, err);
}

static int run_dtk_build(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	return dtk_build(values, err);
}

const struct cmd cmd_dtk_run = {
	.name = "dtk run",
	.args = "[-- INIT-OPTION...]",
	.args_max = 64,
	.help = "`init`, with what has to be compiled handed over to the toolkit's container",
	.about =
		"Looks what `init` with the same options would do. Only when that would compile, a request, the source "
		"and this\n"
		"program go into the directory that both containers share. The package that comes back is proven "
		"against the running\n"
		"kernel and kept in the node's store; then `init` goes on from there. A toolkit that cannot, or that "
		"shows no sign of\n"
		"life, is told in a line, and `init` does what it does without one.\n\n"
		"Pods call this `ocp_dtk_entrypoint nv-ctr-run-with-dtk`.\n",
	.opts = { shared_opts, run_opts, common_opts },
	.values_size = sizeof(struct dtk_values),
	.run = run_dtk,
};

const struct cmd cmd_dtk_build = {
	.name = "dtk build",
	.help = "the toolkit's side: compile what is asked for, until told to stop",
	.about = "Waits for a request in the shared directory, compiles it with the compiler and the headers of this "
		 "container, and\n"
		 "leaves the package or the reason why there is none. Then it waits for the next one.\n\n"
		 "Pods call this `ocp_dtk_entrypoint dtk-build-driver`.\n",
	.opts = { shared_opts, common_opts },
	.values_size = sizeof(struct dtk_values),
	.run = run_dtk_build,
};

static int refuse_dtk_verb(const char *verb, const char *why)
{
	struct err err;
	err_set(&err, E_USAGE, "%s '%s': %s", DTK_PROGRAM, verb, why);
	log_err(&err);
	return err_info(err.code)->exit_status;
}

// As `nvidia-driver init` starts, with its environment and its flags; what is none of those is for our own init.
static int run_init(int argc, char **argv)
{
	auto_strv struct strv words = { 0 }, warnings = { 0 }, of_words = { 0 }, given = { 0 };
	nvidia_driver_environment(&warnings);
	bool is_theirs = nvidia_driver_words(argc, argv, &words, &of_words) == 0 && str_eq(words.items[0], "init");
	strv_add(&given, str_dup("run"));
	strv_add(&given, str_dup("--"));
	for (size_t i = 1; is_theirs && i < words.count; i++)
		strv_add(&given, str_dup(words.items[i]));
	if (!is_theirs)
		strv_add(&given, str_dup("--operator"));
	for (int i = 1; !is_theirs && i < argc; i++)
		strv_add(&given, str_dup(argv[i]));
	for (size_t i = 0; i < warnings.count; i++)
		log_warn("%s", warnings.items[i]);
	for (size_t i = 0; is_theirs && i < of_words.count; i++)
		log_warn("%s", of_words.items[i]);
	return entry_run(&cmd_dtk_run, (int)given.count, given.items);
}

int dtk_main(int argc, char **argv)
{
	static const char OTHERS[] = "this is the driver's image; that verb is of the image of GPUDirect Storage or "
				     "GDRCopy, which brings its own program of this name";
	const char *verb = argc > 1 ? argv[1] : "";
	if (str_eq(verb, "nv-ctr-run-with-dtk"))
		return run_init(argc - 1, argv + 1);
	if (str_eq(verb, "dtk-build-driver"))
		return entry_run(&cmd_dtk_build, argc - 1, argv + 1);
	if (str_eq(verb, "nv-fs-ctr-run-with-dtk") || str_eq(verb, "gdrcopy-ctr-run-with-dtk"))
		return refuse_dtk_verb(verb, OTHERS);
	return refuse_dtk_verb(verb,
			       "it has nv-ctr-run-with-dtk (in the driver's container) and dtk-build-driver (in the "
			       "toolkit's)");
}
