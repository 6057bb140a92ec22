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

int err_set(struct err *err, int code, const char *fmt, ...)
{
	char text[2 * sizeof(err->text) + 2]; // with room for all, then cut; the old text may be one of the arguments
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(err->text), fmt, args);
	va_end(args);
	size_t len = strlen(text);
	if (code > 0 && code <= E_FIRST_)
		snprintf(text + len, sizeof(text) - len, ": %s", strerror(code));
	text[sizeof(err->text) - 1] = '\0';
	memcpy(err->text, text, sizeof(err->text));
	err->code = code;
	err->next[0] = '\0';
	return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char text[2 * sizeof(err->text) + 2];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(err->text), fmt, args);
	va_end(args);
	size_t len = strlen(text);
	snprintf(text + len, sizeof(text) - len, ": %s", err->text);
	text[sizeof(err->text) - 1] = '\0';
	memcpy(err->text, text, sizeof(err->text));
	return -1;
}

int err_code(struct err *err, int code)
{
	err->code = code;
	err->next[0] = '\0';
	return -1;
}

int err_next(struct err *err, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int len = vsnprintf(err->next, sizeof(err->next), fmt, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(err->next))
		err->next[0] = '\0'; // half a command is worse than the code's advice
	return -1;
}

const char *err_next_step(const struct err *err)
{
	if (*err->next)
		return err->next;
	switch (err->code) { // of E_SYSTEM, what is done about by whoever made the file
	case ENOTDIR:
		return "move away what the message names: a directory is needed there";
	case EISDIR:
		return "move away the directory that the message names: a file is needed there";
	case ELOOP:
		return "replace the symbolic link that the message names: it leads in a circle";
	default:
		return err_info(err->code)->next;
	}
}

const struct err_info *err_info(int code)
{
	switch (code) { // errno values that a user can act on; all others are E_SYSTEM
	case ENOENT:
		code = E_NOT_FOUND;
		break;
	case EACCES:
	case EPERM:
		code = E_RIGHTS;
		break;
	case ENOSPC:
	case EDQUOT:
		code = E_NO_SPACE;
		break;
	case EROFS:
		code = E_READ_ONLY;
		break;
	default:
		break;
	}
	return &table[code > E_FIRST_ && code < E_LAST_ ? code - E_SYSTEM : 0];
}

const struct err_info *err_info_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (str_eq(table[i].name, name))
			return &table[i];
	return NULL;
}

static const struct err_cause causes[] = {
#define C(code, cause, command) { code, cause, command },
#include "base/core/causes.def"
#undef C
};

const struct err_cause *err_causes(int code, size_t *ret_count)
{
	size_t first = 0, count = 0;
	while (first < ARRAY_SIZE(causes) && causes[first].code != code)
		first++;
	while (first + count < ARRAY_SIZE(causes) && causes[first + count].code == code)
		count++;
	*ret_count = count;
	return count ? &causes[first] : NULL;
}
