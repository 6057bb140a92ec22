// SPDX-License-Identifier: Apache-2.0
// YAML is libyaml, and only read: what people and other programs write for kubectl. It is loaded when the first such
// file is read; a start that reads none does not pay for it.
//
// A plain scalar is null, true, false or else a string; numbers stay strings. Aliases and more than one document are
// refused, as is a key that comes twice.
#pragma once
#include "base/formats/json.h"

int yaml_read(const char *text, size_t len, const char *name, json_t **ret,
	      struct err *err); // E_CONFIG; name: for messages
// The same, and plain scalars that JSON would take for an integer are one. Messages begin with "line 3, column 5".
int yaml_read_numbers(const char *text, size_t len, json_t **ret, struct err *err);
