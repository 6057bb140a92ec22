// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/gpu_helper.h"

#include "base/core/date.h"
#include "base/file/root.h"
#include "base/process/capabilities.h"
#include "driver_root/root_record.h"
#include "kmod/load/bounded.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U // Linux 6.3
#endif
#define NAME "kmodsmith-gpu-helper"
enum { OUTPUT_MOST = 64 << 10, KILL_WAIT_MS = 2000, TICK_MAX_MS = 32, NOT_STARTED = 126 };

// The program is in ours.
__asm__(".pushsection .rodata\n"
	"gpu_helper_program: .incbin \"" GPU_HELPER "\"\ngpu_helper_program_end:\n.popsection");
extern const char gpu_helper_program[] EMBEDDED, gpu_helper_program_end[] EMBEDDED;

struct talk { // with one process
	char text[OUTPUT_MOST + 1];
	size_t len;
	bool is_late, is_flooded;
	int status;    // as wait(2) has it
	pid_t left;    // it could not be ended; 0 = it has ended
	char *at;      // what it did last; NULL = nothing
	bool is_asked; // by then the driver had been asked
	char *said;    // the last line of another format: a library's, or why it was not started; NULL = none
};

static void talk_free(struct talk **t)
{
	if (!*t)
		return;
	free((*t)->at);
	free((*t)->said);
	free(*t);
}
#define auto_talk __attribute__((cleanup(talk_free)))

char *gpu_helper_dir(const struct root *root, const char *version)
{
	auto_str char *dir = NULL, *found = root_record_libraries(root, version, &dir);
	return found ? str_fmt("/%s", dir) : NULL;
}

static int open_program(struct err *err)
{
	size_t len = (size_t)((uintptr_t)gpu_helper_program_end - (uintptr_t)gpu_helper_program);
	auto_fd int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_EXEC);
	if (fd < 0 && errno == EINVAL) // before Linux 6.3, where each is executable
		fd = memfd_create(NAME, MFD_CLOEXEC);
	if (fd < 0 && errno == EACCES)
		return err_set(err, errno, "this host forbids programs in memory (sysctl vm.memfd_noexec)");
	if (fd < 0 || write(fd, gpu_helper_program, len) != (ssize_t)len)
		return err_set(err, errno, "keep a program in memory");
	return TAKE_FD(fd);
}

// Between fork and exec. What goes wrong is its output.
static int be_helper(const struct root *root, int program, int out, char *const *argv, char *const *env)
{
	enum { PROGRAM = 3 };
	struct err err;
	uint64_t dropped;
	sigset_t none;
	sigemptyset(&none);
	setpgid(0, 0);
	if (dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		return NOT_STARTED;
	// A name of "" is our own root directory, which nobody without CAP_SYS_CHROOT can enter once more.
	if (fchdir(root->fd) < 0 || (*root->name && chroot(".") < 0) || chdir("/") < 0) {
		dprintf(STDERR_FILENO, "enter '%s': %s\n", root->name, strerror(errno));
		return NOT_STARTED;
	}
	// Not even CAP_SYS_MODULE: the libraries start nvidia-modprobe where a module or a node is missing, and it
	// would load whatever lies on the disk. CAP_DAC_OVERRIDE, because the nodes can be another user's.
	if (caps_keep(CAPS_BIT(CAP_DAC_OVERRIDE), &dropped, &err) < 0) {
		dprintf(STDERR_FILENO, "%s\n", err.text);
		return NOT_STARTED;
	}
	if (dup2(program, PROGRAM) < 0 || fcntl(PROGRAM, F_SETFD, FD_CLOEXEC) < 0)
		return NOT_STARTED;
	closefrom(PROGRAM + 1); // also the locks on them
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execveat(PROGRAM, "", argv, env, AT_EMPTY_PATH);
	dprintf(STDERR_FILENO, "%s: %s\n",
		errno == ENOENT ? "it has no C library that could run the program" :
				  "the program is not allowed to run",
		strerror(errno));
	return NOT_STARTED;
}

static pid_t start_helper(const struct gpu_helper *helper, char *const *argv, char *const *env, int *ret_in,
			  struct err *err)
{
	int pipes[2];
	auto_fd int program = open_program(err);
	if (program < 0)
		return -1;
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	auto_fd int in = pipes[0];
	auto_fd int out = pipes[1];
	pid_t caller = getpid(), pid = fork();
	if (pid < 0)
		return err_set(err, errno, "start a process");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(getppid() == caller ? be_helper(helper->root, program, out, argv, env) : NOT_STARTED);
	}
	setpgid(pid, pid); // whoever comes first: kill(-pid) must find the group
	*ret_in = TAKE_FD(in);
	return pid;
}

