// SPDX-License-Identifier: Apache-2.0
// When NVIDIA's upgrade controller is kept from a node, and when it is let go: every decision, and the receipt.
#include "cluster/driver_manager/upgrade_hold.h"
#include "cluster/node_state/states.h"
#include "tests/unit/test.h"

enum { NOW = 1800000000, SET = 7, HOUR = 3600 };

// Receipts: at rest, of the present target, of an earlier one; of this pod, of a dead one.
#define OF(pod_, set_, held)                                                                                  \
	{                                                                                                     \
		.is_held = (held), .pod = (char[]){ pod_ }, .set = (set_), .until_s = (set_) ? NOW + HOUR : 0 \
	}
static const struct upgrade_hold rests = OF("me", 0, true), of_dead = OF("dead", 0, true), held = OF("me", SET, true),
				 held_by_dead = OF("dead", SET, true), held_before = OF("me", SET - 1, true),
				 lifted = OF("me", SET, false), lifted_before = OF("me", SET - 1, false),
				 late = { .is_held = true, .pod = (char[]){ "me" }, .set = SET, .until_s = NOW },
				 damaged = { .is_held = true };
#define REQUIRED true
static const struct row {
	const char *text;
	const char *label;
	const struct upgrade_hold *receipt;
	bool is_required;
	enum upgrade_hold_when when;
	enum upgrade_hold_set set;
	enum upgrade_hold_proof proof;
	enum upgrade_hold_act act;
} rows[] = {
	{ "a first look asks whose node it is", NULL, NULL, false, HOLD_SERVING, HOLD_SET_UNREAD, 0, HOLD_ASK },
	{ "at rest it stands", NULL, NULL, false, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_REST },
	{ "nobody's DaemonSet", NULL, NULL, false, HOLD_SERVING, HOLD_SET_OTHER, 0, HOLD_NOTHING },
	{ "at rest nothing is asked or written", "true", &rests, false, HOLD_SERVING, HOLD_SET_UNREAD, 0,
	  HOLD_NOTHING },
	{ "a dead pod's is taken over", "true", &of_dead, false, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_REST },
	{ "a damaged receipt is", "true", &damaged, false, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_REST },
	{ "it was removed at rest: again", NULL, &rests, false, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_REST },
	{ "the controller gave up: at rest", "true", &held, false, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_REST },
	{ "it went on: at rest again", NULL, &lifted, false, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_REST },

	{ "somebody else's", "true", NULL, false, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_NOTHING },
	{ "somebody else's, required", "true", NULL, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, HOLD_PROVEN, HOLD_NOTHING },
	{ "somebody else's no", "false", NULL, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_NOTHING },
	{ "set by others once we had lifted ours", "true", &lifted, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, HOLD_PROVEN,
	  HOLD_NOTHING },
	{ "somebody else's, leaving", "true", NULL, false, HOLD_LEAVING, HOLD_SET_OTHER, 0, HOLD_NOTHING },
	{ "set by others, leaving", "true", &lifted, false, HOLD_LEAVING, HOLD_SET_OTHER, 0, HOLD_NOTHING },

	{ "a target: what is it?", "true", &rests, REQUIRED, HOLD_SERVING, HOLD_SET_UNREAD, 0, HOLD_ASK },
	{ "its deadline begins", "true", &rests, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_BEGIN },
	{ "nothing was held before", NULL, NULL, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_BEGIN },
	{ "another target than before", "true", &held_before, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_BEGIN },
	{ "lifted for the one before: back", NULL, &lifted_before, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, 0,
	  HOLD_BEGIN },
	{ "then it is proven", "true", &held, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_PROVE },
	{ "from where a dead one was", "true", &held_by_dead, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_PROVE },
	{ "proven", "true", &held, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, HOLD_PROVEN, HOLD_LIFT },
	{ "refused", "true", &held, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, HOLD_REFUSED, HOLD_KEEP },
	{ "refused, until the deadline", "true", &late, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, HOLD_REFUSED,
	  HOLD_LIFT },
	{ "after it nothing is tried", "true", &late, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_LIFT },
	{ "lifted, and the controller waits", NULL, &lifted, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_NOTHING },
	{ "somebody removed it: so be it", NULL, &held, REQUIRED, HOLD_SERVING, HOLD_SET_OURS, 0, HOLD_LIFT },
	{ "another image, or no DaemonSet", "true", &rests, REQUIRED, HOLD_SERVING, HOLD_SET_OTHER, 0, HOLD_FORGET },
	{ "the same while held", "true", &held, REQUIRED, HOLD_SERVING, HOLD_SET_OTHER, 0, HOLD_FORGET },
	{ "the same, not ours", NULL, NULL, REQUIRED, HOLD_SERVING, HOLD_SET_OTHER, 0, HOLD_NOTHING },

	{ "leaving: is there a successor?", "true", &rests, false, HOLD_LEAVING, HOLD_SET_UNREAD, 0, HOLD_ASK },
	{ "there is: for it", "true", &rests, false, HOLD_LEAVING, HOLD_SET_OURS, 0, HOLD_NOTHING },
	{ "there is, and a target is held", "true", &held, REQUIRED, HOLD_LEAVING, HOLD_SET_OURS, 0, HOLD_NOTHING },
	{ "there is none", "true", &rests, false, HOLD_LEAVING, HOLD_SET_OTHER, 0, HOLD_FORGET },
	{ "there is none for a target", "true", &held, REQUIRED, HOLD_LEAVING, HOLD_SET_OTHER, 0, HOLD_FORGET },
	{ "nor for what was lifted", NULL, &lifted, false, HOLD_LEAVING, HOLD_SET_OTHER, 0, HOLD_FORGET },
	{ "leaving without one", NULL, NULL, REQUIRED, HOLD_LEAVING, HOLD_SET_UNREAD, 0, HOLD_NOTHING },

	{ "a start holds nothing new", NULL, NULL, REQUIRED, HOLD_STARTING, HOLD_SET_UNREAD, 0, HOLD_NOTHING },
	{ "nor again", NULL, &lifted_before, REQUIRED, HOLD_STARTING, HOLD_SET_OURS, 0, HOLD_NOTHING },
	{ "and leaves what rests", "true", &of_dead, false, HOLD_STARTING, HOLD_SET_OURS, 0, HOLD_NOTHING },
	{ "unless it is for nobody", "true", &of_dead, false, HOLD_STARTING, HOLD_SET_OTHER, 0, HOLD_FORGET },
	{ "it goes on for a target", "true", &held_by_dead, REQUIRED, HOLD_STARTING, HOLD_SET_OURS, 0, HOLD_PROVE },
	{ "also for the next one", "true", &held_before, REQUIRED, HOLD_STARTING, HOLD_SET_OURS, 0, HOLD_BEGIN },
	{ "lifts it", "true", &held_by_dead, REQUIRED, HOLD_STARTING, HOLD_SET_OURS, HOLD_PROVEN, HOLD_LIFT },
	{ "or keeps it", "true", &held_by_dead, REQUIRED, HOLD_STARTING, HOLD_SET_OURS, HOLD_REFUSED, HOLD_KEEP },
	{ "and ends it", "true", &late, REQUIRED, HOLD_STARTING, HOLD_SET_OURS, 0, HOLD_LIFT },
};

