// SPDX-License-Identifier: Apache-2.0
// Finds, starts and stops the processes of daemons. A process is identified by its pid and start time, and
// recognised as the daemon by the name of its program, because the file may belong to an earlier driver root or be
// deleted.
#pragma once
#include "base/process/node.h"

struct daemon_unit {                                      // what to start
	const char *name, *dir, *pid_file, *socket, *env; // as of struct daemon
	const struct strv *argv;
};

bool daemon_is(const struct root *kern, int pid, uint64_t start, const char *program); // running, and not a zombie
// The running process: the known one, else that of the pid file. 1 = found.
int daemon_find(const struct node *node, const struct daemon_unit *u, int known, uint64_t known_start, int *ret_pid,
		uint64_t *ret_start);
// Removes what a dead one left first. driver: the exported driver root, below host: "run/nvidia/driver". Returns the
// pid of the program, or negative.
int daemon_launch(const struct node *node, const char *driver, const struct daemon_unit *u, int out, struct err *err);
// SIGTERM, after 20 s SIGKILL; 0 = it has exited.
int daemon_end(const struct node *node, const char *program, int pid, uint64_t start, struct err *err);
