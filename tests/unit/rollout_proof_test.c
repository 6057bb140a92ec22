// SPDX-License-Identifier: Apache-2.0
// From the order to replace to the proof: what exactly is written in each case, and what stays.
#include "tests/unit/rollout_said.h"

#define CHANGING(phase_, verb_) .phase = PHASE_##phase_, OURS, .touched = true, .attempts = 1, .go = VERB_##verb_
#define FAILS(class_) .answer = RESULT_FAILED, .failing = FAILING_##class_
#define DONE .answer = RESULT_DONE
#define ACCEPTED .answer = RESULT_ACCEPTED
#define LOST .phase = PHASE_REPLACING, OURS, .touched = true // the order is gone

static void has_operands(struct view *v)
{
	(void)v;
	m.facts.operands = 3;
	m.record.paused = 4;
	says_code(v);
}
static void drained_before(struct view *v)
{
	(void)v;
	m.record.drains.target_hash = m.record.target;
	m.record.drains.failed = m.record.drains.repeated = 2;
}
static void drained_for_another(struct view *v)
{
	drained_before(v);
	m.record.drains.target_hash = sides[OTHER];
}
static void without_receipt(struct view *v)
{
	(void)v;
	m.record.receipt = (struct receipt){ 0 };
}
static void order_of_another(struct view *v)
{
	(void)v;
	m.record.go.target_hash = m.report.health.target_hash = sides[OTHER];
}
static void order_to_load(struct view *v)
{
	(void)v;
	m.record.go.verb = m.report.ack.verb = VERB_LOAD;
}
static void is_ill(struct view *v)
{
	(void)v;
	m.report.health.result = RESULT_FAILED;
}
static void back_is_the_target(struct view *v)
{
	(void)v;
	m.record.previous = m.record.target;
}

static void led_for_59_s(struct view *v)
{
	v->led = NOW - 59;
}
static void led_for_a_minute(struct view *v)
{
	v->led = NOW - 60;
}
static void led_from_tomorrow(struct view *v)
{
	v->led = NOW + 86400;
}

