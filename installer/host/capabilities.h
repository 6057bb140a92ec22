// SPDX-License-Identifier: Apache-2.0
// The capabilities that the work on a node takes, and what stays of them once the driver is ready (R-N3). One table:
// what preflight asks for, `doctor --json` lists, deploy/daemonset-unprivileged.yaml grants, and serving keeps.
#pragma once
#include "base/formats/json.h"

enum capability_use {
	CAPABILITY_DRIVER = 1 << 0,  // load and unload modules, make device nodes
	CAPABILITY_MOUNTS = 1 << 1,  // show the driver's root to the host
	CAPABILITY_HOLDERS = 1 << 2, // look into other users' processes, and into the host's root
	CAPABILITY_STOP = 1 << 3,    // ask holders to end
	CAPABILITY_COMPILE = 1 << 4, // make modules in the sandbox, as root; ordinary users have user namespaces
	CAPABILITY_DAEMONS = 1 << 5, // start the driver's daemons
	CAPABILITY_ALL = (1 << 6) - 1,
};

// What is missing for a set of uses, each as "CAP_SYS_MODULE (to load and unload modules)". 1 = something is, 0 =
// nothing, or the machine does not tell: a recorded one has no process of ours.
int capabilities_missing(const struct root *kern, unsigned uses, struct strv *ret, struct err *err);

// Gives up, for good and for every child, all that serving a ready driver does not take (base/process/). has_daemons:
// and its daemons. is_compiling: and a compile for a kernel to come. ret_dropped: the names, "" = there was nothing to
// give up; caller frees.
int capabilities_drop(bool has_daemons, bool is_compiling, char **ret_dropped, struct err *err);

json_t *
capabilities_json(void); // [{capability, why, kept}], kept: "always", "with daemons" or "no", once the driver is ready
