// SPDX-License-Identifier: Apache-2.0
// What the kernel logs while we wait for it: errno alone rarely says why a load or a start of a GPU failed. Lines are
// without priority and time; the paragraphs that the driver writes are one line each.
#pragma once
#include "base/file/root.h"

// The log from now on, close() ends it; negative where it cannot be read: then errno alone decides.
int kernel_log_open(const struct root *kern);
// Adds what was logged meanwhile; does not wait. fd may be negative.
void kernel_log_read(int fd, struct strv *ret);
// The last line of the whole log in which the driver says this: 1 = found (caller frees). 0 also where the log cannot
// be read.
int kernel_log_last(const struct root *kern, const char *text, char **ret);
