// SPDX-License-Identifier: Apache-2.0
// Which pool has a node, by labels that somebody wrote, and when it may be worked on: windows to the minute.
#include "cluster/policy/policy.h"
#include "tests/unit/test.h"

enum { MINUTE = 60, HOUR = 3600, DAY = 24 * HOUR };
#define MONDAY INT64_C(1800230400) // 2027-01-18T00:00:00Z
enum { MON = 1, TUE = 2, SUN = 64, ALL = 0x7f };

// The first moment at which it is closed again is that of its end; with a margin, so much before.
static void windows_open_and_close_to_the_minute(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		struct window window;
		unsigned margin;
		int64_t opens, closes; // seconds after Monday began
	} rows[] = {
		{ "in a day", { MON, 60, 120 }, 0, HOUR, 2 * HOUR },
		{ "with a margin", { MON, 60, 120 }, 20 * MINUTE, HOUR, HOUR + 41 * MINUTE },
		{ "the margin is the whole of it", { MON, 60, 120 }, HOUR, HOUR, HOUR + MINUTE },
		{ "over midnight", { MON, 22 * 60, 4 * 60 }, 0, 22 * HOUR, 28 * HOUR },
		{ "over midnight, with a margin", { MON, 22 * 60, 4 * 60 }, 2 * HOUR, 22 * HOUR, 26 * HOUR + MINUTE },
		{ "over the end of the week", { SUN, 22 * 60, 4 * 60 }, 0, -2 * HOUR, 4 * HOUR },
		{ "until midnight", { MON, 22 * 60, 0 }, 0, 22 * HOUR, 24 * HOUR },
		{ "a whole day", { MON, 0, 0 }, 0, 0, DAY },
		{ "a whole day from noon", { MON, 12 * 60, 12 * 60 }, 0, 12 * HOUR, 36 * HOUR },
		{ "a minute", { TUE, 0, 1 }, 0, DAY, DAY + MINUTE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct window window = rows[i].window;
		struct pool pool = { .windows = &window, .window_count = 1 };
		unsigned margin = rows[i].margin;
		int64_t opens = MONDAY + rows[i].opens, closes = MONDAY + rows[i].closes;
		const struct {
			int64_t at;
			bool is_open;
		} times[] = { { opens - 1, false }, { opens, true }, { closes - 1, true }, { closes, false } };
		for (size_t n = 0; n < ARRAY_SIZE(times); n++) {
			auto_str char *row = str_fmt("%s: %zu", rows[i].name, n);
			expect(policy_window_is_open(&pool, times[n].at, margin) == times[n].is_open, row);
		}
		expect(policy_window_next(&pool, opens - 1, margin) == opens, rows[i].name);
		expect(policy_window_next(&pool, opens, margin) == 0, rows[i].name);
		expect(policy_window_next(&pool, closes, margin) == opens + 7 * DAY, rows[i].name); // a week later
	}
}

static void the_earliest_of_several_windows(void **state)
{
	(void)state;
	struct window windows[] = { { TUE, 600, 660 }, { MON, 600, 660 }, { MON, 1200, 1260 } };
	struct pool pool = { .windows = windows, .window_count = 3 }, always = { .window_count = 0 };
	assert_int_equal(policy_window_next(&pool, MONDAY, 0), MONDAY + 10 * HOUR);
	assert_int_equal(policy_window_next(&pool, MONDAY + 11 * HOUR, 0), MONDAY + 20 * HOUR);
	assert_int_equal(policy_window_next(&pool, MONDAY + 21 * HOUR, 0), MONDAY + DAY + 10 * HOUR);
	assert_true(policy_window_is_open(&pool, MONDAY + 20 * HOUR, 0) &&
		    policy_window_is_open(&pool, MONDAY + DAY + 10 * HOUR, 0));
	assert_true(policy_window_is_open(&always, MONDAY, UINT32_MAX));
	assert_int_equal(policy_window_next(&always, MONDAY, UINT32_MAX), 0);
	assert_int_equal(policy_window_next(&pool, MONDAY, 2 * HOUR), 0); // none is ever so long
}

// Of two rests the smaller: a margin that somebody wrote is what he accepts.
static void the_margin_of_a_window(void **state)
{
	(void)state;
	static const struct {
		unsigned replace, validate, restore, margin, rest;
	} rows[] = { { 1, 20, 300, 1000, 321 }, { 1, 20, 300, 300, 300 }, { 600, 600, 600, 3720, 1800 } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct pool pool = { .spans = { [SPAN_REPLACE] = rows[i].replace,
						[SPAN_VALIDATE] = rows[i].validate,
						[SPAN_RESTORE] = rows[i].restore,
						[SPAN_MARGIN] = rows[i].margin } };
		assert_int_equal(policy_window_rest(&pool), rows[i].rest);
	}
}

static void parse(const char *text, struct policy *ret)
{
	struct err err = { 0 };
	if (policy_parse(text, strlen(text), ret, &err) < 0)
		fail_msg("%s", err.text);
}

