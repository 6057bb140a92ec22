// SPDX-License-Identifier: Apache-2.0
// The node that a command works on. It is filled once per command and passed on as it is: members that are known only
// later (the running kernel's, once the facts are read) are set by whoever owns it, before it is passed on. What it
// points to is borrowed, and outlives it.
#pragma once
#include "base/process/progress.h"
#include "base/process/sys.h"

struct node {
	const struct root *host, *kern; // the machine's files; where its proc and sys are seen
	const struct root *dev_root;    // whose /dev has the device nodes
	const struct root *state;       // the state directory; NULL = there is none
	const struct sys *sys;
	const char *boot, *release; // of the running kernel: boot id, `uname -r`
	struct progress *progress;
};
