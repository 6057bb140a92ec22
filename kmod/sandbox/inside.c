// SPDX-License-Identifier: Apache-2.0
// The child's half of the sandbox: what the parent described is read back from the arguments, and done step by step.
#include "kmod/sandbox/jail.h"
#include "kmod/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

void sandbox_fail(const char *what, const char *object)
{
	dprintf(STDERR_FILENO, "%s '%s': %s\n", what, object, strerror(errno));
	_exit(SANDBOX_FAILED);
}

static void parse_argument(struct jail *jail, const char *option, const char *value)
{
	const char *to = strchr(value, '=');
	bool is_scratch = str_eq(option, "scratch");
	if (str_eq(option, "enter"))
		jail->enter = value;
	else if (str_eq(option, "base"))
		jail->base = value;
	else if (str_eq(option, "work"))
		jail->work = value;
	else if (str_eq(option, "cache"))
		jail->cache = value;
	else if (str_eq(option, "dir"))
		jail->dir = value;
	else if (str_eq(option, "uid"))
		jail->uid = (uid_t)strtoul(value, NULL, 10);
	else if (str_eq(option, "parent"))
		jail->parent = (pid_t)strtol(value, NULL, 10);
	else if (str_eq(option, "opt"))
		jail->has_opt = true;
	else if ((is_scratch || str_eq(option, "show")) && to)
		jail->mounts[jail->count++] = (struct jail_mount){ .from = str_ndup(value, (size_t)(to - value)),
								   .to = str_dup(to + 1),
								   .is_scratch = is_scratch };
}

static void parse_arguments(struct jail *jail, int argc, char **argv, char ***ret_program)
{
	*jail = (struct jail){ .base = "", .mounts = mem_alloc((size_t)argc * sizeof(*jail->mounts)) };
	for (int i = 2; i < argc && !str_eq(argv[i], "--"); i++) {
		const char *value = strchr(argv[i], '=');
		auto_str char *option = value ? str_ndup(argv[i] + 2, (size_t)(value - argv[i]) - 2) : NULL;
		if (option)
			parse_argument(jail, option, value + 1);
		*ret_program = &argv[i + 2];
	}
}

static int open_shared_dir(const char *path)
{
	int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (path && fd < 0)
		sandbox_fail("open", path);
	return fd;
}

// A compile is the first to go when memory is short, not what runs on the node. Where proc cannot be written it is one
// of all.
static void be_expendable(void)
{
	static const char MOST[] = "1000";
	auto_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, MOST, strlen(MOST)) < 0)
		return;
}

// Whoever started this ends the compile by ending.
static void end_with_parent(const struct jail *jail)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		sandbox_fail("set", "the parent death signal");
	if (getppid() != jail->parent)
		_exit(SANDBOX_FAILED);
}

// The first process of the pid namespace is a child; this one only waits and ends the same way,
// at once: nothing that the program registered for its exit is its business.
static void __attribute__((noreturn)) supervise_child(pid_t pid, int work, int cache)
{
	// NVIDIA's modules take some 3,000 files and 500 MiB; with a copy of the node's headers, 60,000.
	const struct write_limit room = { .dirs = { work, cache }, .bytes = (uint64_t)8 << 30, .files = 500000 };
	char *why;
	int status = sandbox_limit_writes(pid, &room, &why);
	if (why) {
		dprintf(STDERR_FILENO, "%s\n", why);
		_exit(SANDBOX_EXCEEDED);
	}
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	_exit(WEXITSTATUS(status));
}

int sandbox_main(int argc, char **argv)
{
	struct jail jail;
	char **program = NULL;
	int alive[2];
	closefrom(STDERR_FILENO + 1); // what kmodsmith was started with is not the program's
	parse_arguments(&jail, argc, argv, &program);
	if (!(jail.work || *jail.base) || !jail.dir || !program || !*program) {
		errno = EINVAL;
		sandbox_fail("start", SANDBOX_ARG);
	}
	umask(022);
	end_with_parent(&jail);
	be_expendable();
	sandbox_enter_namespaces(&jail);
	int work = open_shared_dir(jail.work), cache = open_shared_dir(jail.cache);
	if (pipe2(alive, O_CLOEXEC) < 0)
		sandbox_fail("make", "a pipe");
	pid_t pid = fork();
	if (pid < 0)
		sandbox_fail("fork", *program);
	if (pid > 0)
		supervise_child(pid, work, cache);
	close(alive[1]);
	jail.alive = alive[0];
	sandbox_mount_files(&jail);
	sandbox_drop_rights(&jail);
	execve(*program, program, environ);
	sandbox_fail("start", *program);
}
