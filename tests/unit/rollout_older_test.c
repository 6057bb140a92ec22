// SPDX-License-Identifier: Apache-2.0
// T15, T57: what an agent says of an older order is no answer to this one, whatever it says: each answer that moves a
// node, and the same words with the number of the order before, which move nothing.
#include "tests/unit/rollout_step.h"

#define FAILS(class_) .answer = RESULT_FAILED, .failing = FAILING_##class_
#define DONE .answer = RESULT_DONE
#define CHANGING(phase_, verb_) .phase = PHASE_##phase_, OURS, .touched = true, .attempts = 1, .go = VERB_##verb_
static const struct {
	struct row row;
	enum reason_code waits; // for what, when the answer is of an older order
} rows[] = {
	{ { .name = "staged", .phase = PHASE_STAGING, .loaded = OLD, .go = VERB_STAGE, DONE, .next = PHASE_QUEUED },
	  REASON_STAGING_UNDER_WAY },
	{ { .name = "staging failed for good",
	    .phase = PHASE_STAGING,
	    .loaded = OLD,
	    .unstaged = true,
	    .go = VERB_STAGE,
	    FAILS(PERMANENT),
	    .next = PHASE_HELD,
	    .reason = REASON_STAGE_FAILED },
	  REASON_STAGING_UNDER_WAY },
	{ { .name = "staging failed for a while",
	    .phase = PHASE_STAGING,
	    .loaded = OLD,
	    .unstaged = true,
	    .go = VERB_STAGE,
	    FAILS(TRANSIENT),
	    .tries = 1,
	    .ago = 61,
	    .next = PHASE_STAGING,
	    .order = VERB_STAGE,
	    .reason = REASON_STAGE_FAILED },
	  REASON_STAGING_UNDER_WAY },
	{ { .name = "loaded", .phase = PHASE_LOADING, .loaded = NEW, .go = VERB_LOAD, DONE, .next = PHASE_DONE },
	  REASON_WORKING },
	{ { .name = "the load failed for good",
	    .phase = PHASE_LOADING,
	    .go = VERB_LOAD,
	    FAILS(PERMANENT),
	    .next = PHASE_HELD,
	    .reason = REASON_LOAD_FAILED,
	    .now_failed = NEW },
	  REASON_WORKING },
	{ { .name = "replaced",
	    CHANGING(REPLACING, REPLACE),
	    .loaded = NEW,
	    DONE,
	    .next = PHASE_VALIDATING,
	    .order = VERB_VALIDATE },
	  REASON_WORKING },
	{ { .name = "replaced, it is said, and another driver is loaded",
	    CHANGING(REPLACING, REPLACE),
	    .loaded = OLD,
	    DONE,
	    .next = PHASE_RESTORING,
	    .reason = REASON_DRIFT,
	    .now_failed = NEW },
	  REASON_WORKING },
	{ { .name = "refused by the kernel",
	    CHANGING(REPLACING, REPLACE),
	    .loaded = OLD,
	    FAILS(PERMANENT),
	    .next = PHASE_RESTORING,
	    .reason = REASON_REPLACE_FAILED,
	    .now_failed = NEW },
	  REASON_WORKING },
	{ { .name = "the driver is in use",
	    CHANGING(REPLACING, REPLACE),
	    .loaded = OLD,
	    FAILS(BUSY),
	    .next = PHASE_EVICTING,
	    .reason = REASON_HOLDERS },
	  REASON_WORKING },
	{ { .name = "proven healthy",
	    CHANGING(VALIDATING, VALIDATE),
	    .loaded = NEW,
	    .health = NEW,
	    DONE,
	    .next = PHASE_RELEASING,
	    .cordon = CORDON_OFF },
	  REASON_WORKING },
	{ { .name = "not healthy",
	    CHANGING(VALIDATING, VALIDATE),
	    .loaded = NEW,
	    FAILS(PERMANENT),
	    .next = PHASE_RESTORING,
	    .reason = REASON_VALIDATION_FAILED,
	    .now_failed = NEW },
	  REASON_WORKING },
	{ { .name = "the way back is proven",
	    CHANGING(RESTORING, VALIDATE),
	    .loaded = OLD,
	    .health = OLD,
	    .failed = NEW,
	    DONE,
	    .next = PHASE_RELEASING,
	    .cordon = CORDON_OFF },
	  REASON_WORKING },
	{ { .name = "the way back does not work",
	    CHANGING(RESTORING, RESTORE),
	    .loaded = NOTHING,
	    .failed = NEW,
	    FAILS(PERMANENT),
	    .next = PHASE_FAILED,
	    .reason = REASON_RESTORE_FAILED },
	  REASON_WORKING },
};

static void answers_to_older_orders_are_ignored(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct row older = rows[i].row;
		auto_str char *name = str_fmt("of an older order: %s", older.name);
		check(&rows[i].row);
		older.name = name;
		older.is_older = older.nothing = true;
		older.next = older.phase;
		older.reason = rows[i].waits;
		older.order = VERB_NONE;
		older.cordon = CORDON_KEEP;
		older.now_failed = 0;
		check(&older);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(answers_to_older_orders_are_ignored) };
	return cmocka_run_group_tests_name("older", tests, NULL, NULL);
}
