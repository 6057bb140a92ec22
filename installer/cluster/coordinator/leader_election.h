// SPDX-License-Identifier: Apache-2.0
// Leader election: the coordinator that holds the Lease kmodsmith-coordinator leads. The ledger of slots is an
// annotation of that Lease, so a grant is a compare-and-swap that only the current leader can win, and grants outlive
// every leader (upgrade-design 5.1, 5.2, 5.6).
//
// A leader that could not renew for RENEW_DEADLINE_MS by its monotonic clock stops acting, which is before another one
// may take the Lease (T51, T58, T60).
#pragma once
#include "cluster/kube/lease.h"
#include "cluster/rollout/scheduler.h"

#define LEADER_LEASE "kmodsmith-coordinator"
enum { LEADER_LEASE_S = 30, LEADER_RENEW_DEADLINE_MS = 20000, LEADER_RETRY_MS = 5000 };

struct leader {
	struct lease lease;
	bool is_leading;
	struct kube_watch watch; // of the Lease, while another one holds it
	char *path;
	long deaf_ms;  // no other try to watch it until then
	long sure_ms;  // when the last successful write was requested
	long asked_ms; // when the Lease was last read or written; 0 = never
};
// Makes no request. *ret must not move in memory.
void leader_init(struct kube *kube, const char *namespace, const char *holder, struct leader *ret);
void leader_done(struct leader *l);

// If it is due: the Lease is watched meanwhile, with kube_step(). 1 = leading from now on, with the Lease's ledger
// (caller frees); 0 = not leading, or not due.
int leader_try(struct leader *l, struct slot_ledger *ret, struct err *err);
// If it is due. 1 = still leading, 0 = lost, for good. An error does not matter as long as leader_is_sure().
int leader_keep(struct leader *l, struct err *err);
int leader_write(struct leader *l, const struct slot_ledger *ledger, struct err *err); // 1 = written, 0 = lost
static inline bool leader_is_sure(const struct leader *l)
{
	return l->is_leading && kube_now_ms() - l->sure_ms < LEADER_RENEW_DEADLINE_MS;
}
int leader_leave(struct leader *l, struct err *err); // the next one takes over at once; the ledger stays
void leader_ledger(const struct leader *l, struct slot_ledger *ret); // of the last read; caller frees
static inline uint32_t leader_epoch(const struct leader *l)          // from 1
{
	return l->lease.transitions + 1;
}
