// SPDX-License-Identifier: Apache-2.0
// What is written on a node, read back: round trips, and values that none of our programs wrote. T13, T62, T83, I9.
#include "cluster/coordinator/node_cache.h"
#include "cluster/node_state/annotations.h"
#include "cluster/rollout/node_patch.h"
#include "tests/unit/test.h"

static const struct record full = {
	.phase = PHASE_RESTORING,
	.has_phase = true,
	.seq = { 7, 42 },
	.target = { 0x123456789abcdef0, 1 },
	.stable = { 2, 0 },
	.previous = { 3, 0xffffffffffffffff },
	.failed = { 4, 5 },
	.go = { { 7, 41 }, VERB_RESTORE, { 3, 0xffffffffffffffff } },
	.receipt = { true, false, true, true, 2, 1800000123 },
	.baseline = "gpu=8,mig-1g.10gb.shared=56,mig-manager,operator-validator",
	.paused = 0xffff,
	.autoscaler = 3,
	.since = 1800000000,
	.deadline = 1800000600,
	.attempts = 2,
	.tries = 1,
	.reason = { REASON_PDB_BLOCKED, "ns/pod budget" },
	.reason_since = 1800000300,
	.outcome = PHASE_ROLLEDBACK,
	.pool = "h100",
	.wave = "canary",
	.retry = UINT64_MAX,
	.drains = { { 6, 7 }, 3, 2 },
	.leader = "a-namespace-may-have-as-many-letters-as-a-label-has-63-of-them-",
	.ordered = 1800000300,
};

static void put(struct node_state *m, const struct node_key *key, const char *value)
{
	if (key->is_label)
		node_state_label(m, key->name, value);
	else
		node_state_annotation(m, key->name, value);
}

static void round_trip(void **state)
{
	(void)state;
	struct node_state m;
	node_state_init(&m, "n", "u");
	for (const struct node_key *key = node_keys; key->name; key++) {
		char text[KEY_TEXT] = "";
		key->text(&full, text, sizeof(text));
		expect(*text, key->name);
		expect(strlen(text) <= KEY_VALUE_MOST, key->name);
		put(&m, key, text);
	}
	assert_memory_equal(&m.record, &full, sizeof(full));
}

// Of every key: each value with one byte more or another byte in it means either nothing or what it writes again.
static void t83_strict_parsing(void **state)
{
	(void)state;
	for (const struct node_key *key = node_keys; key->name; key++) {
		char text[KEY_TEXT] = "";
		key->text(&full, text, sizeof(text));
		size_t len = strlen(text);
		for (size_t at = 0; at <= len; at++)
			for (const char *bytes = " ,:.-\"{}\n\x7f"
						 "0aZ9";
			     *bytes; bytes++) {
				char bent[KEY_TEXT] = "", again[KEY_TEXT] = "";
				struct node_state m;
				snprintf(bent, sizeof(bent), "%.*s%c%s", (int)at, text, *bytes,
					 text + at + (at < len && *bytes == '0'));
				node_state_init(&m, "n", "u");
				put(&m, key, bent);
				assert_true(!m.record.malformed || m.record.phase == PHASE_UNKNOWN);
				key->text(&m.record, again, sizeof(again));
				if (!m.record.malformed && strcmp(bent, again) != 0)
					fail_msg("%s: '%s' was read as '%s'", key->name, bent, again);
			}
	}
}

