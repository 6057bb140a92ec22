// SPDX-License-Identifier: Apache-2.0
// What people and accidents did to our keys, in every state: what exactly is written then, and what is not touched.
// T13, T17, T62.
#include "cluster/node_state/annotations.h"
#include "tests/unit/rollout_said.h"

#define GONE .unlabelled = true

static void led_elsewhere(struct view *v)
{
	v->is_led_elsewhere = true;
	memcpy(m.record.leader, "other", sizeof("other"));
}
static void malformed(struct view *v)
{
	(void)v;
	m.record.malformed = 1;
}
static void malformed_receipt(struct view *v)
{
	(void)v;
	for (unsigned i = 0; node_keys[i].name; i++)
		if (str_eq(node_keys[i].name, "kmodsmith.io/cordon"))
			m.record.malformed = 1U << i;
}
static void asked_again(struct view *v) // the same that was seen already
{
	(void)v;
	m.record.malformed = 1;
	m.record.retry = m.facts.retry;
}
static void has_hints(struct view *v)
{
	(void)v;
	m.record.autoscaler = 1;
}
static void order_of_the_old(struct view *v)
{
	(void)v;
	m.record.go.target_hash = sides[OLD];
}
static void absurd(struct view *v)
{
	(void)v;
	m.record.deadline = NOW + (int64_t)pool.spans[node_phase_info(m.record.phase)->span] + 301;
}
static void just_not_absurd(struct view *v)
{
	(void)v;
	m.record.deadline = NOW + (int64_t)pool.spans[node_phase_info(m.record.phase)->span] + 300;
}
static void since_nowhere(struct view *v)
{
	(void)v;
	m.record.since = 0;
}
static void since_tomorrow(struct view *v)
{
	(void)v;
	m.record.since = NOW + 86400;
}
static void word_of_an_earlier_version(struct view *v)
{
	(void)v;
	m.facts.upgrade = node_phase_info(m.record.phase)->mirrored;
}
static void word_of_another_state(struct view *v)
{
	(void)v;
	m.facts.upgrade = UPGRADE_FAILED;
}

static const struct said_row unknown[] = {
	{ { .name = "the coordinator of another namespace leads it", AT(EVICTING), OURS, .loaded = OLD },
	  led_elsewhere,
	  "nothing, waits: foreign-coordinator other" },
	{ { .name = "and it lost its label", GONE, .receipt = true, .loaded = OLD },
	  led_elsewhere,
	  "nothing, waits: foreign-coordinator other" },
	{ { .name = "a key means nothing", AT(UNKNOWN), OURS, .loaded = OLD },
	  malformed,
	  "nothing, waits: unknown-state" },
	{ { .name = "a retry that was seen", AT(UNKNOWN), OURS, .loaded = OLD, .retry = true },
	  asked_again,
	  "nothing, waits: unknown-state" },
	{ { .name = "a retry: cordoned by us", AT(UNKNOWN), OURS, .loaded = OLD, .go = VERB_REPLACE, .retry = true },
	  malformed,
	  "failed, for unknown-state, order taken back, touched, malformed 0, retry 1" },
	{ { .name = "a retry: cordoned by somebody", AT(UNKNOWN), .loaded = OLD, .cordoned = true, .retry = true },
	  malformed,
	  "idle, malformed 0, retry 1" },
	{ { .name = "a retry: cordoned, and nobody can say by whom",
	    AT(UNKNOWN),
	    .loaded = OLD,
	    .cordoned = true,
	    .retry = true },
	  malformed_receipt,
	  "held, for receipt-missing, malformed 0, retry 1" },
	{ { .name = "a retry: what meant nothing was our cordon, which has gone",
	    AT(UNKNOWN),
	    .loaded = OLD,
	    .retry = true },
	  malformed_receipt,
	  "idle, malformed 0, retry 1" },
};

