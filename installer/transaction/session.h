// SPDX-License-Identifier: Apache-2.0
// One install as a whole: the node's facts and the request become a plan, the plan is applied, and a node that had a
// driver is not left without one because the request failed.
//
// Costly work is skipped when it is not needed. Without an NVIDIA function there is no lock, no state directory and no
// repository (R-P11); with the requested driver loaded no repository is asked and no source opened.
#pragma once
#include "acquire/acquire.h"
#include "acquire/compile.h"
#include "base/file/scratch.h"
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

struct session_request {         // borrowed, until session_done()
	const struct node *node; // its .boot, .release, .state and .progress are not read
	struct build_options options;
	const char *driver, *digest; // digest: 64 hexadecimal digits of the package's manifest; NULL = any
	const char *branch; // in place of driver: the newest of it that there is a package of; "" = of all; NULL = none
	enum module_type flavour;
	const struct strv *modules, *params, *headers; // modules: full names; params: "MODULE:NAME=VALUE"
	const char *source, *source_sha256;            // NULL = that of the image, of the stored payload
	// The driver was named with more right than the source, which counts only if it is of that driver.
	bool is_source_spare;
	// Named together with the driver, on one level: with another one it contradicts.
	bool is_source_bound, is_package_bound;
	bool is_driver_typed; // then a contradiction is E_USAGE, whatever is loaded
	struct package_manager_options package_manager;
	// Of a source that is not on this machine and has source_sha256: brings it there, when it is needed, and says
	// where it is. NULL = source is a path.
	int (*fetch_source)(void *ctx, const struct root *state, char **ret_path, struct err *err);
	const char *payload; // directory in an image
	bool is_named;       // the only repository is a package named by hand
	struct module_key module_key;
	enum host_policy host_driver;
	enum holders_policy holders;
	enum reuse reuse;
	const char *driver_root;         // directory, "none"; NULL = where it is now,
	const char *driver_root_default; // else here; NULL = nowhere
	const char *cdi;                 // see cdi_spec_file_update()
	unsigned imex_channels;
	int load_timeout_ms, unload_timeout_ms, holders_timeout_ms; // load: see load_module()
	struct gpu_demand gpus;
	bool is_compile_forbidden, is_unproven_allowed, is_retry;
	bool is_from_vfio;         // GPUs of vfio-pci are for this driver, too
	bool has_daemons;          // the driver's daemons will be started
	bool is_stage;             // the driver stays, whoever uses it
	bool is_payload_elsewhere; // the user space will be here when the driver is loaded, and its firmware with it
	const char *trust_dir;     // trusted keys for a recovery before the repositories were opened; see trust_now()
	bool is_unverified;
	struct progress progress;       // copied
	void (*blame)(struct err *err); // turns E_USAGE that nobody typed into E_CONFIG; NULL = nothing is configured
	// Called in this order, once there is a GPU to serve:
	int (*check_inputs)(void *ctx, struct err *err); // the files that options name
	int (*open_state)(void *ctx, struct root *ret, struct err *err);
	int (*open_repositories)(void *ctx, const struct root *state, struct fetch *ret, struct err *err);
	void *ctx;
};

struct session {
	const struct session_request *request;
	const char *driver; // requested; NULL = that of the package or source
	char *newest;       // of the requested branch; .driver is the same
	int lock;           // -1 = not taken
	struct node node; // of the request, with the state and progress of this session, and boot and release of facts
	struct root state;
	struct scratch source_work;
	struct facts facts;
	struct module_params params;
	struct trust_now trust; // of a recovery
	struct acquire acquire;
	char *source_path;    // of source: the named one, what fetch_source brought, what came with a payload
	bool is_source_other; // the named source is of another driver, and does not count
	struct source source; // opened only if no package fits; .version NULL = not opened
	char *inputs;         // where a compile would take headers and core from; NULL = nothing is to be compiled
	char *signer;         // who would sign what it makes; NULL = nobody
	struct journal journal;
	struct optional_modules failed; // modules that failed in this boot
	struct driver_root driver_root; // .dir NULL = nothing is exported
	struct driver_root_request driver_root_request;
	char modules_dir[DIGEST_HEX + 1];
	char *driver_root_why; // what is wrong with the export, or why it cannot be made
	struct holders holders;
	struct request plan_request;
	struct at_hand at_hand;
	struct plan plan;
	struct gpu_holds holds;    // GPUs that session_apply() has started stay open until session_done()
	enum proof_basis compared; // by session_apply() and session_stage(), when the plan has a proof
	struct progress progress;
};

// Up to the plan: reads, and unpacks a source if one is needed; does not touch the driver. is_change: the plan will be
// carried out, so the node's lock is taken before the facts are read, and held until session_done(). After a failure on
// a node without a driver the last good one is restored; the failure is returned all the same.
int session_open(const struct session_request *request, bool is_change, struct session *ret, struct err *err);
void session_done(struct session *s);
#define auto_session __attribute__((cleanup(session_done)))
#define SESSION_NONE                                    \
	((struct session){ .lock = -1,                  \
			   .state = ROOT_NONE,          \
			   .source_work = SCRATCH_NONE, \
			   .acquire = ACQUIRE_NONE,     \
			   .source = { .root = ROOT_NONE } })
// gate: NULL = this node compiles for itself.
int session_apply(struct session *s, const struct compile_gate *gate, struct status *ret, struct err *err); // locked
// Of a plan that is only shown: what its run would refuse before it fetches, compiles or touches anything, as far as
// that can be read: rights, firmware, room, and on a kernel that takes only signed modules those of a package that is
// on this machine. Uses up what was found.
int session_foresee(struct session *s, struct err *err);
// The long part of a plan, which touches nothing: fetch or compile, keep in the store, and prove. Runs without the
// node's lock, so that other changes of this node need not wait.
int session_stage(struct session *s, const struct compile_gate *gate, struct err *err);
