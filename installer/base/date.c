// SPDX-License-Identifier: Apache-2.0
#include "base/date.h"

static const char FORM[] = "%Y-%m-%dT%H:%M:%SZ", HTTP[] = "%a, %d %b %Y %H:%M:%S GMT";

static char *write_as(const char *form, time_t t)
{
	char text[64];
	struct tm tm = { 0 };
	gmtime_r(&t, &tm);
	size_t len = strftime(text, sizeof(text), form, &tm);
	return str_ndup(text, len);
}

// strptime() takes 31 February and any day of the week: what was read must be written the same.
static bool read_as(const char *form, const char *text, time_t *ret)
{
	struct tm tm = { 0 };
	const char *end = text ? strptime(text, form, &tm) : NULL;
	if (!end || *end)
		return false;
	time_t t = timegm(&tm);
	auto_str char *again = write_as(form, t);
	if (!str_eq(again, text))
		return false;
	*ret = t;
	return true;
}

char *date_text(time_t t)
{
	return write_as(FORM, t);
}

bool date_parse(const char *text, time_t *ret)
{
	return read_as(FORM, text, ret);
}

bool date_http_parse(const char *text, time_t *ret)
{
	return read_as(HTTP, text, ret);
}