// Until the process has ended and its output is read, or it is too late. A child of it may hold the pipe for longer.
static void follow_helper(struct talk *t, pid_t pid, int in, long deadline)
{
	bool is_open = true, is_ended = false;
	for (int tick = 1; !t->is_late && !t->is_flooded;) {
		struct pollfd p = { .fd = is_open ? in : -1, .events = POLLIN };
		if (poll(&p, 1, is_ended ? 0 : tick) > 0) {
			ssize_t n = read(in, t->text + t->len, OUTPUT_MOST - t->len);
			t->len += n > 0 ? (size_t)n : 0;
			t->is_flooded = t->len == OUTPUT_MOST;
			is_open = n > 0 || (n < 0 && errno == EINTR);
			long left = is_open ? 0 : deadline - clock_ms();
			is_ended = left > 0 && bounded_wait(pid, (int)left); // mostly at once
		} else if (is_ended) {
			return;
		} else {
			siginfo_t info = { 0 };
			is_ended =
				waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
			tick = tick < TICK_MAX_MS ? 2 * tick : tick;
		}
		t->is_late = !is_ended && clock_ms() >= deadline;
	}
}

static int talk_to_helper(const struct gpu_helper *helper, struct strv *argv, const char *device, long deadline,
			  struct talk *t, struct err *err)
{
	auto_fd int in = -1;
	auto_strv struct strv env = { 0 };
	strv_add(&env, str_fmt("LD_LIBRARY_PATH=%s", helper->dir)); // for what the libraries load by their sonames
	strv_add(&env, str_dup("PATH=/dev/null"));
	strv_add(&env, str_dup("CUDA_CACHE_DISABLE=1"));
	strv_add(&env, str_dup("CUDA_MPS_PIPE_DIRECTORY=/dev/null/none")); // where no daemon can be
	if (device)
		strv_add(&env, str_fmt("CUDA_VISIBLE_DEVICES=%s", device));
	pid_t pid = start_helper(helper, argv->items, env.items, &in, err);
	if (pid < 0)
		return -1;
	follow_helper(t, pid, in, deadline);
	kill(-pid, SIGKILL); // and all that it started; not yet reaped, so the group is still ours
	if (!bounded_wait(pid, KILL_WAIT_MS)) {
		t->left = pid;
		return 0;
	}
	while (waitpid(pid, &t->status, 0) < 0 && errno == EINTR)
		;
	return 0;
}

static struct gpu_result *find_gpu(struct gpu_result *gpus, size_t count, const char *address)
{
	for (size_t i = 0; i < count; i++)
		if (str_eq(gpus[i].address, address))
			return &gpus[i];
	return NULL;
}

