// SPDX-License-Identifier: Apache-2.0
#include "cmd/container/watch.h"

extern const struct cmd cmd_watch;

static const struct opt opts[] = {
	{ "driver", 'd', "VERSION", "DRIVER_VERSION", OPT_STR, offsetof(struct watch_values, job.driver),
	  "driver version; default: that of --payload, of the loaded driver, of the last good one" },
	{ "kernel", 'k', "RELEASE,...", NULL, OPT_LIST, offsetof(struct watch_values, kernels),
	  "prebuild for these kernels only; default: all installed ones except the running one" },
	{ "once", 0, NULL, NULL, OPT_FLAG, offsetof(struct watch_values, is_once),
	  "check once, prebuild what is missing, and exit" },
	{ "limit", 0, "N", NULL, OPT_UINT, offsetof(struct watch_values, limit),
	  "compile for N kernels at most: the next one first, then the newest; default 4" },
	{ "interval", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct watch_values, interval_s),
	  "check at least this often; default 900" },
	{ "quiet-time", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct watch_values, quiet_s),
	  "after a change, wait for this long without another one before checking; default 10" },
	{ "next-root", 0, "DIR,...", "KMODSMITH_NEXT_ROOT", OPT_LIST, offsetof(struct watch_values, next_roots),
	  "where an updater has the root of the next boot, as a path of the host (A/B partitions)" },
	{ "gate", 0, NULL, "KMODSMITH_GATE", OPT_FLAG, offsetof(struct watch_values, is_gated),
	  "keep /run/kmodsmith/reboot-blocked while there is no package for the kernel that starts next" },
	{ "no-compile", 0, NULL, "KMODSMITH_NO_COMPILE", OPT_FLAG,
	  offsetof(struct watch_values, job.is_compile_forbidden), "use packages only" },
	{ "reuse", 0, "off|series|on", "KMODSMITH_REUSE", OPT_STR, offsetof(struct watch_values, job.reuse),
	  REUSE_HELP },
	{ "retry", 0, NULL, NULL, OPT_FLAG, offsetof(struct watch_values, job.is_retry), "retry what failed before" },
	{ "store-limit", 0, "BYTES", "KMODSMITH_STORE_LIMIT", OPT_STR, offsetof(struct watch_values, job.store_limit),
	  STORE_LIMIT_HELP },
	{ "payload", 0, "DIR", "KMODSMITH_PAYLOAD", OPT_STR, offsetof(struct watch_values, job.payload),
	  "the driver and the sources that an image carries" },
	{ 0 },
};

int watch_part_open(const struct watch_values *v, const struct opt *const *tables, const void *values,
		    struct watch_part *ret, struct service_part *ret_part, struct err *err)
{
	static const char *const own[] = { "watch", "--once" };
	auto_launch_words struct launch_words words = { 0 };
	if (machine_open(&v->job.origin.remote.common, &ret->machine, err) < 0 ||
	    job_state(&v->job, &ret->machine, &ret->state, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		strv_add(&words.args, str_dup(own[i]));
	for (size_t i = 0; i < v->next_roots.count; i++)
		strv_add(&ret->roots, str_dup(v->next_roots.items[i]));
	opt_words(tables, values, &cmd_watch, &words.args, &words.env);
	const struct service_kernels_request request = { .host = &ret->machine.host,
							 .kern = &ret->machine.kern,
							 .state = &ret->state,
							 .roots = &ret->roots,
							 .interval_s = v->interval_s,
							 .quiet_s = v->quiet_s };
	service_kernels_open(&request, &words, &ret->kernels, ret_part);
	return 0;
}

void watch_part_done(struct watch_part *p)
{
	service_kernels_done(&p->kernels);
	strv_done(&p->roots);
	root_done(&p->state);
	machine_done(&p->machine);
}

static int watch_until_stopped(const struct watch_values *v, struct err *err)
{
	auto_watch_part struct watch_part kernels = WATCH_PART_NONE;
	struct service_part part;
	sigset_t signals;
	service_block(&signals);
	if (watch_part_open(v, cmd_watch.opts, v, &kernels, &part, err) < 0)
		return -1;
	int signal = service_run(&part, 1, &signals, err);
	if (signal < 0)
		return -1;
	log_info("signal %d: exiting", signal);
	return 0;
}

static int run_watch(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct watch_values *v = values;
	return v->is_once ? watch_once(v, err) : watch_until_stopped(v, err);
}

const struct cmd cmd_watch = {
	.name = "watch",
	.help = "prebuild for kernels that appear, and warn before the reboot",
	.about = "Finds the kernels that this machine may start next, and puts a proven package for each of them into "
		 "the store\nbefore the reboot: from the store, --from, or a compile at the lowest priority. The "
		 "running driver is not touched.\n`kmodsmith status` and `doctor` show the result, as do "
		 "/run/kmodsmith/kernels.json and\n/run/kmodsmith/metrics/kernels.prom; see kmodsmith-kernels(7). Exit "
		 "status 0: every kernel is ready; 1: one is not.\n\n  kmodsmith watch --once --driver 535.261.03 "
		 "--source DRIVER.deb --gate\n",
	.opts = { opts, source_opts, share_opts, origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct watch_values),
	.run = run_watch,
};
