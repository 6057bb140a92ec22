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
#include "acquire/acquire.h"
#include "acquire/compile.h"
#include "cluster/shared_build/build_lease.h"
#include "precompiled/trust/signers.h"

struct shared_build_request {   // borrowed, for as long as it is shared
	const char *repository; // that builders push to
	bool is_builder;
	const struct strv *keys;   // of a builder
	const char *lease;         // namespace of the Leases, "auto", "off"; NULL = "auto"
	const char *kubeconfig;    // NULL = of the pod's service account
	unsigned lease_duration_s; // 0 = a minute
	unsigned timeout_s;        // of the compile; 0 = an hour
	const struct repository_options *remote;
	const struct root *kern, *state;
	struct progress *progress;
	struct acquire *acquire; // is asked for what others made
	// What is to be made:
	const struct source *source;
	enum module_type flavour;
	const char *release, *build_id, *arch;
	const struct strv *modules;
};
struct shared_build {
	struct shared_build_request request;
	struct kube *kube; // NULL = without
	struct build_lease lease;
	struct signers signers; // of a builder
	char *key;
	int lock; // -1 = not taken
	struct compile_gate gate;
};
#define SHARED_BUILD_NONE ((struct shared_build){ .lock = -1 })
// ret must stay where it is: .gate is to be used. E_USAGE, E_CONFIG, E_KEY: what was named cannot be used.
int shared_build_open(const struct shared_build_request *request, struct shared_build *ret, struct err *err);
void shared_build_done(struct shared_build *s);
#define auto_shared_build __attribute__((cleanup(shared_build_done)))

// Signs what was made, and pushes it.
int shared_build_push(struct shared_build *s, const struct package *made, struct err *err);
// Would the repository take it? Before anybody waits for it.
int shared_build_check_push(struct shared_build *s, struct err *err);
