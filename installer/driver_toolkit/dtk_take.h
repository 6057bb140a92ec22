// SPDX-License-Identifier: Apache-2.0
// What the driver toolkit made, on its way into the node's store: looked at, believed and proven like anything else
// that a stranger hands over (driver_toolkit/dtk.h).
#pragma once
#include "acquire/acquire.h"
#include "driver_toolkit/dtk.h"

// as: the store and what is wanted of a package. The package must be of exactly what the request says, and of modules
// that the running kernel takes; else the store is as it was. ret_tag: caller frees.
int dtk_take(const struct acquire *as, const struct dtk_request *request, const struct root *shared, const char *id,
	     const struct root *host, const struct root *kern, char **ret_tag, struct err *err);
