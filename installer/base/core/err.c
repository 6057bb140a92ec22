// SPDX-License-Identifier: Apache-2.0
#include "base/core/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static const struct err_info table[] = {
#define X(code, ...) { code, #code, __VA_ARGS__ },
#include "base/core/errors.def"
#undef X
};

// Composed aside and copied last: the old text may be one of the arguments, and is the tail of a wrap.
static void compose_text(struct err *err, const char *tail, const char *fmt, va_list args) PRINTF(3, 0);
static void compose_text(struct err *err, const char *tail, const char *fmt, va_list args)
{
	char text[sizeof(err->text)];
	vsnprintf(text, sizeof(text), fmt, args);
	size_t len = strlen(text), room = sizeof(text) - 1 - len;
	if (tail && room > 2) {
		size_t more = strnlen(tail, room - 2);
		memcpy(text + len, ": ", 2);
		memcpy(text + len + 2, tail, more);
		len += more + 2;
		text[len] = '\0';
	}
	memcpy(err->text, text, len + 1);
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	compose_text(err, code > 0 && code <= E_FIRST_ ? strerror(code) : NULL, fmt, args);
	va_end(args);
	err->code = code;
	return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	compose_text(err, err->text, fmt, args);
	va_end(args);
	return -1;
}

int err_code(struct err *err, int code)
{
	err->code = code;
	return -1;
}

// The system's own reasons that a user can act on; all others are E_SYSTEM.
static int code_of_errno(int code)
{
	switch (code) {
	case ENOENT:
		return E_NOT_FOUND;
	case EACCES:
	case EPERM:
		return E_RIGHTS;
	case ENOSPC:
	case EDQUOT:
		return E_NO_SPACE;
	case EROFS:
		return E_READ_ONLY;
	default:
		return E_SYSTEM;
	}
}

const struct err_info *err_info(int code)
{
	if (code > E_FIRST_ && code < E_LAST_)
		return &table[code - E_SYSTEM];
	return &table[code_of_errno(code) - E_SYSTEM];
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
