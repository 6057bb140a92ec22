// SPDX-License-Identifier: Apache-2.0
// When a process was started: with its pid the identity of a process, because pids are used again.
#pragma once
#include "base/file/root.h"

// In clock ticks after boot (proc(5)); 0 = there is no such process, or it is a thread of the kernel.
uint64_t start_time_of(const struct root *kern, int pid);