static const struct {
	const char *key, *value;
} hostile[] = {
	{ "kmodsmith.io/state", "foo" },
	{ "kmodsmith.io/state", "queued " },
	{ "kmodsmith.io/state", "Queued" },
	{ "kmodsmith.io/state", "unknown" },
	{ "kmodsmith.io/state", "" },
	{ "kmodsmith.io/seq", "1.-1" },
	{ "kmodsmith.io/seq", "1.4294967296" },
	{ "kmodsmith.io/seq", "1" },
	{ "kmodsmith.io/seq", "01.1" },
	{ "kmodsmith.io/target", "0000000000000000-0000000000000000" },
	{ "kmodsmith.io/target", "none" },
	{ "kmodsmith.io/go", "1.1:unload:none" },
	{ "kmodsmith.io/go", "1.1:replace" },
	{ "kmodsmith.io/go", "1.1:replace:none:" },
	{ "kmodsmith.io/cordon", "{\"by\":\"kmodsmith\",\"prior\":false}" },
	{ "kmodsmith.io/cordon", "{\"by\":\"other\",\"prior\":false,\"touched\":false,\"again\":0,\"until\":1}" },
	{ "kmodsmith.io/cordon", "true" },
	{ "kmodsmith.io/paused", "dcgm,dcgm" },
	{ "kmodsmith.io/paused", "rm" },
	{ "kmodsmith.io/deadline", "tomorrow" },
	{ "kmodsmith.io/deadline", "1970-01-01T00:00:00Z" },
	{ "kmodsmith.io/attempts", "65536.0" },
	{ "kmodsmith.io/reason", "because" },
	{ "kmodsmith.io/reason", "none" },
	{ "kmodsmith.io/rollout", "../../etc"
				  "\x01" },
	{ "kmodsmith.io/outcome", "evicting" },
	{ "kmodsmith.io/retry-seen", "0" },
	{ "kmodsmith.io/coordinator", "a b" },
	{ "kmodsmith.io/drains", "1.0" },
	{ "kmodsmith.io/drains", "0.0:0000000000000001-0000000000000001" },
};

static void t13_unknown_state(void **state)
{
	(void)state;
	static struct pool pool = { .attempts = 2 };
	struct rollout rollout = { .target = { 1, 0 } };
	for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
		struct node_state m;
		struct decision d;
		bool is_label = str_eq(hostile[i].key, "kmodsmith.io/state");
		node_state_init(&m, "n", "u");
		node_state_label(&m, "kmodsmith.io/state", "evicting");
		(is_label ? node_state_label : node_state_annotation)(&m, hostile[i].key, hostile[i].value);
		expect(m.record.phase == PHASE_UNKNOWN, hostile[i].value);
		struct view v = {
			.m = &m, .pool = &pool, .rollout = &rollout, .wave = "", .epoch = 1, .now = 1800000000
		};
		transition(&v, &d);
		expect(!d.next.has_phase || d.next.phase == m.record.phase, hostile[i].value);
		expect(d.waits.code == REASON_UNKNOWN_STATE, hostile[i].value);
		auto_node_patch struct node_patch none = { 0 };
		node_patch_make(&m, &d, true, &none);
		expect(none.count == 0, hostile[i].value);
		node_state_annotation(&m, "kmodsmith.io/retry", "please");
		transition(&v, &d);
		auto_node_patch struct node_patch patch = { 0 };
		node_patch_make(&m, &d, true, &patch);
		bool is_written = false;
		for (size_t c = 0; c < patch.count; c++)
			is_written = is_written || str_eq(patch.changes[c].key, hostile[i].key);
		expect(is_written && d.next.phase == PHASE_IDLE, hostile[i].value);
	}
}

