// SPDX-License-Identifier: Apache-2.0
// A node at rest: where it is to go, why it does not begin, and what exactly is written when it does; and what every
// write has in common. D2, D3, T03, T33, T71, T75.
#include "tests/unit/rollout_said.h"

#define DAY (24 * 60 * 60)

static void pinned(struct view *v)
{
	(void)v;
	m.facts.is_pinned = true;
	m.facts.pin = sides[OTHER];
}
static void pinned_to_nothing_known(struct view *v)
{
	(void)v;
	m.facts.is_pinned = true;
}
static void pinned_without_a_pool(struct view *v)
{
	pinned(v);
	v->pool = NULL;
	v->rollout = NULL;
}
static void drained(struct view *v, uint16_t failed, uint16_t repeated)
{
	(void)v;
	m.record.drains.target_hash = sides[NEW];
	m.record.drains.failed = failed;
	m.record.drains.repeated = repeated;
}
static void drained_five_times(struct view *v)
{
	drained(v, 5, 0);
	m.record.reason = (struct reason){ REASON_DRAIN_TIMEOUT, "default/db" };
}
static void drained_four_times(struct view *v)
{
	drained(v, 4, 0);
	m.record.reason = (struct reason){ REASON_DRAIN_TIMEOUT, "default/db" };
}
static void drained_once(struct view *v)
{
	drained(v, 1, 0);
}
static void drained_once_and_told(struct view *v)
{
	drained(v, 1, 0);
	m.record.reason = (struct reason){ REASON_PDB_BLOCKED, "default/db" };
}
static void drained_five_times_for_another(struct view *v)
{
	drained(v, 5, 5);
	m.record.drains.target_hash = sides[OTHER];
}
static void once_is_enough(struct view *v)
{
	drained(v, 1, 0);
	pool.drain_attempts = 1;
}
static void repeated_four_times(struct view *v)
{
	drained(v, 0, 4);
}
static void repeated_three_times(struct view *v)
{
	drained(v, 0, 3);
}
static void repeated_for_another(struct view *v)
{
	drained(v, 0, 4);
	m.record.drains.target_hash = sides[OTHER];
}
static void tried_once(struct view *v)
{
	(void)v;
	m.record.attempts = 1;
	m.record.reason = (struct reason){ .code = REASON_REPLACE_TIMEOUT };
}
static void stage_failed(struct view *v)
{
	(void)v;
	m.record.reason = (struct reason){ REASON_STAGE_FAILED, "E_NETWORK" };
}
static void in_a_wave(struct view *v)
{
	(void)v;
	memcpy(m.record.wave, "canary", sizeof("canary"));
	memcpy(m.record.pool, "gpu", sizeof("gpu"));
}
static void at_the_end_of_the_numbers(struct view *v)
{
	(void)v;
	m.report.ack.seq = (struct seq){ 1, UINT32_MAX };
}
static void under_a_new_leader(struct view *v)
{
	v->epoch = 7;
}
static void ordered_behind_its_writes(struct view *v)
{
	(void)v;
	m.record.go.seq = (struct seq){ 1, 40 };
}
static void answered_behind_its_orders(struct view *v)
{
	(void)v;
	m.report.ack.seq = (struct seq){ 2, 7 };
}
static void seen(enum reason_code code, const char *object)
{
	m.facts.seen.blocker.code = code;
	memset(m.facts.seen.blocker.object, 0, OBJECT_TEXT);
	snprintf(m.facts.seen.blocker.object, OBJECT_TEXT, "%.*s", OBJECT_TEXT - 1, object);
}
static void odd_name(struct view *v)
{
	(void)v;
	seen(REASON_PODS_LEFT, "a\tb\x7f\xc3\xa4 ~!");
}
static void long_name(struct view *v)
{
	(void)v;
	seen(REASON_PODS_LEFT,
	     "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
	     "1234567890");
}
static void blocked_by_nobody_knows(struct view *v)
{
	(void)v;
	m.facts.seen.blocked_since = NOW - 3600;
}
static void blocked_and_not_seen(struct view *v)
{
	blocked_by_nobody_knows(v);
	m.facts.seen.pods = PODS_UNSEEN;
}

