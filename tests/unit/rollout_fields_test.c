// SPDX-License-Identifier: Apache-2.0
// What a field of the policy may hold, at its edges: what is taken is taken as it was written, and everything else is
// refused with words that say what would be right. Policies as a whole: rollout_policy_test.
#include "cluster/policy/policy.h"
#include "tests/unit/test.h"

#define POOL(more) "{'pools':[{'name':'a','target':{'driver':'535.1'}" more "}]}"
#define AT(field) offsetof(struct pool, field)

static int parse(const char *text, struct policy *ret, struct err *err)
{
	*err = (struct err){ 0 };
	return policy_parse(text, strlen(text), ret, err);
}

// A policy with these fields in its pool, ' for ". error NULL: it is taken.
static void expect_pool(const char *fields, const char *error, struct policy *ret)
{
	struct err err;
	auto_str char *policy = str_fmt(POOL(",%s"), fields), *text = quoted(policy);
	int r = parse(text, ret, &err);
	if (r != (error ? -1 : 0) || (error && !str_eq(err.text, error)))
		fail_msg("%s: '%s', not '%s'", fields, r < 0 ? err.text : "taken", error ? error : "taken");
	assert_int_equal(err.code, error ? E_CONFIG : 0);
}

#define TIME "pools[0].deadlines.evict: must be a time such as \"90s\", \"30m\" or \"2h\", at most 30 days"
#define LEAST "pools[0].deadlines.evict: must be at least 1s; there is no unlimited"
static void times(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned seconds; // 0 = refused
		const char *error;
	} rows[] = {
		{ "90", 90, NULL },
		{ "'1s'", 1, NULL },
		{ "'90s'", 90, NULL },
		{ "'30m'", 1800, NULL },
		{ "'2h'", 7200, NULL },
		{ "'30d'", 2592000, NULL },
		{ "2592000", 2592000, NULL },
		{ "2592001", 0, TIME },
		{ "'31d'", 0, TIME },
		{ "'49711d'", 0, TIME },
		{ "'4294967295d'", 0, TIME },
		{ "'4294967296s'", 0, TIME },
		{ "'213503982334602d'", 0, TIME }, // 2^64 seconds and some minutes
		{ "0", 0, LEAST },
		{ "'0h'", 0, LEAST },
		{ "-1", 0, TIME },
		{ "'-5s'", 0, TIME },
		{ "''", 0, TIME },
		{ "'s'", 0, TIME },
		{ "'5'", 0, TIME },
		{ "'5w'", 0, TIME },
		{ "'1h30m'", 0, TIME },
		{ "' 5s'", 0, TIME },
		{ "1.5", 0, TIME },
		{ "true", 0, TIME },
		{ "null", 0, TIME },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_policy struct policy p = POLICY_NONE;
		auto_str char *fields = str_fmt("'deadlines':{'evict':%s}", rows[i].text);
		expect_pool(fields, rows[i].error, &p);
		expect(rows[i].error || p.pools[0].spans[SPAN_EVICT] == rows[i].seconds, rows[i].text);
	}
}

// Each of them is stored where it belongs.
static void deadlines_by_name(void **state)
{
	(void)state;
	for (unsigned s = 0; s < SPAN_COUNT; s++) {
		auto_policy struct policy p = POLICY_NONE;
		auto_str char *fields = str_fmt("'deadlines':{'%s':%u}", span_names[s], 100 + s);
		expect_pool(fields, NULL, &p);
		for (unsigned other = 0; other < SPAN_COUNT; other++)
			expect(other == SPAN_MARGIN ||
				       p.pools[0].spans[other] == (other == s ? 100 + s : span_defaults[other]),
			       fields);
		assert_int_equal(policy_span(&p.pools[0], s), p.pools[0].spans[s]);
		assert_int_equal(policy_span(NULL, s), span_defaults[s]);
	}
}

