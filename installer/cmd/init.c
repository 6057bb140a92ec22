// SPDX-License-Identifier: Apache-2.0
// The container's entry: install once, then stay until told to stop. The driver outlives the process: no signal unloads
// it.
#include "base/file.h"
#include "cmd/job.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

struct values {
	struct job_values job;
	char *termination_log;
};

static const struct opt opts[] = {
	{ "termination-log", 0, "FILE", NULL, OPT_STR, offsetof(struct values, termination_log),
	  "gets the error of a failed start, where it exists; default /dev/termination-log" },
	{ 0 },
};

static const int stops[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };

static void block_signals(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < ARRAY_SIZE(stops); i++)
		sigaddset(set, stops[i]);
	sigaddset(set, SIGCHLD);
	sigaddset(set, SIGPIPE); // a log that nobody reads is no reason to leave
	sigprocmask(SIG_BLOCK, set, NULL);
}

// As process 1 of a container we are the parent of every orphan.
static int wait_for_stop(const sigset_t *set)
{
	for (;;) {
		siginfo_t info;
		int signal = sigwaitinfo(set, &info);
		if (signal == SIGCHLD)
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
		else if (signal > 0)
			return signal;
	}
}

// Until the first change in the kernel a signal ends the process at once, and its compile with it; from there on
// apply_plan holds signals, and whoever reads "ready" may send one that is waited for.
static int flow(const struct values *v, sigset_t *stop, struct err *err)
{
	auto_job struct job job = JOB_NONE;
	auto_status struct status status = { 0 };
	if (job_open(&v->job, true, &job, err) < 0)
		return -1;
	if (job.plan.outcome == PLAN_NO_GPU) {
		block_signals(stop);
		log_info("NO_GPU: no NVIDIA function on this machine, nothing to do");
		return 0;
	}
	if (job_apply(&job, &status, err) < 0)
		return -1;
	block_signals(stop);
	log_info("ready: driver %s, %s", job.plan.driver, flavour_name(job.plan.flavour));
	return 0;
}

static int run(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	struct values *v = values;
	sigset_t set;
	v->job.is_export_default = true;
	v->job.is_cdi_default = true;
	if (flow(v, &set, err) < 0)
		return -1;
	int signal = wait_for_stop(&set);
	log_info("signal %d: leaving; the driver stays loaded", signal);
	return 0;
}

// For `kubectl describe pod`: Kubernetes mounts the file and shows at most 4096 bytes of it, which an error never
// fills. Written in place, because it is a mount point. The error has been logged already, so nothing is said when
// there is none.
static void failed(const void *values, const struct err *err)
{
	static const char DEFAULT[] = "/dev/termination-log";
	const struct values *v = values;
	const struct err_info *info = err_info(err->code);
	const char *path = v->termination_log ? v->termination_log : DEFAULT;
	auto_machine struct machine m = { .host = ROOT_NONE, .kern = ROOT_NONE };
	struct err ignored;
	if (machine_open(&v->job.origin.remote.common, &m, &ignored) < 0)
		return;
	auto_fd int fd = root_open(&m.kern, path, O_WRONLY | O_TRUNC | O_NONBLOCK, &ignored);
	auto_str char *text = str_fmt("%s (%s): %s\nnext: %s\n", info->name, info->reason, err->text, info->next);
	if (fd >= 0)
		file_write(fd, path, text, strlen(text), &ignored);
}

const struct cmd cmd_init = {
	.name = "init",
	.help = "install, then wait until told to stop; the entry of a container",
	.about = "Does what `install` does, then waits for a signal. SIGTERM ends the process and leaves the driver "
		 "loaded: only\n"
		 "`kmodsmith unload` takes it out. A failure ends at once with the error's exit status, and leaves "
		 "the error\nin /dev/termination-log.\n",
	.opts = { opts, source_opts, job_opts, package_opts, origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run,
	.failed = failed,
};
