// SPDX-License-Identifier: Apache-2.0
// make, as every step of a build calls it: in the sandbox, with one environment and one set of variables.
#pragma once
#include "base/process/proc.h"
#include "kmod/build/buildlog.h"
#include "kmod/kernel_tree/toolchain.h"

struct compile {
	const struct tree *tree; // NULL = no kernel's headers are seen
	const struct toolchain *tools;
	struct root job;     // SANDBOX_WORK: src, probe, core, out
	struct root headers; // root of the tree's directories, where they can be bound from
	struct root objects; // SANDBOX_CACHE for ccache; ROOT_NONE = no object is kept
	int objects_lock;    // -1 = none
	unsigned servers;    // fork servers; 0 = they are not used
	long deadline_ms;    // on the monotonic clock
	long peak_kib;
};
#define COMPILE_NONE \
	((struct compile){ .job = ROOT_NONE, .headers = ROOT_NONE, .objects = ROOT_NONE, .objects_lock = -1 })
void make_done(struct compile *c);

// Makes .headers. The kernel does not bind directories of another mount namespace, so those of a host that is only seen
// through /proc/PID/root are copied.
int make_bind_headers(struct compile *c, struct err *err);
void make_variables(const struct compile *c, struct strv *argv); // of Kbuild
// Runs a program of the toolchain; 0 however it ended, except E_BUILD_TIMEOUT. dir: inside; NULL = SANDBOX_WORK.
int make_run(struct compile *c, const struct strv *argv, const char *dir, struct buildlog *log, struct proc_end *ret,
	     struct err *err);
