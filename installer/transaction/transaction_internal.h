// SPDX-License-Identifier: Apache-2.0
// One run of a plan, as its steps see it: what each leaves for the later ones and for the undo. Only the files of this
// room include it.
#pragma once
#include "holders/unbind.h"
#include "host/module_set.h"
#include "journal/journal.h"
#include "transaction/apply.h"

// The way back: which driver comes in again when a change fails, and its module files, whole and at hand before
// anything is touched. It needs no network: the files are those of the node's store, or the host's own.
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
// The store keeps what is in use and what last made the node ready. A node that works is not failed for a note.
void transaction_remember(const struct transaction *r, const char *digest,
			  int (*set)(const struct store *s, const char *hex, struct err *err));
// And, beside it, that this package of another kernel serves this one; or that its own package, or none, does.
int transaction_note_reuse(const struct transaction *r, const struct package *p, struct err *err);
// Once the kernel is touched, a journal that cannot be written is no reason to stop half-way: a later start looks at
// the kernel before it looks there.
void transaction_write_journal(struct transaction *r);
// Before that, it is: unless the node has no driver to lose, and memory takes it.
int transaction_write_intent(struct transaction *r, struct err *err);
void transaction_flush_journal(
	struct transaction *r); // one that is in memory, as soon as the disk can be written again
// On a node without a driver a disk that cannot be written is no reason to stop: 0, and it is told. Else err stays.
int transaction_may_go_unwritten(const struct transaction *r, struct err *err);
// From the first change in the kernel on, a request to stop waits until the node is in a state that may be left; and a
// reader of our log that goes away must not end us between an unload and the load after it.
void transaction_block_signals(void);

// optional_modules.h: whether the plan does without this module, whose failure is then noted.
bool transaction_skip_optional(struct transaction *r, const char *module, const struct err *why);
void transaction_drop_optional(struct transaction *r); // what failed is no part of what works

// Measure; plan: what is requested must be what there is, too. NULL = anything that works.
int transaction_verify(struct transaction *r, const struct plan *plan, struct err *err);
// What is about to happen, for others to read. Negative where it would be the first that touches the kernel: who starts
// when the driver is ready must not be told that it is.
int transaction_publish(const struct transaction *r, const char *step, const char *subject, bool is_touch,
			struct err *err);
void transaction_publish_end(const struct transaction *r, const char *outcome); // as transaction_verify() measured it

// What the kernel has now; of a change that was cut off in this boot, what it had before that; with no driver loaded,
// the last good one. Never the target itself. What cannot be brought back is told (progress_note) and is none.
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
// What comes back on a node without a driver is asked for its firmware as a target is.
int step_check_rollback(struct transaction *r, struct err *err);
int step_unbind(struct transaction *r, const struct step *step, struct err *err);
int step_undo_unbind(struct transaction *r, struct err *err);
void step_commit_unbind(struct transaction *r);            // once a driver of ours has the GPUs
void step_commit_unbind_left(const struct transaction *r); // and when a run that was cut off may have had no time to
// step_modules.c
int step_holders(struct transaction *r, const struct step *step, struct err *err);
int step_unload(struct transaction *r, const struct step *step, struct err *err);
int step_load(struct transaction *r, const struct step *step, struct err *err);
// Take out what this run, or one that was cut off, has put in; and bring in again what the kernel had, with its nodes.
int step_undo_load(struct transaction *r, struct err *err);
int step_undo_unload(struct transaction *r, struct err *err);
int step_nodes(struct transaction *r, const struct step *step, struct err *err);
int step_verify(struct transaction *r, const struct step *step, struct err *err);
// step_driver_root.c
int step_payload(struct transaction *r, const struct step *step, struct err *err);
int step_export(struct transaction *r, const struct step *step, struct err *err);
int step_prepare_export(struct transaction *r, struct err *err);  // before anything is touched, or by step_export()
int step_export_firmware(struct transaction *r, struct err *err); // to the kernel that is about to load the modules
// The user space of the driver that came back on a node without one, as far as the store has it.
// Made ready before its modules are loaded, put in place after it; what fails is a note.
void step_prepare_rollback_export(struct transaction *r);
void step_export_rollback(struct transaction *r);
// What was exported before is in place again; a failure is a note, because it must not stop the undo of the modules.
void step_undo_export(struct transaction *r);
void step_export_collect(struct transaction *r); // what nobody looks at any more
