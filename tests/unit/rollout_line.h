// SPDX-License-Identifier: Apache-2.0
// A cluster is a line of words, one for each node, and what is planned of it a line of letters.
#pragma once
#include "cluster/rollout/scheduler.h"
#include "tests/unit/test.h"

#define NOW INT64_C(1800000000)
static const struct target_hash old = { 1, 0 }, target = { 2, 0 };
static struct wave waves[4];
static struct pool pools[2];
static struct policy policy;
static struct rollout rollouts[2];
static struct node_state *nodes; // as many as there are, so that AddressSanitizer sees who looks further
static struct ledger_entry *entries;
static struct strv names;
static struct slot_ledger ledger;
static struct cluster cluster;
static struct slots slots;
static size_t count;

// Of the first pool; the second one is like it, and is there when a test says so.
static int setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		pools[i] = (struct pool){ .name = "gpu",
					  .parallel = { 2, false },
					  .unavailable = { 2, false },
					  .waiting = 1,
					  .attempts = 2,
					  .breaker_percent = 50,
					  .breaker_row = 3,
					  .waves = waves,
					  .target.target_hash = target };
		memcpy(pools[i].spans, span_defaults, sizeof(pools[i].spans));
		rollouts[i] = (struct rollout){ .target = target, .stable = old };
	}
	memcpy(pools[1].name, "more", 5);
	policy = (struct policy){ .parallel = { LIMIT_NONE, false },
				  .unavailable = { LIMIT_NONE, false },
				  .staging = 2,
				  .pools = pools,
				  .pool_count = 1 };
	memset(waves, 0, sizeof(waves));
	return 0;
}
static int teardown(void **state)
{
	(void)state;
	scheduler_slots_done(&slots);
	strv_done(&names);
	free(TAKE(nodes));
	free(TAKE(entries));
	return 0;
}

// Words: a state; then any of +slot +wait (in the ledger) +cordon +ours (with receipt) +down +busy +skip +retry +me
// +failed +well (has the target) +gN (group) +zN +blocked +jobs (run) +unseen (are they?) +over (is the wait) +paused
// +A +B (labels of a pool) +vain (drained) +tried (this target) +dark (its pods) +protected (a pod is) +silent (its
// agent, held for that) +unheard (its agent, asked a moment ago) +unlabelled.
static void read_word(const char *word, struct node_state *m)
{
	size_t len = strcspn(word, "+");
	auto_str char *phase = str_ndup(word, len);
	m->record.phase = node_phase_parse(phase);
	m->record.has_phase = !strstr(word, "+unlabelled");
	m->record.since = NOW - 3600 + (int64_t)count;
	m->record.target = m->record.phase == PHASE_IDLE ? TARGET_HASH_NONE : target;
	m->report = (struct report){ .has_loaded = true,
				     .loaded = m->record.phase == PHASE_DONE || strstr(word, "+well") ? target : old,
				     .store = { target } };
	m->facts = (struct node_facts){ .is_ready = !strstr(word, "+down"),
					.is_unschedulable = strstr(word, "+cordon") || strstr(word, "+ours"),
					.is_skipped = strstr(word, "+skip"),
					.is_paused = strstr(word, "+paused"),
					.is_ours = strstr(word, "+me"),
					.terms = strstr(word, "+A") ? 1 :
						 strstr(word, "+B") ? 2 :
								      0 };
	m->record.receipt.is_there = strstr(word, "+ours");
	m->record.retry = strstr(word, "+retry") ? 1 : 0;
	m->record.failed = strstr(word, "+failed") ? target : TARGET_HASH_NONE;
	m->record.attempts = strstr(word, "+tried") ? 1 : 0;
	m->record.drains.target_hash = target;
	m->record.drains.failed = strstr(word, "+vain") ? 1 : 0;
	m->report.holders = strstr(word, "+busy") ? 1 : 0;
	m->facts.seen.stay = node_state_stay(m);
	m->facts.seen.blocked_since = strstr(word, "+blocked") ? NOW - 601 : 0;
	m->facts.seen.jobs = strstr(word, "+jobs") ? 1 : strstr(word, "+unseen") ? PODS_UNSEEN : 0;
	m->facts.seen.pods = strstr(word, "+dark") ? PODS_UNSEEN : 0;
	m->facts.seen.blocker.code = strstr(word, "+protected") ? REASON_HOLDER_PROTECTED : REASON_NONE;
	m->record.reason.code = strstr(word, "+silent") ? REASON_AGENT_SILENT : m->facts.seen.blocker.code;
	m->record.go = (struct order){ { 1, 5 }, VERB_STAGE, target };
	m->record.ordered = NOW;
	m->report.ack.seq = m->record.go.seq;
	m->report.ack.verb = VERB_STAGE;
	m->report.ack.result = strstr(word, "+unheard") ? RESULT_ACCEPTED : RESULT_DONE;
	m->record.receipt.waited = strstr(word, "+over");
	const char *group = strstr(word, "+g"), *zone = strstr(word, "+z");
	m->facts.group = group ? (uint64_t)group[2] : 0;
	m->facts.zone = zone ? (uint64_t)zone[2] : 0;
	if (strstr(word, "+slot") || strstr(word, "+wait")) {
		entries[ledger.count] = (struct ledger_entry){ .slot = strstr(word, "+slot") ? SLOT_WORK : SLOT_WAIT };
		memcpy(entries[ledger.count++].uid, m->uid, UID_TEXT);
	}
}

// What was changed in the members, the policy or the ledger since.
static void plan_again(void)
{
	scheduler_slots_done(&slots);
	scheduler_plan(&cluster, &slots);
}

static void plan(const char *line)
{
	auto_strv struct strv words = { 0 };
	strv_split(&words, line, " ");
	strv_done(&names);
	free(nodes);
	free(entries);
	nodes = mem_alloc(words.count * sizeof(*nodes));
	entries = mem_alloc(words.count * sizeof(*entries));
	ledger = (struct slot_ledger){ entries, 0 };
	for (count = 0; count < words.count; count++) {
		auto_str char *uid = str_fmt("uid-%zu", count);
		strv_add(&names, str_fmt("n%zu", count));
		node_state_init(&nodes[count], names.items[count], uid);
		read_word(words.items[count], &nodes[count]);
	}
	cluster = (struct cluster){ &policy, rollouts, nodes, count, &ledger, 1, NOW, NULL, NULL, false, 0, NULL, 0 };
	plan_again();
}

// One letter a node: S slot for work, W for waiting, - none.
static inline void expect_letters(const char *row, const char *want)
{
	auto_str char *got = str_dup("");
	for (size_t i = 0; i < count; i++)
		str_add(&got, "%s",
			slots.node_plans[i].has == SLOT_WORK ? "S" :
			slots.node_plans[i].has == SLOT_WAIT ? "W" :
							       "-");
	if (!str_eq(got, want))
		fail_msg("%s: %s instead of %s", row, got, want);
}
static inline void expect_slots(const char *line, const char *want)
{
	plan(line);
	expect_letters(line, want);
}

static inline void expect_refused(const char *line, size_t at, enum reason_code why)
{
	plan(line);
	if (slots.node_plans[at].refused != why)
		fail_msg("%s: node %zu is refused for %s", line, at,
			 node_reason_info(slots.node_plans[at].refused)->code);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
