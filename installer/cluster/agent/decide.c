// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent/decide.h"

#include <stdio.h>

enum {
	BOOTS_MOST = 2,     // a change that was in progress in two boots may be why they ended (T76)
	TRIES_MOST = 3,     // likewise for the agent itself, within one boot
	REVERT_BOOTS = 4,   // a restore is not tried for ever either
	MEANING_S = 120,    // a policy takes that long from its ConfigMap to the file
	COORDINATOR_S = 30, // after which a booted node loads its last driver without an order
};

bool agent_changes(enum verb verb)
{
	return verb == VERB_REPLACE || verb == VERB_LOAD || verb == VERB_RESTORE;
}

static bool is_stored(const struct agent_facts *f, const struct target_hash *target_hash)
{
	for (size_t i = 0; i < AGENT_STORED; i++)
		if (target_hash_is_set(target_hash) && f->store[i].payload == target_hash->payload)
			return true;
	return false;
}

enum failing agent_failing(const struct err_info *info)
{
	if (info->code == E_IN_USE)
		return FAILING_BUSY;
	return info->retryable ? FAILING_TRANSIENT : FAILING_PERMANENT;
}

// Conditions

static const struct order *order_of(const struct agent_view *v)
{
	return &v->journal->order;
}
static bool is_loaded_now(const struct agent_view *v, const struct target_hash *target_hash)
{
	const struct agent_facts *f = v->facts;
	return f->is_known && !f->is_foreign && !f->is_empty && target_hash_is_set(target_hash) &&
	       target_hash_eq(&f->loaded, target_hash);
}
static bool is_order_loaded(const struct agent_view *v)
{
	return is_loaded_now(v, &order_of(v)->target_hash);
}
static bool is_order_change(const struct agent_view *v)
{
	return agent_changes(order_of(v)->verb);
}
static bool is_order_newer(const struct agent_view *v)
{
	return v->is_read && node_seq_cmp(v->go.seq, order_of(v)->seq) > 0;
}

static bool is_child_running(const struct agent_view *v)
{
	return v->is_running;
}
static bool is_node_unread(const struct agent_view *v)
{
	return !v->facts->is_known;
}

static bool is_reverted(const struct agent_view *v)
{
	return v->end && v->journal->step == AGENT_BACK;
}
static bool is_put_in(const struct agent_view *v)
{
	return v->end && v->end->is_ok && is_order_change(v) && is_order_loaded(v);
}
static bool is_child_crash(const struct agent_view *v)
{
	return v->end && v->end->is_crash && v->journal->tries < TRIES_MOST;
}
static bool is_child_failure(const struct agent_view *v)
{
	return v->end && !v->end->is_ok;
}
static bool is_obtained(const struct agent_view *v)
{
	return v->end && order_of(v)->verb == VERB_STAGE && is_stored(v->facts, &order_of(v)->target_hash);
}
static bool is_nothing_obtained(const struct agent_view *v)
{
	return v->end && order_of(v)->verb == VERB_STAGE;
}
static bool is_order_proven(const struct agent_view *v)
{
	return v->end && order_of(v)->verb == VERB_VALIDATE && is_order_loaded(v);
}
static bool is_child_ended(const struct agent_view *v)
{
	return v->end;
}

static bool was_begun(const struct agent_view *v)
{
	return v->journal->step == AGENT_BEGUN;
}
static bool is_order_dropped(const struct agent_view *v)
{
	return was_begun(v) && !is_order_change(v) && is_order_newer(v);
}
// Loaded, but the end was not reported: the kernel says so (5.6).
static bool is_found_done(const struct agent_view *v)
{
	return was_begun(v) && is_order_change(v) && is_order_loaded(v);
}
static bool is_boot_loop(const struct agent_view *v)
{
	const struct agent_journal *j = v->journal;
	bool is_other_boot = !str_eq(j->boot, v->boot);
	return was_begun(v) && is_order_change(v) && (is_other_boot ? j->boots >= BOOTS_MOST : j->tries >= TRIES_MOST);
}
static bool is_revertible(const struct agent_view *v)
{
	const struct agent_journal *j = v->journal;
	return is_boot_loop(v) && target_hash_is_set(&j->previous) && v->is_back_meant &&
	       !is_loaded_now(v, &j->previous) && !target_hash_eq(&j->previous, &j->order.target_hash);
}
static bool is_lost_probe(const struct agent_view *v)
{
	return was_begun(v) && !is_order_change(v) && v->journal->tries >= TRIES_MOST;
}

