// SPDX-License-Identifier: Apache-2.0
#include "base/core/date.h"

#define RFC3339 "%Y-%m-%dT%H:%M:%SZ"
#define HTTP "%a, %d %b %Y %H:%M:%S GMT"

static char *format_date(bool is_http, time_t t)
{
	char text[64];
	struct tm tm = { 0 };
	gmtime_r(&t, &tm);
	size_t len = is_http ? strftime(text, sizeof(text), HTTP, &tm) : strftime(text, sizeof(text), RFC3339, &tm);
	return str_ndup(text, len);
}

// strptime() accepts 31 February and any day of the week, so the date is written back and compared.
static bool parse_date(bool is_http, const char *text, time_t *ret)
{
	struct tm tm = { 0 };
	const char *end = text ? strptime(text, is_http ? HTTP : RFC3339, &tm) : NULL;
	if (!end || *end)
		return false;
	time_t t = timegm(&tm);
	auto_str char *again = format_date(is_http, t);
	if (!str_eq(again, text))
		return false;
	*ret = t;
	return true;
}

char *date_text(time_t t)
{
	return format_date(false, t);
}

bool date_parse(const char *text, time_t *ret)
{
	return parse_date(false, text, ret);
}

char *date_ago(const char *text, time_t now)
{
	enum { MINUTE = 60, HOUR = 3600, DAY = 86400 };
	static const struct {
		long seconds;
		const char *name;
	} units[] = { { DAY, "d" }, { HOUR, "h" }, { MINUTE, "min" }, { 1, "s" } };
	time_t then;
	if (!text || !date_parse(text, &then) || then > now)
		return str_dup("");
	long age = (long)(now - then);
	size_t u = 0;
	while (u + 1 < ARRAY_SIZE(units) && age < units[u].seconds)
		u++;
	return str_fmt(" (%ld %s ago)", age / units[u].seconds, units[u].name);
}

bool date_http_parse(const char *text, time_t *ret)
{
	return parse_date(true, text, ret);
}

long clock_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
