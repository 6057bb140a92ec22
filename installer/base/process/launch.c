// SPDX-License-Identifier: Apache-2.0
#include "base/process/launch.h"

#include "base/process/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

const char LAUNCH_SELF[] = "/proc/self/exe";

int launch_process(const struct sys *sys, const char *root, const char *env, const struct strv *argv, int out)
{
	(void)sys;
	static char *const none[] = { NULL };
	auto_strv struct strv words = { 0 };
	strv_add(&words, str_dup(LAUNCH_SELF));
	strv_add(&words, str_dup(LAUNCH_ARG));
	strv_add(&words, str_dup(root));
	strv_add(&words, str_dup(env ? env : ""));
	for (size_t i = 0; i < argv->count; i++)
		strv_add(&words, str_dup(argv->items[i]));
	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	posix_spawn_file_actions_adddup2(&files, out, 2);
	posix_spawn_file_actions_addclosefrom_np(&files, 3); // a daemon would keep, with them, the locks on them
	pid_t pid;
	errno = proc_spawn(words.items[0], words.items, none, &files, POSIX_SPAWN_SETSID, NULL, &pid);
	return errno ? -1 : pid;
}

void launch_words_done(struct launch_words *w)
{
	strv_done(&w->args);
	strv_done(&w->env);
}

int launch_self(const struct launch_words *words, pid_t *ret, int *ret_out, struct err *err)
{
	static char *none[] = { NULL };
	auto_strv struct strv argv = { 0 }, env = { 0 };
	const struct strv *args = &words->args;
	const char *first = args->count ? args->items[0] : "";
	auto_fd int out = ret_out ? memfd_create("kmodsmith-output", MFD_CLOEXEC) : -1;
	if (ret_out && out < 0)
		return err_set(err, errno, "allocate memory for the output of 'kmodsmith %s'", first);
	strv_add(&argv, str_dup("kmodsmith"));
	for (size_t i = 0; i < args->count; i++)
		strv_add(&argv, str_dup(args->items[i]));
	for (char **variable = environ; *variable; variable++) {
		size_t name = strcspn(*variable, "=") + 1, i = 0;
		while (i < words->env.count && strncmp(words->env.items[i], *variable, name) != 0)
			i++;
		if (i == words->env.count)
			strv_add(&env, str_dup(*variable));
	}
	for (size_t i = 0; i < words->env.count; i++)
		strv_add(&env, str_dup(words->env.items[i]));
	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	if (ret_out)
		posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	int problem = proc_spawn(LAUNCH_SELF, argv.items, env.items ? env.items : none, &files, POSIX_SPAWN_SETPGROUP,
				 words->blocked, ret);
	if (problem)
		return err_set(err, problem, "start 'kmodsmith %s'", first);
	if (ret_out)
		*ret_out = TAKE_FD(out);
	return 0;
}

static int fail_exec(const char *what, const char *name)
{
	dprintf(STDERR_FILENO, "%s '%s': %s\n", what, name, strerror(errno));
	return LAUNCH_FAILED;
}

int launch_main(int argc, char **argv)
{
	auto_str char *path = str_fmt("PATH=%s", PROC_PATH), *home = str_dup("HOME=/");
	if (argc < 5)
		return LAUNCH_FAILED;
	char *const env[] = { path, home, *argv[3] ? argv[3] : NULL, NULL };
	if (chroot(argv[2]) < 0 || chdir("/") < 0)
		return fail_exec("enter", argv[2]);
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	execve(argv[4], argv + 4, env);
	return fail_exec("start", argv[4]);
}