static const struct said_row goals[] = {
	{ { .name = "a new target, on the disk", AT(IDLE), .loaded = OLD, .target = OLD, .stable = OLD },
	  in_a_wave,
	  "queued, target new, wave none, stable old" },
	{ { .name = "a new target, not on the disk",
	    AT(DONE),
	    .loaded = OLD,
	    .target = OLD,
	    .unstaged = true,
	    .attempts = 1 },
	  NULL,
	  "staging, order stage new, target new, attempts 0, tries 1, deadline +3600s" },
	{ { .name = "there already", AT(IDLE), .loaded = NEW, .failed = NEW, .attempts = 1 },
	  drained_four_times,
	  "done, no reason, failed nothing, attempts 0, drains 0" },
	{ { .name = "there already, and that is known", AT(DONE), .loaded = NEW }, NULL, "nothing, waits: up-to-date" },
	{ { .name = "no driver: what is known to work", AT(IDLE), .stable = OLD },
	  NULL,
	  "staging, order stage old, target old, tries 1, deadline +3600s, stable old" },
	{ { .name = "no driver, and nothing is known to work", AT(IDLE) }, NULL, "queued" },
	{ { .name = "halted, and the policy goes back everywhere",
	    AT(DONE),
	    .loaded = NEW,
	    .stable = OLD,
	    .halted = true,
	    .on_halt = HALT_ROLLBACK_ALL },
	  NULL,
	  "staging, order stage old, target old, tries 1, deadline +3600s, stable old" },
	{ { .name = "the policy would go back everywhere, and nothing is halted",
	    AT(DONE),
	    .loaded = NEW,
	    .stable = OLD,
	    .on_halt = HALT_ROLLBACK_ALL },
	  NULL,
	  "nothing, waits: up-to-date" },
	{ { .name = "halted, and the policy goes back where it is under way",
	    AT(DONE),
	    .loaded = NEW,
	    .stable = OLD,
	    .halted = true,
	    .on_halt = HALT_ROLLBACK },
	  NULL,
	  "nothing, waits: up-to-date" },
	{ { .name = "pinned", AT(DONE), .loaded = NEW },
	  pinned,
	  "staging, order stage other, target other, tries 1, deadline +3600s" },
	{ { .name = "pinned, and there", AT(DONE), .loaded = OTHER }, pinned, "as before, target other" },
	{ { .name = "pinned to what means nothing: what is loaded", AT(IDLE), .loaded = OLD },
	  pinned_to_nothing_known,
	  "done, target old" },
	{ { .name = "pinned, and the policy is gone", AT(IDLE), .loaded = OLD },
	  pinned_without_a_pool,
	  "nothing, waits: policy-gone" },
};

static const struct said_row rests[] = {
	{ { .name = "no pool has it", AT(IDLE), .loaded = OLD, .no_pool = true }, NULL, "nothing, waits: policy-gone" },
	{ { .name = "skipped", AT(IDLE), .loaded = OLD, .skip = true, .aborted = true },
	  NULL,
	  "nothing, waits: skipped" },
	{ { .name = "aborted", AT(IDLE), .loaded = OLD, .aborted = true }, NULL, "nothing, waits: aborted" },
	{ { .name = "its agent says nothing", AT(IDLE), .loaded = OLD, .mute = true, .failed = NEW },
	  NULL,
	  "nothing, waits: no-report" },
	{ { .name = "the target failed", AT(ROLLEDBACK), .loaded = OLD, .failed = NEW, .attempts = 2 },
	  NULL,
	  "nothing, waits: failed-target" },
	{ { .name = "tried as often as allowed", AT(ROLLEDBACK), .loaded = OLD, .attempts = 2 },
	  drained_five_times,
	  "nothing, waits: attempts-spent" },
	{ { .name = "tried as often as allowed, another target",
	    AT(ROLLEDBACK),
	    .loaded = OLD,
	    .attempts = 2,
	    .goal = OTHER },
	  drained_five_times,
	  "staging, for drain-timeout default/db, order stage other, target other, attempts 0, tries 1, deadline "
	  "+3600s" },
	{ { .name = "drained as often as allowed", AT(IDLE), .loaded = OLD },
	  drained_five_times,
	  "held, for drain-given-up default/db" },
	{ { .name = "drained once, and that is all", AT(IDLE), .loaded = OLD, .ago = 3600 },
	  once_is_enough,
	  "held, for drain-given-up" },
	{ { .name = "drained once less", AT(IDLE), .loaded = OLD, .ago = 1799 },
	  drained_four_times,
	  "nothing, waits: drain-timeout default/db" },
	{ { .name = "drained once less, long ago", AT(IDLE), .loaded = OLD, .ago = 1800 },
	  drained_four_times,
	  "queued, for drain-timeout default/db" },
	{ { .name = "drained as often as allowed, for another target", AT(IDLE), .loaded = OLD },
	  drained_five_times_for_another,
	  "queued" },
	{ { .name = "drained once, not long ago", AT(IDLE), .loaded = OLD, .ago = 239 },
	  drained_once,
	  "nothing, waits: backing-off" },
	{ { .name = "drained once, four minutes ago", AT(IDLE), .loaded = OLD, .ago = 240 }, drained_once, "queued" },
	{ { .name = "drained once, for a reason", AT(IDLE), .loaded = OLD, .ago = 100 },
	  drained_once_and_told,
	  "nothing, waits: pdb-blocked default/db" },
	{ { .name = "tried once, not long ago", AT(IDLE), .loaded = OLD, .ago = 479 },
	  tried_once,
	  "nothing, waits: replace-timeout" },
	{ { .name = "tried once, eight minutes ago", AT(IDLE), .loaded = OLD, .ago = 480 },
	  tried_once,
	  "queued, for replace-timeout" },
	{ { .name = "another target than the one that was tried", AT(IDLE), .loaded = OLD, .goal = OTHER, .ago = 1 },
	  tried_once,
	  "staging, for replace-timeout, order stage other, target other, attempts 0, tries 1, deadline +3600s" },
	{ { .name = "does not last, as often as allowed", AT(DONE), .loaded = OLD, .ago = DAY - 1 },
	  repeated_four_times,
	  "held, for drift-repeated" },
	{ { .name = "did last for a day", AT(DONE), .loaded = OLD, .ago = DAY },
	  repeated_four_times,
	  "queued, repeated 1" },
	{ { .name = "does not last, once less", AT(DONE), .loaded = OLD, .ago = 60 },
	  repeated_three_times,
	  "queued, repeated 4" },
	{ { .name = "does not last, another target", AT(DONE), .loaded = OLD, .ago = 60 },
	  repeated_for_another,
	  "queued, repeated 1" },
	{ { .name = "does not last: nothing is loaded after a boot", AT(DONE), .ago = 60 },
	  repeated_four_times,
	  "queued" },
	{ { .name = "halted", AT(IDLE), .loaded = OLD, .halted = true, .node_paused = true },
	  NULL,
	  "nothing, waits: halted" },
	{ { .name = "paused", AT(IDLE), .loaded = OLD, .node_paused = true, .not_ready = true },
	  NULL,
	  "nothing, waits: node-paused" },
	{ { .name = "not ready", AT(IDLE), .loaded = OLD, .not_ready = true }, NULL, "nothing, waits: not-ready" },
	{ { .name = "why staging failed is not told of what comes next", AT(IDLE), .loaded = OLD, .ago = 3600 },
	  stage_failed,
	  "queued, no reason" },
	{ { .name = "why the last drain ended is told until the next", AT(IDLE), .loaded = OLD, .ago = 3600 },
	  drained_once_and_told,
	  "queued, for pdb-blocked default/db" },
};

