// SPDX-License-Identifier: Apache-2.0
// How many compilers at once (R-M1): as many as processors, cgroup CPU quota and memory allow.
#pragma once
#include "base/file/root.h"

struct jobs_facts {
	unsigned processors;   // that this process may run on
	uint64_t cpu_quota_us; // cpu.max; 0 = none
	uint64_t cpu_period_us;
	uint64_t memory_bytes;     // the least of memory.max less what is used, and of MemAvailable; 0 = unknown
	uint64_t memory_max_bytes; // memory.max; 0 = none
};

// The limits alone, added to ret: the tightest of this process's cgroup and all above it, v2 and v1, below kern's proc
// and sys. What is absent is no limit.
int jobs_limits(const struct root *kern, struct jobs_facts *ret, struct err *err);
// All of it. What cannot be read is no limit.
void jobs_read(const struct root *kern, struct jobs_facts *ret);
// Pure; at least 1. requested: a user's --jobs, 0 = choose.
unsigned jobs_count(const struct jobs_facts *facts, unsigned requested);
// What `jobs` compilers leave of the memory, in bytes; UINT64_MAX = no limit is known.
uint64_t jobs_spare(const struct jobs_facts *facts, unsigned jobs);
char *jobs_text(const struct jobs_facts *facts); // the numbers, for messages
