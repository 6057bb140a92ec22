// SPDX-License-Identifier: Apache-2.0
// Optional modules (R-P3): when one of them does not fit, or the kernel refuses it, that is recorded and reported,
// and the node becomes ready anyway. nvidia and nvidia-uvm are the core; everything else is optional unless the user
// named it (--modules).
//
// Failures stay in run/kmodsmith/optional.json of the host until the next boot, so that `status` can say why a module
// is missing, and a start does not withdraw readiness to try the same again:
//   {boot_id, driver, package, modules: [{module, params, code, text}]}
#pragma once
#include "base/formats/json.h"

struct optional_failure {
	char *module; // "nvidia-modeset"
	char *params; // the argument of its load, "" = none: with other parameters it may succeed
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
// Replaces an earlier failure of the module. code: "E_LOAD".
void optional_modules_add(struct optional_modules *o, const char *module, const char *params, const char *code,
			  const char *text);
// o may be NULL. NULL = it did not fail.
struct optional_failure *optional_modules_find(const struct optional_modules *o, const char *module);

// 1 = read, 0 = nothing failed in this boot, or the file is not valid.
int optional_modules_read(const struct root *host, const char *boot_id, struct optional_modules *ret, struct err *err);
// Replaces the file; without failures it is removed.
int optional_modules_write(const struct root *host, const char *boot_id, const struct optional_modules *o,
			   struct err *err);
json_t *optional_modules_json(const struct optional_modules *o); // [{module, params, code, text}]
