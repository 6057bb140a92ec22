// SPDX-License-Identifier: Apache-2.0
// --share: of all nodes that need the same compile, one builder does it, signs and pushes the result, and the others
// load that (R-A9). On Kubernetes it is the node that holds the Lease of its key; elsewhere, among processes with one
// state directory, the one that holds a lock. Only builders have a key: root on one node must not sign for all nodes.
// A failure here costs another compile, never the install:
//
//   no builder begins          within --lease-duration: a node compiles for itself, unsigned, and takes no Lease
//   no builder can push        the first one notices, says so in the Lease and compiles; all compile at once
//   one push fails             that node is ready all the same; those that waited compile, all at once
//   not found, not trusted     as seen from this node: it compiles
//
// What the compile had to make or to fetch besides the package goes there after it, when nobody waits any more: the
// core of an open release, for other kernels; headers that came from a distribution's repositories, for the next
// driver, which another node may compile when they no longer have them.
#pragma once
#include "acquire/acquire.h"
#include "acquire/compile.h"
#include "cluster/shared_build/build_lease.h"
#include "precompiled/trust/signers.h"

struct shared_build_request {   // borrowed for as long as struct shared_build lives
	const char *repository; // that builders push to
	bool is_builder;
	const struct strv *keys;   // of a builder
	const char *lease;         // namespace of the Leases, "auto", "off"; NULL = "auto"
	const char *kubeconfig;    // NULL = of the pod's service account
	unsigned lease_duration_s; // 0 = a minute
	unsigned timeout_s;        // of the compile; 0 = an hour
	const struct repository_options *remote;
	struct acquire *acquire; // finds what others made; its .want says for which kernel, and which modules
	const struct source *source;
	enum module_type flavour;
};
struct shared_build {
	struct shared_build_request request;
	struct kube *kube; // NULL = without a Lease
	struct build_lease lease;
	long idle_s;            // when the wait for a builder began, or the last one left
	struct signers signers; // of a builder
	char *key;
	struct scratch beside_work; // has beside: what goes with the package
	struct layout beside;
	int lock; // -1 = not taken
	struct compile_gate gate;
};
#define SHARED_BUILD_NONE ((struct shared_build){ .beside_work = SCRATCH_NONE, .beside = LAYOUT_NONE, .lock = -1 })
// ret must not move: the caller uses .gate, which points to it. E_USAGE, E_CONFIG, E_KEY: an option cannot be used.
int shared_build_open(const struct shared_build_request *request, struct shared_build *ret, struct err *err);
void shared_build_done(struct shared_build *s);
#define auto_shared_build __attribute__((cleanup(shared_build_done)))
