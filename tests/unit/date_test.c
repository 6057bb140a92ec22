// SPDX-License-Identifier: Apache-2.0
#include "base/core/date.h"

#include "tests/unit/test.h"

static void test_forms(void **state)
{
	(void)state;
	static const struct {
		bool (*parse)(const char *text, time_t *ret);
		const char *text;
		time_t want; // -1 = refused
	} rows[] = {
		{ date_parse, "1970-01-01T00:00:00Z", 0 },
		{ date_parse, "2027-01-15T08:00:00Z", 1800000000 },
		{ date_parse, "2027-01-15T08:00:00.5Z", -1 },
		{ date_parse, "2027-01-15T08:00:00+00:00", -1 },
		{ date_parse, "2027-02-31T08:00:00Z", -1 },
		{ date_parse, "2027-01-15T08:00:00Z ", -1 },
		{ date_parse, "", -1 },
		{ date_parse, NULL, -1 },
		{ date_http_parse, "Thu, 01 Jan 1970 00:00:00 GMT", 0 },
		{ date_http_parse, "Fri, 15 Jan 2027 08:00:00 GMT", 1800000000 },
		{ date_http_parse, "Sun, 06 Nov 1994 08:49:37 GMT", 784111777 },
		{ date_http_parse, "Mon, 15 Jan 2027 08:00:00 GMT", -1 }, // a Friday
		{ date_http_parse, "Fri, 15 Jan 2027 08:00:00 +0000", -1 },
		{ date_http_parse, "Friday, 15-Jan-27 08:00:00 GMT", -1 },
		{ date_http_parse, "2027-01-15T08:00:00Z", -1 },
		{ date_http_parse, NULL, -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		time_t t = -1;
		auto_str char *row = str_fmt("row %zu: %s", i, rows[i].text ? rows[i].text : "NULL");
		expect(rows[i].parse(rows[i].text, &t) == (rows[i].want >= 0) && t == rows[i].want, row);
		auto_str char *again = date_text(t);
		expect(rows[i].parse != date_parse || t < 0 || str_eq(again, rows[i].text), row);
	}
}

static void test_ages(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		time_t now;
		const char *want;
	} rows[] = {
		{ "2027-01-15T08:00:00Z", 1800000000, " (0 s ago)" },
		{ "2027-01-15T08:00:00Z", 1800000059, " (59 s ago)" },
		{ "2027-01-15T08:00:00Z", 1800000060, " (1 min ago)" },
		{ "2027-01-15T08:00:00Z", 1800003599, " (59 min ago)" },
		{ "2027-01-15T08:00:00Z", 1800003600, " (1 h ago)" },
		{ "2027-01-15T08:00:00Z", 1800086399, " (23 h ago)" },
		{ "2027-01-15T08:00:00Z", 1800000000 + 3 * 86400, " (3 d ago)" },
		{ "2027-01-15T08:00:00Z", 1799999999, "" }, // the clock was set
		{ "today", 1800000000, "" },
		{ NULL, 1800000000, "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *got = date_ago(rows[i].text, rows[i].now);
		expect(str_eq(got, rows[i].want), got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_forms), cmocka_unit_test(test_ages) };
	return cmocka_run_group_tests_name("date", tests, NULL, NULL);
}
