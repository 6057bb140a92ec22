// SPDX-License-Identifier: Apache-2.0
// nvidia-peermem as a part of `init` (peermem/peermem.h): it waits for the network driver while the GPUs serve.
#pragma once
#include "cmd/common/job.h"
#include "cmd/container/serve.h"
#include "peermem/peermem.h"

struct peermem_values { // of init, beside its others
	bool is_requested, is_host_mofed;
	unsigned timeout_s;
};

struct serve_peermem {
	struct machine machine;
	struct root state;
	struct progress progress;
	struct peermem peermem;
	bool is_over; // it failed for a reason that does not pass by itself
};
#define SERVE_PEERMEM_NONE \
	((struct serve_peermem){ .machine = { .host = ROOT_NONE, .kern = ROOT_NONE }, .state = ROOT_NONE })

// 1 = ret_part is to be served, 0 = nobody wishes it. ret must stay where it is.
int serve_peermem_open(const struct common *common, const struct job_values *job, const struct peermem_values *values,
		       struct serve_peermem *ret, struct serve_part *ret_part, struct err *err);
void serve_peermem_done(struct serve_peermem *p);
#define auto_serve_peermem __attribute__((cleanup(serve_peermem_done)))

// Of the host's packages, without making a directory for them; ret stays closed where there is none.
int peermem_state(const struct machine *m, const char *state_dir, struct root *ret, struct err *err);
