// SPDX-License-Identifier: Apache-2.0
// What a build says, line by line: progress, the first real error, and whether memory ran out.
#pragma once
#include "base/core/err.h"

enum { BUILDLOG_MOST = 64 << 20 }; // NVIDIA's modules say some 100 KiB

struct buildlog {
	int fd; // every line goes here, up to BUILDLOG_MOST bytes; -1 = nowhere
	size_t written;
	size_t done; // objects
	size_t total;
	void (*progress)(void *ctx, size_t done, size_t total);
	void *ctx;
	void (*probe)(void *ctx); // one of conftest's begins; may be NULL
	void *probe_ctx;
	char *error; // the nearest to the cause so far; NULL = none
	unsigned rank;
	bool is_killed; // a compiler was ended by SIGKILL: the kernel's out-of-memory killer
};

void buildlog_line(void *buildlog, const char *line); // fits struct proc
void buildlog_done(struct buildlog *log);
#define auto_buildlog __attribute__((cleanup(buildlog_done)))
