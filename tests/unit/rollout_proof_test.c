// SPDX-License-Identifier: Apache-2.0
// From the order to replace to the proof: what exactly is written in each case, and what stays.
#include "tests/unit/rollout_said.h"

#define CHANGING(phase_, verb_) .phase = PHASE_##phase_, OURS, .touched = true, .attempts = 1, .go = VERB_##verb_
#define FAILS(class_) .answer = RESULT_FAILED, .failing = FAILING_##class_
#define DONE .answer = RESULT_DONE
#define ACCEPTED .answer = RESULT_ACCEPTED
#define LOST .phase = PHASE_REPLACING, OURS, .touched = true, .loaded = OLD // the order is gone
#define REPLACES CHANGING(REPLACING, REPLACE), .loaded = OLD
#define VALIDATES CHANGING(VALIDATING, VALIDATE), .loaded = NEW
#define PROVEN VALIDATES, DONE, .health = NEW
#define RELEASES(outcome) "releasing, then " outcome ", order taken back, uncordoned, no receipt, previous nothing, "
#define RESTORES(why) "restoring, for " why ", order taken back, failed new, deadline +600s"

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
	{ { .name = "somebody uncordoned it", REPLACES, ACCEPTED, .is_open = true }, NULL, "as before, prior" },
	{ { .name = "and it was theirs before", REPLACES, ACCEPTED, .is_open = true, .prior = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "somebody uncordoned it while it is validated", VALIDATES, ACCEPTED, .is_open = true },
	  NULL,
	  "as before, prior" },
	{ { .name = "and on its way back", CHANGING(RESTORING, RESTORE), ACCEPTED, .loaded = NEW, .is_open = true },
	  NULL,
	  "as before, prior" },
	{ { .name = "replaced: operands are given back", CHANGING(REPLACING, REPLACE), DONE, .loaded = NEW },
	  has_operands,
	  "validating, order validate new, tries 1, paused 0, deadline +600s" },
	{ { .name = "done, and the agent does not say what is loaded", REPLACES, DONE, .mute = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "in use: drained further, and the attempt does not count", REPLACES, FAILS(BUSY) },
	  has_operands,
	  "evicting, for holders E_LOAD, order taken back, attempts 0, paused 7, deadline +1800s" },
	{ { .name = "in use, and the receipt is gone: no drain of what may be somebody's", REPLACES, FAILS(BUSY) },
	  without_receipt,
	  RESTORES("replace-failed") },
	{ { .name = "failed for a while: once more", REPLACES, FAILS(TRANSIENT) },
	  has_operands,
	  "evicting, for replace-again E_LOAD, order taken back, paused 7, deadline +1800s" },
	{ { .name = "failed for a while, and somebody uncordoned it",
	    REPLACES,
	    FAILS(TRANSIENT),
	    .is_open = true,
	    .prior = true },
	  says_code,
	  RESTORES("replace-failed E_LOAD") },
	{ { .name = "failed for a while, and the receipt is gone", REPLACES, FAILS(TRANSIENT) },
	  without_receipt,
	  RESTORES("replace-failed") },
	{ { .name = "failed for a while, and the rollout is halted", REPLACES, FAILS(TRANSIENT), .halted = true },
	  NULL,
	  RESTORES("replace-failed") },
	{ { .name = "failed for good, with the agent's code", REPLACES, FAILS(PERMANENT) },
	  has_operands,
	  "restoring, for replace-failed E_LOAD, order taken back, failed new, paused 7, deadline +600s" },
	{ { .name = "the order is gone", LOST, .attempts = 1 }, NULL, "evicting, for replace-again, deadline +1800s" },
	{ { .name = "the order is gone, as often as allowed", LOST, .attempts = 2 },
	  NULL,
	  "restoring, for attempts-spent, deadline +600s" },
	{ { .name = "the order is gone, and the target is known to be bad", LOST, .attempts = 1, .failed = NEW },
	  NULL,
	  "restoring, for attempts-spent, deadline +600s" },
	{ { .name = "the order is gone, and so is the cordon", LOST, .attempts = 1, .is_open = true, .prior = true },
	  NULL,
	  "restoring, for attempts-spent, deadline +600s" },
	{ { .name = "the order is gone, and so is the receipt", LOST, .attempts = 1 },
	  without_receipt,
	  "restoring, for attempts-spent, deadline +600s" },
	{ { .name = "the order is gone, and the rollout is halted", LOST, .attempts = 1, .halted = true },
	  NULL,
	  "restoring, for attempts-spent, deadline +600s" },
	{ { .name = "the order is another one's", REPLACES, ACCEPTED },
	  order_of_another,
	  "evicting, for replace-again, order taken back, deadline +1800s" },
	{ { .name = "an order to load is one, too", REPLACES, ACCEPTED }, order_to_load, "nothing, waits: working" },
	{ { .name = "halted, and the policy goes back", REPLACES, ACCEPTED, .halted = true, .on_halt = HALT_ROLLBACK },
	  NULL,
	  "restoring, for halted, order taken back, deadline +600s" },
	{ { .name = "halted, and the policy goes back everywhere",
	    VALIDATES,
	    ACCEPTED,
	    .halted = true,
	    .on_halt = HALT_ROLLBACK_ALL },
	  NULL,
	  "restoring, for halted, order taken back, deadline +600s" },
	{ { .name = "halted, and the policy finishes", VALIDATES, ACCEPTED, .halted = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "halted, and this node goes elsewhere",
	    VALIDATES,
	    ACCEPTED,
	    .halted = true,
	    .goal = OTHER,
	    .on_halt = HALT_ROLLBACK_ALL },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "halted, and there is nothing to go back to",
	    VALIDATES,
	    ACCEPTED,
	    .halted = true,
	    .on_halt = HALT_ROLLBACK },
	  stable_is_the_target,
	  "failed, for no-previous, order taken back" },
	{ { .name = "three answers are not over yet", REPLACES, .ago = 179 }, NULL, "nothing, waits: working" },
	{ { .name = "three answers are over", REPLACES, .ago = 180 },
	  NULL,
	  "failed, for agent-silent, order taken back" },
	{ { .name = "three answers since it was ordered again are not over yet", REPLACES, .ago = 400, .ordered = 179 },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "three answers since it was ordered again are over", REPLACES, .ago = 400, .ordered = 180 },
	  NULL,
	  "failed, for agent-silent, order taken back, no ordered" },
	{ { .name = "too late", REPLACES, ACCEPTED, .late = true }, NULL, RESTORES("replace-timeout") },
	{ { .name = "too late, and what it came from is the target", REPLACES, ACCEPTED, .late = true },
	  back_is_the_target,
	  "failed, for replace-timeout, order taken back" },
	{ { .name = "nothing is halted, whatever the policy would do then",
	    REPLACES,
	    ACCEPTED,
	    .on_halt = HALT_ROLLBACK },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "the order is gone, and another target had failed", LOST, .attempts = 1, .failed = OTHER },
	  NULL,
	  "evicting, for replace-again, deadline +1800s" },
};

