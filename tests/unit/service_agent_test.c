// SPDX-License-Identifier: Apache-2.0
// What a start of `init` requests and what it leaves alone on a node whose driver an agent changes.
#include "service/service_child.h"

#include "tests/unit/test.h"

static void what_a_start_requests(void **state)
{
	(void)state;
	static const struct {
		const char *row, *last, *loaded;
		enum module_type flavour; // of the loaded one
		struct service_agent_request options, want;
	} rows[] = {
		{ .row = "nothing is known" },
		{ .row = "only options",
		  .options = { "1", "open", "aa", "a.run" },
		  .want = { "1", "open", "aa", "a.run" } },
		{ .row = "the agent's last one is not loaded",
		  .last = "2",
		  .options = { "1", "proprietary", "aa", "a.run" },
		  .want = { "2", "open", "bb", "a.run" } },
		{ .row = "the requested one is loaded: its source stays",
		  .loaded = "1",
		  .flavour = MODULE_TYPE_OPEN,
		  .options = { "1", "proprietary", "aa", "a.run" },
		  .want = { "1", "open", NULL, "a.run" } },
		{ .row = "another one is loaded, and its module type is not known",
		  .loaded = "3",
		  .options = { "1", "open", "aa", "a.run" },
		  .want = { "3", NULL, NULL, NULL } },
		{ .row = "the source is of the agent's last one, which is loaded",
		  .last = "2",
		  .loaded = "2",
		  .flavour = MODULE_TYPE_PROPRIETARY,
		  .options = { "1", NULL, NULL, "a.run" },
		  .want = { "2", "proprietary", NULL, "a.run" } },
		{ .row = "neither the options' nor the agent's is loaded",
		  .last = "2",
		  .loaded = "3",
		  .flavour = MODULE_TYPE_OPEN,
		  .options = { "1", NULL, "aa", "a.run" },
		  .want = { "3", "open", NULL, NULL } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char package[] = "bb";
		auto_str char *version = str_dup(rows[i].loaded);
		struct target last = { .flavour = "open", .package = package };
		const struct modules loaded = { .version = version, .flavour = rows[i].flavour };
		struct service_agent_request got = rows[i].options;
		if (rows[i].last)
			memcpy(last.driver, rows[i].last, strlen(rows[i].last) + 1);
		service_agent_request(rows[i].last ? &last : NULL, &loaded, &got);
		const char *const pairs[][2] = { { got.driver, rows[i].want.driver },
						 { got.flavour, rows[i].want.flavour },
						 { got.digest, rows[i].want.digest },
						 { got.source, rows[i].want.source } };
		for (size_t k = 0; k < ARRAY_SIZE(pairs); k++)
			expect(pairs[k][1] ? str_eq(pairs[k][0], pairs[k][1]) : !pairs[k][0], rows[i].row);
	}
}

static void any_module_type_of_the_last_one(void **state)
{
	(void)state;
	const struct target last = { .driver = "2" };
	const struct modules loaded = { 0 };
	struct service_agent_request got = { .flavour = "open", .digest = "aa" };
	service_agent_request(&last, &loaded, &got);
	assert_null(got.flavour);
	assert_null(got.digest);
}

static void what_a_start_leaves(void **state)
{
	(void)state;
	assert_true(service_agent_is_left("1", true, 0));
	assert_true(service_agent_is_left("1", false, E_IN_USE));
	assert_false(service_agent_is_left("1", false, 0));
	assert_false(service_agent_is_left("1", false, E_ABI));
	assert_false(service_agent_is_left(NULL, true, 0));
	assert_false(service_agent_is_left(NULL, false, E_IN_USE));
	assert_true(service_agent_mends(E_ABI));
	assert_false(service_agent_mends(E_USAGE));
	assert_false(service_agent_mends(E_CONFIG));
}

static void which_agent_is_up(void **state)
{
	(void)state;
	static const struct {
		const char *row;
		struct service_child c;
		bool is_up;
	} rows[] = {
		{ "not begun", { 0 }, true },
		{ "it ended twice", { .ends = 2 }, true },
		{ "three times", { .ends = 3 }, false },
		{ "begun again", { .ends = 3, .child = 1, .since_ms = 100000 }, false },
		{ "and alive for a minute", { .ends = 3, .child = 1, .since_ms = 60000 }, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(service_child_is_up(&rows[i].c, 120000) == rows[i].is_up, rows[i].row);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_start_requests),
		cmocka_unit_test(any_module_type_of_the_last_one),
		cmocka_unit_test(what_a_start_leaves),
		cmocka_unit_test(which_agent_is_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
