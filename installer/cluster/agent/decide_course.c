// SPDX-License-Identifier: Apache-2.0
// The journal from the acceptance of an order to its end, and what aims mean.
#include "cluster/agent/decide.h"

#include <stdio.h>

bool agent_move(struct agent_journal *j, const char *uid)
{
	if (str_eq(j->node, uid) || j->step == AGENT_BEGUN || j->step == AGENT_BACK)
		return false;
	if (*j->node)
		agent_take(j, &(struct order){ 0 });
	snprintf(j->node, sizeof(j->node), "%s", uid);
	return true;
}

void agent_take(struct agent_journal *j, const struct order *go)
{
	j->order = *go;
	j->step = go->verb == VERB_NONE ? AGENT_IDLE : AGENT_ACCEPTED;
	j->failing = FAILING_NONE;
	j->boots = j->tries = 0;
	j->previous = TARGET_HASH_NONE;
	memset(j->code, 0, sizeof(j->code));
	memset(j->boot, 0, sizeof(j->boot));
}

void agent_begin(struct agent_journal *j, enum agent_act act, const char *boot, const struct target_hash *loaded)
{
	bool is_same = str_eq(j->boot, boot);
	if (act == AGENT_REVIVE) {
		j->revivals = str_eq(j->revived, boot) ? j->revivals + 1 : 1;
		snprintf(j->revived, sizeof(j->revived), "%s", boot);
		return;
	}
	if (act == AGENT_RUN && j->step == AGENT_ACCEPTED)
		j->previous = *loaded;
	j->boots += !is_same;
	bool is_turn = act == AGENT_REVERT && j->step != AGENT_BACK;
	j->tries = is_same && !is_turn ? j->tries + 1 : 1;
	j->step = act == AGENT_REVERT ? AGENT_BACK : AGENT_BEGUN;
	snprintf(j->boot, sizeof(j->boot), "%s", boot);
}

void agent_revived(struct agent_journal *j)
{
	j->revivals = 0;
}

void agent_finish(struct agent_journal *j, const struct agent_choice *c)
{
	bool is_done = c->result == RESULT_DONE;
	j->step = is_done ? AGENT_DONE : AGENT_FAILED;
	j->failing = is_done ? FAILING_NONE : c->failing;
	snprintf(j->code, sizeof(j->code), "%s", is_done ? "" : c->code);
	if (is_done && agent_changes(j->order.verb))
		j->current = j->order.target_hash;
	if (j->order.verb != VERB_VALIDATE)
		return;
	j->probed = j->order.target_hash;
	j->probe = c->result;
	snprintf(j->probe_code, sizeof(j->probe_code), "%s", j->code);
}

void agent_journal_done(struct agent_journal *j)
{
	for (size_t i = 0; i < j->known_count; i++)
		target_done(&j->known[i]);
	free(j->known);
	*j = (struct agent_journal){ 0 };
}

const struct target *agent_known(const struct agent_journal *j, const struct target_hash *target_hash)
{
	for (size_t i = 0; i < j->known_count; i++)
		if (target_hash_eq(&j->known[i].target_hash, target_hash))
			return &j->known[i];
	return NULL;
}

static bool is_target_needed(const struct agent_journal *j, const struct target_hash *target_hash)
{
	const struct target_hash *const needed[] = { &j->order.target_hash, &j->previous, &j->current };
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (target_hash_eq(needed[i], target_hash))
			return true;
	return false;
}

bool agent_learn(struct agent_journal *j, const struct target *target)
{
	enum { KNOWN_MOST = 16 };
	if (agent_known(j, &target->target_hash))
		return false;
	for (size_t i = 0; i < j->known_count && j->known_count >= KNOWN_MOST; i++) {
		if (is_target_needed(j, &j->known[i].target_hash))
			continue;
		target_done(&j->known[i]);
		j->known_count--;
		memmove(&j->known[i], &j->known[i + 1], (j->known_count - i) * sizeof(*j->known));
	}
	j->known = mem_grow(j->known, j->known_count + 1, sizeof(*j->known));
	target_copy(target, &j->known[j->known_count++]);
	return true;
}