static void read_fact(struct gpu_result *gpu, const char *fact)
{
	const char *equals = strchr(fact, '='), *value = equals ? equals + 1 : "";
	uint64_t number = 0;
	str_u64(value, 10, &number);
	if (str_starts(fact, "uuid="))
		str_set(&gpu->uuid, value);
	else if (str_starts(fact, "name="))
		str_set(&gpu->name, value);
	else if (str_starts(fact, "reason="))
		str_set(&gpu->reason, value);
	else if (str_starts(fact, "note="))
		str_add(&gpu->note, "%s%s", gpu->note ? "; " : "", value);
	else if (str_starts(fact, "mig="))
		gpu->is_mig = number == 1;
	else if (str_starts(fact, "compute_mode=") && number <= GPU_COMPUTE_ONE_PROCESS)
		gpu->compute_mode = (enum gpu_compute_mode)number;
	else if (str_starts(fact, "fabric=") && number <= GPU_FABRIC_COMPLETED)
		gpu->fabric = (enum gpu_fabric)number;
	else if (str_starts(fact, "recovery="))
		gpu->recovery = (int)number;
	else if (str_starts(fact, "reset_due="))
		gpu->is_reset_due = number == 1;
}

static void read_gpu_line(const struct strv *fields, struct gpu_result *gpu, bool *ret_is_known)
{
	const char *outcome = fields->items[2];
	gpu->outcome = str_eq(outcome, "works") ? GPU_WORKS : str_eq(outcome, "broken") ? GPU_BROKEN : GPU_UNTESTED;
	for (size_t i = 3; i < fields->count; i++)
		read_fact(gpu, fields->items[i]);
	*ret_is_known = true;
}

static void read_talk(struct talk *t, struct gpu_result *gpus, size_t count, bool *is_known)
{
	auto_strv struct strv lines = { 0 };
	char *end = memrchr(t->text, '\n', t->len);
	t->text[end && !t->is_flooded ? (size_t)(end - t->text) : t->len] = '\0'; // a line that was cut short is none
	strv_split(&lines, t->text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		auto_strv struct strv fields = { 0 };
		strv_split(&fields, lines.items[i], "\t");
		const char *tag = fields.count > 1 ? fields.items[0] : "";
		struct gpu_result *gpu = fields.count > 2 ? find_gpu(gpus, count, fields.items[1]) : NULL;
		if (str_eq(tag, "at") || str_eq(tag, "step")) {
			str_set(&t->at, fields.items[1]);
			t->is_asked = str_eq(tag, "step");
		} else if (str_eq(tag, "gpu") && gpu) {
			read_gpu_line(&fields, gpu, &is_known[gpu - gpus]);
		} else if (str_eq(tag, "gpu") && fields.count > 2 && str_eq(fields.items[1], "*")) {
			for (size_t j = 0; j < count; j++)
				if (!is_known[j])
					read_gpu_line(&fields, &gpus[j], &is_known[j]);
		} else {
			str_set(&t->said, lines.items[i]);
		}
	}
}

// How it ended, for a GPU of which it did not speak.
static char *end_text(const struct talk *t, const struct gpu_helper *helper)
{
	const char *said = t->said ? t->said : "it said nothing";
	const char *at = t->at ? t->at : "start";
	if (t->left)
		return str_fmt("it hangs in the kernel (%s), and process %d cannot be ended", at, (int)t->left);
	if (t->is_flooded)
		return str_fmt("more than %d bytes of output (%s)", OUTPUT_MOST, at);
	if (t->is_late)
		return str_fmt("no answer within %d ms (%s)", helper->deadline_ms, at);
	if (WIFSIGNALED(t->status))
		return str_fmt("the library crashed (%s): %s", at, strsignal(WTERMSIG(t->status)));
	if (WEXITSTATUS(t->status) == NOT_STARTED || !t->at)
		return str_fmt("'%s': %s", *helper->root->name ? helper->root->name : "/", said);
	return str_fmt("the library ended the process with status %d (%s): %s", WEXITSTATUS(t->status), at, said);
}