static void agents_may_write_anything(void **state)
{
	(void)state;
	static const char *const values[] = { "",
					      ":",
					      "::",
					      "1.1",
					      "1.1:stage",
					      "1.1:stage:done:",
					      "1.1:stage:failed",
					      "1.1:stage:failed:none:x",
					      "1.1:stage:failed:permanent:a b",
					      "x.1:stage:done",
					      "foreign",
					      "none none",
					      "-1",
					      "99999999999",
					      "0 0 0",
					      "\xff\xfe",
					      "aaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb:no",
					      "aaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb:okay",
					      "aaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb:good" };
	static const char *const names[] = { "ack", "loaded", "store", "holders", "health", "wants" };
	for (size_t n = 0; n < ARRAY_SIZE(names); n++)
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			struct node_state m;
			auto_str char *key = str_fmt("kmodsmith.io/agent.%s", names[n]);
			node_state_init(&m, "n", "u");
			node_state_annotation(&m, key, values[i]);
			expect(m.record.phase == PHASE_IDLE && m.report.ack.result == RESULT_NONE, values[i]);
			expect(!m.report.has_loaded && m.report.health.result == RESULT_NONE, values[i]);
			expect(m.report.holders < 0 || str_eq(values[i], "0 0 0"), values[i]);
		}
	struct node_state m;
	node_state_init(&m, "n", "u");
	node_state_annotation(&m, "kmodsmith.io/agent.ack", "3.9:replace:failed:permanent:E_LOAD");
	node_state_annotation(&m, "kmodsmith.io/agent.loaded", "aaaaaaaaaaaaaaaa-0000000000000000 535.1 S1 6.1.0-56");
	node_state_annotation(&m, "kmodsmith.io/agent.holders", "2 17 uid-1 uid-2");
	assert_int_equal(m.report.ack.failing, FAILING_PERMANENT);
	assert_string_equal(m.report.ack.code, "E_LOAD");
	assert_string_equal(m.report.version, "535.1");
	assert_int_equal(m.report.holders, 2);
}

// NVIDIA's operator says by an annotation that it upgrades a node's driver; a label of that name counts, too.
static void who_upgrades_a_node(void **state)
{
	(void)state;
	static const struct {
		const char *note, *label; // NULL = absent
		bool is_foreign;
	} rows[] = { { "true", NULL, true },    { NULL, "true", true },   { "false", "true", true },
		     { "true", "false", true }, { "false", NULL, false }, { NULL, NULL, false } };
	auto_strv struct strv record = { 0 };
	const struct policy none = POLICY_NONE;
	node_cache_record(&none, false, &record);
	assert_true(strv_has(&record, "metadata annotations nvidia.com/gpu-driver-upgrade*"));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_state m;
		node_state_init(&m, "n", "u");
		if (rows[i].note)
			node_state_annotation(&m, "nvidia.com/gpu-driver-upgrade-enabled", rows[i].note);
		if (rows[i].label)
			node_state_label(&m, "nvidia.com/gpu-driver-upgrade-enabled", rows[i].label);
		assert_int_equal(m.facts.is_foreign, rows[i].is_foreign);
	}
}

// I9, T61: nothing but our keys and what we borrowed.
static void i9_whose_keys(void **state)
{
	(void)state;
	struct node_state m = { .name = "n", .uid = "u", .record = full, .facts = { .is_unschedulable = true } };
	struct decision d = { .rule = transition_next_rule(NULL, PHASE_RESTORING), .next = full };
	auto_node_patch struct node_patch same = { 0 };
	node_patch_make(&m, &d, true, &same);
	assert_int_equal(same.count, 0);
	d.next = (struct record){ .phase = PHASE_RELEASING, .has_phase = true, .seq = { 7, 43 } };
	d.cordon = CORDON_OFF;
	auto_node_patch struct node_patch patch = { 0 };
	node_patch_make(&m, &d, true, &patch);
	assert_true(patch.tests_cordon && patch.was_cordoned && patch.seq.n == 42);
	unsigned given = 0;
	for (size_t i = 0; i < patch.count; i++) {
		const struct change *c = &patch.changes[i];
		bool is_operand = str_starts(c->key, "nvidia.com/gpu.deploy.");
		bool is_hint = str_starts(c->key, "cluster-autoscaler.") || str_starts(c->key, "karpenter.sh/");
		assert_true(is_operand || is_hint || str_starts(c->key, KEY_PREFIX));
		assert_false(str_starts(c->key, KEY_PREFIX "agent."));
		assert_true(!is_operand || str_eq(c->value, "true"));
		assert_true(!is_hint || !c->value);
		given += is_operand;
	}
	assert_int_equal(given, 16);
}

