// SPDX-License-Identifier: Apache-2.0
// Kernels to come, looked after: once (`watch --once`, also as a child of the others), by `watch` until it is told to
// stop, and by `init` while it serves.
#pragma once
#include "cmd/common/job.h"
#include "cmd/container/serve.h"

struct watch_values { // first the values that init shares with it
	struct job_values job;
	struct strv kernels, next_roots;
	unsigned limit, interval_s, quiet_s;
	bool is_once, is_gated;
};
int watch_once(const struct watch_values *v, struct err *err); // exit status: 0 = every kernel is ready, 1 = not
