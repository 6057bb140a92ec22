// SPDX-License-Identifier: Apache-2.0
// A record below run/kmodsmith that counts for one boot. Nothing clears that directory where /run is not a tmpfs, or is
// a container's own, so each record names the boot id of its writer (member "boot_id", in export.json "boot"), and one
// of another boot is ignored.
#pragma once
#include "base/formats/json.h"

#define BOOT_RECORD_DIR "run/kmodsmith"

char *boot_record_id(const struct root *kern); // the boot id; NULL = the kernel does not provide one. Caller frees
bool boot_record_is_of(const json_t *record, const char *boot_id);
// 1 = *ret is the record of this boot; 0 = there is none, it is another boot's, or it is damaged.
int boot_record_read(const struct root *root, const char *path, const char *boot_id, json_t **ret, struct err *err);
// Sets the boot id, makes the directory, and replaces the record whole or not at all; a damaged one is set aside.
int boot_record_write(const struct root *root, const char *path, const char *boot_id, json_t *record, struct err *err);
