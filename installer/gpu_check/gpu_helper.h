// SPDX-License-Identifier: Apache-2.0
// The levels answer and compute of the GPU check: NVIDIA's own libraries are asked, in a process that is not this one
// (helper.h). It gets nothing of ours: no descriptor, no capability but to open what root may, an environment of its
// own, where CUDA keeps no cache and meets no MPS daemon. It has a deadline, is killed with all that it started, and
// is left behind when it cannot be killed.
#pragma once
#include "gpu_check/gpu_check.h"

#include <sys/types.h>

struct gpu_helper {
	const struct root *root; // becomes its root directory: with a C library, these libraries and the device nodes
	const char *dir;         // absolute in root: where the libraries are
	const char *version;     // of the loaded driver
	int deadline_ms;
};

// The directory of a root that has the user space of exactly this version, absolute in it; NULL = none has.
char *gpu_helper_dir(const struct root *root, const char *version);

// NVML about each GPU that works so far; one whose start failed is left as it is. 0, or the process, a child of ours,
// that hangs in the kernel and could not be ended: nothing may be unloaded, or asked, before it is gone.
pid_t gpu_helper_answer(const struct gpu_helper *helper, struct gpu_results *gpus);
// CUDA on one GPU of which NVML knows, with nvidia-uvm loaded. The same result.
pid_t gpu_helper_compute(const struct gpu_helper *helper, struct gpu_result *gpu);
