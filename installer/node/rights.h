// SPDX-License-Identifier: Apache-2.0
// The capabilities that this process has, from CapEff of proc/self/status.
#pragma once
#include "base/root.h"

enum rights_use {
	RIGHTS_DRIVER = 0,       // load and unload modules, make device nodes
	RIGHTS_MOUNTS = 1 << 0,  // also mount
	RIGHTS_HOLDERS = 1 << 1, // also look into other users' processes
};

// What is missing for a set of uses, each as "CAP_SYS_MODULE (to load and unload modules)". 1 = something is, 0 =
// nothing, or the machine does not tell: a recorded one has no process of ours.
int rights_missing(const struct root *kern, unsigned uses, struct strv *ret, struct err *err);
