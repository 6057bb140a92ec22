// SPDX-License-Identifier: Apache-2.0
// Which wave a node is of, when a wave is complete, and what opens the next one.
#include "tests/unit/rollout_line.h"

static const char eight[] = "queued queued queued queued queued queued queued queued";

static void two_waves(void)
{
	waves[0] = (struct wave){ .name = "canary", .terms = 1, .failures = LIMIT_NONE, .done = 1 };
	waves[1] = (struct wave){ .name = "more", .terms = 2, .failures = LIMIT_NONE, .done = 1 };
	pools[0].wave_count = 2;
}

// What was decided once stays, as long as the target is the same; then the label of the node, then the selector.
static void what_decides_first(void **state)
{
	(void)state;
	enum { CANARY, MORE, REST };
	static const struct {
		const char *name, *word, *assigned, *label;
		bool is_other_target;
		unsigned wave;
	} rows[] = {
		{ "nothing", "queued", "", "", false, REST },
		{ "the selector", "queued+B", "", "", false, MORE },
		{ "the label before the selector", "queued+B", "", "canary", false, CANARY },
		{ "what was decided before the label", "queued+A", "more", "canary", false, MORE },
		{ "it was of the rest", "queued+A", "rest", "canary", false, REST },
		{ "of another target's", "queued+A", "more", "", true, CANARY },
		{ "of another target's, and a label", "queued", "canary", "more", true, MORE },
		{ "a wave that is gone", "queued+A", "gone", "", false, CANARY },
		{ "a label of no wave", "queued+B", "", "gone", false, MORE },
		{ "a label of no wave, and no selector", "queued", "", "gone", false, REST },
	};
	two_waves();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		plan(rows[i].word);
		memcpy(nodes[0].record.wave, rows[i].assigned, strlen(rows[i].assigned));
		memcpy(nodes[0].facts.wave, rows[i].label, strlen(rows[i].label));
		nodes[0].record.target = rows[i].is_other_target ? old : target;
		plan_again();
		auto_str char *row = str_fmt("%s: %u", rows[i].name, slots.node_plans[0].wave);
		expect(slots.node_plans[0].wave == rows[i].wave, row);
		assert_string_equal(policy_wave_name(&pools[0], slots.node_plans[0].wave),
				    rows[i].wave == REST ? "rest" : waves[rows[i].wave].name);
	}
}

static unsigned in_wave(unsigned wave)
{
	unsigned in = 0;
	for (size_t i = 0; i < count; i++)
		in += slots.node_plans[i].wave == wave;
	return in;
}

// As many as it says, of which those count that a label put there; groups whole, and nobody who is skipped.
static void waves_by_count(void **state)
{
	(void)state;
	static const struct {
		unsigned count;
		const char *line;
		unsigned first;
	} rows[] = {
		{ 1, eight, 1 },
		{ 3, eight, 3 },
		{ 8, eight, 8 },
		{ 20, eight, 8 },
		{ 1, "queued+ga queued+ga", 2 },
		{ 2, "queued+ga queued+ga queued+gb queued+gb", 2 },
		{ 3, "queued+ga queued+ga queued+gb queued+gb", 4 }, // whoever goes with them
		{ 2, "queued+skip queued+skip queued queued+skip", 1 },
		{ 1, "queued+ga queued+ga+skip", 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		waves[0] = (struct wave){ .name = "canary", .count = rows[i].count, .failures = LIMIT_NONE };
		pools[0].wave_count = 1;
		plan(rows[i].line);
		unsigned first = in_wave(0);
		auto_str char *row = str_fmt("%u of %s: %u", rows[i].count, rows[i].line, first);
		expect(first == rows[i].first, row);
	}
	waves[0].count = 3;
	for (size_t labelled = 0; labelled <= 5; labelled++) {
		plan(eight);
		for (size_t i = 0; i < labelled; i++)
			memcpy(nodes[7 - i].facts.wave, "canary", 7);
		plan_again();
		assert_int_equal(in_wave(0), labelled > 3 ? labelled : 3);
	}
}

// One wave after the other draws from those that are left, each with a luck of its own.
static void several_waves_by_count(void **state)
{
	(void)state;
	waves[0] = (struct wave){ .name = "one", .count = 2, .failures = LIMIT_NONE };
	waves[1] = (struct wave){ .name = "two", .count = 3, .failures = LIMIT_NONE };
	pools[0].wave_count = 2;
	plan(eight);
	assert_true(in_wave(0) == 2 && in_wave(1) == 3 && in_wave(2) == 3);
	bool was_first[8], is_same = true;
	for (size_t i = 0; i < 8; i++)
		was_first[i] = slots.node_plans[i].wave == 0;
	memcpy(waves[0].name, "uno", 4); // another name, other canaries: not the same ones die each time
	plan(eight);
	for (size_t i = 0; i < 8; i++)
		is_same = is_same && was_first[i] == (slots.node_plans[i].wave == 0);
	assert_false(is_same);
}

// Nothing is stored of those who wait: an update of the coordinator must not draw others in the middle of a rollout.
static void the_draw_is_the_same_in_each_version(void **state)
{
	(void)state;
	static const struct {
		struct wave wave;
		const char *line, *want; // a digit a node
	} rows[] = {
		{ { .name = "canary", .count = 3, .failures = LIMIT_NONE }, eight, "01010111" },
		{ { .name = "part", .percent = 40, .failures = LIMIT_NONE }, eight, "01111111" },
		{ { .name = "canary", .count = 2, .failures = LIMIT_NONE },
		  "queued+ga queued+gb queued+gc queued+gd queued+ga queued+gb",
		  "011101" },
	};
	pools[0].wave_count = 1;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *got = str_dup("");
		waves[0] = rows[i].wave;
		plan(rows[i].line);
		for (size_t n = 0; n < count; n++)
			str_add(&got, "%u", slots.node_plans[n].wave);
		assert_string_equal(got, rows[i].want);
	}
}