#define LIMIT "pools[0].maxParallel: must be a number of nodes or a percentage such as \"10%\"; 0 pauses"
static void limits(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		struct limit limit;
		const char *error;
	} rows[] = {
		{ "0", { 0, false }, NULL },
		{ "7", { 7, false }, NULL },
		{ "2147483647", { 2147483647, false }, NULL },
		{ "2147483648", { 0 }, LIMIT },
		{ "4294967297", { 0 }, LIMIT },
		{ "'0%'", { 0, true }, NULL },
		{ "'33%'", { 33, true }, NULL },
		{ "'100%'", { 100, true }, NULL },
		{ "'101%'", { 0 }, LIMIT },
		{ "'%'", { 0 }, LIMIT },
		{ "'-1%'", { 0 }, LIMIT },
		{ "'5 %'", { 0 }, LIMIT },
		{ "'7'", { 0 }, LIMIT },
		{ "''", { 0 }, LIMIT },
		{ "-1", { 0 }, LIMIT },
		{ "0.5", { 0 }, LIMIT },
		{ "true", { 0 }, LIMIT },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_policy struct policy p = POLICY_NONE;
		auto_str char *fields = str_fmt("'maxParallel':%s", rows[i].text);
		expect_pool(fields, rows[i].error, &p);
		expect(rows[i].error || (p.pools[0].parallel.value == rows[i].limit.value &&
					 p.pools[0].parallel.is_percent == rows[i].limit.is_percent),
		       rows[i].text);
	}
}

