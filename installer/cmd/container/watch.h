// SPDX-License-Identifier: Apache-2.0
// Prebuilding for other installed kernels: once (`watch --once`, also as a child of the others), by `watch` until a
// signal, and by `init` while it serves.
#pragma once
#include "cmd/common/job.h"
#include "cmd/container/serve.h"
#include "service/service_kernels.h"

struct watch_values { // first the values that init shares with it
	struct job_values job;
	struct listen_values listen;
	struct strv kernels, next_roots;
	unsigned limit, interval_s, quiet_s;
	bool is_once, is_gated, has_labels;
};

// The same as a part of `init` and `watch`.
struct watch_part {
	struct machine machine;
	struct root state;
	struct strv roots;
	struct service_kernels kernels;
};
#define WATCH_PART_NONE \
	((struct watch_part){ .machine = MACHINE_NONE, .state = ROOT_NONE, .kernels = SERVICE_KERNELS_NONE })
// tables, values: options that are passed on to the child, as far as it knows them. NULL: the running command is
// `watch`, and the child gets its arguments and reads the configuration, which may be another one by then.
// ret must stay where it is.
int watch_part_open(const struct watch_values *v, const struct opt *const *tables, const void *values,
		    struct watch_part *ret, struct service_part *ret_part, struct err *err);
void watch_part_done(struct watch_part *p); // ends the child
#define auto_watch_part __attribute__((cleanup(watch_part_done)))