static char *line_of(const char *word, unsigned node_count)
{
	char *line = str_dup(word);
	for (unsigned i = 1; i < node_count; i++)
		str_add(&line, " %s", word);
	return line;
}

// By hash, so near enough; all is all, and what is left over is the rest.
static void waves_by_percent(void **state)
{
	(void)state;
	enum { NODES = 400, OFF = 40 };
	static const struct {
		unsigned percent[3], want[4];
	} rows[] = {
		{ { 100 }, { 400, 0 } },           { { 50, 50 }, { 200, 200, 0 } },
		{ { 25, 25 }, { 100, 100, 200 } }, { { 10, 20, 70 }, { 40, 80, 280 } },
		{ { 0, 50 }, { 0, 200, 200 } },
	};
	auto_str char *line = line_of("queued", NODES);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pools[0].wave_count = 0;
		for (unsigned w = 0; w < 3; w++) {
			waves[w] = (struct wave){ .name = "w", .percent = rows[i].percent[w], .failures = LIMIT_NONE };
			waves[w].name[1] = (char)('0' + w);
			waves[w].terms = rows[i].percent[w] ? 0 : 8; // one that nobody is in
			pools[0].wave_count += rows[i].percent[w] || w == 0;
		}
		plan(line);
		for (unsigned w = 0; w <= pools[0].wave_count; w++) {
			int off = (int)in_wave(w) - (int)rows[i].want[w];
			auto_str char *row = str_fmt("row %zu, wave %u: %u", i, w, in_wave(w));
			expect(rows[i].want[w] ? off >= -OFF && off <= OFF : !off, row);
		}
	}
	waves[0].percent = 100;
	pools[0].wave_count = 1;
	plan(line);
	assert_int_equal(in_wave(0), NODES);
}

// A group is of the first wave that any of it is of; one that is skipped draws nobody along.
static void waves_of_groups(void **state)
{
	(void)state;
	static const struct {
		const char *line, *want; // digits
	} rows[] = {
		{ "queued+ga+B queued+ga+A queued", "002" },
		{ "queued+ga+A queued+ga+B queued+ga", "000" },
		{ "queued+ga queued+ga+B queued+gb+A", "110" },
		{ "queued+ga+B queued+ga+A+skip", "10" },
		{ "queued+ga queued+gb queued+ga queued+gb+B", "2121" },
	};
	two_waves();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *got = str_dup("");
		plan(rows[i].line);
		for (size_t n = 0; n < count; n++)
			str_add(&got, "%u", slots.node_plans[n].wave);
		if (!str_eq(got, rows[i].want))
			fail_msg("%s: %s", rows[i].line, got);
	}
	// Drawn by the group's name: whoever joins it later is where it is.
	waves[0] = (struct wave){ .name = "half", .percent = 50, .failures = LIMIT_NONE };
	pools[0].wave_count = 1;
	plan("queued+ga queued+gb queued+gc queued+gd queued+ge queued+gf queued+gg queued+gh "
	     "queued+ga queued+gb queued+gc queued+gd queued+ge queued+gf queued+gg queued+gh");
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(slots.node_plans[i].wave, slots.node_plans[i + 8].wave);
	assert_true(in_wave(0) > 0 && in_wave(0) < 16);
}

