// SPDX-License-Identifier: Apache-2.0
// The kernels that this machine could start: their packages must stay in the store.
#pragma once
#include "base/file/root.h"

// The running release (NULL = none), and every release that the host has in lib/modules with an image or modules that
// depmod has seen, or in a deployment of ostree. Sorted.
int installed_kernels(const struct root *host, const char *running, struct strv *ret, struct err *err);
