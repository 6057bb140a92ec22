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
	GPU_PENDING,  // its start, or a process that asked it, hangs in the kernel: until that has ended the driver can
		      // neither be unloaded nor asked
	GPU_EXCLUDED, // the driver was told to leave it out (NVreg_ExcludedGpus): it counts for nothing
};
// Of its NVLink fabric, as NVML numbers them (nvmlGpuFabricState_t).
enum gpu_fabric { GPU_FABRIC_NONE, GPU_FABRIC_NOT_STARTED, GPU_FABRIC_IN_PROGRESS, GPU_FABRIC_COMPLETED };
// As NVML numbers them (nvmlComputeMode_t): how many processes may compute on it.
enum gpu_compute_mode { GPU_COMPUTE_DEFAULT, GPU_COMPUTE_ONE_THREAD, GPU_COMPUTE_NONE, GPU_COMPUTE_ONE_PROCESS };

// Of one GPU: the deepest level that was tried, and how it went.
struct gpu_result {
	char *address; // "0000:3b:00.0"
	int minor;     // of /dev/nvidiaN; -1 = the driver does not have it
	enum gpu_level level;
	enum gpu_outcome outcome;
	bool is_reset_due; // broken, and no driver helps before a reset or a reboot
	char *reason;      // of another outcome than GPU_WORKS
	// From GPU_ANSWER on. What is not known is NULL or 0.
	char *uuid, *name;
	char *note;  // to be said, whatever the outcome is
	bool is_mig; // MIG mode is on
	enum gpu_compute_mode compute_mode;
	enum gpu_fabric fabric; // GPU_UNTESTED with one that is not completed: ask again later
	int recovery;           // what the driver asks for, as NVML numbers it (nvmlDeviceGpuRecoveryAction_t)
};
void gpu_result_done(struct gpu_result *gpu);

// What was measured in one go, sorted by address.
struct gpu_results {
	struct gpu_result *items;
	size_t count;
	double seconds; // that it took
};
void gpu_results_done(struct gpu_results *r);
#define auto_gpu_results __attribute__((cleanup(gpu_results_done)))

const struct gpu_result *gpu_results_find(const struct gpu_results *r, const char *address); // NULL = not measured
bool gpu_result_is_off_fabric(const struct gpu_result *gpu); // its NVLink fabric is not set up yet
size_t gpu_results_count(const struct gpu_results *r, enum gpu_outcome outcome);
// "8 of 8 start (2.4 s)"; "7 of 8 start (3.1 s); 0000:3b:00.0: GSP firmware did not boot (...)". Caller frees.
char *gpu_results_text(const struct gpu_results *r);

json_t *gpu_results_json(const struct gpu_results *r); // {seconds, gpus: [{address, minor, level, outcome, ...}]}
void gpu_results_parse(const json_t *json, struct gpu_results *ret); // what is not of this shape is left out
const char *gpu_level_name(enum gpu_level level);                    // "none", "start", "answer", "compute"
