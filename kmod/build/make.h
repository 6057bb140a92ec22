// SPDX-License-Identifier: Apache-2.0
// make, as every step of a build calls it: in the sandbox, with one environment and one set of variables.
#pragma once
#include "kmod/build/build.h"
#include "kmod/build/buildlog.h"
#include "kmod/sandbox/sandbox.h"

struct compile {
	const struct tree *tree;
	const struct toolchain *tools;
	struct root job;     // what SANDBOX_WORK is: src, probe, out
	struct root headers; // root of the tree's directories, where they can be bound from
	struct root objects; // what SANDBOX_CACHE is, for the tool that keeps objects; ROOT_NONE = no object is kept
	long deadline_ms;    // on the monotonic clock
	bool is_rt_allowed;
	long peak_kib;
};

// Run a program of the toolchain; 0 however it ended, except E_BUILD_TIMEOUT.
int make_run(struct compile *c, const char *const *argv, const char *dir, struct buildlog *log, struct proc_end *ret,
	     struct err *err);
// Fill headers. The kernel does not bind directories of another mount namespace, so those of a host that is only seen
// through /proc/PID/root are copied.
int make_bind_headers(struct compile *c, struct err *err);
// The variables that select tree, compiler and reproducible output.
void make_variables(const struct compile *c, struct strv *argv);
// Two canaries and a probe, before the driver's own probes are trusted (R-B1, R-B3): E_TOOLCHAIN when the tree's flags
// do not suit the compiler, E_CONFTEST_BROKEN when a right snippet fails or a wrong one passes.
int canary_check(struct compile *c, struct err *err);
