// SPDX-License-Identifier: Apache-2.0
// Who coordinates: the holder of the Lease kmodsmith-coordinator, whose annotation is the ledger of slots. So a grant
// is a compare-and-swap that only the leader of the moment can win, and what was granted outlives every leader
// (upgrade-design 5.1, 5.2, 5.6).
//
// A leader that could not renew for RENEW_DEADLINE_MS by its monotonic clock has to stop acting, which is before
// another one may take the Lease (T51, T58, T60).
#pragma once
#include "cluster/kube/lease.h"
#include "cluster/rollout/scheduler.h"

#define LEADER_LEASE "kmodsmith-coordinator"
enum { LEADER_LEASE_S = 30, LEADER_RENEW_DEADLINE_MS = 20000, LEADER_RETRY_MS = 5000 };

struct leader {
	struct lease lease;
	bool is_leading;
	struct kube_watch watch; // of the Lease, as long as another one holds it
	char *path;
	long deaf_ms;  // it cannot be watched until then
	long sure_ms;  // when the last write that went through was asked for
	long asked_ms; // when the Lease was looked at or written last; 0 = never
};
// No request yet; must not move in memory.
void leader_init(struct kube *kube, const char *namespace, const char *holder, struct leader *ret);
void leader_done(struct leader *l);

// When it is due: the Lease is watched meanwhile, with kube_step(). 1 = leading from now on, with the ledger that the
// Lease has (caller frees); 0 = not, or not due.
int leader_try(struct leader *l, struct slot_ledger *ret, struct err *err);
// When it is due. 1 = still leading, 0 = lost, for good. An error is none as long as leader_is_sure().
int leader_keep(struct leader *l, struct err *err);
int leader_write(struct leader *l, const struct slot_ledger *ledger, struct err *err); // 1 = written, 0 = lost
bool leader_is_sure(const struct leader *l);
int leader_leave(struct leader *l, struct err *err); // the next one takes over at once; the ledger stays
void leader_ledger(const struct leader *l, struct slot_ledger *ret); // as the Lease was read last; caller frees
uint32_t leader_epoch(const struct leader *l);                       // from 1
