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
#define BUILDLEASE_NAMESPACE "kmodsmith-compile"

struct buildlease {
	struct lease lease;
	char *key;
	bool is_held;
	long renewed_ms;
};
// key: any text; it stands in an annotation. holder: who we are, for people; something random is added.
void buildlease_init(struct kube *kube, const char *namespace, const char *key, const char *holder, unsigned duration_s,
		     struct buildlease *ret);
void buildlease_done(struct buildlease *b);

int buildlease_look(struct buildlease *b, struct err *err); // 1 = somebody holds it, 0 = nobody; it is not taken
int buildlease_try(struct buildlease *b, struct err *err);  // 1 = ours; 0 = another one's, or a lost race
// Until something happens to it or ms are over. 1 = it is free now, and the outcome is there; 0 = it is not.
int buildlease_wait(struct buildlease *b, unsigned ms, struct err *err);
int buildlease_renew(struct buildlease *b, struct err *err); // when it is due; 1 = still ours, 0 = lost
// outcome: at most 256 bytes, NULL = nothing to tell. 0 also when it had been lost.
int buildlease_release(struct buildlease *b, const char *outcome, struct err *err);
const char *buildlease_outcome(const struct buildlease *b); // that the last holder left; NULL = none
