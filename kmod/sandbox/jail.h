// SPDX-License-Identifier: Apache-2.0
// The steps of the sandbox's child, in the order in which they are taken. Each ends the process with SANDBOX_FAILED and
// a line on standard error that names the refused call: there is nothing to go back to.
#pragma once
#include "kmod/sandbox/sandbox.h"

#include <errno.h>
#include <stdio.h>

struct jail_mount {
	char *from, *to;
	bool is_scratch; // its top level takes new files
	bool is_file;
};

struct jail {
	const char *enter; // link of the mount namespace that all paths are of; NULL = ours
	const char *base;  // whose programs and libraries; "" = the machine's own
	const char *work;  // NULL = none
	const char *cache; // NULL = none
	const char *dir;
	bool has_opt; // base's /opt is seen, too
	bool is_networked;
	uid_t uid;    // user and group of the processes; ours = no other one
	pid_t parent; // started the sandbox; the sandbox ends with it
	int alive;    // a pipe that hangs up when the process before the jail is gone
	struct jail_mount *mounts;
	size_t count;
};

static inline void __attribute__((noreturn)) sandbox_fail(const char *what, const char *object)
{
	dprintf(STDERR_FILENO, "%s '%s': %s\n", what, object, strerror(errno));
	_exit(SANDBOX_FAILED);
}
// After unshare(CLONE_NEWNS): what is mounted from here on does not appear in the namespace of before. -1 and errno.
int sandbox_make_private(void);
// Makes the new root and enters it; called in the first process of the pid namespace.
void sandbox_mount_files(const struct jail *jail);

// How much may lie in the directories that a compile writes to, together.
struct write_limit {
	int dirs[2]; // -1 = none
	uint64_t bytes;
	size_t files;
};
// Called by the process before the jail while `pid` runs in it: once a second counts what is there, and kills pid and
// its namespace when that exceeds the limit. Returns pid's status as waitpid has it; *ret_why (caller frees) is NULL or
// says why it was killed.
int sandbox_limit_writes(pid_t pid, const struct write_limit *room, char **ret_why);
