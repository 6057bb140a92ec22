// SPDX-License-Identifier: Apache-2.0
// Policies that make no sense are refused with the field; limits and windows at their edges. T80, T81, T83, T38, T39.
#include "cluster/policy/policy.h"
#include "tests/unit/test.h"

#define POOL "'pools':[{'name':'a','target':{'driver':'535.1'}"
static const struct {
	const char *name, *text, *error; // NULL = it is good
} policies[] = {
#include "tests/unit/rollout_policy.def"
};

static void refusals(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		auto_policy struct policy p = POLICY_NONE;
		struct err err = { 0 };
		auto_str char *text = quoted(policies[i].text);
		int r = policy_parse(text, strlen(text), &p, &err);
		if (policies[i].error && (r == 0 || !strstr(err.text, policies[i].error)))
			fail_msg("%s: '%s'", policies[i].name, r ? err.text : "was taken");
		if (!policies[i].error && r < 0)
			fail_msg("%s: %s", policies[i].name, err.text);
	}
}

static void parse(const char *text, struct policy *ret)
{
	struct err err = { 0 };
	auto_str char *json = quoted(text);
	if (policy_parse(json, strlen(json), ret, &err) < 0)
		fail_msg("%s", err.text);
}

// The same document in both, and refusals that say where.
static void yaml(void **state)
{
	(void)state;
	static const char json[] =
		"{\"maxParallel\":3,\"maxUnavailable\":\"10%\",\"pools\":[{\"name\":\"a\",\"zoneByZone\":false,"
		"\"target\":{\"driver\":\"570.86\",\"parameters\":{\"x\":\"1\"}},\"deadlines\":{\"stage\":90},"
		"\"windows\":[{\"from\":\"22:00\",\"to\":\"06:00\"}]}]}";
	static const char text[] = "# of the site\nmaxParallel: 3\nmaxUnavailable: 10%\npools:\n- name: a\n"
				   "  zoneByZone: false\n  target: {driver: 570.86, parameters: {x: \"1\"}}\n"
				   "  deadlines: {stage: 90}\n  windows:\n  - {from: 22:00, to: 06:00}\n";
	static const struct {
		const char *text, *error;
	} rows[] = {
		{ "", "line 1, column 1: empty document" },
		{ "pools:\n- name: a\n   target: b\n",
		  "line 3, column 10: not valid YAML: mapping values are not allowed" },
		{ "pools: []\npools: []\n", "line 2, column 1: a key occurs twice" },
		{ "maxParallel: '3'\n", "maxParallel: must be a number of nodes" },
		{ "maxStaging: 010\n", "maxStaging: must be a number from" },
		{ "maxStaging: -1\n", "maxStaging: must be a number from" },
		{ "paused: yes\n", "paused: must be true or false" },
		{ "pools:\n- name: a\n  target: {driver: 570.86, parameters: {x: 1}}\n",
		  "parameters.x: must be a string" },
		{ "a: &x 1\nb: *x\n", "line 2, column 4: aliases are not supported" },
		{ "{\"pools\":\n x}", "line 2, column 2 is not JSON" },
		{ "kind: DriverRollout\npools: []\n", "spec: must be an object" },
		{ "kind: DriverRollout\nspec: {pools: [{}]}\n", "pools[0].name: is missing" },
	};
	auto_policy struct policy b = POLICY_NONE;
	auto_json json_t *one = NULL, *other = NULL;
	struct err err = { 0 };
	expect(policy_document(json, strlen(json), &one, &err) == 0, err.text);
	expect(policy_document(text, strlen(text), &other, &err) == 0, err.text);
	assert_true(json_equal(one, other));
	auto_json json_t *whole = json_pack("{s:s, s:O}", "kind", "DriverRollout", "spec", one), *spec = NULL;
	auto_str char *object = json_dumps(whole, 0);
	expect(policy_document(object, strlen(object), &spec, &err) == 0, err.text);
	assert_true(json_equal(one, spec));
	expect(policy_read(other, &b, &err) == 0, err.text);
	assert_int_equal(b.pools[0].windows[0].from, 22 * 60);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_policy struct policy p = POLICY_NONE;
		int r = policy_parse(rows[i].text, strlen(rows[i].text), &p, &err);
		if (r == 0 || !strstr(err.text, rows[i].error))
			fail_msg("%s: '%s'", rows[i].text, r ? err.text : "was taken");
	}
}