static const struct said_row unlabelled[] = {
	{ { .name = "nothing of ours was there", GONE, .loaded = OLD, .refused = REASON_STAGING_FULL },
	  NULL,
	  "queued, target new" },
	{ { .name = "staging", GONE, .target = NEW, .loaded = OLD, .go = VERB_STAGE },
	  NULL,
	  "staging, deadline +3600s" },
	{ { .name = "loading", GONE, .go = VERB_LOAD }, NULL, "loading, deadline +600s" },
	{ { .name = "loading behind our cordon", GONE, OURS, .go = VERB_LOAD, .touched = true, .tries = 2 },
	  NULL,
	  "replacing, deadline +600s" },
	{ { .name = "replacing", GONE, OURS, .loaded = OLD, .go = VERB_REPLACE, .touched = true, .tries = 1 },
	  NULL,
	  "replacing, deadline +600s" },
	{ { .name = "on its way back", GONE, OURS, .loaded = NEW, .go = VERB_RESTORE, .touched = true },
	  NULL,
	  "restoring, deadline +600s" },
	{ { .name = "proving the target", GONE, OURS, .loaded = NEW, .go = VERB_VALIDATE, .touched = true },
	  NULL,
	  "validating, deadline +600s" },
	{ { .name = "proving the previous one", GONE, OURS, .loaded = OLD, .go = VERB_VALIDATE, .touched = true },
	  order_of_the_old,
	  "restoring, deadline +600s" },
	{ { .name = "proving where there is nothing to go back to",
	    GONE,
	    .receipt = true,
	    .slot = SLOT_WORK,
	    .loaded = NEW,
	    .go = VERB_VALIDATE,
	    .touched = true },
	  NULL,
	  "validating, deadline +600s" },
	{ { .name = "cordoned, and nothing was ordered", GONE, .receipt = true, .loaded = OLD },
	  NULL,
	  "cordoned, deadline +120s" },
	{ { .name = "cordoned, and something had been ordered", GONE, OURS, .loaded = OLD, .touched = true },
	  NULL,
	  "failed" },
	{ { .name = "operands are paused", GONE, .loaded = OLD, .is_paused_operands = true }, NULL, "idle, paused 0" },
	{ { .name = "hints for autoscalers are set", GONE, .loaded = OLD }, has_hints, "idle, hints 0" },
	{ { .name = "a slot is all that is left", GONE, .loaded = OLD, .slot = SLOT_WORK }, NULL, "idle" },
	{ { .name = "a slot, and a cordon that may be ours", GONE, .loaded = OLD, .slot = SLOT_WAIT, .cordoned = true },
	  NULL,
	  "held, for receipt-missing" },
	{ { .name = "operands are paused, and somebody cordoned it",
	    GONE,
	    .loaded = OLD,
	    .is_paused_operands = true,
	    .cordoned = true },
	  NULL,
	  "idle, paused 0" },
};

static const struct said_row receipts[] = {
	{ { .name = "gone, cordoned",
	    AT(CORDONED),
	    .slot = SLOT_WORK,
	    .cordoned = true,
	    .loaded = OLD,
	    .is_paused_operands = true },
	  NULL,
	  "held, for receipt-missing, paused 0" },
	{ { .name = "gone, waiting", AT(WAITING), .slot = SLOT_WAIT, .cordoned = true, .loaded = OLD },
	  NULL,
	  "held, for receipt-missing" },
	{ { .name = "gone, evicting",
	    AT(EVICTING),
	    .slot = SLOT_WORK,
	    .cordoned = true,
	    .loaded = OLD,
	    .go = VERB_STAGE },
	  has_hints,
	  "held, for receipt-missing, order taken back, hints 0" },
	{ { .name = "there, idle", AT(IDLE), .receipt = true, .loaded = OLD, .go = VERB_STAGE },
	  NULL,
	  "failed, for unknown-state cordon, order taken back, touched" },
	{ { .name = "there, done", AT(DONE), .receipt = true, .loaded = NEW },
	  NULL,
	  "failed, for unknown-state cordon, touched" },
	{ { .name = "there, rolled back", AT(ROLLEDBACK), .receipt = true, .loaded = OLD },
	  NULL,
	  "failed, for unknown-state cordon, touched" },
	{ { .name = "there, held", AT(HELD), .receipt = true, .loaded = OLD },
	  NULL,
	  "failed, for unknown-state cordon, touched" },
	{ { .name = "failed, and somebody uncordoned it",
	    AT(FAILED),
	    OURS,
	    .loaded = OLD,
	    .is_open = true,
	    .go = VERB_STAGE,
	    .is_paused_operands = true },
	  NULL,
	  "held, for uncordoned-by-user, order taken back, no receipt, paused 0" },
	{ { .name = "staging after a failure, and somebody uncordoned it",
	    AT(STAGING),
	    OURS,
	    .loaded = OLD,
	    .is_open = true,
	    .go = VERB_STAGE },
	  NULL,
	  "held, for uncordoned-by-user, order taken back, no receipt" },
	{ { .name = "queued after a failure, and somebody uncordoned it",
	    AT(QUEUED),
	    OURS,
	    .loaded = OLD,
	    .is_open = true },
	  NULL,
	  "held, for uncordoned-by-user, no receipt" },
	{ { .name = "staging after a failure, and cordoned as it was",
	    AT(STAGING),
	    OURS,
	    .loaded = OLD,
	    .go = VERB_STAGE,
	    .answer = RESULT_ACCEPTED },
	  NULL,
	  "nothing, waits: staging-under-way" },
};

