// SPDX-License-Identifier: Apache-2.0
// Runs a plan step by step; after a failure undoes, last step first, what this run changed in the kernel.
#pragma once
#include "acquire/acquire.h"
#include "acquire/compile.h"
#include "driver_root/driver_root.h"
#include "gpu_check/gpu_start.h"
#include "kmod/module/proof.h"
#include "plan/plan.h"
#include "status/status.h"

struct gpu_demand {
	bool is_off;              // the GPUs are not measured: ready says that the modules are there
	bool is_start_only;       // they are opened, and not asked further
	int timeout_ms;           // of one GPU's start; 0 = GPU_START_TIMEOUT_MS
	unsigned allowed_missing; // how many may be broken on a node that is ready
};

struct apply {
	const struct node *node; // .state: headers, scratch; holds the store
	const struct facts *facts;
	const struct request *request;
	const struct plan *plan;
	struct acquire *acquire;               // store, and of STEP_PACKAGE what was found
	const struct compile_request *compile; // of STEP_COMPILE; output and flavour are filled in here
	const struct compile_gate *gate;       // NULL = every node compiles for itself
	struct driver_root *export;            // NULL = user space is not exported
	const char *cdi;                       // see cdi_spec_file_update()
	unsigned imex_channels;
	bool is_kept; // the driver's daemons will be started: what they need is checked first
	int unload_timeout_ms, holders_timeout_ms;
	int load_timeout_ms; // see load_module()
	struct gpu_demand gpus;
	struct gpu_holds *holds;    // GPUs that were started stay open in it; empty before
	bool is_unproven_allowed;   // may replace a working driver although nothing could be compared
	bool is_payload_elsewhere;  // no firmware is looked for: it comes with the user space
	enum proof_basis *compared; // of STEP_PROVE, when it has run
	const struct err *failure;  // of apply_last_good(): why the last good driver is restored
};

// The node's lock must be held. ret is the status measured at the end. A failure before the first unload or load has
// changed nothing in the kernel; a later one is undone, and the message says so or says what could not be undone.
int apply_plan(const struct apply *apply, struct status *ret, struct err *err);

// Of a plan that is only shown: what its run would refuse before it fetches, compiles or touches anything, as far as
// that can be read: rights, firmware, room, and on a kernel that takes only signed modules those of a package that is
// on this machine. Uses up what was found.
int apply_foresee(const struct apply *apply, struct err *err);

// The long part of a plan, which touches nothing: fetch or compile, keep in the store, and prove. Runs without the
// node's lock, so that other changes of this node need not wait.
int apply_stage(const struct apply *apply, struct err *err);

// When no driver is loaded, or a change was interrupted in this boot: restores what was loaded before, or the last good
// driver, from the node's own store, journaled as any change. plan, request and compile are not needed; facts must be
// current. 1 = it is loaded again, 0 = nothing to do, or nothing to restore.
int apply_last_good(const struct apply *a, struct status *ret, struct err *err);

// For a run that ended before any of these: publishes the node's status and the failure (status_file.h).
void transaction_publish_failure(const struct apply *a, const char *outcome, const struct err *failure);
