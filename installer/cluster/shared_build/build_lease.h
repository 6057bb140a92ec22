// SPDX-License-Identifier: Apache-2.0
// Of all nodes that need the same compile, the holder of a Lease does it (R-A9). The Lease is named by the key of what
// is to be made. It is renewed while the compile runs; a holder that is silent for the duration of the Lease has died,
// and another node takes over.
//
// A lost Lease costs a second compile, never a wrong result. An annotation has the outcome.
#pragma once
#include "cluster/kube/lease.h"

// A namespace of its own, so that the right to write these Leases covers no others: neither the control plane's nor the
// coordinator's, which has the ledger.
#define BUILD_LEASE_NAMESPACE "kmodsmith-compile"

struct build_lease {
	struct lease lease;
	char *key;
	bool is_held;
	long renewed_ms;
};
// key: any text; an annotation has it. holder: our name, for people; a random part is added.
void build_lease_init(struct kube *kube, const char *namespace, const char *key, const char *holder,
		      unsigned duration_s, struct build_lease *ret);
void build_lease_done(struct build_lease *b);

int build_lease_read(struct build_lease *b, struct err *err); // 1 = held, 0 = free; it is not taken
int build_lease_try(struct build_lease *b, struct err *err);  // 1 = ours, 0 = another node's, or a lost race
// Until the Lease is released or ms have passed. 1 = it is free now, with its outcome; 0 = it is not.
int build_lease_wait(struct build_lease *b, unsigned ms, struct err *err);
int build_lease_renew(struct build_lease *b, struct err *err); // when it is due; 1 = still ours, 0 = lost
// outcome: at most 256 bytes; NULL = none. 0 also if it had been lost.
int build_lease_release(struct build_lease *b, const char *outcome, struct err *err);
const char *build_lease_outcome(const struct build_lease *b); // left by the last holder; NULL = none
