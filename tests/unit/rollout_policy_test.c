// SPDX-License-Identifier: Apache-2.0
// Policies that make no sense are refused with the field; limits and windows at their edges. T80, T81, T83, T38, T39.
#include "cluster/policy/policy.h"
#include "tests/unit/test.h"

#define POOL "\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"535.1\"}"
#define TARGET(parameters) \
	"{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"parameters\":{" parameters "}}}]}"
static const struct {
	const char *name, *text, *error; // NULL = it is good
} policies[] = {
	{ "the smallest", "{" POOL "}]}", NULL },
	{ "no JSON", "{", "line 1" },
	{ "no object", "[]", "the policy: must be an object" },
	{ "no pool", "{\"pools\":[]}", "pools: must be a list of at least one" },
	{ "T83: a newer schema", "{\"schema\":2,\"later\":1," POOL "}]}", "schema: 2 is newer than 1" },
	{ "an unknown field", "{\"pauseed\":true," POOL "}]}", "pauseed: unknown field; did you mean 'paused'?" },
	{ "an unknown field of a pool", "{" POOL ",\"maxparallel\":1}]}", "pools[0].maxparallel: unknown field" },
	{ "twice the same field", "{\"paused\":true,\"paused\":false," POOL "}]}", "duplicate" },
	{ "a wrong type", "{\"paused\":1," POOL "}]}", "paused: must be true or false" },
	{ "a driver that is none", "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"abc\"}}]}",
	  "pools[0].target.driver: 'abc' is not a driver version, such as 570.86.15" },
	{ "a driver's branch alone", "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"570\"}}]}",
	  "pools[0].target.driver: '570' is not a driver version" },
	{ "a driver without quotes, as YAML reads it", "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":535}}]}",
	  "pools[0].target.driver: must be a string, and 535 is none without quotes: \"535\"" },
	{ "a parameter of no module",
	  "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"parameters\":{\"nvdia:x\":\"1\"}}}]}",
	  "pools[0].target.parameters: 'nvdia' is not a module of the NVIDIA driver (nvidia, nvidia-uvm, " },
	{ "no name", "{\"pools\":[{\"target\":{\"driver\":\"1.1\"}}]}", "pools[0].name: is missing" },
	{ "no target", "{\"pools\":[{\"name\":\"a\"}]}", "pools[0].target: is missing" },
	{ "no driver", "{\"pools\":[{\"name\":\"a\",\"target\":{}}]}", "pools[0].target.driver: is missing" },
	{ "a package that is no digest",
	  "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"package\":\"latest\"}}]}",
	  "pools[0].target.package: must be sha256:" },
	{ "a package whose digest is too short",
	  "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"package\":\"sha256:0123\"}}]}",
	  "pools[0].target.package: must be sha256: and 64 hex digits" },
	{ "a target that is none", "{\"pools\":[{\"name\":\"a\",\"target\":\"1.1\"}]}",
	  "pools[0].target: must be an object" },
	{ "parameters that are none",
	  "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"parameters\":[]}}]}",
	  "pools[0].target.parameters: must be an object" },
	{ "a parameter of two lines",
	  "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"parameters\":{\"x\":\"1\\n2\"}}}]}",
	  "pools[0].target.parameters.x: must be a string on one line" },
	{ "a parameter whose name has its value",
	  "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"parameters\":{\"x=1\":\"2\"}}}]}",
	  "pools[0].target.parameters.x=1: must be a string on one line" },
	{ "a parameter of a module",
	  "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"parameters\":{\"nvidia-drm:modeset\":\"1\"}}}]"
	  "}",
	  NULL },
	{ "no schema", "{\"schema\":0," POOL "}]}", "schema: must be a number from 1 to 65535" },
	{ "this schema", "{\"schema\":1," POOL "}]}", NULL },
	{ "a third pool that nobody can be in",
	  "{\"pools\":[{\"name\":\"a\",\"selector\":{\"x\":\"y\"},\"target\":{\"driver\":\"1.1\"}},"
	  "{\"name\":\"b\",\"target\":{\"driver\":\"1.1\"}},{\"name\":\"c\",\"target\":{\"driver\":\"1.1\"}}]}",
	  "pools[2]: selects no node, because pools[1] has no selector and takes all nodes" },
	{ "a window of just the margin", "{" POOL ",\"windows\":[{\"from\":\"01:00\",\"to\":\"02:02\"}]}]}", NULL },
	{ "a window over midnight of just the margin",
	  "{" POOL ",\"windows\":[{\"from\":\"23:30\",\"to\":\"00:32\"}]}]}", NULL },
	{ "a window that is a minute too short",
	  "{" POOL ",\"windows\":[{\"from\":\"23:30\",\"to\":\"00:31\"},{\"from\":\"01:00\",\"to\":\"01:05\"}]}]}",
	  "pools[0].windows: the longest is 61m, and a node may take 62m (its deadlines cordon, evict, replace, "
	  "validate "
	  "and restore): write a longer window or shorter deadlines, or pools[0].deadlines.windowMargin: \"31m\", "
	  "which "
	  "starts nodes until that long before the end, and cancels a drain that leaves less than 30m" },
	{ "deadlines that are no whole minutes", "{" POOL ",\"deadlines\":{\"restore\":\"11m30s\"}}]}",
	  "pools[0].deadlines.restore: must be a time" },
	{ "a node that takes some seconds more",
	  "{" POOL ",\"deadlines\":{\"restore\":\"601s\"},\"windows\":[{\"from\":\"01:00\",\"to\":\"01:40\"}]}]}",
	  "pools[0].windows: the longest is 40m, and a node may take 3721s (its deadlines cordon, evict, replace, "
	  "validate and restore): write a longer window or shorter deadlines, or pools[0].deadlines.windowMargin: "
	  "\"1801s\", which starts nodes until that long before the end, and cancels a drain that leaves less than "
	  "1801s" },
	{ "a window in which not even the change has room",
	  "{" POOL ",\"windows\":[{\"from\":\"01:00\",\"to\":\"01:30\"}]}]}",
	  "validate and restore): write a longer window or shorter deadlines" },
	{ "mode self, zone by zone", "{\"mode\":\"self\",\"zoneLabel\":\"z\"," POOL ",\"zoneByZone\":true}]}",
	  "pools[0].zoneByZone: mode self has none, since there is one node" },
	{ "a parameter that is no text",
	  "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"parameters\":{\"x\":1}}}]}",
	  "pools[0].target.parameters.x: must be a string" },
	{ "T80: a negative limit", "{" POOL ",\"maxParallel\":-1}]}", "pools[0].maxParallel: must be" },
	{ "T80: more than everything", "{" POOL ",\"maxUnavailable\":\"101%\"}]}", "pools[0].maxUnavailable: must be" },
	{ "T80: a limit that is a word", "{" POOL ",\"maxUnavailable\":\"all\"}]}",
	  "pools[0].maxUnavailable: must be" },
	{ "T80: 0 is a pause", "{" POOL ",\"maxParallel\":0,\"maxUnavailable\":\"0%\"}]}", NULL },
	{ "T81: no unlimited drain", "{" POOL ",\"deadlines\":{\"evict\":0}}]}",
	  "pools[0].deadlines.evict: must be at least 1s; there is no unlimited" },
	{ "T81: no drain of a year", "{" POOL ",\"deadlines\":{\"evict\":\"365d\"}}]}",
	  "pools[0].deadlines.evict: must be a time" },
	{ "T81: no time that overflows", "{" POOL ",\"deadlines\":{\"evict\":\"99999999999999d\"}}]}",
	  "pools[0].deadlines.evict" },
	{ "an unknown deadline", "{" POOL ",\"deadlines\":{\"drain\":\"1h\"}}]}",
	  "pools[0].deadlines.drain: unknown field" },
	{ "a wave without nodes", "{" POOL ",\"waves\":[{\"name\":\"x\"}]}]}", "pools[0].waves[0]: must have one of" },
	{ "a wave of two kinds", "{" POOL ",\"waves\":[{\"name\":\"x\",\"count\":1,\"percent\":5}]}]}",
	  "pools[0].waves[0]" },
	{ "two waves of one name", "{" POOL ",\"waves\":[{\"name\":\"x\",\"count\":1},{\"name\":\"x\",\"count\":1}]}]}",
	  "pools[0].waves[1].name: there are two waves 'x'" },
	{ "waves of more than all",
	  "{" POOL ",\"waves\":[{\"name\":\"x\",\"percent\":60},{\"name\":\"y\",\"percent\":50}]}]}",
	  "pools[0].waves: the percentages add up to 110%" },
	{ "a wave called rest", "{" POOL ",\"waves\":[{\"name\":\"rest\",\"count\":1}]}]}",
	  "pools[0].waves[0].name: 'rest'" },
	{ "two pools of one name",
	  "{\"pools\":[{\"name\":\"a\",\"selector\":{\"x\":\"y\"},\"target\":{\"driver\":\"1.1\"}},"
	  "{\"name\":\"a\",\"target\":{\"driver\":\"1.1\"}}]}",
	  "pools[1].name: there are two pools 'a'" },
	{ "a pool that nobody can be in", "{" POOL "},{\"name\":\"b\",\"target\":{\"driver\":\"1.1\"}}]}",
	  "pools[1]: selects no node" },
	{ "jobs by a selector of sets", "{" POOL ",\"drain\":{\"waitFor\":\"app in (train, eval),!debug\"}}]}", NULL },
	{ "jobs by what is no selector", "{" POOL ",\"drain\":{\"waitFor\":\"app in train\"}}]}",
	  "pools[0].drain.waitFor: expected '(' at train" },
	{ "a flavour that there is not",
	  "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"flavour\":\"opened\"}}]}",
	  "pools[0].target.flavour: must be one of" },
	{ "a driver with a suffix", "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1-open\"}}]}",
	  "pools[0].target.driver: '1.1-open' is not a driver version" },
	{ "a driver with a part missing", "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1..2\"}}]}",
	  "pools[0].target.driver" },
	{ "a driver with an end missing", "{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.2.\"}}]}",
	  "pools[0].target.driver" },
	{ "parameters that agents can give", TARGET("\"NVreg_A\":\"a=1;b=2\",\"nvidia-uvm:x_y\":\"\""), NULL },
	{ "a parameter with a comma, which parts parameters", TARGET("\"NVreg_A\":\"a=1,b=2\""),
	  "pools[0].target.parameters: 'nvidia:NVreg_A=a=1,b=2' is no" },
	{ "a parameter with a quote", TARGET("\"NVreg_A\":\"a\\\"b\""), "pools[0].target.parameters" },
	{ "a parameter whose name has a blank", TARGET("\"NV reg\":\"1\""), "pools[0].target.parameters" },
	{ "a parameter without a name", TARGET("\"\":\"1\""), "pools[0].target.parameters" },
	{ "a day that there is not",
	  "{" POOL ",\"windows\":[{\"days\":[\"Son\"],\"from\":\"01:00\",\"to\":\"02:00\"}]}]}",
	  "pools[0].windows[0].days" },
	{ "an hour that there is not", "{" POOL ",\"windows\":[{\"from\":\"24:00\",\"to\":\"02:00\"}]}]}",
	  "pools[0].windows[0].from" },
	{ "windows in which nothing can be done", "{" POOL ",\"windows\":[{\"from\":\"01:00\",\"to\":\"01:10\"}]}]}",
	  "pools[0].windows: the longest is 10m, and a node may take 62m (its deadlines cordon, evict, replace, "
	  "validate "
	  "and restore): write a longer window or shorter deadlines" },
	{ "windows that need a margin",
	  "{" POOL ",\"drain\":{\"waitFor\":\"a=b\"},\"windows\":[{\"from\":\"01:00\",\"to\":\"03:00\"}]}]}",
	  "pools[0].windows: the longest is 120m, and a node may take 182m (its deadlines cordon, wait, evict, "
	  "replace, "
	  "validate and restore): write a longer window or shorter deadlines, or pools[0].deadlines.windowMargin: "
	  "\"60m\", which starts nodes until that long before the end, and cancels a drain that leaves less than 30m" },
	{ "the margin that was asked for",
	  "{" POOL ",\"drain\":{\"waitFor\":\"a=b\"},\"deadlines\":{\"windowMargin\":\"60m\"},"
	  "\"windows\":[{\"from\":\"01:00\",\"to\":\"03:00\"}]}]}",
	  NULL },
	{ "a margin longer than the windows",
	  "{" POOL ",\"deadlines\":{\"windowMargin\":\"3h\"},\"windows\":[{\"from\":\"01:00\",\"to\":\"03:00\"}]}]}",
	  "pools[0].deadlines.windowMargin: 180m is more than the longest of the windows, 120m" },
	{ "mode self", "{\"mode\":\"self\"," POOL ",\"drain\":{\"evict\":\"none\"}}]}", NULL },
	{ "a mode that there is not", "{\"mode\":\"mine\"," POOL "}]}", "mode: must be one of" },
	{ "mode self with several pools",
	  "{\"mode\":\"self\",\"pools\":[{\"name\":\"a\",\"selector\":{\"x\":\"y\"},\"target\":{\"driver\":\"1.1\"}},"
	  "{\"name\":\"b\",\"target\":{\"driver\":\"1.1\"}}]}",
	  "pools: mode self has one pool" },
	{ "mode self with a validation", "{\"mode\":\"self\"," POOL ",\"validation\":{\"template\":\"a\"}}]}",
	  "pools[0].validation: mode self has none, since no coordinator runs it" },
	{ "a validation", "{" POOL ",\"validation\":{\"template\":\"nccl-all.8\",\"deadline\":\"1d\"}}]}", NULL },
	{ "a validation without a template", "{" POOL ",\"validation\":{\"deadline\":\"1h\"}}]}",
	  "pools[0].validation.template: must be the name of a PodTemplate" },
	{ "a template elsewhere", "{" POOL ",\"validation\":{\"template\":\"../secrets/a\"}}]}",
	  "pools[0].validation.template: must be the name" },
	{ "a template with a path", "{" POOL ",\"validation\":{\"template\":\"a/log\"}}]}",
	  "pools[0].validation.template: must be the name" },
	{ "a validation of a week", "{" POOL ",\"validation\":{\"template\":\"a\",\"deadline\":\"7d\"}}]}",
	  "pools[0].validation.deadline: must be a time" },
	{ "a validation for which the window has no room",
	  "{" POOL ",\"validation\":{\"template\":\"a\"},\"windows\":[{\"from\":\"01:00\",\"to\":\"02:11\"}]}]}",
	  "a node may take 72m (its deadlines cordon, evict, replace, validate, validation and restore)" },
	{ "mode self that selects", "{\"mode\":\"self\"," POOL ",\"selector\":{\"x\":\"y\"}}]}",
	  "pools[0].selector: mode self has none" },
	{ "mode self in waves", "{\"mode\":\"self\"," POOL ",\"waves\":[{\"name\":\"x\",\"count\":1}]}]}",
	  "pools[0].waves: mode self has none" },
	{ "mode self that evicts", "{\"mode\":\"self\"," POOL ",\"drain\":{\"evict\":\"gpu\"}}]}",
	  "pools[0].drain.evict: must be none" },
	{ "mode self that waits for jobs", "{\"mode\":\"self\"," POOL ",\"drain\":{\"waitFor\":\"a=b\"}}]}",
	  "pools[0].drain.waitFor: mode self sees no pods" },
	{ "zones without their label", "{" POOL ",\"zoneByZone\":true}]}", "pools[0].zoneByZone: needs zoneLabel" },
	{ "a name with a blank", "{\"pools\":[{\"name\":\"a b\",\"target\":{\"driver\":\"1.1\"}}]}",
	  "pools[0].name: must be a word" },
	{ "a choice that there is not", "{" POOL ",\"onHalt\":\"panic\"}]}",
	  "pools[0].onHalt: must be one of finish, rollback, rollback-all" },
};