static struct upgrade_hold_view view_of(const struct row *w)
{
	return (struct upgrade_hold_view){ .label = w->label,
					   .receipt = w->receipt,
					   .is_required = w->is_required,
					   .pod = "me",
					   .when = w->when,
					   .set = w->set,
					   .generation = SET,
					   .proof = w->proof,
					   .hold_s = HOUR,
					   .now_s = NOW };
}

static void every_decision(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct upgrade_hold_view v = view_of(&rows[i]);
		expect(upgrade_hold_decide(&v) == rows[i].act, rows[i].text);
	}
}

// Switched off: what is ours goes, and nothing is asked.
static void nothing_is_held_for_no_time(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct upgrade_hold_view v = view_of(&rows[i]);
		bool is_foreign = v.label && !(v.receipt && v.receipt->is_held);
		v.hold_s = 0;
		expect(upgrade_hold_decide(&v) == (v.receipt && !is_foreign ? HOLD_FORGET : HOLD_NOTHING),
		       rows[i].text);
	}
}

// Whatever is seen: a label that is not ours is never written, and one is lifted for a target only if that was proven,
// its deadline is over, or somebody else removed it.
static void the_laws_hold(void **state)
{
	(void)state;
	static const struct upgrade_hold *const receipts[] = { NULL,          &rests,       &of_dead, &held,
							       &held_by_dead, &held_before, &lifted,  &lifted_before,
							       &late,         &damaged };
	static const char *const labels[] = { NULL, "true", "false" };
	for (unsigned i = 0; i < 3 * 10 * 2 * 3 * 3 * 3; i++) {
		struct row w = { .label = labels[i % 3],
				 .receipt = receipts[i / 3 % 10],
				 .is_required = i / 30 % 2,
				 .when = (enum upgrade_hold_when)(i / 60 % 3),
				 .set = (enum upgrade_hold_set)(i / 180 % 3),
				 .proof = (enum upgrade_hold_proof)(i / 540 % 3) };
		const struct upgrade_hold_view v = view_of(&w);
		auto_str char *row = str_fmt("%u", i);
		enum upgrade_hold_act act = upgrade_hold_decide(&v);
		if (v.label && !(v.receipt && v.receipt->is_held))
			expect(act == HOLD_NOTHING, row);
		if (act == HOLD_LIFT)
			expect(v.set == HOLD_SET_OURS && (v.proof == HOLD_PROVEN || !v.label || v.receipt == &late),
			       row);
		if (v.when != HOLD_SERVING && !v.label)
			expect(act == HOLD_NOTHING || act == HOLD_ASK || act == HOLD_FORGET, row);
		if (v.set != HOLD_SET_UNREAD)
			expect(act != HOLD_ASK, row);
		if (v.receipt && v.set == HOLD_SET_OTHER && act == HOLD_NOTHING) // for nobody: only what is at rest
			expect((v.label && !v.receipt->is_held) || (v.receipt == &rests && v.when == HOLD_SERVING),
			       row);
	}
}

