// SPDX-License-Identifier: Apache-2.0
#include "cluster/leader.h"

#include "cluster/ledger.h"

static const char SLOTS_NOTE[] = "kmodsmith.io/slots";

void leader_init(struct kube *kube, const char *namespace, const char *holder, struct leader *ret)
{
	*ret = (struct leader){ 0 };
	lease_init(kube, namespace, "kmodsmith-coordinator", holder, LEADER_LEASE_S, &ret->lease);
}

void leader_done(struct leader *l)
{
	lease_done(&l->lease);
	*l = (struct leader){ 0 };
}

uint32_t leader_epoch(const struct leader *l)
{
	return lease_transitions(&l->lease) + 1;
}

bool leader_is_sure(const struct leader *l)
{
	return l->is_leading && kube_now_ms() - l->sure_ms < LEADER_RENEW_DEADLINE_MS;
}

void leader_ledger(const struct leader *l, struct ledger *ret)
{
	ledger_parse(lease_note(&l->lease, SLOTS_NOTE), ret);
}

static json_t *same_notes(const struct leader *l)
{
	const char *slots = lease_note(&l->lease, SLOTS_NOTE);
	return slots ? json_pack("{s:s}", SLOTS_NOTE, slots) : json_object();
}

// What was asked for before its answer came counts from the asking: an answer may be old when it comes.
static int write_notes(struct leader *l, enum lease_hold hold, json_t *notes, struct err *err)
{
	long asked = l->asked_ms = kube_now_ms();
	int r = lease_write(&l->lease, hold, notes, err);
	if (r > 0)
		l->sure_ms = asked;
	l->is_leading = r > 0 || (r < 0 && l->is_leading);
	return r;
}

static bool is_due(const struct leader *l)
{
	return !l->asked_ms || kube_now_ms() - l->asked_ms >= LEADER_RETRY_MS;
}

// A Lease that has just run out is not waited for any longer (S9), and not asked for without end either.
static bool has_run_out(const struct leader *l)
{
	enum { PAUSE_MS = 1000 };
	return l->lease.other && lease_is_free(&l->lease) && kube_now_ms() - l->asked_ms >= PAUSE_MS;
}

int leader_try(struct leader *l, struct ledger *ret, struct err *err)
{
	if (!is_due(l) && !has_run_out(l))
		return 0;
	l->asked_ms = kube_now_ms();
	if (lease_read(&l->lease, err) < 0)
		return -1;
	if (!lease_is_free(&l->lease))
		return 0;
	int r = write_notes(l, LEASE_TAKE, same_notes(l), err);
	if (r > 0)
		leader_ledger(l, ret);
	return r;
}

int leader_keep(struct leader *l, struct err *err)
{
	if (!l->is_leading || !is_due(l))
		return l->is_leading;
	return write_notes(l, LEASE_KEEP, same_notes(l), err);
}

int leader_write(struct leader *l, const struct ledger *ledger, struct err *err)
{
	auto_str char *text = ledger_text(ledger);
	return l->is_leading ? write_notes(l, LEASE_KEEP, json_pack("{s:s}", SLOTS_NOTE, text), err) : 0;
}

int leader_leave(struct leader *l, struct err *err)
{
	if (!l->is_leading)
		return 0;
	l->is_leading = false;
	return lease_write(&l->lease, LEASE_LEAVE, same_notes(l), err);
}