// Of whom nothing more is to be expected holds the wave up no longer, well or not (T72, T73).
static void when_a_wave_is_complete(void **state)
{
	(void)state;
	static const struct {
		const char *word;
		bool is_complete;
	} rows[] = {
		{ "done+A", true },
		{ "done+A+down", true },
		{ "queued+A", false },
		{ "queued+A+down", true },
		{ "queued+A+paused", true },
		{ "queued+A+cordon", true },
		{ "queued+A+ours", false },
		{ "idle+A", false },
		{ "idle+A+well", true },
		{ "idle+A+failed", true },
		{ "idle+A+skip", true },
		{ "idle+A+paused", true },
		{ "idle+A+down", true },
		{ "rolledback+A+failed", true },
		{ "rolledback+A", false }, // it is tried again
		{ "staging+A", false },
		{ "staging+A+down", false },
		{ "loading+A", false },
		{ "cordoned+ours+A", false },
		{ "waiting+ours+A", false },
		{ "evicting+ours+A", false },
		{ "replacing+ours+A", false },
		{ "validating+ours+A", false },
		{ "restoring+ours+A", false },
		{ "releasing+ours+A", false },
		{ "failed+ours+A", true },
		{ "held+A", true },
		{ "unknown+A", true },
		// A group waits for one of whom nothing is to be expected, so nothing is of it either.
		{ "queued+A+ga held+A+ga", true },
		{ "queued+A+ga queued+A+ga", false },
		{ "queued+A+ga done+A+ga", false },
		{ "queued+A+ga held+A+ga+skip", false },
		{ "queued+A+ga queued+A+ga+down", true },
		{ "queued+A+ga queued+A+ga+paused queued+A", false },
	};
	two_waves();
	waves[0].soak = 600;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *line = str_fmt("%s queued+B", rows[i].word);
		plan(line);
		expect(slots.sums[0].is_wave_complete == rows[i].is_complete, rows[i].word);
		expect(slots.rollouts[0].wave == 0, rows[i].word);
	}
}

struct step { // from one plan to the next
	const char *name, *word;
	unsigned soak, done, approved;
	bool is_manual, is_halted;
	int64_t soaked; // seconds; 0 = it does not soak yet
	unsigned wave;
	int64_t soaks;         // that it does then; 0 = it does not
	enum reason_code shut; // why the next one does not open
};
static const struct step steps[] = {
	{ "complete, without a soak", "done+A", 0, 1, 0, false, false, 0, 1, 0, REASON_NONE },
	{ "complete: it begins to soak", "done+A", 600, 1, 0, false, false, 0, 0, 0, REASON_NONE },
	{ "a second is left of the soak", "done+A", 600, 1, 0, false, false, 599, 0, 599, REASON_NONE },
	{ "it has soaked", "done+A", 600, 1, 0, false, false, 600, 1, -1, REASON_NONE },
	{ "not complete any more: it soaks anew", "queued+A", 600, 1, 0, false, false, 599, 0, -1, REASON_NONE },
	{ "halted: it soaks anew", "done+A", 600, 1, 0, false, true, 600, 0, -1, REASON_NONE },
	{ "the next one needs somebody", "done+A", 600, 1, 0, true, false, 900, 0, 900, REASON_WAVE_APPROVAL },
	{ "who is not asked before it has soaked", "done+A", 600, 1, 0, true, false, 599, 0, 599, REASON_NONE },
	{ "who said so", "done+A", 600, 1, 1, true, false, 900, 1, -1, REASON_NONE },
	{ "and does not shorten the soak", "done+A", 600, 1, 1, true, false, 599, 0, 599, REASON_NONE },
	{ "nothing was proven", "held+A", 600, 1, 0, false, false, 600, 0, -1, REASON_WAVE_UNTESTED },
	{ "nothing had to be", "held+A", 0, 0, 0, false, false, 0, 1, -1, REASON_NONE },
	{ "one of two", "done+A held+A", 0, 2, 0, false, false, 0, 0, -1, REASON_WAVE_UNTESTED },
	{ "two of two", "done+A done+A", 0, 2, 0, false, false, 0, 1, -1, REASON_NONE },
	{ "nothing was proven, and somebody takes it upon himself", "held+A", 0, 1, 1, false, false, 0, 1, -1,
	  REASON_NONE },
	{ "of the next wave nobody counts", "held+A done+B", 0, 1, 0, false, false, 0, 0, -1, REASON_WAVE_UNTESTED },
};

