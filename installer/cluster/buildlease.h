// SPDX-License-Identifier: Apache-2.0
// Who compiles, of all the nodes that need the same: whoever holds a Lease named by the key of what is to be made
// (R-H4).
// It is renewed while the compile runs; a holder that is silent for as long as the Lease says has died, and another one
// takes over. Its silence is judged by the observer's own monotonic clock since the last change that it saw, so that
// clocks of nodes need not agree (as client-go's leaderelection does).
//
// A Lease that is lost costs a second compile, never a wrong result. What came of it stands in an annotation.
#pragma once
#include "cluster/kube.h"

struct buildlease {
	struct kube *kube; // borrowed
	char *namespace, *name, *holder, *key;
	unsigned duration_s;
	bool is_held;
	long renewed_ms;
	json_t *seen;  // the Lease as it was read last; NULL = there was none
	long seen_ms;  // when it became so
	char *other;   // who held it when it was read last; NULL = nobody
	char *outcome; // that the last holder left; NULL = none
};
// key: any text; it stands in an annotation. holder: who we are, for people; something random is added.
void buildlease_init(struct kube *kube, const char *namespace, const char *key, const char *holder, unsigned duration_s,
		     struct buildlease *ret);
void buildlease_done(struct buildlease *b);

int buildlease_try(struct buildlease *b, struct err *err); // 1 = it is ours, 0 = another one's: .other, or a lost race
// Until something happens to it or ms are over. 1 = it is free now, and .outcome says what came of it; 0 = it is not.
int buildlease_wait(struct buildlease *b, unsigned ms, struct err *err);
int buildlease_renew(struct buildlease *b, struct err *err); // when it is due; 1 = still ours, 0 = lost
// outcome: at most 256 bytes, NULL = nothing to tell. 0 also when it had been lost.
int buildlease_release(struct buildlease *b, const char *outcome, struct err *err);
