// SPDX-License-Identifier: Apache-2.0
// The steps of the sandbox's child, in the order in which they are taken. Each ends the process with SANDBOX_FAILED and
// a line on standard error that names the refused call: there is nothing to go back to.
#pragma once
#include "base/str.h"

struct jail_show {
	char *from, *to;
	bool is_scratch; // its top level takes new files
};

struct jail {
	const char *enter; // link of a mount namespace that all paths are of; NULL = ours
	const char *base;  // whose programs and libraries; "" = the machine's own
	const char *work;  // NULL = none
	const char *cache; // NULL = none
	const char *dir;
	struct jail_show *shows;
	size_t count;
};

void jail_fail(const char *what, const char *object) __attribute__((noreturn));
void jail_namespaces(const struct jail *jail); // new mount, network, ipc, pid (and user) namespaces
void jail_files(
	const struct jail *jail); // a file system of our own, and into it; in the first process of the pid namespace
void jail_become_nobody(void);
void jail_rights(void); // uid, capabilities, limits, system calls