static void what_opens_the_next_wave(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		const struct step *s = &steps[i];
		setup(NULL);
		two_waves();
		waves[0].soak = s->soak;
		waves[0].done = s->done;
		waves[1].is_manual = s->is_manual;
		rollouts[0].is_halted = s->is_halted;
		rollouts[0].halt.code = s->is_halted ? REASON_POOL_FAILURES : REASON_NONE;
		rollouts[0].approved = s->approved;
		rollouts[0].soak_since = s->soaked ? NOW - s->soaked : 0;
		auto_str char *line = str_fmt("%s queued+B", s->word);
		plan(line);
		const struct rollout *r = &slots.rollouts[0];
		bool begins = s->soak && !s->soaked && s->wave == 0 && !s->shut;
		int64_t since = begins ? NOW : s->soaks > 0 ? NOW - s->soaks : 0;
		expect(r->wave == s->wave, s->name);
		expect(r->soak_since == since, s->name);
		expect(slots.sums[0].shut == s->shut, s->name);
		expect(!s->shut || slots.sums[0].blocked.code == s->shut, s->name);
		expect(slots.node_plans[count - 1].refused == (s->is_halted ? REASON_HALTED :
							       s->shut      ? s->shut :
							       s->wave == 0 ? REASON_WAVE_CLOSED :
									      REASON_NONE) ||
			       !str_eq(line + strlen(line) - 8, "queued+B"),
		       s->name);
	}
}

// The last one is the rest; the target is the stable one when that is complete, and something proved it.
static void what_is_stable(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		unsigned wave;
		bool is_halted, is_stable;
	} rows[] = {
		{ "done+A done+B done", 2, false, true },    { "done+A done+B held", 2, false, true },
		{ "done+A done+B queued", 2, false, false }, { "done+A done+B done", 2, true, false },
		{ "held+A held+B held", 2, false, false }, // nobody knows whether it works
		{ "done+A done+B done", 0, false, false }, // that wave is complete, the others have to follow
		{ "done+A done+B done", 1, false, false },
	};
	two_waves();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		rollouts[0].wave = rows[i].wave;
		rollouts[0].is_halted = rows[i].is_halted;
		rollouts[0].halt.code = rows[i].is_halted ? REASON_POOL_FAILURES : REASON_NONE;
		plan(rows[i].line);
		auto_str char *row = str_fmt("row %zu: %s", i, rows[i].line);
		expect(target_hash_eq(&slots.rollouts[0].stable, rows[i].is_stable ? &target : &old), row);
	}
}

// Each pool has its own wave, its own soak and its own nodes.
static void waves_of_two_pools(void **state)
{
	(void)state;
	two_waves();
	pools[0].terms = 1;
	pools[1].terms = 2;
	pools[1].wave_count = 2;
	policy.pool_count = 2;
	plan("done+A queued+B");
	assert_true(slots.sums[0].is_wave_complete && slots.sums[1].is_wave_complete);
	assert_int_equal(slots.sums[0].proven, 1);
	assert_int_equal(slots.sums[1].proven, 0);
	assert_true(slots.rollouts[0].wave == 1 && slots.rollouts[1].wave == 0);
	assert_true(!slots.sums[0].shut && slots.sums[1].shut == REASON_WAVE_UNTESTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_decides_first),       T(waves_by_count),
		T(several_waves_by_count),   T(waves_by_percent),
		T(waves_of_groups),          T(when_a_wave_is_complete),
		T(what_opens_the_next_wave), T(what_is_stable),
		T(waves_of_two_pools),       T(the_draw_is_the_same_in_each_version),
	};
	return cmocka_run_group_tests_name("waves", tests, NULL, NULL);
}
