// SPDX-License-Identifier: Apache-2.0
// One run of a plan, as its steps see it: what each leaves for the later ones and for the undo. Only apply.c and the
// files of steps include this.
#pragma once
#include "holders/unbind.h"
#include "host/module_set.h"
#include "transaction/rollback.h"

// What a run knows beyond its plan.
struct run {
	const struct apply *a;
	struct package package; // what is installed: in the node's store, and unpacked
	struct driver target;   // the same with its parameters, as the journal tells it
	struct journal journal;
	struct back back;             // prepared before anything is touched
	bool was_open;                // this boot was in the middle of a change already
	bool is_touched;              // the kernel may not be as it was
	struct module_set set;        // files of package
	size_t *order;                // of set, for loading
	struct strv *needs;           // by module of set: those of the kernel's own tree that it imports from
	struct optional failed;       // modules of set that the core does without
	struct strv loaded;           // names that this run loaded
	struct released released;     // who had a GPU before
	char modules[DIGEST_HEX + 1]; // of the tree of modules exported with it; "" = none
	struct status *status;
	struct facts now; // as status was measured on
};

#define RUN(apply, ret) ((struct run){ .a = (apply), .package = PACKAGE_NONE, .back = BACK_NONE, .status = (ret) })
void run_done(struct run *r);
#define auto_run __attribute__((cleanup(run_done)))

// apply.c
int run_open(struct run *r, struct err *err); // reads the journal
// The store keeps what is in use and what last made the node ready. A node that works is not failed for a note.
void run_remember(const struct run *r, const char *digest,
		  int (*set)(const struct store *s, const char *hex, struct err *err));
// And, beside it, that this package of another kernel serves this one; or that its own package, or none, does.
int run_keep_reuse(const struct run *r, const struct package *p, struct err *err);
// Once the kernel is touched, a journal that cannot be written is no reason to stop half-way: a later start looks at
// the kernel before it looks there.
void run_write(struct run *r);
// Before that, it is: unless the node has no driver to lose, and memory takes it.
int run_note_intent(struct run *r, struct err *err);
void run_settle_journal(struct run *r); // one that is in memory, as soon as the disk can be written again
// On a node without a driver a disk that cannot be written is no reason to stop: 0, and it is told. Else err stays.
int run_without_note(const struct run *r, struct err *err);
// From the first change in the kernel on, a request to stop waits until the node is in a state that may be left; and a
// reader of our log that goes away must not end us between an unload and the load after it.
void run_hold_signals(void);

// optional_modules.h: whether the plan does without this module, whose failure is then noted.
bool run_spare(struct run *r, const char *module, const struct err *why);
void run_settle_optional(struct run *r); // what failed is what `status` tells
void run_drop_optional(struct run *r);   // and no part of what works

// step_verify.c
// Measure; plan: what is wished must be what there is, too. NULL = anything that works.
int run_verify(struct run *r, const struct plan *plan, struct err *err);
// What is about to happen, for others to read. Negative where it would be the first that touches the kernel: who starts
// when the driver is ready must not be told that it is.
int run_publish(const struct run *r, const char *step, const char *subject, bool is_touch, struct err *err);
void run_publish_end(const struct run *r, const char *outcome); // as run_verify() measured it

// step_acquire.c
int step_adopt(struct run *r, const struct step *step, struct err *err);
int step_package(struct run *r, const struct step *step, struct err *err);
int step_compile(struct run *r, const struct step *step, struct err *err);
int step_prove(struct run *r, const struct step *step, struct err *err);
// step_preflight.c
int step_preflight(struct run *r, const struct step *step, struct err *err);
// What comes back on a node without a driver is asked for its firmware as a target is.
int run_check_back(struct run *r, struct err *err);
int step_unbind(struct run *r, const struct step *step, struct err *err);
int undo_unbind(struct run *r, struct err *err);
void settle_unbind(struct run *r);     // once a driver of ours has the GPUs
void settle_left(const struct run *r); // and when a run that was cut off may have had no time to
// step_modules.c
int step_holders(struct run *r, const struct step *step, struct err *err);
int step_unload(struct run *r, const struct step *step, struct err *err);
int step_load(struct run *r, const struct step *step, struct err *err);
// Take out what this run, or one that was cut off, has put in; and bring in again what the kernel had, with its nodes.
int undo_load(struct run *r, struct err *err);
int undo_unload(struct run *r, struct err *err);
// step_driver_root.c
int step_payload(struct run *r, const struct step *step, struct err *err);
int step_export(struct run *r, const struct step *step, struct err *err);
int run_prepare_export(struct run *r, struct err *err); // before anything is touched, or by step_export()
int run_show_firmware(struct run *r, struct err *err);  // to the kernel that is about to load the modules
// The user space of the driver that came back on a node without one, as far as the store has it.
// Made ready before its modules are loaded, put in place after it; what fails is a note.
void run_prepare_back(struct run *r);
void run_export_back(struct run *r);
// What was exported before is in place again; a failure is a note, because it must not stop the undo of the modules.
void run_unexport(struct run *r);
void run_collect(struct run *r); // what nobody looks at any more
// step_verify.c
int step_nodes(struct run *r, const struct step *step, struct err *err);
int step_verify(struct run *r, const struct step *step, struct err *err);