static void a_receipt_reads_back(void **state)
{
	(void)state;
	char pod[] = "driver-1", target[] = "r/k:2-os", reason[] = "E_NOT_FOUND: \"nobody\"\nhas it";
	const struct upgrade_hold all = { true, pod, target, reason, SET, NOW, NOW + HOUR }, none = { .is_held = true };
	auto_str char *text = upgrade_hold_text(&all), *rest = upgrade_hold_text(&none);
	auto_upgrade_hold struct upgrade_hold now = { 0 }, damage = { 0 }, rested = { 0 };
	upgrade_hold_parse(text, &now);
	assert_true(now.is_held && str_eq(now.pod, pod) && str_eq(now.target, target) && str_eq(now.reason, reason));
	assert_true(now.set == SET && now.since_s == NOW && now.until_s == NOW + HOUR);
	assert_non_null(strstr(text, UPGRADE_HELD)); // as the coordinator looks for it
	upgrade_hold_parse(rest, &rested);
	assert_true(rested.is_held && !rested.target && !rested.set && !rested.until_s);
	static const char *const bad[] = { "", "held", "[]", "{\"state\":7,\"until\":\"soon\"}",
					   "{\"state\":\"held\"" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		upgrade_hold_done(&damage);
		upgrade_hold_parse(bad[i], &damage);
		expect(damage.is_held && !damage.pod && !damage.set && !damage.until_s, bad[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_decision),
		cmocka_unit_test(nothing_is_held_for_no_time),
		cmocka_unit_test(the_laws_hold),
		cmocka_unit_test(a_receipt_reads_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
