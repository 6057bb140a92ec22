// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

static const struct err_info table[] = {
#define X(code, ...) { code, #code, __VA_ARGS__ },
#include "base/errors.def"
#undef X
};

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int len = vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	err->code = code;
	if (code > 0 && code <= E_FIRST_ && len >= 0 && (size_t)len < sizeof(err->text))
		snprintf(err->text + len, sizeof(err->text) - (size_t)len, ": %s", strerror(code));
	return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char inner[sizeof(err->text)];
	memcpy(inner, err->text, sizeof(inner));
	va_list args;
	va_start(args, fmt);
	int len = vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	if (len >= 0 && (size_t)len < sizeof(err->text))
		snprintf(err->text + len, sizeof(err->text) - (size_t)len, ": %s", inner);
	return -1;
}

int err_code(struct err *err, int code)
{
	err->code = code;
	return -1;
}

const struct err_info *err_info(int code)
{
	if (code > E_FIRST_ && code < E_LAST_)
		return &table[code - E_SYSTEM];
	return &table[0];
}

const struct err_info *err_info_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (str_eq(table[i].name, name))
			return &table[i];
	return NULL;
}

const struct err_info *err_info_next(const struct err_info *previous)
{
	if (!previous)
		return table;
	return previous + 1 < table + ARRAY_SIZE(table) ? previous + 1 : NULL;
}
