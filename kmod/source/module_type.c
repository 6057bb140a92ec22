// SPDX-License-Identifier: Apache-2.0
#include "kmod/source/module_type.h"

#include "base/core/str.h"

static const char *const names[] = { "auto", "open", "proprietary" };

const char *module_type_name(enum module_type type)
{
	return names[type];
}

bool module_type_parse(const char *s, enum module_type *ret)
{
	for (size_t i = MODULE_TYPE_AUTO; i < ARRAY_SIZE(names); i++) {
		if (!str_eq(s, names[i]))
			continue;
		*ret = (enum module_type)i;
		return true;
	}
	return false;
}
