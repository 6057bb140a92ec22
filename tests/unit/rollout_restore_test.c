// SPDX-License-Identifier: Apache-2.0
// The way back: what exactly is written in each case, how often it is tried, and what stays.
#include "tests/unit/rollout_said.h"

#define CHANGING(phase_, verb_) .phase = PHASE_##phase_, OURS, .touched = true, .attempts = 1, .go = VERB_##verb_
#define FAILS(class_) .answer = RESULT_FAILED, .failing = FAILING_##class_
#define DONE .answer = RESULT_DONE
#define ACCEPTED .answer = RESULT_ACCEPTED

static void knows_stable(struct view *v)
{
	(void)v;
	m.record.previous = TARGET_HASH_NONE;
	m.record.stable = sides[OLD];
}
static void order_to_prove_the_old(struct view *v)
{
	(void)v;
	m.record.go.verb = m.report.ack.verb = VERB_VALIDATE;
	m.record.go.target_hash = sides[OLD];
}
static void reason_with_code(struct view *v)
{
	(void)v;
	m.record.reason = (struct reason){ REASON_REPLACE_FAILED, "E_LOAD" };
}

static const struct said_row restoring[] = {
	{ { .name = "proven, after the target was refused",
	    CHANGING(RESTORING, VALIDATE),
	    DONE,
	    .loaded = OLD,
	    .health = OLD,
	    .failed = NEW },
	  reason_with_code,
	  "releasing, for replace-failed E_LOAD, then rolledback, order taken back, uncordoned, no receipt, previous "
	  "nothing, deadline +600s" },
	{ { .name = "proven, and the target is not to blame",
	    CHANGING(RESTORING, VALIDATE),
	    DONE,
	    .loaded = OLD,
	    .health = OLD },
	  reason_with_code,
	  "releasing, for replace-failed E_LOAD, then idle, order taken back, uncordoned, no receipt, previous "
	  "nothing, deadline +600s" },
	{ { .name = "proven, and another target had failed",
	    CHANGING(RESTORING, VALIDATE),
	    DONE,
	    .loaded = OLD,
	    .health = OLD,
	    .failed = OTHER },
	  NULL,
	  "releasing, then idle, order taken back, uncordoned, no receipt, previous nothing, deadline +600s" },
	{ { .name = "nothing to go back to", CHANGING(RESTORING, RESTORE), ACCEPTED, .loaded = NEW },
	  stable_is_the_target,
	  "failed, for no-previous, order taken back" },
	{ { .name = "back to what the pool knows to work",
	    .phase = PHASE_RESTORING,
	    OURS,
	    .touched = true,
	    .loaded = NEW,
	    .ago = 5 },
	  knows_stable,
	  "as before, order restore old, tries 1, ordered +0s" },
	{ { .name = "it is there already: proven",
	    CHANGING(RESTORING, RESTORE),
	    DONE,
	    .loaded = OLD,
	    .tries = 3,
	    .ago = 5 },
	  NULL,
	  "as before, order validate old, tries 1, ordered +0s" },
	{ { .name = "somebody holds the driver",
	    .phase = PHASE_RESTORING,
	    OURS,
	    .touched = true,
	    .loaded = NEW,
	    .holders = 1 },
	  NULL,
	  "nothing, waits: working, evicts" },
	{ { .name = "nobody knows who holds the driver",
	    .phase = PHASE_RESTORING,
	    OURS,
	    .touched = true,
	    .loaded = NEW,
	    .holders = HOLDERS_UNKNOWN },
	  NULL,
	  "nothing, waits: working, evicts" },
	{ { .name = "pods are left, and nobody holds the driver",
	    CHANGING(RESTORING, RESTORE),
	    ACCEPTED,
	    .loaded = NEW,
	    .pods = 1 },
	  NULL,
	  "nothing, waits: working, evicts" },
	{ { .name = "ordered already", CHANGING(RESTORING, RESTORE), ACCEPTED, .loaded = NEW, .tries = 1, .ago = 120 },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "failed for a while, not long ago",
	    CHANGING(RESTORING, RESTORE),
	    FAILS(TRANSIENT),
	    .tries = 1,
	    .ago = 59 },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "failed for a while: once more",
	    CHANGING(RESTORING, RESTORE),
	    FAILS(TRANSIENT),
	    .tries = 1,
	    .ago = 60 },
	  NULL,
	  "as before, order restore old, tries 2, ordered +0s" },
	{ { .name = "in use for a while: once more",
	    CHANGING(RESTORING, RESTORE),
	    FAILS(BUSY),
	    .loaded = NEW,
	    .tries = 1,
	    .ago = 60 },
	  NULL,
	  "as before, order restore old, tries 2, ordered +0s" },
	{ { .name = "in use still",
	    CHANGING(RESTORING, RESTORE),
	    FAILS(BUSY),
	    .loaded = NEW,
	    .tries = 1,
	    .ago = 60,
	    .holders = 1 },
	  NULL,
	  "nothing, waits: working, evicts" },
	{ { .name = "the third time waits four times as long",
	    CHANGING(RESTORING, RESTORE),
	    FAILS(TRANSIENT),
	    .tries = 3,
	    .ago = 239 },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "and is the last", CHANGING(RESTORING, RESTORE), FAILS(TRANSIENT), .tries = 3, .ago = 240 },
	  NULL,
	  "as before, order restore old, tries 4, ordered +0s" },
	{ { .name = "four times", CHANGING(RESTORING, RESTORE), FAILS(TRANSIENT), .tries = 4, .ago = 3000 },
	  says_code,
	  "failed, for restore-failed E_LOAD, order taken back, tries 0" },
	{ { .name = "failed for good", CHANGING(RESTORING, RESTORE), FAILS(PERMANENT), .tries = 1 },
	  says_code,
	  "failed, for restore-failed E_LOAD, order taken back, tries 0" },
	{ { .name = "a probe of it failed for a while: probed again",
	    CHANGING(RESTORING, VALIDATE),
	    FAILS(TRANSIENT),
	    .loaded = OLD,
	    .tries = 1,
	    .ago = 60 },
	  NULL,
	  "as before, order validate old, tries 2, ordered +0s" },
	{ { .name = "a probe of it says nothing of its health", CHANGING(RESTORING, VALIDATE), DONE, .loaded = OLD },
	  NULL,
	  "failed, for restore-failed, order taken back" },
	{ { .name = "it was to be probed, and has gone", CHANGING(RESTORING, RESTORE), ACCEPTED, .loaded = NEW },
	  order_to_prove_the_old,
	  "nothing, waits: working" },
	{ { .name = "too late", CHANGING(RESTORING, RESTORE), ACCEPTED, .loaded = NEW, .late = true },
	  NULL,
	  "failed, for restore-timeout, order taken back" },
};

static void the_way_back(void **state)
{
	(void)state;
	check_said(restoring, ARRAY_SIZE(restoring));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_way_back) };
	return cmocka_run_group_tests_name("restore", tests, NULL, NULL);
}
