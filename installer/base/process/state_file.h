// SPDX-License-Identifier: Apache-2.0
// A file in which kmodsmith keeps what it knows: a JSON object. Disks lose content, and what cannot be read says
// nothing: it is set aside, and counts as absent, but never in silence.
#pragma once
#include "base/formats/json.h"

// 1 = read, 0 = absent. E_CONFIG: it is damaged: no JSON object, no regular file, or a link that leads nowhere.
int state_file_read(const struct root *root, const char *path, json_t **ret, struct err *err);
// The same, but a damaged one is set aside and counts as absent, as does one that the disk cannot read, which stays.
int state_file_load(const struct root *root, const char *path, json_t **ret, struct err *err);
// Renames it to PATH.damaged, for diagnosis, with a warning: once, because it is away then.
void state_file_set_aside(const struct root *root, const char *path, const char *why);
