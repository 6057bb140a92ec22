// SPDX-License-Identifier: Apache-2.0
// The state of one run of a plan: what each step leaves for later ones and for the undo. Private to this directory.
#pragma once
#include "holders/unbind.h"
#include "host/module_set.h"
#include "journal/journal.h"
#include "transaction/apply.h"

// The way back: which driver is restored if a change fails, with its module files complete before anything is touched.
// It needs no network: the files are in the node's store, or the host's own.
struct rollback {
	struct driver_state driver; // .version NULL = there is no way back
	struct package package;     // of the store, or none
	const struct root *shared;  // its files, where the target's package is the same; NULL = unpacked on its own
	struct strv files;          // of driver.modules, in one of these, or else below the host root
};
#define ROLLBACK_NONE ((struct rollback){ .package = PACKAGE_NONE })

// What a run knows beyond its plan.
struct transaction {
	const struct apply *a;
	struct package package;     // what is installed: in the node's store, and unpacked
	struct driver_state target; // the same with its parameters, as the journal tells it
	struct journal journal;
	struct rollback rollback;       // prepared before anything is touched
	bool was_open;                  // this boot was in the middle of a change already
	bool is_touched;                // the kernel may not be as it was
	struct module_set set;          // files of package
	size_t *order;                  // of set, for loading
	struct strv *needs;             // by module of set: those of the kernel's own tree that it imports from
	struct optional_modules failed; // modules of set that the core does without
	struct strv loaded;             // names that this run loaded
	struct unbound released;        // who had a GPU before
	char modules[DIGEST_HEX + 1];   // of the tree of modules exported with it; "" = none
	struct status *status;
	struct facts now; // as status was measured on
};

#define TRANSACTION_OF(apply, ret) \
	((struct transaction){ .a = (apply), .package = PACKAGE_NONE, .rollback = ROLLBACK_NONE, .status = (ret) })
void transaction_done(struct transaction *r);
#define auto_transaction __attribute__((cleanup(transaction_done)))

// transaction.c
int transaction_open(struct transaction *r, struct err *err); // reads the journal
// The store keeps what is in use and what last made the node ready. A failed record must not fail a working node.
void transaction_remember(const struct transaction *r, const char *digest,
			  int (*set)(const struct store *s, const char *hex, struct err *err));
// Also records that this package of another kernel serves this one, or that none does.
int transaction_note_reuse(const struct transaction *r, const struct package *p, struct err *err);
// Once the kernel is touched, a journal that cannot be written is no reason to stop half-way: a later start checks the
// kernel first.
void transaction_write_journal(struct transaction *r);
// Before that, it is one, unless the node has no driver to lose and the journal fits into memory.
int transaction_write_intent(struct transaction *r, struct err *err);
void transaction_flush_journal(
	struct transaction *r); // one that is in memory, as soon as the disk can be written again
// On a node without a driver a disk that cannot be written is no reason to stop: 0, with a note. Else err stays.
int transaction_may_go_unwritten(const struct transaction *r, struct err *err);
// From the first change in the kernel on, a request to stop waits until the node is in a consistent state; and a closed
// log pipe must not kill us between an unload and the load after it.
void transaction_block_signals(void);

// optional_modules.h: whether the plan does without this module, whose failure is then noted.
bool transaction_skip_optional(struct transaction *r, const char *module, const struct err *why);
void transaction_drop_optional(struct transaction *r); // what failed is no part of what works

// Measures the node. plan: the result must match it; NULL = any working driver will do.
int transaction_verify(struct transaction *r, const struct plan *plan, struct err *err);
// Publishes what is about to happen. Negative only before the first change in the kernel: the published status must not
// say that the driver is ready.
int transaction_publish(const struct transaction *r, const char *step, const char *subject, bool is_touch,
			struct err *err);
void transaction_publish_end(const struct transaction *r, const char *outcome); // as transaction_verify() measured it

// What the kernel has now; after an interrupted change in this boot, what it had before; with no driver loaded, the
// last good one. Never the target itself. One that cannot be restored is reported (progress_note) and counts as none.
// have: the target's package, which may be the same (other parameters); it outlives ret.
void transaction_prepare_rollback(const struct apply *a, const struct journal *j, const struct driver_state *target,
				  const struct package *have, struct rollback *ret);
// Its modules, where they are not loaded, with the parameters they had. 1 = some were loaded, 0 = all were
// there; or the first failure.
int transaction_load_rollback(const struct apply *a, const struct rollback *b, struct err *err);

// step_acquire.c
int step_adopt(struct transaction *r, const struct step *step, struct err *err);
int step_package(struct transaction *r, const struct step *step, struct err *err);
int step_compile(struct transaction *r, const struct step *step, struct err *err);
int step_prove(struct transaction *r, const struct step *step, struct err *err);
// step_preflight.c
int step_preflight(struct transaction *r, const struct step *step, struct err *err);
// Checks the firmware of a driver to be restored on a node without one, as that of a target.
int step_check_rollback(struct transaction *r, struct err *err);
int step_unbind(struct transaction *r, const struct step *step, struct err *err);
int step_undo_unbind(struct transaction *r, struct err *err);
void step_commit_unbind(struct transaction *r);            // once a driver of ours has the GPUs
void step_commit_unbind_left(const struct transaction *r); // and when a run that was cut off may have had no time to
// step_modules.c
int step_holders(struct transaction *r, const struct step *step, struct err *err);
int step_unload(struct transaction *r, const struct step *step, struct err *err);
int step_load(struct transaction *r, const struct step *step, struct err *err);
// Unload what this or an interrupted run loaded; and reload what the kernel had, with its nodes.
int step_undo_load(struct transaction *r, struct err *err);
int step_undo_unload(struct transaction *r, struct err *err);
int step_nodes(struct transaction *r, const struct step *step, struct err *err);
int step_verify(struct transaction *r, const struct step *step, struct err *err);
// step_driver_root.c
int step_payload(struct transaction *r, const struct step *step, struct err *err);
int step_export(struct transaction *r, const struct step *step, struct err *err);
int step_prepare_export(struct transaction *r, struct err *err);  // before anything is touched, or by step_export()
int step_export_firmware(struct transaction *r, struct err *err); // to the kernel that is about to load the modules
// The user space of a driver that is restored on a node without one, as far as the store has it. Prepared before its
// modules are loaded, exported after it; failures are notes.
void step_prepare_rollback_export(struct transaction *r);
void step_export_rollback(struct transaction *r);
// Restores the previous export; a failure is a note, because it must not stop the undo of the modules.
void step_undo_export(struct transaction *r);
void step_export_collect(struct transaction *r); // removes exports that are no longer used
