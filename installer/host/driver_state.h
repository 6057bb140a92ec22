// SPDX-License-Identifier: Apache-2.0
// One driver as it is, was or is to be in the kernel: enough to tell it from another one, and to bring it back with the
// parameters it had.
#pragma once
#include "base/formats/json.h"

struct driver {
	char *version;       // "535.261.03"; NULL = no driver
	char *flavour;       // "open"
	char *digest;        // of its package's manifest; NULL = in no package of this node
	char *kernel;        // kernel build id
	struct strv modules; // full names
	struct strv params;  // "MODULE TEXT", the argument of its load, for modules that got one; sorted
	struct strv
		options; // those of it that came by --param, as "MODULE:NAME=VALUE"; says nothing more of what it is
};
void driver_done(struct driver *d);
#define auto_driver __attribute__((cleanup(driver_done)))
void driver_copy(const struct driver *from, struct driver *to); // to is released first
bool driver_same(const struct driver *a, const struct driver *b);
const char *driver_params(const struct driver *d, const char *module); // "" = none; module as the kernel names it
void driver_drop(struct driver *d, const char *module); // it is not of the driver any more; any of its names
void driver_set_params(struct driver *d, const char *module, const char *text);

json_t *driver_json(const struct driver *d);
bool driver_parse(const json_t *json, struct driver *ret); // false: it is none