// A document as long as it may be, and a byte more; and how many pools and labels there may be.
static void the_largest_policies(void **state)
{
	(void)state;
	for (size_t more = 0; more < 2; more++) {
		auto_policy struct policy p = POLICY_NONE, pools = POLICY_NONE, labels = POLICY_NONE;
		struct err err = { 0 };
		auto_str char *smallest = quoted("{" POOL "}]}");
		size_t len = POLICY_BYTES + more, used = strlen(smallest);
		auto_str char *blank = mem_alloc(len + 1);
		memset(blank, '\n', len - used);
		auto_str char *text = str_fmt("%s%s", blank, smallest);
		assert_int_equal(policy_parse(text, len, &p, &err), more ? -1 : 0);
		expect(!more || str_eq(err.text, "the policy is larger than 524288 bytes"), err.text);
		auto_str char *all = str_dup("{\"pools\":["), *some = quoted("{" POOL ",'selector':{'l0':'v'}},");
		for (size_t i = 0; i < POOLS_MOST + more; i++)
			str_add(&all,
				"%s{\"name\":\"p%zu\",\"selector\":{\"x\":\"y\"},\"target\":{\"driver\":\"1.1\"}}",
				i ? "," : "", i);
		str_add(&all, "]}");
		assert_int_equal(policy_parse(all, strlen(all), &pools, &err), more ? -1 : 0);
		expect(!more || str_eq(err.text, "pools: has 65 entries, at most 64 are allowed"), err.text);
		str_add(&some, "{\"name\":\"b\",\"target\":{\"driver\":\"1.1\"},\"selector\":{");
		for (size_t i = 0; i < 64 + more; i++) // the first one is that of pool a
			str_add(&some, "%s\"l%zu\":\"v\"", i ? "," : "", i);
		str_add(&some, "}}]}");
		assert_int_equal(policy_parse(some, strlen(some), &labels, &err), more ? -1 : 0);
		expect(!more || str_eq(err.text, "pools[1].selector: the policy has more than 64 different labels"),
		       err.text);
		assert_true(more || labels.pools[1].terms == UINT64_MAX); // a node has a bit for each of them
	}
}

static void t80_limits(void **state)
{
	(void)state;
	static const struct {
		struct limit limit;
		unsigned total, want;
	} rows[] = {
		{ { 10, true }, 100, 10 },
		{ { 10, true }, 19, 1 },
		{ { 10, true }, 9, 1 },
		{ { 10, true }, 0, 1 },
		{ { 100, true }, 7, 7 },
		{ { 0, true }, 7, 0 },
		{ { 0, false }, 7, 0 },
		{ { 3, false }, 2, 3 },
		{ { 33, true }, 4, 1 },
		{ { 99, true }, 1, 1 },
		{ { 50, true }, UINT32_MAX, UINT32_MAX / 2 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(policy_limit(&rows[i].limit, rows[i].total), rows[i].want);
}

static void defaults_of_the_design(void **state)
{
	(void)state;
	auto_policy struct policy p = POLICY_NONE;
	parse("{" POOL "}]}", &p);
	const struct pool *pool = &p.pools[0];
	assert_int_equal(pool->parallel.value, 1);
	assert_true(pool->unavailable.is_percent && pool->unavailable.value == 10);
	assert_int_equal(p.staging, 20);
	assert_int_equal(pool->spans[SPAN_EVICT], 30 * 60);
	assert_int_equal(pool->spans[SPAN_STAGE], 60 * 60);
	assert_int_equal(pool->attempts, 2);
	for (unsigned s = 0; s < SPAN_COUNT; s++)
		assert_true(pool->spans[s] > 0);
}

// T38, T39: what names the work is what is installed, and nothing else.
static void t39_target_hashes(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"{'pools':[{'name':'a','target':{'driver':'1.1','parameters':{'x':'1','y':'2'}}}]}",
		"{'pools':[{'name':'b','maxParallel':9,'target':{'parameters':{'y':'2','x':'1'},'driver':'1.1'}}]}",
		"{'pools':[{'name':'a','target':{'driver':'1.1','parameters':{'x':'2','y':'2'}}}]}",
		"{'pools':[{'name':'a','target':{'driver':'1.1','flavour':'open'}}]}",
	};
	struct target_hash aims[ARRAY_SIZE(texts)];
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		auto_policy struct policy p = POLICY_NONE;
		char text[TARGET_HASH_TEXT];
		struct target_hash again;
		parse(texts[i], &p);
		aims[i] = p.pools[0].target.target_hash;
		target_hash_text(&aims[i], text);
		assert_true(target_hash_parse(text, &again) && target_hash_eq(&again, &aims[i]));
	}
	assert_true(target_hash_eq(&aims[0], &aims[1]));
	assert_true(aims[0].payload == aims[2].payload && aims[0].options != aims[2].options);
	assert_true(aims[0].payload != aims[3].payload);
}

