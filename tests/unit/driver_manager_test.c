// SPDX-License-Identifier: Apache-2.0
// The durations of the driver manager's environment.
#include "cmd/container/driver_manager.h"
#include "tests/unit/test.h"

static void test_seconds(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int seconds; // negative: E_USAGE
	} rows[] = {
		{ NULL, 0 },        { "", 0 },       { "0s", 0 },       { "300s", 300 },      { "5m", 300 },
		{ "1h30m", 5400 },  { "1500ms", 1 }, { "300", 300 },    { "999999h", 86400 }, { "1h1m1s", 3661 },
		{ "s", -1 },        { "5d", -1 },    { "-5s", -1 },     { "1.5m", -1 },       { "5 m", -1 },
		{ "9999999s", -1 }, { "m5", -1 },    { "forever", -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		unsigned seconds = 0;
		int r = driver_manager_seconds(rows[i].text, &seconds, &err);
		expect(rows[i].seconds < 0 ? r < 0 && err.code == E_USAGE : r == 0 && (int)seconds == rows[i].seconds,
		       rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_seconds) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
