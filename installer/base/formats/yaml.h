// SPDX-License-Identifier: Apache-2.0
// YAML is libyaml, and only read: what people and other programs write for kubectl. It is loaded when the first such
// file is read; a start that reads none does not pay for it.
//
// A plain scalar is null, true, false or else a string. Aliases, duplicate keys and more than one document are refused.
#pragma once
#include "base/formats/json.h"

// E_CONFIG. name: for messages; NULL = they begin with "line 3, column 5". has_numbers: plain scalars that JSON would
// take for an integer are one; else they stay strings.
int yaml_read(const char *text, size_t len, const char *name, bool has_numbers, json_t **ret, struct err *err);