#define COUNT(name, least, most) "pools[0]." name ": must be a number from " least " to " most
static void numbers(void **state)
{
	(void)state;
	static const struct {
		const char *fields;
		size_t at;
		unsigned value;
		const char *error;
	} rows[] = {
		{ "'maxWaiting':0", AT(waiting), 0, NULL },
		{ "'maxWaiting':1000", AT(waiting), 1000, NULL },
		{ "'maxWaiting':1001", 0, 0, COUNT("maxWaiting", "0", "1000") },
		{ "'maxWaiting':-1", 0, 0, COUNT("maxWaiting", "0", "1000") },
		{ "'maxWaiting':'1'", 0, 0, COUNT("maxWaiting", "0", "1000") },
		{ "'maxWaiting':1.0", 0, 0, COUNT("maxWaiting", "0", "1000") },
		{ "'maxAttempts':1", AT(attempts), 1, NULL },
		{ "'maxAttempts':100", AT(attempts), 100, NULL },
		{ "'maxAttempts':0", 0, 0, COUNT("maxAttempts", "1", "100") },
		{ "'maxAttempts':101", 0, 0, COUNT("maxAttempts", "1", "100") },
		{ "'drain':{'attempts':1000}", AT(drain_attempts), 1000, NULL },
		{ "'drain':{'attempts':0}", 0, 0, COUNT("drain.attempts", "1", "1000") },
		{ "'breaker':{'percent':100}", AT(breaker_percent), 100, NULL },
		{ "'breaker':{'percent':0}", 0, 0, COUNT("breaker.percent", "1", "100") },
		{ "'breaker':{'inARow':1}", AT(breaker_row), 1, NULL },
		{ "'breaker':{'hardwareErrors':2}", AT(hardware_errors), 2, NULL },
		{ "'breaker':{'hardwareErrors':1001}", 0, 0, COUNT("breaker.hardwareErrors", "0", "1000") },
		{ "'unhealthyBefore':'hold'", AT(unhealthy_before), UNHEALTHY_HOLD, NULL },
		{ "'unhealthyBefore':'replace'", AT(unhealthy_before), UNHEALTHY_REPLACE, NULL },
		{ "'unhealthyBefore':'skip'", 0, 0, "pools[0].unhealthyBefore: must be one of hold, replace" },
		{ "'drain':{'evict':'gpu'}", AT(evict), EVICT_GPU, NULL },
		{ "'drain':{'evict':'holders'}", AT(evict), EVICT_HOLDERS, NULL },
		{ "'drain':{'evict':'all'}", AT(evict), EVICT_ALL, NULL },
		{ "'drain':{'evict':'none'}", AT(evict), EVICT_NOTHING, NULL },
		{ "'drain':{'evict':'gpus'}", 0, 0, "pools[0].drain.evict: must be one of gpu, holders, all, none" },
		{ "'drain':{'evict':1}", 0, 0, "pools[0].drain.evict: must be one of gpu, holders, all, none" },
		{ "'drain':{'onTimeout':'release'}", AT(on_timeout), TIMEOUT_RELEASE, NULL },
		{ "'drain':{'onTimeout':'hold'}", AT(on_timeout), TIMEOUT_HOLD, NULL },
		{ "'drain':{'onWaitTimeout':'evict'}", AT(on_wait_timeout), WAIT_EVICT, NULL },
		{ "'drain':{'onWaitTimeout':'release'}", AT(on_wait_timeout), WAIT_RELEASE, NULL },
		{ "'onHalt':'finish'", AT(on_halt), HALT_FINISH, NULL },
		{ "'onHalt':'rollback'", AT(on_halt), HALT_ROLLBACK, NULL },
		{ "'onHalt':'rollback-all'", AT(on_halt), HALT_ROLLBACK_ALL, NULL },
		{ "'foreignCordon':'ignore'", AT(foreign_cordon), CORDON_IGNORE, NULL },
		{ "'foreignCordon':'use-first'", AT(foreign_cordon), CORDON_USE_FIRST, NULL },
		{ "'groupOverflow':'alone'", AT(overflow), OVERFLOW_ALONE, NULL },
		{ "'groupOverflow':'hold'", AT(overflow), OVERFLOW_HOLD, NULL },
		{ "'drain':[]", 0, 0, "pools[0].drain: must be an object" },
		{ "'drain':{'evicts':'all'}", 0, 0, "pools[0].drain.evicts: unknown field; did you mean 'evict'?" },
		{ "'breaker':true", 0, 0, "pools[0].breaker: must be an object" },
		{ "'deadlines':'1h'", 0, 0, "pools[0].deadlines: must be an object" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_policy struct policy p = POLICY_NONE;
		expect_pool(rows[i].fields, rows[i].error, &p);
		unsigned got = 0;
		if (!rows[i].error)
			memcpy(&got, (const char *)p.pools + rows[i].at, sizeof(got));
		expect(rows[i].error || got == rows[i].value, rows[i].fields);
	}
}

// A version is what packages are found by, so nothing but one is taken; and a parameter is one that a node can give on.
static void targets(void **state)
{
	(void)state;
	static const char must[] = "is not NAME or MODULE:NAME with a value without ',' and '\"'";
	static const struct {
		const char *driver, *parameter, *value;
		bool is_good;
	} rows[] = {
		{ "570.86.15", NULL, NULL, true },
		{ "570.86", NULL, NULL, true },
		{ "570.86.", NULL, NULL, false },
		{ "570..15", NULL, NULL, false },
		{ ".570.86", NULL, NULL, false },
		{ "570.86.15x", NULL, NULL, false },
		{ "570.86-15", NULL, NULL, false },
		{ "v570.86.15", NULL, NULL, false },
		{ "570", NULL, NULL, false },
		{ "1.1", "modeset", "1", true },
		{ "1.1", "nvidia-drm:modeset", "1", true },
		{ "1.1", "x", "1,2", false },
		{ "1.1", "x", "a\\\"b", false },
		{ "1.1", "x", "", true },
		{ "1.1", "", "1", false },
		{ "1.1", "a,b", "1", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_policy struct policy p = POLICY_NONE;
		struct err err;
		auto_str char *parameters = rows[i].parameter ? str_fmt(",\"parameters\":{\"%s\":\"%s\"}",
									rows[i].parameter, rows[i].value) :
								str_dup("");
		auto_str char *text = str_fmt("{\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"%s\"%s}}]}",
					      rows[i].driver, parameters);
		int r = parse(text, &p, &err);
		expect(r == (rows[i].is_good ? 0 : -1), err.code ? err.text : text);
		if (rows[i].is_good)
			continue;
		auto_str char *driver = str_fmt(
			"pools[0].target.driver: '%s' is not a driver version, such as 570.86.15", rows[i].driver);
		expect(rows[i].parameter ?
			       str_starts(err.text, "pools[0].target.parameters: '") && str_ends(err.text, must) :
			       str_eq(err.text, driver),
		       err.text);
	}
}

static char *letters(size_t count)
{
	char *text = mem_alloc(count + 1);
	memset(text, 'a', count);
	return text;
}

static void words_and_texts(void **state)
{
	(void)state;
	static const struct {
		const char *fields; // %s: so many letters
		size_t letters;
		const char *error;
	} rows[] = {
		{ "'target':{'driver':'1.1','flavour':'%s'}", WORD_TEXT - 1,
		  "pools[0].target.flavour: must be one of open, proprietary, auto" },
		{ "'target':{'driver':'1.1','flavour':'%s'}", WORD_TEXT,
		  "pools[0].target.flavour: must be a word of letters, digits, '.', '_', '/' and '-', at most 23" },
		{ "'target':{'driver':'1.1','flavour':'%s'}", 0,
		  "pools[0].target.flavour: must be a word of letters, digits, '.', '_', '/' and '-', at most 23" },
		{ "'drain':{'waitFor':'%s'}", 1, NULL },
		{ "'drain':{'waitFor':'%s'}", 63, NULL }, // the longest name of a label
		{ "'drain':{'waitFor':'%s'}", 257, "pools[0].drain.waitFor: must be a string of 1 to 256 bytes" },
		{ "'drain':{'waitFor':'%s'}", 0, "pools[0].drain.waitFor: must be a string of 1 to 256 bytes" },
		{ "'drain':{'waitFor':7}", 0, "pools[0].drain.waitFor: must be a string of 1 to 256 bytes" },
		{ "'drain':{'force':'true'}", 0, "pools[0].drain.force: must be true or false" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_policy struct policy p = POLICY_NONE;
		struct err err;
		auto_str char *word = letters(rows[i].letters);
		const char *at = strstr(rows[i].fields, "%s");
		auto_str char *fields =
			at ? str_fmt("%.*s%s%s", (int)(at - rows[i].fields), rows[i].fields, word, at + 2) :
			     str_dup(rows[i].fields);
		bool is_target = str_starts(fields, "'target'");
		auto_str char *policy =
			str_fmt("{'pools':[{'name':'a'%s,%s}]}", is_target ? "" : ",'target':{'driver':'1.1'}", fields);
		auto_str char *text = quoted(policy);
		int r = parse(text, &p, &err);
		expect(r == (rows[i].error ? -1 : 0) && str_eq(err.text, rows[i].error ? rows[i].error : ""), err.text);
		if (r == 0)
			assert_string_equal(p.pools[0].wait_for, word);
	}
}

static void the_longest_text(void **state)
{
	(void)state;
	for (size_t len = 256; len <= 257; len++) {
		auto_policy struct policy p = POLICY_NONE;
		struct err err;
		auto_str char *key = letters(len);
		auto_str char *text = str_fmt(
			"{\"groupBy\":\"%s\",\"pools\":[{\"name\":\"a\",\"target\":{\"driver\":\"1.1\"}}]}", key);
		assert_int_equal(parse(text, &p, &err), len > 256 ? -1 : 0);
		assert_string_equal(len > 256 ? err.text : p.group_by,
				    len > 256 ? "groupBy: must be a string of 1 to 256 bytes" : key);
	}
}

static char *repeat(const char *item, size_t count)
{
	char *text = str_dup("");
	for (size_t i = 0; i < count; i++)
		str_add(&text, "%s", item);
	return text;
}

#define WINDOW "{'from':'01:00','to':'05:00'}"
static void lists(void **state)
{
	(void)state;
	static const struct {
		const char *fields;
		const char *item;
		size_t count;
		const char *error;
	} rows[] = {
		{ "'windows':[" WINDOW "%s]", "," WINDOW, WINDOWS_MOST - 1, NULL },
		{ "'windows':[" WINDOW "%s]", "," WINDOW, WINDOWS_MOST,
		  "pools[0].windows: has 33 entries, at most 32 are allowed" },
		{ "'windows':{}", "", 0, "pools[0].windows: must be a list" },
		{ "'windows':[7]", "", 0, "pools[0].windows[0]: must be an object" },
		{ "'windows':[{'from':'01:00','to':'05:00','on':'Mon'}]", "", 0,
		  "pools[0].windows[0].on: unknown field" },
		{ "'windows':[" WINDOW ",{'from':'01:00','to':'05:00','days':'Mon'}]", "", 0,
		  "pools[0].windows[1].days: must be a list" },
		{ "'windows':[{'from':'01:00','to':'05:00','days':['Mon'%s]}]", ",'Mon'", 6, NULL },
		{ "'windows':[{'from':'01:00','to':'05:00','days':['Mon'%s]}]", ",'Mon'", 7,
		  "pools[0].windows[0].days: has 8 entries, at most 7 are allowed" },
		{ "'windows':[{'from':'01:00','to':'05:00','days':[1]}]", "", 0,
		  "pools[0].windows[0].days: must be a list of Mon, Tue, Wed, Thu, Fri, Sat, Sun" },
		{ "'waves':true", "", 0, "pools[0].waves: must be a list" },
		{ "'waves':['canary']", "", 0, "pools[0].waves[0]: must be an object" },
		{ "'waves':[{'count':1}]", "", 0, "pools[0].waves[0].name: is missing" },
		{ "'waves':[{'name':'x','counts':1}]", "", 0,
		  "pools[0].waves[0].counts: unknown field; did you mean 'count'?" },
		{ "'waves':[{'name':'x','selector':{'a':'b'},'count':1}]", "", 0,
		  "pools[0].waves[0]: must have one of selector, percent and count" },
		{ "'waves':[{'name':'x','selector':{}}]", "", 0,
		  "pools[0].waves[0]: must have one of selector, percent and count" },
		{ "'waves':[{'name':'x','selector':'a=b'}]", "", 0,
		  "pools[0].waves[0].selector: must be an object of labels" },
		{ "'waves':[{'name':'x','percent':60},{'name':'y','percent':40}]", "", 0, NULL },
		{ "'waves':[{'name':'x','percent':60},{'name':'y','percent':41}]", "", 0,
		  "pools[0].waves: the percentages add up to 101%" },
		{ "'selector':[]", "", 0, "pools[0].selector: must be an object of labels" },
		{ "'selector':{'a':1}", "", 0, "pools[0].selector.a: must be a string" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_policy struct policy p = POLICY_NONE;
		auto_str char *items = repeat(rows[i].item, rows[i].count);
		const char *at = strstr(rows[i].fields, "%s");
		auto_str char *fields =
			at ? str_fmt("%.*s%s%s", (int)(at - rows[i].fields), rows[i].fields, items, at + 2) :
			     str_dup(rows[i].fields);
		expect_pool(fields, rows[i].error, &p);
	}
}

static void waves_by_field(void **state)
{
	(void)state;
	auto_policy struct policy p = POLICY_NONE;
	expect_pool("'waves':[{'name':'canary','count':2,'soak':'1h','maxFailures':1,'minDone':2},"
		    "{'name':'half','percent':50,'approval':'manual'},{'name':'last','selector':{'tier':'x'},"
		    "'approval':'auto','minDone':0}]",
		    NULL, &p);
	const struct wave *w = p.pools[0].waves;
	assert_int_equal(p.pools[0].wave_count, 3);
	assert_true(str_eq(w[0].name, "canary") && w[0].count == 2 && !w[0].percent && !w[0].terms);
	assert_true(w[0].soak == 3600 && w[0].failures == 1 && w[0].done == 2 && !w[0].is_manual);
	assert_true(w[1].percent == 50 && w[1].is_manual && w[1].failures == LIMIT_NONE && w[1].done == 1 &&
		    !w[1].soak);
	assert_true(w[2].terms == 1 && !w[2].is_manual && w[2].done == 0 && !w[2].count);
	auto_policy struct policy none = POLICY_NONE;
	expect_pool("'waves':[]", NULL, &none);
	assert_int_equal(none.pools[0].wave_count, 0);
	auto_str char *more = str_dup("'waves':[");
	for (int i = 0; i < WAVES_MOST; i++)
		str_add(&more, "%s{'name':'w%d','count':1}", i ? "," : "", i);
	auto_str char *most = str_fmt("%s]", more), *too_many = str_fmt("%s,{'name':'one-more','count':1}]", more);
	auto_policy struct policy full = POLICY_NONE, over = POLICY_NONE;
	expect_pool(most, NULL, &full);
	assert_int_equal(full.pools[0].wave_count, WAVES_MOST);
	expect_pool(too_many, "pools[0].waves: has 33 entries, at most 32 are allowed", &over);
}

static void times_of_the_day(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int minute; // -1 = there is no such time
	} rows[] = {
		{ "00:00", 0 },    { "00:59", 59 },  { "09:05", 545 }, { "19:30", 1170 }, { "20:00", 1200 },
		{ "23:59", 1439 }, { "24:00", -1 },  { "29:00", -1 },  { "30:00", -1 },   { "22:60", -1 },
		{ "2:00", -1 },    { "022:00", -1 }, { "22-00", -1 },  { "22:0", -1 },    { "ab:cd", -1 },
		{ "1::30", -1 },   { "::::0", -1 },  { "12:3:", -1 },  { "12::0", -1 },   { "", -1 },
		{ "-1:00", -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_policy struct policy from = POLICY_NONE, to = POLICY_NONE;
		static const char must[] = "must be a time of the day in UTC such as \"22:00\"";
		auto_str char *one = str_fmt("'windows':[{'from':'%s','to':'%s'}]", rows[i].text,
					     rows[i].minute >= 0 ? rows[i].text : "05:00");
		auto_str char *other =
			str_fmt("'windows':[{'from':'05:00','to':'%s'},{'from':'01:00','to':'23:00'}]", rows[i].text);
		auto_str char *no_from = str_fmt("pools[0].windows[0].from: %s", must);
		auto_str char *no_to = str_fmt("pools[0].windows[0].to: %s", must);
		expect_pool(one, rows[i].minute < 0 ? no_from : NULL, &from);
		expect_pool(other, rows[i].minute < 0 ? no_to : NULL, &to);
		if (rows[i].minute < 0)
			continue;
		expect(from.pools[0].windows[0].from == (unsigned)rows[i].minute, rows[i].text);
		expect(to.pools[0].windows[0].to == (unsigned)rows[i].minute, rows[i].text);
	}
	auto_policy struct policy p = POLICY_NONE;
	expect_pool("'windows':[{'to':'05:00'}]",
		    "pools[0].windows[0].from: must be a time of the day in UTC such as \"22:00\"", &p);
}

static void days_of_the_week(void **state)
{
	(void)state;
	static const struct {
		const char *days;
		uint8_t bits;
	} rows[] = {
		{ "", 0x7f },
		{ ",'days':[]", 0x7f },
		{ ",'days':['Mon']", 1 },
		{ ",'days':['Tue','Tue']", 2 },
		{ ",'days':['Wed']", 4 },
		{ ",'days':['Thu']", 8 },
		{ ",'days':['Fri']", 16 },
		{ ",'days':['Sat']", 32 },
		{ ",'days':['Sun']", 64 },
		{ ",'days':['Sun','Mon','Fri']", 64 | 16 | 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_policy struct policy p = POLICY_NONE;
		auto_str char *fields = str_fmt("'windows':[{'from':'01:00','to':'05:00'%s}]", rows[i].days);
		expect_pool(fields, NULL, &p);
		expect(p.pools[0].windows[0].days == rows[i].bits, rows[i].days);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times),
		cmocka_unit_test(deadlines_by_name),
		cmocka_unit_test(limits),
		cmocka_unit_test(numbers),
		cmocka_unit_test(targets),
		cmocka_unit_test(words_and_texts),
		cmocka_unit_test(the_longest_text),
		cmocka_unit_test(lists),
		cmocka_unit_test(waves_by_field),
		cmocka_unit_test(times_of_the_day),
		cmocka_unit_test(days_of_the_week),
	};
	return cmocka_run_group_tests_name("fields", tests, NULL, NULL);
}
