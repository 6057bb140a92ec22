// SPDX-License-Identifier: Apache-2.0
// Label selectors mean what they mean to the API server, and what means nothing is refused with the place.
#include "cluster/policy/label_selector.h"
#include "tests/unit/test.h"

static void meets(void **state)
{
	(void)state;
	static const struct {
		const char *selector;
		bool train, none; // of {app: train, tier: "", example.com/a: b}, and of no labels at all
	} rows[] = {
		{ "app=train", true, false },
		{ "app==train", true, false },
		{ " app = train ", true, false },
		{ "app=eval", false, false },
		{ "app!=eval", true, true },
		{ "app!=train", false, true },
		{ "app", true, false },
		{ "!app", false, true },
		{ "! app", false, true },
		{ "tier=", true, false },
		{ "tier!=", false, true },
		{ "team=", false, false },
		{ "app in (eval, train)", true, false },
		{ "app in(train)", true, false },
		{ "app in (eval)", false, false },
		{ "app notin (eval)", true, true },
		{ "app notin (eval,train)", false, true },
		{ "app=train,tier", true, false },
		{ "app=train, !team, example.com/a in (b)", true, false },
		{ "app=train,team", false, false },
		{ "in=train", false, false },
		{ "in in (train)", false, false },
	};
	auto_json json_t *train = json_pack("{s:s, s:s, s:s}", "app", "train", "tier", "", "example.com/a", "b");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		expect(label_selector_check(rows[i].selector, &err) == 0, rows[i].selector);
		expect(label_selector_matches(rows[i].selector, train) == rows[i].train, rows[i].selector);
		expect(label_selector_matches(rows[i].selector, NULL) == rows[i].none, rows[i].selector);
	}
}

static void means_nothing(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "", "expected the name of a label at the end" },
		{ "  ", "expected the name of a label at the end" },
		{ ",", "expected the name of a label at ," },
		{ "app=train,", "expected the name of a label at the end" },
		{ "app train", "expected ',' or an end at train" },
		{ "app in train", "expected '(' at train" },
		{ "app in (train", "expected ')' at the end" },
		{ "app in ()", "expected a value at )" },
		{ "app in (a,)", "expected a value at )" },
		{ "app in (a b)", "expected ')' at b)" },
		{ "app=-a", "expected a value at -a" },
		{ "app=a/b", "expected a value at a/b" },
		{ "app=a=b", "expected ',' or an end at =b" },
		{ "app>3", "expected ',' or an end at >3" },
		{ "!app=a", "expected ',' or an end at =a" },
		{ "app!train", "expected ',' or an end at !train" },
		{ "=train", "expected the name of a label at =train" },
		{ "/app", "expected the name of a label at /app" },
		{ "A.b/app", "expected the name of a label at A.b/app" },
		{ "\"app\"=a", "expected the name of a label at \"app\"=a" },
		{ "app: train", "expected the name of a label at app: train" },
	};
	auto_json json_t *labels = json_pack("{s:s}", "app", "train");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		expect(label_selector_check(rows[i][0], &err) < 0 && err.code == E_CONFIG, rows[i][0]);
		expect(strstr(err.text, rows[i][1]), err.text);
		expect(!label_selector_matches(rows[i][0], labels), rows[i][0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(meets), cmocka_unit_test(means_nothing) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