static const struct said_row replacing[] = {
	{ { .name = "somebody uncordoned it", CHANGING(REPLACING, REPLACE), ACCEPTED, .loaded = OLD, .is_open = true },
	  NULL,
	  "as before, prior" },
	{ { .name = "and it was theirs before",
	    CHANGING(REPLACING, REPLACE),
	    ACCEPTED,
	    .loaded = OLD,
	    .is_open = true,
	    .prior = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "somebody uncordoned it while it is validated",
	    CHANGING(VALIDATING, VALIDATE),
	    ACCEPTED,
	    .loaded = NEW,
	    .is_open = true },
	  NULL,
	  "as before, prior" },
	{ { .name = "and on its way back", CHANGING(RESTORING, RESTORE), ACCEPTED, .loaded = NEW, .is_open = true },
	  NULL,
	  "as before, prior" },
	{ { .name = "replaced: operands are given back", CHANGING(REPLACING, REPLACE), DONE, .loaded = NEW },
	  has_operands,
	  "validating, order validate new, tries 1, paused 0, deadline +600s" },
	{ { .name = "done, and the agent does not say what is loaded",
	    CHANGING(REPLACING, REPLACE),
	    DONE,
	    .loaded = OLD,
	    .mute = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "in use: drained further, and the attempt does not count",
	    CHANGING(REPLACING, REPLACE),
	    FAILS(BUSY),
	    .loaded = OLD },
	  has_operands,
	  "evicting, for holders E_LOAD, order taken back, attempts 0, paused 7, deadline +1800s" },
	{ { .name = "in use, and the receipt is gone: no drain of what may be somebody's",
	    CHANGING(REPLACING, REPLACE),
	    FAILS(BUSY),
	    .loaded = OLD },
	  without_receipt,
	  "restoring, for replace-failed, order taken back, failed new, deadline +600s" },
	{ { .name = "failed for a while: once more", CHANGING(REPLACING, REPLACE), FAILS(TRANSIENT), .loaded = OLD },
	  has_operands,
	  "evicting, for replace-again E_LOAD, order taken back, paused 7, deadline +1800s" },
	{ { .name = "failed for a while, and somebody uncordoned it",
	    CHANGING(REPLACING, REPLACE),
	    FAILS(TRANSIENT),
	    .loaded = OLD,
	    .is_open = true,
	    .prior = true },
	  says_code,
	  "restoring, for replace-failed E_LOAD, order taken back, failed new, deadline +600s" },
	{ { .name = "failed for a while, and the receipt is gone",
	    CHANGING(REPLACING, REPLACE),
	    FAILS(TRANSIENT),
	    .loaded = OLD },
	  without_receipt,
	  "restoring, for replace-failed, order taken back, failed new, deadline +600s" },
	{ { .name = "failed for a while, and the rollout is halted",
	    CHANGING(REPLACING, REPLACE),
	    FAILS(TRANSIENT),
	    .loaded = OLD,
	    .halted = true },
	  NULL,
	  "restoring, for replace-failed, order taken back, failed new, deadline +600s" },
	{ { .name = "failed for good, with the agent's code",
	    CHANGING(REPLACING, REPLACE),
	    FAILS(PERMANENT),
	    .loaded = OLD },
	  has_operands,
	  "restoring, for replace-failed E_LOAD, order taken back, failed new, paused 7, deadline +600s" },
	{ { .name = "the order is gone", LOST, .loaded = OLD, .attempts = 1 },
	  NULL,
	  "evicting, for replace-again, deadline +1800s" },
	{ { .name = "the order is gone, as often as allowed", LOST, .loaded = OLD, .attempts = 2 },
	  NULL,
	  "restoring, for attempts-spent, deadline +600s" },
	{ { .name = "the order is gone, and the target is known to be bad",
	    LOST,
	    .loaded = OLD,
	    .attempts = 1,
	    .failed = NEW },
	  NULL,
	  "restoring, for attempts-spent, deadline +600s" },
	{ { .name = "the order is gone, and so is the cordon",
	    LOST,
	    .loaded = OLD,
	    .attempts = 1,
	    .is_open = true,
	    .prior = true },
	  NULL,
	  "restoring, for attempts-spent, deadline +600s" },
	{ { .name = "the order is gone, and so is the receipt", LOST, .loaded = OLD, .attempts = 1 },
	  without_receipt,
	  "restoring, for attempts-spent, deadline +600s" },
	{ { .name = "the order is gone, and the rollout is halted",
	    LOST,
	    .loaded = OLD,
	    .attempts = 1,
	    .halted = true },
	  NULL,
	  "restoring, for attempts-spent, deadline +600s" },
	{ { .name = "the order is another one's", CHANGING(REPLACING, REPLACE), ACCEPTED, .loaded = OLD },
	  order_of_another,
	  "evicting, for replace-again, order taken back, deadline +1800s" },
	{ { .name = "an order to load is one, too", CHANGING(REPLACING, REPLACE), ACCEPTED, .loaded = OLD },
	  order_to_load,
	  "nothing, waits: working" },
	{ { .name = "halted, and the policy goes back",
	    CHANGING(REPLACING, REPLACE),
	    ACCEPTED,
	    .loaded = OLD,
	    .halted = true,
	    .on_halt = HALT_ROLLBACK },
	  NULL,
	  "restoring, for halted, order taken back, deadline +600s" },
	{ { .name = "halted, and the policy goes back everywhere",
	    CHANGING(VALIDATING, VALIDATE),
	    ACCEPTED,
	    .loaded = NEW,
	    .halted = true,
	    .on_halt = HALT_ROLLBACK_ALL },
	  NULL,
	  "restoring, for halted, order taken back, deadline +600s" },
	{ { .name = "halted, and the policy finishes",
	    CHANGING(VALIDATING, VALIDATE),
	    ACCEPTED,
	    .loaded = NEW,
	    .halted = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "halted, and this node goes elsewhere",
	    CHANGING(VALIDATING, VALIDATE),
	    ACCEPTED,
	    .loaded = NEW,
	    .halted = true,
	    .goal = OTHER,
	    .on_halt = HALT_ROLLBACK_ALL },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "halted, and there is nothing to go back to",
	    CHANGING(VALIDATING, VALIDATE),
	    ACCEPTED,
	    .loaded = NEW,
	    .halted = true,
	    .on_halt = HALT_ROLLBACK },
	  stable_is_the_target,
	  "failed, for no-previous, order taken back" },
	{ { .name = "three answers are not over yet", CHANGING(REPLACING, REPLACE), .loaded = OLD, .ago = 179 },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "three answers are over", CHANGING(REPLACING, REPLACE), .loaded = OLD, .ago = 180 },
	  NULL,
	  "failed, for agent-silent, order taken back" },
	{ { .name = "three answers since it was ordered again are not over yet",
	    CHANGING(REPLACING, REPLACE),
	    .loaded = OLD,
	    .ago = 400,
	    .ordered = 179 },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "three answers since it was ordered again are over",
	    CHANGING(REPLACING, REPLACE),
	    .loaded = OLD,
	    .ago = 400,
	    .ordered = 180 },
	  NULL,
	  "failed, for agent-silent, order taken back, no ordered" },
	{ { .name = "too late", CHANGING(REPLACING, REPLACE), ACCEPTED, .loaded = OLD, .late = true },
	  NULL,
	  "restoring, for replace-timeout, order taken back, failed new, deadline +600s" },
	{ { .name = "too late, and what it came from is the target",
	    CHANGING(REPLACING, REPLACE),
	    ACCEPTED,
	    .loaded = OLD,
	    .late = true },
	  back_is_the_target,
	  "failed, for replace-timeout, order taken back" },
	{ { .name = "nothing is halted, whatever the policy would do then",
	    CHANGING(REPLACING, REPLACE),
	    ACCEPTED,
	    .loaded = OLD,
	    .on_halt = HALT_ROLLBACK },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "the order is gone, and another target had failed",
	    LOST,
	    .loaded = OLD,
	    .attempts = 1,
	    .failed = OTHER },
	  NULL,
	  "evicting, for replace-again, deadline +1800s" },
};

