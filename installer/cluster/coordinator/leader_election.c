// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/leader_election.h"

#include "cluster/kube/api.h"
#include "cluster/rollout/rollout_status.h"

static const char SLOTS_NOTE[] = "kmodsmith.io/slots";
static const char *const lease_event[] = { KUBE_EVENT, "object metadata annotations", "object spec", NULL };

static int on_lease(void *ctx, const char *type, json_t *object, struct err *err)
{
	struct leader *l = ctx;
	(void)err;
	lease_saw(&l->lease, str_eq(type, "DELETED") ? NULL : object);
	return 0;
}

void leader_init(struct kube *kube, const char *namespace, const char *holder, struct leader *ret)
{
	*ret = (struct leader){ .path = api_path(API_LEASE, namespace, NULL) };
	ret->watch = (struct kube_watch){ .path = ret->path,
					  .query = "fieldSelector=metadata.name%3D" LEADER_LEASE,
					  .record = lease_event,
					  .event = on_lease,
					  .ctx = ret };
	lease_init(kube, namespace, LEADER_LEASE, holder, LEADER_LEASE_S, &ret->lease);
}

void leader_done(struct leader *l)
{
	kube_watch_done(&l->watch);
	lease_done(&l->lease);
	free(l->path);
	*l = (struct leader){ 0 };
}

void leader_ledger(const struct leader *l, struct slot_ledger *ret)
{
	scheduler_ledger_parse(lease_note(&l->lease, SLOTS_NOTE), ret);
}

static json_t *copy_lease_notes(const struct leader *l)
{
	const char *slots = lease_note(&l->lease, SLOTS_NOTE);
	return slots ? json_pack("{s:s}", SLOTS_NOTE, slots) : json_object();
}

// A renewal counts from its request: the answer may be late.
static int write_lease_notes(struct leader *l, enum lease_hold hold, json_t *notes, struct err *err)
{
	long asked = l->asked_ms = kube_now_ms();
	int r = lease_write(&l->lease, hold, notes, err);
	if (r > 0)
		l->sure_ms = asked;
	l->is_leading = r > 0 || (r < 0 && l->is_leading);
	return r;
}

static bool is_lease_due(const struct leader *l)
{
	return !l->asked_ms || kube_now_ms() - l->asked_ms >= LEADER_RETRY_MS;
}

enum { WATCH_S = 300, DEAF_MS = WATCH_S * 1000 };

// True: what we know of the Lease is current.
static bool is_lease_watched(struct leader *l)
{
	struct err ignored;
	int r = l->watch.own ? kube_watch_look(&l->watch, &ignored) : 0;
	if (r < 0)
		l->deaf_ms = kube_now_ms() + DEAF_MS;
	if (r <= 0)
		kube_watch_end(&l->watch);
	return r > 0;
}

int leader_try(struct leader *l, struct slot_ledger *ret, struct err *err)
{
	enum { PAUSE_MS = 1000 };
	bool is_watched = is_lease_watched(l);
	// A Lease that has just expired, or was released or deleted, is asked for at once (S9), but not in a busy loop.
	bool is_available =
		(l->lease.seen || l->watch.own) && lease_is_free(&l->lease) && kube_now_ms() - l->asked_ms >= PAUSE_MS;
	if ((is_watched || !is_lease_due(l)) && !is_available)
		return 0;
	l->asked_ms = kube_now_ms();
	if (lease_read(&l->lease, err) < 0)
		return -1;
	if (!lease_is_free(&l->lease)) {
		struct err ignored;
		if (is_watched)
			return 0;
		free(TAKE(l->watch.version));
		l->watch.version = str_dup(l->lease.version);
		// Without the right to watch it, poll as often as a leader renews.
		if (kube_now_ms() >= l->deaf_ms && kube_watch_begin(l->lease.kube, &l->watch, WATCH_S, &ignored) < 0)
			l->deaf_ms = kube_now_ms() + DEAF_MS;
		return 0;
	}
	int r = write_lease_notes(l, LEASE_TAKE, copy_lease_notes(l), err);
	if (r > 0) {
		leader_ledger(l, ret);
		kube_watch_end(&l->watch);
	}
	return r;
}

int leader_keep(struct leader *l, struct err *err)
{
	if (!l->is_leading || !is_lease_due(l))
		return l->is_leading;
	return write_lease_notes(l, LEASE_KEEP, copy_lease_notes(l), err);
}

int leader_write(struct leader *l, const struct slot_ledger *ledger, struct err *err)
{
	auto_str char *text = scheduler_ledger_text(ledger);
	return l->is_leading ? write_lease_notes(l, LEASE_KEEP, json_pack("{s:s}", SLOTS_NOTE, text), err) : 0;
}

int leader_leave(struct leader *l, struct err *err)
{
	if (!l->is_leading)
		return 0;
	l->is_leading = false;
	return lease_write(&l->lease, LEASE_LEAVE, copy_lease_notes(l), err);
}