static void refusals(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		auto_policy struct policy p = POLICY_NONE;
		struct err err = { 0 };
		int r = policy_parse(policies[i].text, strlen(policies[i].text), &p, &err);
		if (policies[i].error && (r == 0 || !strstr(err.text, policies[i].error)))
			fail_msg("%s: '%s'", policies[i].name, r ? err.text : "was taken");
		if (!policies[i].error && r < 0)
			fail_msg("%s: %s", policies[i].name, err.text);
	}
}

static void parse(const char *text, struct policy *ret)
{
	struct err err = { 0 };
	if (policy_parse(text, strlen(text), ret, &err) < 0)
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
		size_t len = POLICY_BYTES + more, used = strlen("{" POOL "}]}");
		auto_str char *blank = mem_alloc(len + 1);
		memset(blank, '\n', len - used);
		auto_str char *text = str_fmt("%s{" POOL "}]}", blank);
		assert_int_equal(policy_parse(text, len, &p, &err), more ? -1 : 0);
		expect(!more || str_eq(err.text, "the policy is larger than 524288 bytes"), err.text);
		auto_str char *all = str_dup("{\"pools\":["),
			      *some = str_dup("{" POOL ",\"selector\":{\"l0\":\"v\"}},");
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
		"{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"parameters\":{\"x\":\"1\",\"y\":\"2\"}}}]"
		"}",
		("{\"pools\":[{\"name\":\"b\",\"maxParallel\":9,\"target\":{\"parameters\":{\"y\":\"2\",\"x\":\"1\"},"
		 "\"driver\":\"1.1\"}}]}"),
		"{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"parameters\":{\"x\":\"2\",\"y\":\"2\"}}}]"
		"}",
		"{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\",\"flavour\":\"open\"}}]}",
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
	parse("{" POOL ",\"windows\":[{\"days\":[\"Sat\"],\"from\":\"22:00\",\"to\":\"04:00\"}]}]}", &p);
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
		{ ",\"drain\":{\"waitFor\":\"a=b\"}", 182 * 60, 30 * 60 },
		{ ",\"deadlines\":{\"evict\":\"1h\",\"restore\":\"20m\"}", 102 * 60, 40 * 60 },
		{ ",\"deadlines\":{\"windowMargin\":\"45m\"}", 45 * 60, 30 * 60 },
		{ ",\"deadlines\":{\"windowMargin\":\"5m\"}", 5 * 60, 5 * 60 },
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
	parse("{\"groupBy\":\"clique\",\"pools\":["
	      "{\"name\":\"h\",\"selector\":{\"gpu\":\"h100\",\"env\":\"prod\"},\"target\":{\"driver\":\"1.1\"}},"
	      "{\"name\":\"l\",\"selector\":{\"gpu\":\"l4\"},\"target\":{\"driver\":\"1.1\"}}]}",
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
