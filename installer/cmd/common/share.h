// SPDX-License-Identifier: Apache-2.0
// --share: of all nodes that need the same compile one builder does it, signs and pushes the result, and the others
// load that (R-A9). Which: on Kubernetes the one that holds the Lease of its key; elsewhere, of those that have one
// state directory, whoever holds a lock. Only builders have a key: who is root on a node must not sign for all.
// Whatever goes wrong with that costs a compile more, never the install:
//
//   no builder begins          in --lease-duration: a node compiles for itself, unsigned, and takes no Lease
//   nobody can push            whoever finds that out says so in the Lease, before it compiles: all compile, at once
//   the push of one fails      it is ready all the same; those who waited compile, at once, and not one by one
//   not found, not believed    as seen from here: this node compiles
#pragma once
#include "cluster/kube/build_lease.h"
#include "cmd/common/job.h"
#include "cmd/common/signers.h"

struct share_request { // borrowed, for as long as it is shared
	const struct job_values *values;
	const struct root *kern, *state;
	const struct origin *origin;
	struct progress *progress;
	struct acquire *acquire; // is asked for what others made
	// What is to be made:
	const struct source *source;
	enum flavour flavour;
	const char *release, *build_id, *arch;
	const struct strv *modules;
};
struct share {
	struct share_request request;
	struct kube *kube; // NULL = without
	struct build_lease lease;
	struct signers signers; // of a builder
	bool is_builder;
	char *key;
	int lock; // -1 = not taken
	struct compile_gate gate;
};
#define SHARE_NONE ((struct share){ .lock = -1 })
// 1 = .gate is to be used, 0 = nothing is shared. E_USAGE, E_CONFIG, E_KEY: what was named cannot be used.
int share_open(const struct share_request *request, struct share *ret, struct err *err);
// E_USAGE: options that contradict each other.
int share_check(const struct job_values *values, const struct origin *origin, struct err *err);
void share_done(struct share *s);
#define auto_share __attribute__((cleanup(share_done)))

// Signs what was made, and pushes it.
int share_push(struct share *s, const struct package *made, struct err *err);
// Would the repository take it? Before anybody waits for it.
int share_check_push(struct share *s, struct err *err);
