// SPDX-License-Identifier: Apache-2.0
#include "base/process/launch.h"

#include "base/process/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

static int spawn_launcher(const struct strv *argv, int out, pid_t *ret)
{
	static char *const none[] = { NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t empty, all;
	sigemptyset(&empty);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	posix_spawn_file_actions_adddup2(&files, out, 2);
	posix_spawn_file_actions_addclosefrom_np(&files, 3); // a daemon would keep, with them, the locks on them
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &empty);
	posix_spawnattr_setsigdefault(&attr, &all);
	int problem = posix_spawn(ret, argv->items[0], &files, &attr, argv->items, none);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return problem;
}

int launch(const struct launch *l, pid_t *ret, struct err *err)
{
	auto_strv struct strv argv = { 0 };
	strv_add(&argv, str_dup("/proc/self/exe"));
	strv_add(&argv, str_dup(LAUNCH_ARG));
	strv_add(&argv, str_dup(l->root));
	strv_add(&argv, str_dup(l->env ? l->env : ""));
	for (size_t i = 0; i < l->argv->count; i++)
		strv_add(&argv, str_dup(l->argv->items[i]));
	int problem = spawn_launcher(&argv, l->out, ret);
	return problem ? err_set(err, problem, "start '%s'", l->argv->items[0]) : 0;
}

void launch_words_done(struct launch_words *w)
{
	strv_done(&w->args);
	strv_done(&w->env);
}

static bool is_env_replaced(const struct strv *env, const char *variable)
{
	size_t name = strcspn(variable, "=");
	for (size_t i = 0; i < env->count; i++)
		if (strncmp(env->items[i], variable, name + 1) == 0)
			return true;
	return false;
}

static int spawn_self(const struct launch_words *words, int out, pid_t *ret, struct err *err)
{
	auto_strv struct strv argv = { 0 }, env = { 0 };
	const struct strv *args = &words->args;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	static char *none[] = { NULL };
	sigset_t empty, all;
	sigemptyset(&empty);
	sigfillset(&all);
	strv_add(&argv, str_dup("kmodsmith"));
	for (size_t i = 0; i < args->count; i++)
		strv_add(&argv, str_dup(args->items[i]));
	for (char **variable = environ; *variable; variable++)
		if (!is_env_replaced(&words->env, *variable))
			strv_add(&env, str_dup(*variable));
	for (size_t i = 0; i < words->env.count; i++)
		strv_add(&env, str_dup(words->env.items[i]));
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &empty);
	posix_spawnattr_setsigdefault(&attr, &all);
	int problem = posix_spawn(ret, "/proc/self/exe", &files, &attr, argv.items, env.items ? env.items : none);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return problem ? err_set(err, problem, "start 'kmodsmith %s'", args->count ? args->items[0] : "") : 0;
}

int launch_self(const struct launch_words *words, pid_t *ret, struct err *err)
{
	return spawn_self(words, -1, ret, err);
}

int launch_self_kept(const struct launch_words *words, pid_t *ret, int *ret_out, struct err *err)
{
	auto_fd int out = memfd_create("kmodsmith-output", MFD_CLOEXEC);
	if (out < 0)
		return err_set(err, errno, "allocate memory for the output of 'kmodsmith %s'", words->args.items[0]);
	if (spawn_self(words, out, ret, err) < 0)
		return -1;
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