static void windows(void **state)
{
	(void)state;
	enum { HOUR = 3600, SATURDAY = 1800057600 }; // 2027-01-16T00:00:00Z
	static const struct {
		int64_t at;
		bool is_open;
		int64_t next;
	} rows[] = {
		{ SATURDAY + 22 * HOUR, true, 0 },
		{ SATURDAY + 22 * HOUR - 1, false, SATURDAY + 22 * HOUR },
		{ SATURDAY + 26 * HOUR, true, 0 }, // Sunday at 2: of Saturday's window
		{ SATURDAY + 27 * HOUR - 60, false,
		  SATURDAY + (7 * 24 + 22) * HOUR }, // 61 minutes, and 62 may be needed
		{ SATURDAY + 27 * HOUR + HOUR / 2 + 60, false, SATURDAY + (7 * 24 + 22) * HOUR }, // too little is left
		{ SATURDAY + 3 * HOUR, false, SATURDAY + 22 * HOUR },                             // Friday has none
		{ SATURDAY + 48 * HOUR, false, SATURDAY + (7 * 24 + 22) * HOUR },
	};
	auto_policy struct policy p = POLICY_NONE;
	parse("{" POOL ",'windows':[{'days':['Sat'],'from':'22:00','to':'04:00'}]}]}", &p);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned margin = p.pools[0].spans[SPAN_MARGIN];
		assert_int_equal(policy_window_is_open(&p.pools[0], rows[i].at, margin), rows[i].is_open);
		assert_int_equal(policy_window_next(&p.pools[0], rows[i].at, margin), rows[i].next);
	}
}

// Nothing that may not end inside is begun, unless somebody says what is enough.
static void windows_have_room_for_the_whole_upgrade(void **state)
{
	(void)state;
	static const struct {
		const char *more;
		unsigned margin, rest;
	} rows[] = {
		{ "", 62 * 60, 30 * 60 },
		{ ",'drain':{'waitFor':'a=b'}", 182 * 60, 30 * 60 },
		{ ",'deadlines':{'evict':'1h','restore':'20m'}", 102 * 60, 40 * 60 },
		{ ",'deadlines':{'windowMargin':'45m'}", 45 * 60, 30 * 60 },
		{ ",'deadlines':{'windowMargin':'5m'}", 5 * 60, 5 * 60 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_policy struct policy p = POLICY_NONE;
		auto_str char *text = str_fmt("{" POOL "%s}]}", rows[i].more);
		parse(text, &p);
		expect(p.pools[0].spans[SPAN_MARGIN] == rows[i].margin, rows[i].more);
		expect(policy_window_rest(&p.pools[0]) == rows[i].rest, rows[i].more);
	}
}

static void which_pool(void **state)
{
	(void)state;
	auto_policy struct policy p = POLICY_NONE;
	parse("{'groupBy':'clique','pools':["
	      "{'name':'h','selector':{'gpu':'h100','env':'prod'},'target':{'driver':'1.1'}},"
	      "{'name':'l','selector':{'gpu':'l4'},'target':{'driver':'1.1'}}]}",
	      &p);
	struct node_state m;
	node_state_init(&m, "n", "u");
	assert_null(policy_pool(&p, &m));
	policy_label(&p, "gpu", "h100", &m.facts);
	assert_null(policy_pool(&p, &m));
	policy_label(&p, "env", "prod", &m.facts);
	policy_label(&p, "clique", "c1", &m.facts);
	assert_ptr_equal(policy_pool(&p, &m), &p.pools[0]);
	assert_true(m.facts.group != 0);
	node_state_label(&m, "kmodsmith.io/pool", "l");
	assert_ptr_equal(policy_pool(&p, &m), &p.pools[1]);
	node_state_label(&m, "kmodsmith.io/pool", "gone");
	assert_null(policy_pool(&p, &m));
	// T40: until its attempt is over, the plan that it was taken into counts.
	node_state_annotation(&m, "kmodsmith.io/rollout", "h");
	node_state_label(&m, "kmodsmith.io/state", "evicting");
	assert_ptr_equal(policy_pool(&p, &m), &p.pools[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals),
		cmocka_unit_test(yaml),
		cmocka_unit_test(the_largest_policies),
		cmocka_unit_test(t80_limits),
		cmocka_unit_test(defaults_of_the_design),
		cmocka_unit_test(t39_target_hashes),
		cmocka_unit_test(windows),
		cmocka_unit_test(windows_have_room_for_the_whole_upgrade),
		cmocka_unit_test(which_pool),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
