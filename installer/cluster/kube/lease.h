// SPDX-License-Identifier: Apache-2.0
// A Lease of coordination.k8s.io/v1 as its candidates see it. Every write carries the version that was read,
// so of two who write one wins. A holder that is silent for as long as the Lease says has gone; its silence is judged
// by the observer's own monotonic clock since the last change that it saw, so that clocks of machines need not agree
// (as client-go's leaderelection does).
#pragma once
#include "cluster/kube/client.h"

struct lease {
	struct kube *kube; // borrowed
	char *namespace, *name, *holder;
	unsigned duration_s;
	json_t *seen; // as it was read or written last; NULL = there is none
	long seen_ms; // when it became so
	char *other;  // its holder when it was read last; NULL = none, or ourselves
};
// holder: who we are, for people; something random is added, so that a program started again is another one.
void lease_init(struct kube *kube, const char *namespace, const char *name, const char *holder, unsigned duration_s,
		struct lease *ret);
void lease_done(struct lease *l);

int lease_read(struct lease *l, struct err *err); // 1 = it is there, 0 = there is none
// As a watch has reported it; NULL = it is gone. Borrowed.
void lease_saw(struct lease *l, json_t *lease);
bool lease_is_free(const struct lease *l);
enum lease_hold { LEASE_TAKE, LEASE_KEEP, LEASE_LEAVE };
// notes: annotations as they are to be, taken; others are removed. 1 = written, 0 = another writer was faster.
int lease_write(struct lease *l, enum lease_hold hold, json_t *notes, struct err *err);
const char *lease_note(const struct lease *l, const char *key); // borrowed; NULL = absent
const char *lease_version(const struct lease *l);               // to watch from; NULL = there is none
uint32_t lease_transitions(const struct lease *l);              // how often it changed hands
