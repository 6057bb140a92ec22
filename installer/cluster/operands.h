// SPDX-License-Identifier: Apache-2.0
// The operands of NVIDIA's GPU Operator, as its own driver manager pauses them for a change of the driver: DaemonSets
// whose pods run where their label of the Node has the value of their nodeSelector. Pure.
//
// Facts: NVIDIA/k8s-driver-manager v0.12.0, cmd/driver-manager/main.go (the labels, maybeSetPaused, maybeSetTrue).
//   "true"              becomes paused-for-driver-upgrade and is "true" again afterwards
//   X                   becomes X_paused-for-driver-upgrade and is X again
//   "false", absent     stay. NVIDIA's writes an empty label where there was none; ours writes nothing
#pragma once
#include "base/json.h"

#define OPERAND_DRIVER "nvidia.com/gpu.deploy.driver" // "pre-installed": the host has a driver of its own
extern const struct operand {
	const char *label;
	bool is_last;  // of DRA: pods cannot give back their claims without it, so it goes when they have gone
} operator_operands[]; // .label NULL ends it

char *operand_pause(const char *value);  // what the label says meanwhile; NULL = it stays. Caller frees
char *operand_resume(const char *value); // what it said before; NULL = it was not paused. Caller frees