static bool was_reverting(const struct agent_view *v)
{
	return v->journal->step == AGENT_BACK;
}
static bool is_revert_over(const struct agent_view *v)
{
	const struct agent_journal *j = v->journal;
	return was_reverting(v) &&
	       (is_loaded_now(v, &j->previous) || j->boots >= REVERT_BOOTS || j->tries >= TRIES_MOST);
}

static bool is_accepted(const struct agent_view *v)
{
	return v->journal->step == AGENT_ACCEPTED;
}
// The Node cannot be read, or the order was removed: nothing is started.
static bool is_kernel_unknown(const struct agent_view *v)
{
	const struct order *order = order_of(v);
	return is_accepted(v) &&
	       (!v->is_read || node_seq_cmp(v->go.seq, order->seq) != 0 || v->go.verb != order->verb ||
		!target_hash_eq(&v->go.target_hash, &order->target_hash));
}
// A restore and a validation bring the node back into service, so they continue.
static bool is_node_frozen(const struct agent_view *v)
{
	enum verb verb = order_of(v)->verb;
	return is_accepted(v) && v->is_paused && verb != VERB_RESTORE && verb != VERB_VALIDATE;
}
// Pods may have come since the drain. The coordinator cordons and drains it again, or leaves it to whoever uncordoned
// it (T23). A restore brings the node back into service, and goes on.
static bool is_node_uncordoned(const struct agent_view *v)
{
	return is_accepted(v) && order_of(v)->verb == VERB_REPLACE && !v->is_cordoned;
}
static bool is_order_loaded_already(const struct agent_view *v)
{
	return is_accepted(v) && is_order_change(v) && is_order_loaded(v);
}
static bool is_other_driver_loaded(const struct agent_view *v)
{
	return is_accepted(v) && order_of(v)->verb == VERB_VALIDATE && !is_order_loaded(v);
}
static bool is_meaning_awaited(const struct agent_view *v)
{
	return is_accepted(v) && !v->is_meant && v->waited_s < MEANING_S;
}
static bool is_meaningless(const struct agent_view *v)
{
	return is_accepted(v) && !v->is_meant;
}
static bool is_stored_already(const struct agent_view *v)
{
	return is_accepted(v) && order_of(v)->verb == VERB_STAGE && is_stored(v->facts, &order_of(v)->target_hash);
}
static bool is_not_empty(const struct agent_view *v)
{
	return is_accepted(v) && order_of(v)->verb == VERB_LOAD && !v->facts->is_empty;
}
// If only parameters change, the package is the one that is loaded.
static bool is_not_stored(const struct agent_view *v)
{
	const struct target_hash *target_hash = &order_of(v)->target_hash;
	return is_accepted(v) && is_order_change(v) && !is_stored(v->facts, target_hash) &&
	       !(target_hash_is_set(&v->facts->loaded) && v->facts->loaded.payload == target_hash->payload);
}

// Booted, no driver loaded, and no coordinator about to decide which one to load (5.6).
static bool is_to_revive(const struct agent_view *v)
{
	const struct agent_journal *j = v->journal;
	bool is_planned = node_phase_info(v->phase)->is_disruptive || v->phase == PHASE_LOADING;
	bool is_cut_off = j->revivals && j->revivals < TRIES_MOST;
	return v->facts->is_empty && target_hash_is_set(&j->current) && agent_known(j, &j->current) &&
	       (!str_eq(j->revived, v->boot) || is_cut_off) &&
	       (v->is_read ? !is_planned : v->waited_s >= COORDINATOR_S);
}

