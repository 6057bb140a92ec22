// SPDX-License-Identifier: Apache-2.0
// What a node says about its GPUs since its driver was loaded: the annotation kmodsmith.io/agent.gpus, below 256 bytes.
//
//   WORKS/COUNT DRIVER MODEL[ ADDRESS=FAULT[xTIMES]]...[ +MORE]
//   7/8 570.86.15 NVIDIA-H100-80GB-HBM3 0000:3b:00.0=no-start 0000:86:00.0=xid119x2
//
// WORKS is "-" where nobody measured them with this driver. The worst faults come first; those that a GPU survives are
// none. A reader passes over words that it does not know. Pure.
#pragma once
#include "cluster/node_state/target.h"

enum { GPU_FAULTS = 4, GPU_MODEL_TEXT = 40, GPU_ADDRESS_TEXT = 16, GPU_FAULT_TEXT = 80 };

enum gpu_fault_kind {
	GPU_FAULT_XID, // the others are of the last measurement
	GPU_FAULT_START,
	GPU_FAULT_ANSWER,
	GPU_FAULT_COMPUTE,
	GPU_FAULT_HANGS,
	GPU_FAULT_RESET, // no driver helps before a reset or a reboot
	GPU_FAULT_GONE,  // it was measured, and the driver does not have it any more
	GPU_FAULT_KINDS
};
// Whom a fault speaks against.
enum gpu_blame { GPU_BLAMES_NOBODY, GPU_BLAMES_HARDWARE, GPU_BLAMES_DRIVER };

struct gpu_fault {
	char gpu[GPU_ADDRESS_TEXT];
	enum gpu_fault_kind kind;
	uint16_t xid, times; // of GPU_FAULT_XID
};
struct gpu_report {
	bool is_known, is_measured;
	uint16_t works, count, more; // more: faults that are left out
	char driver[WORD_TEXT], model[GPU_MODEL_TEXT];
	struct gpu_fault faults[GPU_FAULTS];
	uint16_t fault_count;
};

// For the agent. What is left out is counted; the faults stay in order, the worst first.
void gpu_report_add(struct gpu_report *r, const struct gpu_fault *fault);
void gpu_report_add_model(struct gpu_report *r, const char *name); // once each, with "," between them
void gpu_report_text(const struct gpu_report *r, char *ret, size_t size);
bool gpu_report_parse(const char *text, struct gpu_report *ret); // false: it is not of this form

enum gpu_blame gpu_fault_blame(const struct gpu_fault *f);
bool gpu_fault_is_same(const struct gpu_fault *a, const struct gpu_fault *b); // whatever the GPU
// The worst fault that blames at least that; NULL = none does.
const struct gpu_fault *gpu_report_worst(const struct gpu_report *r, enum gpu_blame least);
// A GPU that no work can use any more, whatever the driver is; errors that were survived do not count.
const struct gpu_fault *gpu_report_broken(const struct gpu_report *r);
// "0000:3b:00.0 Xid 119, NVIDIA-H100-80GB-HBM3", for the object of a reason. fault NULL: "".
void gpu_report_object(const struct gpu_report *r, const struct gpu_fault *fault, char ret[GPU_FAULT_TEXT]);
