// SPDX-License-Identifier: Apache-2.0
// Control groups: which container a process belongs to.
#pragma once
#include "base/core/str.h"

// Container id (64 hex digits), pod uid (with dashes) and runtime ("containerd", "docker", "cri-o", "podman") from
// the text of a proc/PID/cgroup file, version 1 or 2. A result that the text does not contain stays untouched.
void cgroup_owner(const char *text, char **ret_runtime, char **ret_container, char **ret_pod);