// The first row that applies decides.
static const struct row {
	const char *text;
	bool (*when)(const struct agent_view *v);
	enum agent_act act;
	enum result result;
	enum failing failing; // FAILING_NONE with RESULT_FAILED: as the worker reported
	const char *code;
} rows[] = {
	{ "a worker is running", is_child_running, AGENT_WAIT, 0, 0, NULL },
	{ "the state of this node cannot be read", is_node_unread, AGENT_WAIT, 0, 0, NULL },
	// a worker has ended
	{ "no attempt is left; the previous driver was restored", is_reverted, AGENT_FINISH, RESULT_FAILED,
	  FAILING_PERMANENT, "boot-loop" },
	{ "the target is loaded", is_put_in, AGENT_FINISH, RESULT_DONE, 0, NULL },
	{ "worker was killed; retrying", is_child_crash, AGENT_RUN, 0, 0, NULL },
	{ "the worker failed", is_child_failure, AGENT_FINISH, RESULT_FAILED, FAILING_NONE, NULL },
	{ "the target is staged", is_obtained, AGENT_FINISH, RESULT_DONE, 0, NULL },
	{ "the worker succeeded, but the target is not staged", is_nothing_obtained, AGENT_FINISH, RESULT_FAILED,
	  FAILING_TRANSIENT, "not-staged" },
	{ "validated", is_order_proven, AGENT_FINISH, RESULT_DONE, 0, NULL },
	{ "the worker succeeded, but another driver is loaded", is_child_ended, AGENT_FINISH, RESULT_FAILED,
	  FAILING_PERMANENT, "drift" },
	// started, and the agent or the machine was restarted since
	{ "superseded by another order: dropped", is_order_dropped, AGENT_TAKE, 0, 0, NULL },
	{ "the target is loaded, which was not reported yet", is_found_done, AGENT_FINISH, RESULT_DONE, 0, NULL },
	{ "no attempt is left: restoring the previous driver", is_revertible, AGENT_REVERT, 0, 0, NULL },
	{ "no attempt is left", is_boot_loop, AGENT_FINISH, RESULT_FAILED, FAILING_PERMANENT, "boot-loop" },
	{ "it does not end", is_lost_probe, AGENT_FINISH, RESULT_FAILED, FAILING_TRANSIENT, "crash-loop" },
	{ "interrupted: resuming", was_begun, AGENT_RUN, 0, 0, NULL },
	{ "the restore has ended", is_revert_over, AGENT_FINISH, RESULT_FAILED, FAILING_PERMANENT, "boot-loop" },
	{ "the restore was interrupted: resuming", was_reverting, AGENT_REVERT, 0, 0, NULL },
	// an order
	{ "a newer order", is_order_newer, AGENT_TAKE, 0, 0, NULL },
	{ "the order is no longer on the Node: nothing is begun", is_kernel_unknown, AGENT_WAIT, 0, 0, NULL },
	{ "this node is paused", is_node_frozen, AGENT_WAIT, 0, 0, NULL },
	{ "the target is loaded already: adopted", is_order_loaded_already, AGENT_FINISH, RESULT_DONE, 0, NULL },
	{ "the node is not cordoned any more: nothing is unloaded", is_node_uncordoned, AGENT_FINISH, RESULT_FAILED,
	  FAILING_BUSY, "not-cordoned" },
	{ "another driver is loaded", is_other_driver_loaded, AGENT_FINISH, RESULT_FAILED, FAILING_PERMANENT, "drift" },
	{ "the policy does not define the target yet", is_meaning_awaited, AGENT_WAIT, 0, 0, NULL },
	{ "the policy does not define the target", is_meaningless, AGENT_FINISH, RESULT_FAILED, FAILING_TRANSIENT,
	  "unknown-aim" },
	{ "the target is staged already", is_stored_already, AGENT_FINISH, RESULT_DONE, 0, NULL },
	{ "a load order does not unload a driver", is_not_empty, AGENT_FINISH, RESULT_FAILED, FAILING_TRANSIENT,
	  "not-empty" },
	{ "the target is not staged: nothing is unloaded", is_not_stored, AGENT_FINISH, RESULT_FAILED,
	  FAILING_TRANSIENT, "not-staged" },
	{ "starting the worker", is_accepted, AGENT_RUN, 0, 0, NULL },
	{ "booted: loading the last good driver", is_to_revive, AGENT_REVIVE, 0, 0, NULL },
};

void agent_choose(const struct agent_view *v, struct agent_choice *ret)
{
	*ret = (struct agent_choice){ .act = AGENT_WAIT };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!rows[i].when(v))
			continue;
		bool is_childs = rows[i].result == RESULT_FAILED && rows[i].failing == FAILING_NONE;
		*ret = (struct agent_choice){ .rule = rows[i].text,
					      .act = rows[i].act,
					      .result = rows[i].result,
					      .failing = is_childs ? v->end->failing : rows[i].failing,
					      .code = is_childs ? v->end->code : rows[i].code };
		return;
	}
}

// The journal from the acceptance of an order to its end

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
