// SPDX-License-Identifier: Apache-2.0
// What installing would do and why, decided without touching anything: facts, request and available packages in; steps
// out. plan_make does no I/O, so `plan`, --dry-run and the real run cannot disagree.
#pragma once
#include "acquire/request.h"
#include "daemons/holders_wait.h"
#include "host/facts.h"
#include "host/module_params.h"
#include "journal/journal.h"
#include "journal/optional_modules.h"
#include "precompiled/package/package.h"

// Where the modules could come from, and what is known about earlier attempts.
struct at_hand {
	const struct package *package;      // given or kept, known to fit release and build id; NULL = none
	const char *compatible;             // why it fits although it was made for another kernel; NULL = it was not
	const char *package_why_not;        // why no source has one that fits
	int package_code;                   // of the first source that failed otherwise; 0 = none did
	const char *package_next;           // what to do about that; NULL or "" = what the code says
	const char *source_version;         // of a driver source; NULL = none given
	unsigned source_flavours;           // set of enum module_type
	const char *inputs;                 // where a compile takes headers and core from, in words; NULL = not known
	const char *signer;                 // who signs what is compiled, in words; NULL = nobody
	const struct module_params *params; // what each module will be given; NULL = nothing
	const struct journal *journal;      // what happened here before; NULL = nothing is known
	const char *payload;                // digest of the user-space files to export; NULL = none
	const char *payload_why_not;        // why the user space to export is unavailable; NULL = it is not needed
	const char *export_why;             // why the current export is not that; NULL = it is
	const struct optional_modules *failed; // optional modules that failed in this boot; NULL = none is known
};

enum step_kind { // in the order of every plan
#define STEP(kind_, name_, undo_, flags_) STEP_##kind_,
#include "plan/steps.def"
#undef STEP
};

enum step_flag {
	STEP_IS_STAGED = 1, // touches nothing, and runs ahead for session_stage()
	STEP_IS_FELT = 2,   // touches nothing, but others are disturbed: what can refuse the change comes before
	STEP_TOUCHES = 4,   // changes the kernel: from the first of these on there is a journal
	STEP_IS_LONG = 8,   // may be: its start is published
	STEP_IS_LOADED = 16 // finds modules loaded: a driver that fails now may be better than none
};

struct step {
	enum step_kind kind;
	char *subject; // "nvidia-uvm, nvidia-modeset, nvidia"
	char *why;
};

enum plan_outcome {
	PLAN_NO_GPU, // nothing to install: no steps
	PLAN_ADOPT,  // the kernel has what is requested: only nodes and user space may change (R-D1, R-E4)
	PLAN_CHANGE, // modules are loaded or replaced
};

struct plan {
	enum plan_outcome outcome;
	char *driver;             // target version
	enum module_type flavour; // target flavour
	char *flavour_why;
	char *compatible;     // the release that its package was made for, where it is another one; NULL = it is not
	struct strv modules;  // to be loaded in the end, full names
	struct strv optional; // those of them that may fail
	struct step *steps;
	size_t count;
};

// Refusals are errors: E_WEDGED (this boot's kernel is stuck), E_TARGET_FAILED (see plan_why_not), E_BOUND,
// E_HOST_DRIVER, E_FLAVOUR, E_MIXED_GPUS, E_UNSUPPORTED_GPU, E_IN_USE (a replacement is due, and the driver has
// holders that must not be stopped), E_LOAD (the kernel command line forbids a module), E_NO_PACKAGE,
// E_SIGNING_REQUIRED (before a compile whose result could not be loaded, R-C1), E_USAGE (nothing says what to
// install), E_NO_PAYLOAD. holders may be NULL when nothing is loaded.
int plan_make(const struct facts *facts, const struct request *request, const struct at_hand *at_hand,
	      const struct holders *holders, struct plan *ret, struct err *err);
void plan_done(struct plan *p);
#define auto_plan __attribute__((cleanup(plan_done)))

// The version that would be installed: as requested, else that of the package or source, else the loaded one; NULL =
// unknown. And of which flavour; MODULE_TYPE_AUTO = none can be.
const char *plan_driver(const struct facts *facts, const struct request *request, const struct at_hand *at_hand,
			enum module_type *ret_flavour);
bool plan_has(const struct plan *p, enum step_kind kind);
int plan_refuse_source(const char *driver, const char *of_source, const char *arch, struct err *err); // E_USAGE

// The driver that a plan installs, with this package (NULL = not known yet).
void plan_target(const struct plan *p, const struct module_params *params, const char *digest, const char *build_id,
		 struct driver_state *ret);
// Why it must not be loaded: it was tried and failed. NULL = it may be: nothing is known against it, or there is
// neither a driver to lose nor a better one to fall back to. Caller frees.
char *plan_why_not(const struct driver_state *target, const struct request *request, const struct facts *facts,
		   const struct journal *journal);

const char *plan_step_name(enum step_kind kind); // "adopt", "package", ...
bool plan_step_is(enum step_kind kind, enum step_flag flag);
const char *plan_outcome_name(enum plan_outcome o); // "no-gpu", "adopt", "change"
