// SPDX-License-Identifier: Apache-2.0
// Run a program as an unprivileged child in a file system of its own (R-N3).
//
// The child sees the /usr, /bin, /sbin and /lib* of the machine (or of another root) read-only, with what is mounted
// below them, and /opt where a tool is there; the header trees read-only at their original absolute paths; a private
// /tmp, /proc and a /dev of null, zero, full, random and urandom; and one writable directory, SANDBOX_WORK (and
// SANDBOX_CACHE, if there is a cache). It has new mount, network, pid, ipc and (unless root may do without) user
// namespaces, no capabilities, no_new_privs, no descriptors of its parent except standard input, output and error, only
// the system calls that compilers make (inside.c), and, started by root, a uid that no other process has
// (sandbox_choose_uid). The total that it writes, each file, its memory, processes and open files are limited. Nothing
// on the machine changes. The work directory has the same path inside on every machine, so a build does not depend on
// where it runs.
//
// A package manager needs more (is_networked): the network, sockets, /etc, and the uid that may read the keys there. It
// still has no capability, and nothing of the machine that it could write to.
//
// The directory above the work should be closed to others (0700): the work itself is the child's, and readable.
//
// The program starts itself again: main() must hand argv[1] == SANDBOX_ARG to sandbox_main before anything else.
#pragma once
#include "base/file/root.h"
#include "base/process/proc.h"

#define SANDBOX_ARG "sandbox-exec"
#define SANDBOX_WORK "/build"
#define SANDBOX_CACHE "/cache"
enum { SANDBOX_EXCEEDED = 124, SANDBOX_FAILED = 125 };

struct sandbox {
	const struct root *base;    // whose /usr, /bin, /sbin, /lib* the program sees; NULL = this machine's
	const struct root *headers; // the root of dirs; NULL = none
	const struct strv *dirs;    // absolute directories to show at the same path
	const char *scratch;        // one of dirs whose top level takes new files, kept in memory only; NULL = none
	// What SANDBOX_WORK is; when we are root, its files are the child's while it runs. NULL, with a base: there is
	// none.
	const struct root *work;
	const struct root *cache; // what SANDBOX_CACHE is: as work, and kept after it; NULL = none
	const char *const *argv;  // absolute program, as seen inside
	const char *tool;         // absolute: another program that it starts; NULL = none
	const char *const *env;
	const char *dir; // working directory inside; NULL = SANDBOX_WORK
	// It keeps our network and our uid, sees base's /etc, and has memory for /var and /run.
	bool is_networked;
	const char *resolver; // then: a file in work that is its /etc/resolv.conf
	int timeout_ms;       // 0 = none
	void (*line)(void *ctx, const char *line);
	void *ctx;
};

// Seen through /proc/PID/root, so in another mount namespace: the kernel does not bind it. For such a base the sandbox
// enters that namespace.
bool sandbox_is_foreign(const struct root *root);
// As proc_run. E_SANDBOX when the environment cannot be made: the message names the call that was refused. E_BUILD when
// the program was ended because it wrote more than a compile needs.
int sandbox_run(const struct sandbox *sandbox, struct proc_end *ret, struct err *err);
int sandbox_main(int argc, char **argv) __attribute__((noreturn)); // in the child; int so that main() can return it

// A separate user for each compile. The kernel lets processes of one uid read and change each other,
// through /proc/PID/root and by ptrace, also from another pod: so no other process on the machine may have it, `nobody`
// least of all. The uid, and a gid of the same number, is one that this user namespace has and no process uses at the
// moment, from a range that distributions leave unassigned. A caller that is not root, or is root only in a user
// namespace of one user (`unshare --map-root-user`), gets its own. E_SANDBOX when all that were tried are in use, or
// that one user is root.
int sandbox_choose_uid(uid_t *ret, struct err *err);
