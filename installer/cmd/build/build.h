// SPDX-License-Identifier: Apache-2.0
// build: one driver for one kernel (build.c), or all pairs of a file (build_matrix.c).
#pragma once
#include "acquire/matrix.h"
#include "cmd/common/job.h"

struct build_values {
	struct job_values job;
	char *kernel, *output, *matrix, *nodes;
	bool is_partial;
};
int build_matrix(const struct build_values *v, struct err *err); // exit status, or negative
