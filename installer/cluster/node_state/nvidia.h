// SPDX-License-Identifier: Apache-2.0
// What we know of NVIDIA's GPU Operator by its sources: nvidia.def. operands.h and states.h have the rest of it.
#pragma once
#include "base/core/str.h"

// Where it was read.
extern const struct nvidia_source {
	const char *repository, *version, *commit, *date;
} nvidia_sources[];              // ends with a repository that is NULL
char *nvidia_sources_text(void); // "gpu-operator 26.7.0 (a22dbf6, 2026-08-21), ..."; caller frees

// What NVIDIA's driver container is given.
extern const struct nvidia_input {
	enum { INPUT_VARIABLE, INPUT_TOOLKIT, INPUT_FILE, INPUT_MOUNT, INPUT_ARGUMENT } kind;
	const char *name, *text;
	bool is_used;
} nvidia_inputs[]; // ends with a name that is NULL
