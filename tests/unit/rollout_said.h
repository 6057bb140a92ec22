// SPDX-License-Identifier: Apache-2.0
// One decision a row, and all that it changes in one line: what is not said stays as it is.
#pragma once
#include "tests/unit/rollout_step.h"

// clang-format off
#define AND(more_) .more = more_
#define SAID(text) .said = text
#define BROKEN AT(FAILED), OURS, TOUCHED
// Of MORE(): what was told last, and who is in the way for so many seconds.
#define TOLD(code_, object_) m.record.reason = (struct reason){ REASON_##code_, object_ }
#define BLOCKER(code_, object_, seconds) \
	m.facts.seen.blocker = (struct reason){ REASON_##code_, object_ }; m.facts.seen.blocker_since = NOW - (seconds)
// clang-format on

static const char *const side_names[] = { "nothing", "old", "new", "other" };

static void say_aim(char **text, const char *what, const struct target_hash *was, const struct target_hash *is)
{
	if (!target_hash_eq(was, is))
		str_add(text, ", %s %s", what, side_names[is->payload]);
}
static void say_number(char **text, const char *what, int64_t was, int64_t is)
{
	if (was != is)
		str_add(text, ", %s %lld", what, (long long)is);
}
static void say_flag(char **text, const char *what, bool was, bool is)
{
	if (was != is)
		str_add(text, ", %s%s", is ? "" : "not ", what);
}
static void say_time(char **text, const char *what, int64_t was, int64_t is)
{
	if (was != is && is)
		str_add(text, ", %s %+llds", what, (long long)(is - NOW));
	else if (was != is)
		str_add(text, ", no %s", what);
}

static void say_word(char **text, const char *what, const char *was, const char *is)
{
	if (!str_eq(was, is))
		str_add(text, ", %s %s", what, *is ? is : "none");
}

static void say_why(char **text, const char *what, const struct reason *why)
{
	if (why->code != REASON_NONE)
		str_add(text, ", %s %s%s%s", what, node_reason_info(why->code)->code, *why->object ? " " : "",
			why->object);
}

static void say_order(char **text, const struct record *was, const struct record *is)
{
	if (node_seq_cmp(is->go.seq, was->go.seq) <= 0)
		return;
	if (is->go.verb == VERB_NONE)
		str_add(text, ", order taken back");
	else
		str_add(text, ", order %s %s", verb_names[is->go.verb], side_names[is->go.target_hash.payload]);
	if (is->go.seq.epoch != 1 || is->go.seq.n != 11)
		str_add(text, " as %u.%u", is->go.seq.epoch, is->go.seq.n);
}

static void say_receipt(char **text, const struct receipt *was, const struct receipt *is)
{
	if (was->is_there && !is->is_there)
		str_add(text, ", no receipt");
	if (!is->is_there)
		return;
	say_flag(text, "receipt", was->is_there, is->is_there);
	say_flag(text, "prior", was->prior, is->prior);
	say_flag(text, "touched", was->touched, is->touched);
	say_flag(text, "waited", was->waited, is->waited);
	say_number(text, "again", was->again, is->again);
	say_time(text, "until", was->until, is->until);
}

// Caller frees.
static char *said_of(const struct record *was, const struct decision *d)
{
	const struct record *is = &d->next;
	char *text = NULL;
	if (!d->rule) {
		text = str_dup("nothing");
		say_why(&text, "waits:", &d->waits);
		if (d->evicts)
			str_add(&text, ", evicts");
		return text;
	}
	bool is_entered = was->phase != is->phase || !was->has_phase || was->since != is->since;
	text = str_dup(is_entered ? node_phase_info(is->phase)->name : "as before");
	if (memcmp(&was->reason, &is->reason, sizeof(was->reason)) != 0 && is->reason.code == REASON_NONE)
		str_add(&text, ", no reason");
	else if (is_entered || memcmp(&was->reason, &is->reason, sizeof(was->reason)) != 0)
		say_why(&text, "for", &is->reason);
	if (is->phase == PHASE_RELEASING)
		str_add(&text, ", then %s", node_phase_info(is->outcome)->name);
	say_order(&text, was, is);
	if (d->cordon != CORDON_KEEP)
		str_add(&text, ", %s", d->cordon == CORDON_ON ? "cordoned" : "uncordoned");
	say_receipt(&text, &was->receipt, &is->receipt);
	say_aim(&text, "target", &was->target, &is->target);
	say_aim(&text, "previous", &was->previous, &is->previous);
	say_aim(&text, "failed", &was->failed, &is->failed);
	say_number(&text, "attempts", was->attempts, is->attempts);
	say_number(&text, "tries", was->tries, is->tries);
	say_number(&text, "drains", was->drains.failed, is->drains.failed);
	say_number(&text, "repeated", was->drains.repeated, is->drains.repeated);
	say_number(&text, "paused", was->paused, is->paused);
	say_number(&text, "hints", was->autoscaler, is->autoscaler);
	say_number(&text, "malformed", was->malformed, is->malformed);
	say_number(&text, "retry", (int64_t)was->retry, (int64_t)is->retry);
	if (is_entered && is->deadline)
		str_add(&text, ", deadline %+llds", (long long)(is->deadline - NOW));
	else if (!is_entered)
		say_time(&text, "deadline", was->deadline, is->deadline);
	say_time(&text, "ordered", was->ordered, is->ordered);
	say_time(&text, "told", was->reason_since, is->reason_since);
	say_word(&text, "pool", was->pool, is->pool);
	say_word(&text, "wave", was->wave, is->wave);
	say_aim(&text, "stable", &was->stable, &is->stable);
	if (d->drops_word)
		str_add(&text, ", NVIDIA's word goes");
	if (d->evicts)
		str_add(&text, ", evicts");
	return text;
}

static void check_said(const struct row *rows, size_t count)
{
	unsigned bad = 0;
	for (size_t i = 0; i < count; i++) {
		struct decision d;
		struct view v = view_of(&rows[i]);
		if (rows[i].more)
			rows[i].more(&v);
		transition(&v, &d);
		auto_str char *said = said_of(&m.record, &d);
		if (!str_eq(said, rows[i].said))
			print_message("%s:\n  %s\n  not: %s\n", rows[i].name, said, rows[i].said), bad++;
	}
	if (bad)
		fail_msg("%u rows", bad);
}

// What rows of several files say of a node besides.
static inline void served_by_a_set(struct view *v)
{
	(void)v;
	memcpy(m.facts.driver_set, "nvidia-driver-daemonset", sizeof("nvidia-driver-daemonset"));
}
static inline void has_plugin(struct view *v)
{
	(void)v;
	m.facts.operands = 1U | 1U << 15; // the last is the DRA driver's
}
static inline void four_drains(struct view *v)
{
	(void)v;
	m.record.drains.target_hash = m.record.target;
	m.record.drains.failed = 4;
}
static inline void four_drains_for_another(struct view *v)
{
	four_drains(v);
	m.record.drains.target_hash = sides[OTHER];
}
static inline void says_code(struct view *v)
{
	(void)v;
	memcpy(m.report.ack.code, "E_LOAD", sizeof("E_LOAD"));
}
static inline void stable_is_the_target(struct view *v)
{
	(void)v;
	m.record.previous = TARGET_HASH_NONE;
	m.record.stable = m.record.target;
}
