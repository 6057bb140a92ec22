// SPDX-License-Identifier: Apache-2.0
// The module type: NVIDIA publishes its kernel modules as open source and as proprietary ones.
#pragma once
#include <stdbool.h>

enum module_type {
	MODULE_TYPE_AUTO = 0, // as a request: decide; as a fact: not known
	MODULE_TYPE_OPEN = 1, // bits, so that a set of them is an unsigned
	MODULE_TYPE_PROPRIETARY = 2,
};

const char *module_type_name(enum module_type type);          // "auto", "open", "proprietary"
bool module_type_parse(const char *s, enum module_type *ret); // false = not one of those names
