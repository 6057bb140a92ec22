// SPDX-License-Identifier: Apache-2.0
// The state of one run of a plan: what each step leaves for later steps and for the undo. Private to this room.
#pragma once
#include "gpu_check/gpu_record.h"
#include "holders/unbind.h"
#include "host/module_set.h"
#include "journal/journal.h"
#include "transaction/session.h"

// The way back: which driver is restored if a change fails, with its module files complete before anything is touched.
// It needs no network: the files are in the node's store, or the host's own.
struct rollback {
	struct driver_state driver; // .version NULL = there is no way back
	struct package package;     // of the store, or none
	const struct root *shared;  // its files, where the target's package is the same; NULL = unpacked on its own
	struct strv files;          // of driver.modules, in one of these, or else below the host root
};
#define ROLLBACK_NONE ((struct rollback){ .package = PACKAGE_NONE })
void rollback_done(struct rollback *b);
#define auto_rollback __attribute__((cleanup(rollback_done)))

// Prepares the driver that the kernel has now; after an interrupted change in this boot, what it had before; with no
// driver loaded, the last good one. Never the target itself. One that cannot be restored is reported (progress_note)
// and counts as none. have: the target's package, which may be the same (other parameters); it outlives ret.
void rollback_prepare(struct session *s, const struct journal *j, const struct driver_state *target,
		      const struct package *have, struct rollback *ret);
// Loads its modules that are not loaded, with the parameters they had. 1 = some were loaded, 0 = all were there
// already.
int rollback_load(struct session *s, const struct rollback *b, struct err *err);

// One run of a plan.
struct transaction {
	struct session *session;         // whose plan runs
	const struct compile_gate *gate; // NULL = this node compiles for itself
	const struct err *failure;       // of apply_last_good(): why the last good driver is restored
	struct package package;          // being installed: in the node's store, and unpacked
	struct driver_state target;      // the same with its parameters, as in the journal
	struct journal journal;
	struct rollback rollback;       // prepared before anything is touched
	bool was_open;                  // this boot was in the middle of a change already
	bool is_touched;                // the kernel may have changed
	struct module_set set;          // files of package
	size_t *order;                  // of set, for loading
	struct strv *needs;             // by module of set: those of the kernel's own tree that it imports from
	struct optional_modules failed; // optional modules of set that are left out
	struct strv loaded;             // names that this run loaded
	struct unbound released;        // GPUs' previous drivers
	char modules[DIGEST_HEX + 1];   // of the tree of modules exported with it; "" = none
	struct gpu_record before;       // the GPUs with the driver that is replaced
	bool is_before_known;
	bool is_gpu_at_fault; // what does not work now is no fault of the driver's
	struct status *status;
	struct facts now; // when status was measured
};
#define TRANSACTION_OF(s, ret) \
	((struct transaction){ .session = (s), .package = PACKAGE_NONE, .rollback = ROLLBACK_NONE, .status = (ret) })
void transaction_done(struct transaction *t);
#define auto_transaction __attribute__((cleanup(transaction_done)))

// Runs a plan step by step; after a failure undoes, last step first, what this run changed in the kernel. The node's
// lock must be held. ret is the status measured at the end. A failure before the first unload or load has changed
// nothing in the kernel; a later one is undone, and the message says so or says what could not be undone.
int apply_plan(struct session *s, const struct compile_gate *gate, struct status *ret, struct err *err);
// When no driver is loaded, or a change was interrupted in this boot: restores what was loaded before, or the last good
// driver, from the node's own store, journaled as any change. failure: why. There need not be a plan; the session's
// facts must be current. 1 = it is loaded again, 0 = nothing to do, or nothing to restore.
int apply_last_good(struct session *s, const struct err *failure, struct status *ret, struct err *err);
struct compile_request session_compile(const struct session *s); // of STEP_COMPILE; some members are the step's

struct step_action {
	int (*run)(struct transaction *t, const struct step *step, struct err *err);
	int (*undo)(struct transaction *t, struct err *err); // NULL = there is nothing to undo
};
extern const struct step_action step_actions[]; // by enum step_kind

// Refuses what the step would refuse, as far as reading alone can tell.
int step_foresee(struct transaction *t, const struct step *step, struct err *err);
int step_prepare_export(struct transaction *t, struct err *err); // before anything is touched, or in STEP_EXPORT
// Loads what the kernel had, with its nodes.
int step_undo_unload(struct transaction *t, struct err *err);
// Restores the previous export; a failure is a note, because it must not stop the undo of the modules.
void step_undo_export(struct transaction *t);
// After an interrupted run, which may not have committed its unbinding.
void step_commit_unbind_left(const struct transaction *t);
void step_export_collect(struct transaction *t); // removes exports that are no longer used

// Restoring a driver on a node without one: its firmware is checked like a target's. Its user space, as far as the
// store has it, is prepared before its modules are loaded, and exported afterwards.
int step_check_rollback(struct transaction *t, struct err *err);
int step_prepare_rollback_export(struct transaction *t, struct err *err);
void step_export_rollback(struct transaction *t);

// The store keeps what is in use and what last made the node ready. A failed record must not fail a working node.
void transaction_remember(const struct transaction *t, const char *digest,
			  int (*set)(const struct store *s, const char *hex, struct err *err));
// For a run that ended before any of these: publishes the node's status and the failure (status_file.h).
void transaction_publish_failure(struct session *s, const char *outcome, const struct err *failure);
// Measures the node. plan: the result must match it; NULL = any working driver will do.
int transaction_verify(struct transaction *t, const struct plan *plan, struct err *err);
// Before a driver that is loaded is replaced: which GPUs work. E_GPU_PENDING: one of them hangs, and the driver stays.
int transaction_measure_before(struct transaction *t, struct err *err);
// Starts the GPUs, unless that was done since the driver was loaded, and judges: E_GPU_START, _PENDING, _UNTESTED.
// 1 = the record has changed.
int transaction_check_gpus(struct transaction *t, struct err *err);
