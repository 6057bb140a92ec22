// SPDX-License-Identifier: Apache-2.0
#include "base/process/start_time.h"

#include <stdio.h>
#include <string.h>

uint64_t start_time_of(const struct root *kern, int pid)
{
	enum { OF_THE_KERNEL = 0x00200000 }; // PF_KTHREAD of linux/sched.h
	struct err err;
	unsigned flags;
	unsigned long long start;
	auto_str char *path = str_fmt("proc/%d/stat", pid), *text = NULL;
	if (root_read(kern, path, &text, NULL, &err) <= 0)
		return 0;
	const char *rest = strrchr(text, ')'); // a name may have blanks and brackets
	if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			    &flags, &start) != 2)
		return 0;
	return flags & OF_THE_KERNEL ? 0 : start;
}
