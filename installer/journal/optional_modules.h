// SPDX-License-Identifier: Apache-2.0
// Modules that the core does without (R-P3): when one of them does not fit, or the kernel refuses it, that is noted and
// reported, and the node is ready all the same. The core is nvidia and nvidia-uvm; everything else is optional, unless
// the user named it (--modules).
//
// What failed stands in run/kmodsmith/optional.json of the host until the next boot, so that `status` can say why a
// module is not there, and a start does not withdraw "ready" to try the same once more:
//   {boot_id, driver, package, modules: [{module, params, code, text}]}
#pragma once
#include "base/formats/json.h"

struct optional_failure {
	char *module; // "nvidia-modeset"
	char *params; // the argument of its load, "" = none: with others it may do better
	char *code, *text;
};

struct optional_modules {
	char *driver, *package; // version, and digest of the package's manifest
	struct optional_failure *items;
	size_t count;
};
void optional_modules_done(struct optional_modules *o);
#define auto_optional_modules __attribute__((cleanup(optional_modules_done)))

bool optional_modules_is(const char *module); // full or canonical name
// Replaces what is known of the module.
void optional_modules_add(struct optional_modules *o, const char *module, const char *params, const struct err *why);
void optional_modules_keep(struct optional_modules *o, const struct optional_failure *f); // a copy
const struct optional_failure *optional_modules_find(const struct optional_modules *o,
						     const char *module); // NULL = nothing is known

// 1 = read, 0 = nothing of this boot failed, or nothing that can be understood.
int optional_modules_read(const struct root *host, const char *boot_id, struct optional_modules *ret, struct err *err);
// Replaces the file; without failures it is removed.
int optional_modules_write(const struct root *host, const char *boot_id, const struct optional_modules *o,
			   struct err *err);
json_t *optional_modules_json(const struct optional_modules *o); // [{module, params, code, text}]
