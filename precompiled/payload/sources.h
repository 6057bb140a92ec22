// SPDX-License-Identifier: Apache-2.0
// The kernel modules' sources of a payload, from the archive in one of Debian's nvidia-*-kernel-source packages.
#pragma once
#include "precompiled/payload/merge_tree.h"

// Each directory with a Kbuild and a conftest.sh becomes usr/src/nvidia-DRIVER/kernel or kernel-open, by the licence
// that its module states. E_PAYLOAD: there is none. E_USAGE: of another driver. origin: the package; outlives the lay.
// Uses and clears a directory in work.
int sources_add(struct merge_tree *lay, int fd, const char *origin, const char *driver, const struct root *work,
		struct err *err);
