// SPDX-License-Identifier: Apache-2.0
// Released, and failed: what exactly ends an attempt, and what leads out of a failure. T26, T33, T35.
#include "tests/unit/rollout_said.h"

static void outcome_rolledback(struct view *v)
{
	(void)v;
	m.record.outcome = PHASE_ROLLEDBACK;
	m.record.reason = (struct reason){ REASON_REPLACE_FAILED, "E_LOAD" };
}
static void never_touched(struct view *v)
{
	(void)v;
	m.record.receipt.touched = false;
	m.record.reason = (struct reason){ REASON_DRAIN_TIMEOUT, "default/db" };
}
static void ill(struct view *v)
{
	(void)v;
	m.report.health.result = RESULT_FAILED;
}
static void tired(struct view *v)
{
	(void)v;
	m.record.target = m.report.loaded;
	m.record.attempts = 3;
}
static void nearly_tired(struct view *v)
{
	tired(v);
	m.record.attempts = 2;
	m.record.drains.target_hash = sides[OTHER];
}

static const struct said_row ended[] = {
	{ { .name = "a receipt is there again", AT(RELEASING), .receipt = true, .loaded = OLD },
	  outcome_rolledback,
	  "as before, then rolledback, uncordoned, no receipt, deadline +600s" },
	{ { .name = "released, as was read back", AT(RELEASING), .loaded = OLD },
	  outcome_rolledback,
	  "rolledback, for replace-failed E_LOAD" },
	{ { .name = "failed, and the receipt is gone",
	    AT(FAILED),
	    .loaded = OLD,
	    .was = REASON_DRIFT,
	    .is_paused_operands = true },
	  has_plugin,
	  "held, for drift, paused 0" },
	{ { .name = "failed, and the receipt of a cordon is gone",
	    AT(FAILED),
	    .loaded = OLD,
	    .was = REASON_DRIFT,
	    .cordoned = true },
	  NULL,
	  "held, for receipt-missing" },
	{ { .name = "a DaemonSet of NVIDIA's serves it, with its driver", BROKEN, .foreign_module = true },
	  served_by_a_set,
	  "releasing, for foreign-controller nvidia-driver-daemonset, then idle, uncordoned, no receipt, deadline "
	  "+600s" },
	{ { .name = "a DaemonSet of NVIDIA's serves it, with ours", BROKEN, .loaded = OLD },
	  served_by_a_set,
	  "nothing, waits: working" },
	{ { .name = "a retry", BROKEN, .loaded = OLD, .failed = NEW, .attempts = 2, .retry = true },
	  four_drains,
	  "staging, order stage new, failed nothing, attempts 1, tries 1, drains 0, retry 1, deadline +3600s" },
	{ { .name = "a retry before the attempts were spent", BROKEN, .loaded = OLD, .attempts = 0, .retry = true },
	  NULL,
	  "staging, order stage new, tries 1, retry 1, deadline +3600s" },
	{ { .name = "a retry while it is to be left alone", BROKEN, .loaded = OLD, .skip = true, .retry = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "a retry while that target is halted", BROKEN, .loaded = OLD, .halted = true, .retry = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "another target", BROKEN, .loaded = OLD, .failed = NEW, .goal = OTHER, .attempts = 2 },
	  NULL,
	  "staging, order stage other, target other, attempts 0, tries 1, deadline +3600s" },
	{ { .name = "another target, which is halted",
	    BROKEN,
	    .loaded = OLD,
	    .failed = NEW,
	    .goal = OTHER,
	    .halted = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "another target, which failed here", BROKEN, .loaded = OLD, .failed = OTHER, .goal = OTHER },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "another target, and it is to be left alone", BROKEN, .loaded = OLD, .goal = OTHER, .skip = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "healthy again", BROKEN, .loaded = OLD, .health = OLD, .failed = NEW, .attempts = 1 },
	  four_drains_for_another,
	  "queued, target old" },
	{ { .name = "healthy again, and it will drain once more for the target", BROKEN, .loaded = OLD, .health = OLD },
	  four_drains,
	  "queued, target old, attempts 1, drains 5" },
	{ { .name = "healthy again, with the target", BROKEN, .loaded = NEW, .health = NEW, .attempts = 1 },
	  nearly_tired,
	  "queued, attempts 3" },
	{ { .name = "healthy again, as often as before", BROKEN, .loaded = NEW, .health = NEW },
	  tired,
	  "nothing, waits: working" },
	{ { .name = "healthy, with what failed", BROKEN, .loaded = NEW, .health = NEW, .failed = NEW },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "healthy, with another driver than the probe's", BROKEN, .loaded = OLD, .health = NEW },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "ill", BROKEN, .loaded = OLD, .health = OLD }, ill, "nothing, waits: working" },
	{ { .name = "healthy, with nothing loaded", BROKEN }, NULL, "nothing, waits: working" },
	{ { .name = "healthy, and to be left alone: released by way of a proof",
	    BROKEN,
	    .loaded = OLD,
	    .health = OLD,
	    .skip = true },
	  NULL,
	  "validating, for skipped, order validate old, target old, attempts 1, tries 1, deadline +600s" },
	{ { .name = "healthy, after a drain that did not end", BROKEN, .loaded = OLD, .health = OLD },
	  never_touched,
	  "nothing, waits: drain-timeout default/db" },
	{ { .name = "healthy, after a drain that did not end behind an order",
	    BROKEN,
	    .loaded = OLD,
	    .health = OLD,
	    .was = REASON_DRAIN_TIMEOUT },
	  NULL,
	  "queued, no reason, target old, attempts 1, drains 1" },
	{ { .name = "healthy, and nothing was ordered",
	    AT(FAILED),
	    OURS,
	    .loaded = OLD,
	    .health = OLD,
	    .was = REASON_DRIFT },
	  NULL,
	  "queued, no reason, target old, attempts 1, drains 1" },
	{ { .name = "healthy, and no pool has it any more", BROKEN, .loaded = OLD, .health = OLD, .no_pool = true },
	  NULL,
	  "validating, for policy-gone, order validate old, target old, attempts 1, tries 1, deadline +600s" },
	{ { .name = "failed, and cordon and receipt are gone: why stays told", AT(FAILED), .loaded = OLD },
	  never_touched,
	  "held, for drain-timeout default/db" },
	{ { .name = "failed, and a cordon without its receipt: that is told",
	    AT(FAILED),
	    .loaded = OLD,
	    .cordoned = true },
	  never_touched,
	  "held, for receipt-missing" },
};

static void release_and_failure(void **state)
{
	(void)state;
	check_said(ended, ARRAY_SIZE(ended));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(release_and_failure) };
	return cmocka_run_group_tests_name("ended", tests, NULL, NULL);
}
