// SPDX-License-Identifier: Apache-2.0
// Whether each GPU works, measured in three levels, each of which contains the one before:
//   start    its node opens, and the driver has booted it (gpu_start.h)
//   answer   the NVML of exactly the loaded driver knows it, by PCI address, and asks for no reset (gpu_helper.h)
//   compute  one small kernel runs on it, with the exact result (gpu_helper.h)
// A loaded module proves none of this: nvidia.ko binds a GPU after reading three registers, and the GPU boots when its
// node is opened first (docs/gpu-check.md).
#pragma once
#include "base/formats/json.h"

enum gpu_level { GPU_LEVEL_NONE, GPU_START, GPU_ANSWER, GPU_COMPUTE };
enum gpu_outcome {
	GPU_UNTESTED, // nothing is known, for the reason given
	GPU_WORKS,
	GPU_BROKEN,
	GPU_PENDING, // its start has not ended: the driver can neither be unloaded nor asked until it has
};

// Of one GPU: the deepest level that was tried, and how it went.
struct gpu_result {
	char *address; // "0000:3b:00.0"
	int minor;     // of /dev/nvidiaN; -1 = the driver does not have it
	enum gpu_level level;
	enum gpu_outcome outcome;
	char *reason; // of another outcome than GPU_WORKS
	char *uuid, *name; // from GPU_ANSWER on; NULL = not known
};