static const struct said_row written[] = {
	{ { .name = "numbers count on from the last write", AT(IDLE), .loaded = OLD, .unstaged = true },
	  NULL,
	  "staging, order stage new, tries 1, deadline +3600s" },
	{ { .name = "from the last order", AT(IDLE), .loaded = OLD, .unstaged = true },
	  ordered_behind_its_writes,
	  "staging, order stage new as 1.41, tries 1, deadline +3600s" },
	{ { .name = "from the last answer", AT(IDLE), .loaded = OLD, .unstaged = true },
	  answered_behind_its_orders,
	  "staging, order stage new as 2.8, tries 1, deadline +3600s" },
	{ { .name = "from the leader's epoch", AT(IDLE), .loaded = OLD, .unstaged = true },
	  under_a_new_leader,
	  "staging, order stage new as 7.1, tries 1, deadline +3600s" },
	{ { .name = "and into the next epoch where there are no more", AT(IDLE), .loaded = OLD, .unstaged = true },
	  at_the_end_of_the_numbers,
	  "staging, order stage new as 2.1, tries 1, deadline +3600s" },
	{ { .name = "a reason is one line of plain characters",
	    AT(EVICTING),
	    OURS,
	    .loaded = OLD,
	    .pods = 1,
	    .late = true },
	  odd_name,
	  "releasing, for drain-timeout a?b??? ~!, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "that fits", AT(EVICTING), OURS, .loaded = OLD, .pods = 1, .late = true },
	  long_name,
	  "releasing, for drain-timeout "
	  "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234, then idle, "
	  "uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "blocked, and it is not known by whom", AT(EVICTING), OURS, .loaded = OLD, .pods = 1 },
	  blocked_by_nobody_knows,
	  "releasing, for pods-left, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "blocked, and the pods are gone", AT(EVICTING), OURS, .loaded = OLD, .holders = 1 },
	  blocked_by_nobody_knows,
	  "releasing, for holders, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "blocked, and nobody looked", AT(EVICTING), OURS, .loaded = OLD, .holders = 1 },
	  blocked_and_not_seen,
	  "releasing, for pods-unknown, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "cordoned, of a pool and a wave", AT(QUEUED), .loaded = OLD, .slot = SLOT_WORK },
	  NULL,
	  "cordoned, cordoned, receipt, until +1920s, previous old, hints 3, deadline +120s, pool gpu, wave rest" },
	{ { .name = "the attempt is over, and so is its plan", AT(RELEASING), .loaded = OLD },
	  in_a_wave,
	  "idle, pool none" },
	{ { .name = "a retry of a failed node goes for the target of the moment",
	    AT(FAILED),
	    OURS,
	    .touched = true,
	    .loaded = OLD,
	    .goal = OTHER,
	    .stable = OLD,
	    .retry = true },
	  in_a_wave,
	  "staging, order stage other, target other, tries 1, retry 1, deadline +3600s, wave none, stable old" },
};

#define TEST(name)                                  \
	static void name##_(void **state)           \
	{                                           \
		(void)state;                        \
		check_said(name, ARRAY_SIZE(name)); \
	}
TEST(goals)
TEST(rests)
TEST(written)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goals_),
		cmocka_unit_test(rests_),
		cmocka_unit_test(written_),
	};
	return cmocka_run_group_tests_name("rests", tests, NULL, NULL);
}