// Something hung or crashed. The GPU that was asked is to blame, or all when none was named; before the driver was
// asked nothing is known of any. True = others are still to be asked.
static bool blame_gpus(const struct gpu_helper *helper, const struct talk *t, struct gpu_result *gpus, size_t count,
		       bool *is_known)
{
	bool is_one = false, is_rest = false;
	for (size_t i = 0; i < count; i++)
		is_one = is_one || (t->at && str_ends(t->at, gpus[i].address));
	for (size_t i = 0; i < count; i++) {
		if (is_known[i])
			continue;
		bool is_asked = t->is_asked && (!is_one || str_ends(t->at, gpus[i].address));
		if (is_one && !is_asked && !t->is_late && !t->left) {
			is_rest = true;
			continue;
		}
		gpus[i].outcome = is_asked ? (t->left ? GPU_PENDING : GPU_BROKEN) : GPU_UNTESTED;
		gpus[i].reason = is_one && !is_asked ? str_fmt("not asked, because of another GPU (%s)", t->at) :
						       end_text(t, helper);
		is_known[i] = true;
	}
	return is_rest;
}

static void begin_answer(struct gpu_result *gpu)
{
	char *address = TAKE(gpu->address);
	int minor = gpu->minor;
	gpu_result_done(gpu);
	*gpu = (struct gpu_result){ .address = address, .minor = minor, .level = GPU_ANSWER };
}

pid_t gpu_helper_answer(const struct gpu_helper *helper, struct gpu_results *gpus)
{
	long deadline = clock_ms() + helper->deadline_ms;
	pid_t left = 0;
	size_t count = gpus->count, asked = 0;
	bool *is_known = mem_alloc(count + 1);
	for (size_t i = 0; i < count; i++) {
		is_known[i] = gpus->items[i].outcome != GPU_WORKS;
		asked += !is_known[i];
		if (!is_known[i])
			begin_answer(&gpus->items[i]);
	}
	for (bool is_rest = asked > 0; is_rest;) { // once, or once more after each GPU that crashes the library
		struct err err;
		auto_talk struct talk *t = mem_alloc(sizeof(*t));
		auto_strv struct strv argv = { 0 };
		strv_add(&argv, str_dup(NAME));
		strv_add(&argv, str_dup("answer"));
		strv_add(&argv, str_dup(helper->dir));
		strv_add(&argv, str_dup(helper->version));
		for (size_t i = 0; i < count; i++)
			if (!is_known[i])
				strv_add(&argv, str_dup(gpus->items[i].address));
		if (talk_to_helper(helper, &argv, NULL, deadline, t, &err) < 0)
			t->said = str_dup(err.text);
		else
			read_talk(t, gpus->items, count, is_known);
		is_rest = blame_gpus(helper, t, gpus->items, count, is_known);
		left = t->left;
	}
	free(is_known);
	return left;
}

static const char *compute_refusal(const struct gpu_result *gpu)
{
	if (!gpu->uuid)
		return "its UUID is not known";
	switch (gpu->compute_mode) {
	case GPU_COMPUTE_NONE:
		return "its compute mode is PROHIBITED";
	case GPU_COMPUTE_ONE_THREAD:
	case GPU_COMPUTE_ONE_PROCESS:
		return "its compute mode is EXCLUSIVE: the check would keep others out";
	default:
		return NULL;
	}
}

pid_t gpu_helper_compute(const struct gpu_helper *helper, struct gpu_result *gpu)
{
	struct err err;
	bool is_known = false;
	const char *refusal = compute_refusal(gpu);
	gpu->level = GPU_COMPUTE;
	gpu->outcome = GPU_UNTESTED;
	str_set(&gpu->reason, refusal);
	if (refusal)
		return 0;
	auto_talk struct talk *t = mem_alloc(sizeof(*t));
	auto_strv struct strv argv = { 0 };
	const char *const words[] = {
		NAME, "compute", helper->dir, helper->version, gpu->uuid, gpu->address, gpu->is_mig ? "1" : "0"
	};
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		strv_add(&argv, str_dup(words[i]));
	if (talk_to_helper(helper, &argv, gpu->uuid, clock_ms() + helper->deadline_ms, t, &err) < 0)
		t->said = str_dup(err.text);
	else
		read_talk(t, gpu, 1, &is_known);
	blame_gpus(helper, t, gpu, 1, &is_known);
	return t->left;
}
