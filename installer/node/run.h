// SPDX-License-Identifier: Apache-2.0
// One run of a plan, as its steps see it: what each leaves for the later ones and for the undo. Only apply.c and the
// files of steps include this.
#pragma once
#include "node/apply.h"
#include "node/modules.h"

// What a run knows beyond its plan.
struct run {
	const struct apply *a;
	struct package package;  // what is installed: in the node's store, and unpacked
	struct package previous; // what was loaded before, when the store has it: unpacked before it is unloaded
	struct module_set set;   // files of package
	size_t *order;           // of set, for loading
	struct strv needs;       // modules of the kernel's own tree that the set imports from
	struct strv loaded;      // names that this run loaded
	struct strv unloaded;    // names that this run unloaded, in that order
	bool is_wedged;          // an undo met a kernel that does not come back: nothing more may be tried
	struct status *status;
};

// steps.c
int step_adopt(struct run *r, const struct step *step, struct err *err);
int step_package(struct run *r, const struct step *step, struct err *err);
int step_compile(struct run *r, const struct step *step, struct err *err);
int step_prove(struct run *r, const struct step *step, struct err *err);
// swap.c
int step_holders(struct run *r, const struct step *step, struct err *err);
int step_unload(struct run *r, const struct step *step, struct err *err);
int step_load(struct run *r, const struct step *step, struct err *err);
void undo_unload(struct run *r, char **problem);
void undo_load(struct run *r, char **problem);
// finish.c
int step_nodes(struct run *r, const struct step *step, struct err *err);
int step_verify(struct run *r, const struct step *step, struct err *err);
