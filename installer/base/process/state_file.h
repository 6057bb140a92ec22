// SPDX-License-Identifier: Apache-2.0
// A file in which kmodsmith keeps what it knows: a JSON object. Disks lose content, and what cannot be read says
// nothing: it counts as absent, but never in silence. It is set aside by whoever is about to replace it, or holds the
// lock of its writers; any other reader could do so to what a writer has just put there.
#pragma once
#include "base/formats/json.h"

// 1 = read, 0 = absent. E_CONFIG: it is damaged: no JSON object, no regular file, or a link that leads nowhere.
int state_file_read(const struct root *root, const char *path, json_t **ret, struct err *err);
// The same, but what is damaged, or what the disk cannot read, counts as absent and stays there.
int state_file_load(const struct root *root, const char *path, json_t **ret, struct err *err);
int state_file_absent(const struct err *err); // after a failed read: 0 with a warning, one in this process; or -1
// For those: a damaged one is set aside, so that it is said once.
void state_file_mend(const struct root *root, const char *path);
// Renames it to PATH.damaged, for diagnosis, with a warning.
void state_file_set_aside(const struct root *root, const char *path, const char *why);
