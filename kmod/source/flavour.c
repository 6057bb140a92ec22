// SPDX-License-Identifier: Apache-2.0
#include "kmod/source/flavour.h"

#include "base/core/str.h"

static const char *const names[] = { "auto", "open", "proprietary" };

const char *flavour_name(enum flavour flavour)
{
	return names[flavour];
}

bool flavour_parse(const char *s, enum flavour *ret)
{
	for (size_t i = FLAVOUR_AUTO; i < ARRAY_SIZE(names); i++) {
		if (!str_eq(s, names[i]))
			continue;
		*ret = (enum flavour)i;
		return true;
	}
	return false;
}
