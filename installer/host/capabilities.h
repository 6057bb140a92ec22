// SPDX-License-Identifier: Apache-2.0
// The capabilities that the work on a node needs, and which of them are kept once the driver is ready (R-N3). This
// one table feeds the preflight check, `doctor --json` and deploy/daemonset-unprivileged.yaml.
#pragma once
#include "base/formats/json.h"

enum capability_use {
	CAPABILITY_DRIVER = 1 << 0,  // load and unload modules, make device nodes
	CAPABILITY_MOUNTS = 1 << 1,  // mount the driver root for the host
	CAPABILITY_HOLDERS = 1 << 2, // see other users' processes and the host's root
	CAPABILITY_STOP = 1 << 3,    // stop holders
	CAPABILITY_COMPILE = 1 << 4, // compile in the sandbox as root; ordinary users have user namespaces
	CAPABILITY_DAEMONS = 1 << 5, // start the driver's daemons
	CAPABILITY_ALL = (1 << 6) - 1,
};

// What is missing for a set of uses, each as "CAP_SYS_MODULE (to load and unload modules)". 1 = something is
// missing, 0 = nothing is, or this is a recorded machine, which has no process of ours.
int capabilities_missing(const struct root *kern, unsigned uses, struct strv *ret, struct err *err);

// Drops every capability that is not needed once the driver is ready, in this process and all its children
// (base/process/). has_daemons: keep those for daemons, too. uses: keep those for these. ret_dropped: their names, "" =
// none was dropped; caller frees.
int capabilities_drop(bool has_daemons, unsigned uses, char **ret_dropped, struct err *err);

json_t *
capabilities_json(void); // [{capability, why, kept}], kept: "always", "with daemons" or "no", once the driver is ready
