// SPDX-License-Identifier: Apache-2.0
// Control groups: which container a process belongs to, and how much processor and memory this process may use.
#pragma once
#include "base/file/root.h"

// Container id (64 hex digits), pod uid (with dashes) and runtime ("containerd", "docker", "cri-o", "podman") from
// the text of a proc/PID/cgroup file, version 1 or 2. A result that the text does not contain stays untouched.
void cgroup_owner(const char *text, char **ret_runtime, char **ret_container, char **ret_pod);

// Tightest limits from the group of this process up to the root. Processors in 1/1000, memory in bytes; 0 = no limit.
int cgroup_limits(const struct root *kern, unsigned *ret_cpu_milli, uint64_t *ret_memory, struct err *err);
