// SPDX-License-Identifier: Apache-2.0
// The operands of NVIDIA's GPU Operator, as its own driver manager pauses them for a change of the driver: DaemonSets
// whose pods run where their label of the Node has the value of their nodeSelector. Pure.
//
// Facts: NVIDIA/k8s-driver-manager v0.12.0, cmd/driver-manager/main.go (maybeSetPaused, maybeSetTrue).
//   "true"              becomes paused-for-driver-upgrade and is "true" again afterwards
//   X                   becomes X_paused-for-driver-upgrade and is X again
//   "false", absent     stay. NVIDIA's writes an empty label where there was none; ours writes nothing
// The coordinator pauses "true" alone, which is what NVIDIA's operator itself writes, so that a bit remembers it; our
// driver manager, whose record is the label, pauses any value.
#pragma once
#include "base/formats/json.h"

#define OPERAND_DRIVER "nvidia.com/gpu.deploy.driver" // "pre-installed": the host has a driver of its own

// Others' labels and annotations that we set while we work on a node.
struct borrowed {
	const char *key, *ours, *theirs; // value during our work, and before and after; NULL = absent
	bool is_last;                    // pods that use it cannot end without it: paused after they are gone
};
extern const struct borrowed operands[]; // .key NULL ends it; at most 16. The last one is the plugin of DRA

char *operand_pause(const char *value);  // the value while paused; NULL = unchanged. Caller frees
char *operand_resume(const char *value); // the value before; NULL = it was not paused. Caller frees
