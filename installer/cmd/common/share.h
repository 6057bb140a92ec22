// SPDX-License-Identifier: Apache-2.0
// --share and its options, for the commands that compile for a node (cluster/shared_build/).
#pragma once
#include "cluster/shared_build/shared_build.h"
#include "cmd/common/job.h"

// 1 = use ret.gate, 0 = nothing is shared. request: what is compiled, and for which machine; the rest comes from
// values. E_USAGE, E_CONFIG, E_KEY: an option cannot be used.
int share_open(const struct job_values *values, const struct origin *origin, struct shared_build_request request,
	       struct shared_build *ret, struct err *err);
// E_USAGE: options that contradict each other.
int share_check(const struct job_values *values, const struct origin *origin, struct err *err);
