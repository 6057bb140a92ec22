// SPDX-License-Identifier: Apache-2.0
// The processes of daemons: found, started, ended. A process is known by its number and the time of its start; that it
// is the daemon is told by the name of its program, because its file may be that of an earlier driver root, or deleted.
#pragma once
#include "base/process/sys.h"

struct daemon_env {
	const struct root *host, *kern;
	const struct sys *sys;
	const char *driver; // the exported driver root, below host: "run/nvidia/driver"
};

struct daemon_unit {                                      // what is to be started
	const char *name, *dir, *pid_file, *socket, *env; // as of struct daemon
	const struct strv *argv;
};

bool daemon_is(const struct root *kern, int pid, uint64_t start, const char *program); // runs, and is no zombie
// One that runs: the known one, else who the pid file names. 1 = found.
int daemon_find(const struct daemon_env *p, const struct daemon_unit *u, int known, uint64_t known_start, int *ret_pid,
		uint64_t *ret_start);
// What a dead one left is cleared first. Returns the number of the program's process, or negative.
int daemon_launch(const struct daemon_env *p, const struct daemon_unit *u, int out, struct err *err);
// SIGTERM, after 20 s SIGKILL; 0 = it has ended.
int daemon_end(const struct daemon_env *p, const char *program, int pid, uint64_t start, struct err *err);
