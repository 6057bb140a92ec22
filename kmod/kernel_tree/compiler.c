// SPDX-License-Identifier: Apache-2.0
#include "kmod/kernel_tree/compiler.h"

#include "base/core/str.h"

#include <ctype.h>

struct compiler compiler_parse(const char *text)
{
	struct compiler ret = { .is_clang = text && strstr(text, "clang") };
	int depth = 0;
	for (const char *p = text ? text : ""; *p && !ret.major; p++) {
		depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
		bool is_start = p == text || isspace((unsigned char)p[-1]);
		char *end;
		if (depth || !is_start || !isdigit((unsigned char)*p))
			continue;
		unsigned long major = strtoul(p, &end, 10);
		if (*end == '.')
			ret.major = (unsigned)major;
	}
	return ret;
}

bool compiler_is_same(const char *a, const char *b)
{
	struct compiler x = compiler_parse(a), y = compiler_parse(b);
	return x.major && x.major == y.major && x.is_clang == y.is_clang;
}

// The end of what the parenthesis at open holds: its comma on the outermost level, or its own end.
static const char *end_of(const char *open, bool is_comma_wanted)
{
	int depth = 0;
	for (const char *p = open; *p; p++) {
		depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
		if (!depth || (is_comma_wanted && depth == 1 && *p == ','))
			return p;
	}
	return NULL;
}

char *compiler_of_banner(const char *banner)
{
	const char *who = strchr(banner, '('), *who_end = who ? end_of(who, false) : NULL;
	if (!who_end || !str_starts(who_end, ") ("))
		return NULL;
	const char *compiler = who_end + 2, *end = end_of(compiler, true);
	return end && end > compiler + 1 ? str_ndup(compiler + 1, (size_t)(end - compiler) - 1) : NULL;
}