// NVIDIA's label says at most upgrade-done, where that is so, where the policy wants it, and where the node is ours.
static void the_mirrored_label(void **state)
{
	(void)state;
	static const char *const absent = "", *const kept = "-";
	const struct {
		enum node_phase from, to;
		enum upgrade was;
		bool has_mirror, is_foreign;
		const char *then; // what is written
	} rows[] = {
		{ PHASE_RELEASING, PHASE_DONE, UPGRADE_NONE, true, false, "upgrade-done" },
		{ PHASE_RELEASING, PHASE_DONE, UPGRADE_NONE, false, false, kept },
		{ PHASE_RELEASING, PHASE_DONE, UPGRADE_NONE, true, true, kept },
		{ PHASE_RELEASING, PHASE_DONE, UPGRADE_DONE, true, false, kept },
		{ PHASE_DONE, PHASE_STAGING, UPGRADE_DONE, true, false, absent },
		{ PHASE_DONE, PHASE_STAGING, UPGRADE_DONE, false, false, kept },
		{ PHASE_DONE, PHASE_HELD, UPGRADE_DONE, true, true, kept },
		{ PHASE_DONE, PHASE_STAGING, UPGRADE_OTHER, true, false, kept },
		{ PHASE_STAGING, PHASE_HELD, UPGRADE_NONE, true, false, kept },
		{ PHASE_RESTORING, PHASE_ROLLEDBACK, UPGRADE_NONE, true, false, kept },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_state m = { .name = "n", .uid = "u", .record = full };
		struct decision d = { .rule = transition_next_rule(NULL, rows[i].from), .next = full };
		const char *then = kept;
		m.record.phase = rows[i].from;
		d.next.phase = rows[i].to;
		m.facts.upgrade = rows[i].was;
		m.facts.is_foreign = rows[i].is_foreign;
		auto_node_patch struct node_patch patch = { 0 };
		node_patch_make(&m, &d, rows[i].has_mirror, &patch);
		for (size_t c = 0; c < patch.count; c++)
			if (str_eq(patch.changes[c].key, UPGRADE_LABEL))
				then = patch.changes[c].value ? patch.changes[c].value : absent;
		expect(str_eq(then, rows[i].then), node_phase_info(rows[i].to)->name);
		expect(patch.tests_upgrade == (then == absent), node_phase_info(rows[i].to)->name);
	}
}

// A driver container of ours that died may have left NVIDIA's label; without its receipt it is a wish of people.
static void whose_skip_counts(void **state)
{
	(void)state;
	static const struct {
		const char *own, *label, *receipt;
		bool is_skipped;
	} rows[] = {
		{ NULL, NULL, NULL, false },
		{ "true", NULL, NULL, true },
		{ "false", "false", NULL, false },
		{ NULL, "true", NULL, true },
		{ NULL, "true", "{" UPGRADE_HELD ",\"pod\":\"p\"}", false },
		{ NULL, "true", "{\"state\":\"lifted\",\"reason\":\"{\\\"state\\\":\\\"held\\\"}\"}", true },
		{ "true", "true", "{" UPGRADE_HELD "}", true },
		{ NULL, NULL, "{" UPGRADE_HELD "}", false },
	};
	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		struct node_state m;
		size_t at = i / 2;
		node_state_init(&m, "n", "u");
		if (rows[at].receipt && i % 2)
			node_state_annotation(&m, UPGRADE_HOLD, rows[at].receipt);
		if (rows[at].own)
			node_state_label(&m, "kmodsmith.io/skip", rows[at].own);
		if (rows[at].label)
			node_state_label(&m, UPGRADE_SKIP, rows[at].label);
		if (rows[at].receipt && i % 2 == 0)
			node_state_annotation(&m, UPGRADE_HOLD, rows[at].receipt);
		expect(m.facts.is_skipped == rows[at].is_skipped, rows[at].receipt);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),          cmocka_unit_test(t83_strict_parsing),
		cmocka_unit_test(t13_unknown_state),   cmocka_unit_test(agents_may_write_anything),
		cmocka_unit_test(who_upgrades_a_node), cmocka_unit_test(i9_whose_keys),
		cmocka_unit_test(the_mirrored_label),  cmocka_unit_test(whose_skip_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
