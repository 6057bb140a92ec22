// SPDX-License-Identifier: Apache-2.0
#include "base/date.h"

static const char FORM[] = "%Y-%m-%dT%H:%M:%SZ";

char *date_text(time_t t)
{
	char text[32];
	struct tm tm = { 0 };
	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), FORM, &tm);
	return str_dup(text);
}

bool date_parse(const char *text, time_t *ret)
{
	struct tm tm = { 0 };
	const char *end = text ? strptime(text, FORM, &tm) : NULL;
	if (!end || *end)
		return false;
	time_t t = timegm(&tm);
	auto_str char *again = date_text(t);
	if (!str_eq(again, text))
		return false;
	*ret = t;
	return true;
}
