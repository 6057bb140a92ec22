// SPDX-License-Identifier: Apache-2.0
// The two kinds of NVIDIA's kernel modules (the module type of the documentation).
#pragma once
#include <stdbool.h>

enum flavour {
	FLAVOUR_AUTO = 0, // as a request: decide; as a fact: not known
	FLAVOUR_OPEN = 1, // bits, so that a set of them is an unsigned
	FLAVOUR_PROPRIETARY = 2,
};

const char *flavour_name(enum flavour flavour);       // "auto", "open", "proprietary"
bool flavour_parse(const char *s, enum flavour *ret); // false = not one of those names