static const struct said_row validating[] = {
	{ { .name = "proven", CHANGING(VALIDATING, VALIDATE), DONE, .loaded = NEW, .health = NEW },
	  drained_before,
	  "releasing, then done, order taken back, uncordoned, no receipt, previous nothing, attempts 0, drains 0, "
	  "deadline +300s" },
	{ { .name = "proven, and what was drained for another target is not forgotten",
	    CHANGING(VALIDATING, VALIDATE),
	    DONE,
	    .loaded = NEW,
	    .health = NEW },
	  drained_for_another,
	  "releasing, then done, order taken back, uncordoned, no receipt, previous nothing, attempts 0, deadline "
	  "+300s" },
	{ { .name = "proven, and it had failed before",
	    CHANGING(VALIDATING, VALIDATE),
	    DONE,
	    .loaded = NEW,
	    .health = NEW,
	    .failed = NEW },
	  NULL,
	  "releasing, then done, order taken back, uncordoned, no receipt, previous nothing, failed nothing, attempts "
	  "0, deadline +300s" },
	{ { .name = "proven, and another one had failed",
	    CHANGING(VALIDATING, VALIDATE),
	    DONE,
	    .loaded = NEW,
	    .health = NEW,
	    .failed = OTHER },
	  NULL,
	  "releasing, then done, order taken back, uncordoned, no receipt, previous nothing, attempts 0, deadline "
	  "+300s" },
	{ { .name = "proven, and the rollout goes elsewhere",
	    CHANGING(VALIDATING, VALIDATE),
	    DONE,
	    .loaded = NEW,
	    .health = NEW,
	    .goal = OTHER },
	  NULL,
	  "releasing, then done, order taken back, uncordoned, no receipt, previous nothing, attempts 0, deadline "
	  "+300s" },
	{ { .name = "proven, and the rollout goes where it failed",
	    CHANGING(VALIDATING, VALIDATE),
	    DONE,
	    .loaded = NEW,
	    .health = NEW,
	    .goal = OTHER,
	    .failed = OTHER },
	  NULL,
	  "releasing, then rolledback, order taken back, uncordoned, no receipt, previous nothing, attempts 0, "
	  "deadline +300s" },
	{ { .name = "proven by another probe", CHANGING(VALIDATING, VALIDATE), DONE, .loaded = NEW, .health = OLD },
	  NULL,
	  "restoring, for validation-failed, order taken back, failed new, deadline +600s" },
	{ { .name = "probed, and ill", CHANGING(VALIDATING, VALIDATE), DONE, .loaded = NEW, .health = NEW },
	  is_ill,
	  "restoring, for validation-failed, order taken back, failed new, deadline +600s" },
	{ { .name = "another driver is loaded", CHANGING(VALIDATING, VALIDATE), ACCEPTED, .loaded = OTHER },
	  NULL,
	  "restoring, for drift, order taken back, failed new, deadline +600s" },
	{ { .name = "none of ours is in the kernel", CHANGING(VALIDATING, VALIDATE), ACCEPTED, .foreign_module = true },
	  NULL,
	  "restoring, for drift, order taken back, failed new, deadline +600s" },
	{ { .name = "nothing is in the kernel: that may be a reboot", CHANGING(VALIDATING, VALIDATE), ACCEPTED },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "the agent does not say what is",
	    CHANGING(VALIDATING, VALIDATE),
	    ACCEPTED,
	    .loaded = OTHER,
	    .mute = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "the order is gone: probed again", .phase = PHASE_VALIDATING, OURS, .loaded = NEW, .ago = 5 },
	  NULL,
	  "as before, order validate new, tries 1, ordered +0s" },
	{ { .name = "the agent has passed it: etcd was restored long after, and the probe gets its full time",
	    CHANGING(VALIDATING, VALIDATE),
	    DONE,
	    .is_newer = true,
	    .loaded = NEW,
	    .ago = 7200,
	    .late = true },
	  NULL,
	  "as before, order validate new, tries 1, deadline +600s, ordered +0s" },
	{ { .name = "to be left alone, and proven with what it had before",
	    CHANGING(VALIDATING, VALIDATE),
	    DONE,
	    .loaded = NEW,
	    .health = NEW,
	    .goal = OTHER,
	    .failed = OTHER,
	    .skip = true },
	  NULL,
	  "releasing, then idle, order taken back, uncordoned, no receipt, previous nothing, attempts 0, "
	  "deadline +300s" },
	{ { .name = "the pool is aborted, and it is proven with what it had before",
	    CHANGING(VALIDATING, VALIDATE),
	    DONE,
	    .loaded = NEW,
	    .health = NEW,
	    .goal = OTHER,
	    .failed = OTHER,
	    .aborted = true },
	  NULL,
	  "releasing, then idle, order taken back, uncordoned, no receipt, previous nothing, attempts 0, "
	  "deadline +300s" },
	{ { .name = "too late, and its agent may not have spoken to this leader yet",
	    CHANGING(VALIDATING, VALIDATE),
	    ACCEPTED,
	    .loaded = NEW,
	    .late = true },
	  led_for_59_s,
	  "nothing, waits: working" },
	{ { .name = "too late, and it could have spoken",
	    CHANGING(VALIDATING, VALIDATE),
	    ACCEPTED,
	    .loaded = NEW,
	    .late = true },
	  led_for_a_minute,
	  "restoring, for validation-no-answer, order taken back, failed new, deadline +600s" },
	{ { .name = "too late, and the clock was set back",
	    CHANGING(VALIDATING, VALIDATE),
	    ACCEPTED,
	    .loaded = NEW,
	    .late = true },
	  led_from_tomorrow,
	  "restoring, for validation-no-answer, order taken back, failed new, deadline +600s" },
	{ { .name = "no answer to this leader yet", CHANGING(REPLACING, REPLACE), .loaded = OLD, .ago = 500 },
	  led_for_59_s,
	  "nothing, waits: working" },
	{ { .name = "no answer", CHANGING(REPLACING, REPLACE), .loaded = OLD, .ago = 500 },
	  led_for_a_minute,
	  "failed, for agent-silent, order taken back" },
	{ { .name = "the order is of another driver",
	    CHANGING(VALIDATING, VALIDATE),
	    DONE,
	    .loaded = NEW,
	    .health = NEW },
	  order_of_another,
	  "as before, order validate new, tries 1" },
	{ { .name = "failed for a while, not long ago",
	    CHANGING(VALIDATING, VALIDATE),
	    FAILS(TRANSIENT),
	    .loaded = NEW,
	    .tries = 1,
	    .ago = 59 },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "failed for a while: probed again",
	    CHANGING(VALIDATING, VALIDATE),
	    FAILS(TRANSIENT),
	    .loaded = NEW,
	    .tries = 1,
	    .ago = 60 },
	  NULL,
	  "as before, order validate new, tries 2, ordered +0s" },
	{ { .name = "in use: probed again",
	    CHANGING(VALIDATING, VALIDATE),
	    FAILS(BUSY),
	    .loaded = NEW,
	    .tries = 1,
	    .ago = 60 },
	  NULL,
	  "as before, order validate new, tries 2, ordered +0s" },
	{ { .name = "failed for a while, twice",
	    CHANGING(VALIDATING, VALIDATE),
	    FAILS(TRANSIENT),
	    .loaded = NEW,
	    .tries = 2,
	    .ago = 600 },
	  NULL,
	  "restoring, for validation-failed, order taken back, failed new, tries 0, deadline +600s" },
	{ { .name = "failed for good", CHANGING(VALIDATING, VALIDATE), FAILS(PERMANENT), .loaded = NEW, .tries = 1 },
	  says_code,
	  "restoring, for validation-failed E_LOAD, order taken back, failed new, tries 0, deadline +600s" },
	{ { .name = "too late, and no word", CHANGING(VALIDATING, VALIDATE), .loaded = NEW, .late = true },
	  NULL,
	  "restoring, for validation-no-answer, order taken back, failed new, deadline +600s" },
	{ { .name = "too late, after a failure",
	    CHANGING(VALIDATING, VALIDATE),
	    FAILS(TRANSIENT),
	    .loaded = NEW,
	    .tries = 1,
	    .late = true },
	  says_code,
	  "restoring, for validation-failed E_LOAD, order taken back, failed new, tries 0, deadline +600s" },
	{ { .name = "proven, and the agent does not say what is loaded",
	    CHANGING(VALIDATING, VALIDATE),
	    DONE,
	    .loaded = NEW,
	    .health = NEW,
	    .mute = true },
	  NULL,
	  "restoring, for validation-failed, order taken back, failed new, deadline +600s" },
};

static void from_the_order(void **state)
{
	(void)state;
	check_said(replacing, ARRAY_SIZE(replacing));
}
static void until_the_proof(void **state)
{
	(void)state;
	check_said(validating, ARRAY_SIZE(validating));
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_the_order),
		cmocka_unit_test(until_the_proof),
	};
	return cmocka_run_group_tests_name("proof", tests, NULL, NULL);
}
