// SPDX-License-Identifier: Apache-2.0
// Start a program in another root directory and leave it running: a session of its own, only the environment given, its
// output into a descriptor. A pipe whose reader is gone does not kill it: SIGPIPE is ignored.
//
// posix_spawn cannot change the root directory, so the program starts itself again, and that start does: main() must
// hand argv[1] == LAUNCH_ARG to launch_main before anything else.
#pragma once
#include "base/core/err.h"

#include <signal.h>
#include <sys/types.h>

extern const char LAUNCH_SELF[]; // the path of this program, for itself
#define LAUNCH_ARG "launch-exec"
enum { LAUNCH_FAILED = 126 }; // exit status when the program could not be started; the output says why

struct sys;
// root: the directory that becomes "/". env: "NAME=VALUE", beside PATH and HOME; NULL = no more. argv[0] is absolute in
// root. out: standard output and error. The pid of the caller's child, or -1 with errno: struct sys's process_start.
int launch_process(const struct sys *sys, const char *root, const char *env, const struct strv *argv, int out);

// This program with other arguments, in a process group of its own, with our output and our environment, in which each
// variable of env is replaced.
struct launch_words {
	struct strv args;
	struct strv env;         // "NAME=VALUE": secrets
	const sigset_t *blocked; // signals that are blocked when it begins; NULL = none
};
void launch_words_done(struct launch_words *w);
#define auto_launch_words __attribute__((cleanup(launch_words_done)))
// ret_out: what it writes to standard output is kept in memory, to be read from its beginning when it has ended.
// NULL = it writes to ours.
int launch_self(const struct launch_words *words, pid_t *ret, int *ret_out, struct err *err);
int launch_main(int argc, char **argv);
