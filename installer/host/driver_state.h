// SPDX-License-Identifier: Apache-2.0
// One driver that is, was or will be in the kernel: enough to tell it from another one, and to load it again with
// the same parameters.
#pragma once
#include "base/formats/json.h"

struct driver_state {
	char *version;       // "535.261.03"; NULL = no driver
	char *flavour;       // "open"
	char *digest;        // of its package's manifest; NULL = in no package of this node
	char *kernel;        // kernel build id
	struct strv modules; // full names
	struct strv params;  // "MODULE TEXT", the argument of its load, for modules that got one; sorted
	struct strv options; // those set with --param, as "MODULE:NAME=VALUE"; not compared
};
void driver_state_done(struct driver_state *d);
#define auto_driver_state __attribute__((cleanup(driver_state_done)))
void driver_state_copy(const struct driver_state *from, struct driver_state *to); // to is released first
bool driver_state_same(const struct driver_state *a, const struct driver_state *b);
const char *driver_state_params(const struct driver_state *d,
				const char *module); // "" = none; module as the kernel names it
void driver_state_drop(struct driver_state *d,
		       const char *module); // removes it from the driver; any of its names
void driver_state_set_params(struct driver_state *d, const char *module, const char *text);

json_t *driver_state_json(const struct driver_state *d);
bool driver_state_parse(const json_t *json, struct driver_state *ret); // false: not a driver state
