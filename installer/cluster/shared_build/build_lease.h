// SPDX-License-Identifier: Apache-2.0
// Who compiles, of all the nodes that need the same: whoever holds a Lease named by the key of what is to be made
// (R-A9). It is renewed while the compile runs; a holder that is silent for as long as the Lease says has died, and
// another one takes over.
//
// A Lease that is lost costs a second compile, never a wrong result. What came of it stands in an annotation.
#pragma once
#include "cluster/kube/lease.h"

// Apart from everything else, so that who may write these Leases can write no others: neither those of the control
// plane nor the coordinator's, which has the ledger.
#define BUILD_LEASE_NAMESPACE "kmodsmith-compile"

struct build_lease {
	struct lease lease;
	char *key;
	bool is_held;
	long renewed_ms;
};
// key: any text; it stands in an annotation. holder: who we are, for people; something random is added.
void build_lease_init(struct kube *kube, const char *namespace, const char *key, const char *holder,
		      unsigned duration_s, struct build_lease *ret);
void build_lease_done(struct build_lease *b);

int build_lease_read(struct build_lease *b, struct err *err); // 1 = held, 0 = free; it is not taken
int build_lease_try(struct build_lease *b, struct err *err);  // 1 = ours; 0 = another one's, or a lost race
// Until something happens to it or ms are over. 1 = it is free now, and the outcome is there; 0 = it is not.
int build_lease_wait(struct build_lease *b, unsigned ms, struct err *err);
int build_lease_renew(struct build_lease *b, struct err *err); // when it is due; 1 = still ours, 0 = lost
// outcome: at most 256 bytes, NULL = nothing to tell. 0 also when it had been lost.
int build_lease_release(struct build_lease *b, const char *outcome, struct err *err);
const char *build_lease_outcome(const struct build_lease *b); // that the last holder left; NULL = none
