// SPDX-License-Identifier: Apache-2.0
// Where the sandbox's child lives: namespaces that share nothing with the machine's, by whatever right there is.
#include "kmod/sandbox/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

static void write_proc(const char *path, const char *text)
{
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		sandbox_fail("write", path);
}

// A pod sees its node's files through /proc/1/root, which the kernel does not bind. What is to be bound is there as the
// process that they are seen through sees it.
static void enter_namespace(const char *path)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNS) < 0)
		sandbox_fail("enter", path);
}

// Root, and one more.
static void map_user(pid_t pid, uid_t uid)
{
	auto_str char *map = str_fmt("0 0 1\n%u %u 1\n", uid, uid), *users = str_fmt("/proc/%d/uid_map", (int)pid),
		      *groups = str_fmt("/proc/%d/gid_map", (int)pid);
	write_proc(users, map);
	write_proc(groups, map);
}

// Root of a container that may not make mounts may make them in a user namespace that it owns. Of the container's users
// that one has two: root, who may enter the directories on the way to the work, and the compile's. A map of two is
// written by who has CAP_SETUID outside, so a child stays there until it is written.
static void map_own_user(uid_t uid)
{
	int ready[2], status = -1;
	pid_t self = getpid();
	if (pipe2(ready, O_CLOEXEC) < 0)
		sandbox_fail("make", "a pipe");
	pid_t pid = fork();
	if (pid < 0)
		sandbox_fail("fork", "the writer of the user namespace's map");
	if (pid == 0) {
		char byte;
		close(ready[1]);
		if (read(ready[0], &byte, 1) == 1)
			map_user(self, uid);
		_exit(0);
	}
	if (unshare(CLONE_NEWUSER) < 0)
		sandbox_fail("unshare", "a user namespace");
	if (write(ready[1], "", 1) != 1)
		sandbox_fail("wait for", "the user namespace's map");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0)
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1); // it has said why
	close(ready[0]);
	close(ready[1]);
}

void sandbox_enter_namespaces(const struct jail *jail)
{
	static const int FLAGS = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWPID;
	if (jail->enter)
		enter_namespace(jail->enter);
	uid_t uid = geteuid();
	bool is_done = uid == 0 && unshare(FLAGS) == 0;
	if (!is_done && uid == 0 && errno != EPERM)
		sandbox_fail("unshare", "mount, network, ipc and pid namespaces");
	if (!is_done && jail->uid != uid) {
		map_own_user(jail->uid);
		if (unshare(FLAGS) < 0)
			sandbox_fail("unshare", "mount, network, ipc and pid namespaces");
	} else if (!is_done) {
		gid_t gid = getegid();
		if (unshare(FLAGS | CLONE_NEWUSER) < 0)
			sandbox_fail("unshare", "user, mount, network, ipc and pid namespaces");
		auto_str char *users = str_fmt("%u %u 1", uid, uid), *groups = str_fmt("%u %u 1", gid, gid);
		write_proc("/proc/self/setgroups", "deny");
		write_proc("/proc/self/uid_map", users);
		write_proc("/proc/self/gid_map", groups);
	}
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		sandbox_fail("make private", "/");
}
