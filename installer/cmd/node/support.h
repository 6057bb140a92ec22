// SPDX-License-Identifier: Apache-2.0
// What goes into a support archive: texts, each bounded, and why others are missing.
#pragma once
#include "base/core/redact.h"
#include "cmd/common/common.h"

enum { SUPPORT_FILE_MOST = 1 << 20, SUPPORT_MOST = 18 << 20 }; // bytes of one, and of all, before they are compressed

struct support_file {
	char *name, *text;
	const char *about;
};

struct support {
	const struct machine *machine;
	const struct root *state; // .fd < 0 = there is none
	struct support_file *files;
	size_t count;
	char *missing; // "NAME: why", a line each
};
void support_done(struct support *s);
#define auto_support __attribute__((cleanup(support_done)))

void support_add(struct support *s, const char *name, const char *about, char *take);
void support_add_missing(struct support *s, const char *name, const char *why);
void support_read_files(struct support *s);      // of the host, proc, sys and the state directory
void support_read_kernel_log(struct support *s); // lines of the driver, and what the kernel says of a crash
// The Node's conditions and our annotations, and its last Events.
void support_read_cluster(struct support *s, const char *kubeconfig, const char *node);