static const struct said_row deadlines[] = {
	{ { .name = "deleted, staging", AT(STAGING), .loaded = OLD, .go = VERB_STAGE, .deadlineless = true, .ago = 9 },
	  NULL,
	  "as before, deadline +3600s" },
	{ { .name = "deleted, loading", AT(LOADING), .go = VERB_LOAD, .deadlineless = true },
	  NULL,
	  "as before, deadline +600s" },
	{ { .name = "deleted, cordoned", AT(CORDONED), OURS, .loaded = OLD, .deadlineless = true },
	  NULL,
	  "as before, deadline +120s" },
	{ { .name = "deleted, waiting", AT(WAITING), OURS, .loaded = OLD, .deadlineless = true },
	  NULL,
	  "as before, deadline +7200s" },
	{ { .name = "deleted, evicting", AT(EVICTING), OURS, .loaded = OLD, .deadlineless = true },
	  NULL,
	  "as before, deadline +1800s" },
	{ { .name = "deleted, replacing",
	    AT(REPLACING),
	    OURS,
	    .loaded = OLD,
	    .go = VERB_REPLACE,
	    .deadlineless = true },
	  NULL,
	  "as before, deadline +600s" },
	{ { .name = "deleted, validating",
	    AT(VALIDATING),
	    OURS,
	    .loaded = NEW,
	    .go = VERB_VALIDATE,
	    .deadlineless = true },
	  NULL,
	  "as before, deadline +600s" },
	{ { .name = "deleted, restoring",
	    AT(RESTORING),
	    OURS,
	    .loaded = OLD,
	    .go = VERB_RESTORE,
	    .deadlineless = true },
	  since_nowhere,
	  "restoring, deadline +600s" },
	{ { .name = "further away than anybody can have meant it", AT(EVICTING), OURS, .loaded = OLD, .holders = 1 },
	  absurd,
	  "as before, deadline +1800s" },
	{ { .name = "as far away as clocks may differ", AT(EVICTING), OURS, .loaded = OLD, .holders = 1 },
	  just_not_absurd,
	  "nothing, waits: holders, evicts" },
	{ { .name = "deleted, and since tomorrow",
	    AT(EVICTING),
	    OURS,
	    .loaded = OLD,
	    .holders = 1,
	    .deadlineless = true },
	  since_tomorrow,
	  "evicting, deadline +1800s" },
};

static const struct said_row leftovers[] = {
	{ { .name = "operands, idle", AT(IDLE), .loaded = OLD, .is_paused_operands = true },
	  NULL,
	  "as before, paused 0" },
	{ { .name = "operands, done", AT(DONE), .loaded = NEW, .is_paused_operands = true },
	  has_hints,
	  "as before, paused 0, hints 0" },
	{ { .name = "operands, held", AT(HELD), .loaded = OLD, .is_paused_operands = true },
	  NULL,
	  "as before, paused 0" },
	{ { .name = "hints, rolled back", AT(ROLLEDBACK), .loaded = OLD, .failed = NEW },
	  has_hints,
	  "as before, hints 0" },
	{ { .name = "hints, staging", AT(STAGING), .loaded = OLD, .go = VERB_STAGE }, has_hints, "as before, hints 0" },
	{ { .name = "hints, queued", AT(QUEUED), .loaded = OLD }, has_hints, "as before, hints 0" },
	{ { .name = "hints, loading", AT(LOADING), .go = VERB_LOAD }, has_hints, "as before, hints 0" },
	{ { .name = "queued after a failure: they are still needed",
	    AT(QUEUED),
	    OURS,
	    .loaded = OLD,
	    .is_paused_operands = true,
	    .refused = REASON_NO_SLOT },
	  NULL,
	  "nothing, waits: no-slot" },
	{ { .name = "NVIDIA's word of the state, by an earlier version", AT(EVICTING), OURS, .loaded = OLD },
	  word_of_an_earlier_version,
	  "as before, NVIDIA's word goes" },
	{ { .name = "and where the node failed", AT(FAILED), OURS, .loaded = OLD },
	  word_of_an_earlier_version,
	  "as before, NVIDIA's word goes" },
	{ { .name = "done is a word that starts nothing", AT(DONE), .loaded = NEW },
	  word_of_an_earlier_version,
	  "nothing, waits: up-to-date" },
	{ { .name = "a word of another state is somebody's", AT(EVICTING), OURS, .loaded = OLD, .holders = 1 },
	  word_of_another_state,
	  "nothing, waits: holders, evicts" },
	{ { .name = "NVIDIA's controller has the node",
	    AT(FAILED),
	    OURS,
	    .loaded = OLD,
	    .foreign = true,
	    .touched = true },
	  word_of_an_earlier_version,
	  "nothing, waits: working" },
};

#define TEST(name)                                  \
	static void name##_(void **state)           \
	{                                           \
		(void)state;                        \
		check_said(name, ARRAY_SIZE(name)); \
	}
TEST(unknown)
TEST(unlabelled)
TEST(receipts)
TEST(deadlines)
TEST(leftovers)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown_),   cmocka_unit_test(unlabelled_), cmocka_unit_test(receipts_),
		cmocka_unit_test(deadlines_), cmocka_unit_test(leftovers_),
	};
	return cmocka_run_group_tests_name("repair", tests, NULL, NULL);
}