static const char racks[] =
	"{\"groupBy\":\"rack\",\"zoneLabel\":\"zone\",\"pools\":["
	"{\"name\":\"h\",\"selector\":{\"gpu\":\"h100\",\"env\":\"prod\"},\"target\":{\"driver\":\"1.1\"},\"waves\":["
	"{\"name\":\"w\",\"selector\":{\"tier\":\"canary\",\"rack\":\"r9\"}}]},"
	"{\"name\":\"l\",\"selector\":{\"gpu\":\"l4\",\"env\":\"prod\"},\"target\":{\"driver\":\"1.1\"}},"
	"{\"name\":\"rest\",\"target\":{\"driver\":\"1.1\"}}]}";

// Only these labels of a node are asked of the API server; each once, however many ask for it.
static void labels_of_the_policy(void **state)
{
	(void)state;
	auto_policy struct policy p = POLICY_NONE, bare = POLICY_NONE;
	auto_strv struct strv keys = { 0 }, none = { 0 };
	parse(racks, &p);
	policy_keys(&p, &keys);
	auto_str char *text = strv_join(&keys, " ");
	assert_string_equal(text, "gpu env tier rack zone");
	parse("{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\"}}]}", &bare);
	policy_keys(&bare, &none);
	assert_int_equal(none.count, 0);
	assert_int_equal(p.terms.count, 5); // gpu=h100 env=prod tier=canary rack=r9 gpu=l4
}

// A label is a term only when both its key and its value are, to the last letter.
static void labels_and_pools(void **state)
{
	(void)state;
	static const struct {
		const char *labels; // "key=value ..."
		int pool;
		bool has_group, has_zone;
	} rows[] = {
		{ "", 2, false, false },
		{ "gpu=h100 env=prod", 0, false, false },
		{ "gpu=l4 env=prod rack=r1", 1, true, false },
		{ "gpu=h100 env=test zone=z1", 2, false, true },
		{ "gpu=h100x env=prod", 2, false, false },
		{ "gpu=h10 env=prod", 2, false, false },
		{ "gp=h100 env=prod", 2, false, false },
		{ "gpu2=h100 env=prod", 2, false, false },
		{ "rack=r9 zone=z1", 2, true, true },
	};
	auto_policy struct policy p = POLICY_NONE;
	parse(racks, &p);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_state m;
		auto_strv struct strv labels = { 0 };
		node_state_init(&m, "n", "u");
		strv_split(&labels, rows[i].labels, " ");
		for (size_t n = 0; *rows[i].labels && n < labels.count; n++) {
			const char *label = labels.items[n], *at = strchr(label, '=');
			expect(at, label);
			auto_str char *key = str_ndup(label, at ? (size_t)(at - label) : 0);
			policy_label(&p, key, at ? at + 1 : "", &m.facts);
		}
		expect(policy_pool(&p, &m) == &p.pools[rows[i].pool], rows[i].labels);
		expect(policy_home(&p, &m) == &p.pools[rows[i].pool], rows[i].labels);
		expect((m.facts.group != 0) == rows[i].has_group && (m.facts.zone != 0) == rows[i].has_zone,
		       rows[i].labels);
	}
}

// Whose plan it follows while it is under way, and whose room it takes up meanwhile.
static void recorded_pool_and_pool_by_labels(void **state)
{
	(void)state;
	static const struct {
		const char *plan, *label;
		enum node_phase phase;
		const char *pool, *home; // "" = none
	} rows[] = {
		{ "", "", PHASE_IDLE, "rest", "rest" },
		{ "h", "", PHASE_QUEUED, "rest", "rest" }, // what has not begun follows the labels
		{ "h", "", PHASE_EVICTING, "h", "rest" },
		{ "h", "l", PHASE_REPLACING, "h", "l" },
		{ "", "l", PHASE_REPLACING, "l", "l" },
		{ "gone", "", PHASE_EVICTING, "", "rest" },
		{ "h", "gone", PHASE_DONE, "", "" },
	};
	auto_policy struct policy p = POLICY_NONE;
	parse(racks, &p);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_state m;
		auto_str char *row = str_fmt("row %zu", i);
		node_state_init(&m, "n", "u");
		m.record.phase = rows[i].phase;
		memcpy(m.record.pool, rows[i].plan, strlen(rows[i].plan));
		memcpy(m.facts.pool, rows[i].label, strlen(rows[i].label));
		const struct pool *pool = policy_pool(&p, &m), *home = policy_home(&p, &m);
		expect(str_eq(pool ? pool->name : "", rows[i].pool), row);
		expect(str_eq(home ? home->name : "", rows[i].home), row);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_open_and_close_to_the_minute),
		cmocka_unit_test(the_earliest_of_several_windows),
		cmocka_unit_test(the_margin_of_a_window),
		cmocka_unit_test(labels_of_the_policy),
		cmocka_unit_test(labels_and_pools),
		cmocka_unit_test(recorded_pool_and_pool_by_labels),
	};
	return cmocka_run_group_tests_name("match", tests, NULL, NULL);
}