static const struct said_row validating[] = {
	{ { .name = "proven", PROVEN }, drained_before, RELEASES("done") "attempts 0, drains 0, deadline +600s" },
	{ { .name = "proven, and what was drained for another target is not forgotten", PROVEN },
	  drained_for_another,
	  RELEASES("done") "attempts 0, deadline +600s" },
	{ { .name = "proven, and it had failed before", PROVEN, .failed = NEW },
	  NULL,
	  RELEASES("done") "failed nothing, attempts 0, deadline +600s" },
	{ { .name = "proven, and another one had failed", PROVEN, .failed = OTHER },
	  NULL,
	  RELEASES("done") "attempts 0, deadline +600s" },
	{ { .name = "proven, and the rollout goes elsewhere", PROVEN, .goal = OTHER },
	  NULL,
	  RELEASES("done") "attempts 0, deadline +600s" },
	{ { .name = "proven, and the rollout goes where it failed", PROVEN, .goal = OTHER, .failed = OTHER },
	  NULL,
	  RELEASES("rolledback") "attempts 0, deadline +600s" },
	{ { .name = "proven by another probe", VALIDATES, DONE, .health = OLD }, NULL, RESTORES("validation-failed") },
	{ { .name = "probed, and ill", PROVEN }, is_ill, RESTORES("validation-failed") },
	{ { .name = "another driver is loaded", CHANGING(VALIDATING, VALIDATE), ACCEPTED, .loaded = OTHER },
	  NULL,
	  RESTORES("drift") },
	{ { .name = "none of ours is in the kernel", CHANGING(VALIDATING, VALIDATE), ACCEPTED, .foreign_module = true },
	  NULL,
	  RESTORES("drift") },
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
	    PROVEN,
	    .goal = OTHER,
	    .failed = OTHER,
	    .skip = true },
	  NULL,
	  RELEASES("idle") "attempts 0, deadline +600s" },
	{ { .name = "the pool is aborted, and it is proven with what it had before",
	    PROVEN,
	    .goal = OTHER,
	    .failed = OTHER,
	    .aborted = true },
	  NULL,
	  RELEASES("idle") "attempts 0, deadline +600s" },
	{ { .name = "too late, and its agent may not have spoken to this leader yet",
	    VALIDATES,
	    ACCEPTED,
	    .late = true },
	  led_for_59_s,
	  "nothing, waits: working" },
	{ { .name = "too late, and it could have spoken", VALIDATES, ACCEPTED, .late = true },
	  led_for_a_minute,
	  RESTORES("validation-no-answer") },
	{ { .name = "too late, and the clock was set back", VALIDATES, ACCEPTED, .late = true },
	  led_from_tomorrow,
	  RESTORES("validation-no-answer") },
	{ { .name = "no answer to this leader yet", REPLACES, .ago = 500 }, led_for_59_s, "nothing, waits: working" },
	{ { .name = "no answer", REPLACES, .ago = 500 },
	  led_for_a_minute,
	  "failed, for agent-silent, order taken back" },
	{ { .name = "the order is of another driver", PROVEN },
	  order_of_another,
	  "as before, order validate new, tries 1" },
	{ { .name = "failed for a while, not long ago", VALIDATES, FAILS(TRANSIENT), .tries = 1, .ago = 59 },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "failed for a while: probed again", VALIDATES, FAILS(TRANSIENT), .tries = 1, .ago = 60 },
	  NULL,
	  "as before, order validate new, tries 2, ordered +0s" },
	{ { .name = "in use: probed again", VALIDATES, FAILS(BUSY), .tries = 1, .ago = 60 },
	  NULL,
	  "as before, order validate new, tries 2, ordered +0s" },
	{ { .name = "failed for a while, twice", VALIDATES, FAILS(TRANSIENT), .tries = 2, .ago = 600 },
	  NULL,
	  "restoring, for validation-failed, order taken back, failed new, tries 0, deadline +600s" },
	{ { .name = "failed for good", VALIDATES, FAILS(PERMANENT), .tries = 1 },
	  says_code,
	  "restoring, for validation-failed E_LOAD, order taken back, failed new, tries 0, deadline +600s" },
	{ { .name = "too late, and no word", VALIDATES, .late = true }, NULL, RESTORES("validation-no-answer") },
	{ { .name = "too late, after a failure", VALIDATES, FAILS(TRANSIENT), .tries = 1, .late = true },
	  says_code,
	  "restoring, for validation-failed E_LOAD, order taken back, failed new, tries 0, deadline +600s" },
	{ { .name = "proven, and the agent does not say what is loaded", PROVEN, .mute = true },
	  NULL,
	  RESTORES("validation-failed") },
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
