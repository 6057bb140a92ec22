// SPDX-License-Identifier: Apache-2.0
// A Lease of coordination.k8s.io/v1 as its candidates see it. Every write carries the version that was read, so only
// one of two writers wins. A holder that is silent for the duration of the Lease is gone. The observer measures that
// with its own monotonic clock since the last change that it saw, so clocks of machines need not agree (as in
// client-go's leaderelection).
#pragma once
#include "cluster/kube/client.h"

enum { LEASE_SENT = 4, LEASE_TIME_TEXT = 32 };
struct lease {
	struct kube *kube; // borrowed
	char *namespace, *name, *holder;
	unsigned duration_s;
	json_t *seen;         // as last read or written; NULL = there is none
	const char *version;  // its resourceVersion, to watch from; NULL = there is none
	uint32_t transitions; // how often it changed hands
	long seen_ms;         // when it changed
	char *other;          // the holder then; NULL = none, or ourselves
	unsigned resets;      // times that it was ours, as we had left it before; see lease_write()
	// renewTime of our writes since the last answer, the oldest ones overwritten.
	char sent[LEASE_SENT][LEASE_TIME_TEXT];
	unsigned writes;
};
// holder: our name, for people; a random part is added, so that a restarted program is another holder.
void lease_init(struct kube *kube, const char *namespace, const char *name, const char *holder, unsigned duration_s,
		struct lease *ret);
void lease_done(struct lease *l);

int lease_read(struct lease *l, struct err *err); // 1 = read, 0 = there is none
// As reported by a watch; NULL = it is gone. Borrowed.
void lease_saw(struct lease *l, json_t *lease);
bool lease_is_free(const struct lease *l);
enum lease_hold { LEASE_TAKE, LEASE_KEEP, LEASE_LEAVE };
// notes: the new annotations, taken; others are removed. 1 = written, 0 = another writer was faster. If it changed and
// is still ours, its renewTime tells whether the answer to a write was lost. If not, etcd was restored from a backup,
// and every version that is known is of a history that is gone: counted in resets, and LEASE_KEEP leaves the
// annotations as they are.
int lease_write(struct lease *l, enum lease_hold hold, json_t *notes, struct err *err);
const char *lease_note(const struct lease *l, const char *key); // borrowed; NULL = absent
