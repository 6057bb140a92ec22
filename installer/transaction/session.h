// SPDX-License-Identifier: Apache-2.0
// One install as a whole: the node's facts and the request become a plan, the plan is applied, and a node that had a
// driver is not left without one because the request failed.
//
// Costly work is skipped when it is not needed. Without an NVIDIA function there is no lock, no state directory and no
// repository (R-P11); with the requested driver loaded no repository is asked and no source opened.
#pragma once
#include "acquire/acquire.h"
#include "acquire/compile.h"
#include "acquire/request.h"
#include "base/file/scratch.h"
#include "driver_root/driver_root.h"
#include "gpu_check/gpu_start.h"
#include "kmod/module/proof.h"
#include "plan/plan.h"
#include "status/status.h"

// The command that opens a session: its machine, and what it does for the session. Borrowed until session_done().
struct session_caller {
	const struct node *node;  // its .boot, .release, .state and .progress are not read
	struct progress progress; // copied
	const char *trust_dir;    // trusted keys for a recovery before the repositories were opened; see trust_now()
	bool is_unverified;       // of that recovery
	void (*blame)(struct err *err); // turns E_USAGE that nobody typed into E_CONFIG; NULL = nothing is configured
	// Called in this order, once there is a GPU to serve:
	int (*check_inputs)(void *ctx, struct err *err); // the files that options name
	int (*open_state)(void *ctx, struct root *ret, struct err *err);
	int (*open_repositories)(void *ctx, const struct root *state, struct fetch *ret, struct err *err);
	// Downloads a source that is pinned by digest, when it is needed, and says where it is. NULL = the source is a
	// path.
	int (*fetch_source)(void *ctx, const struct root *state, char **ret_path, struct err *err);
	void *ctx;
};

struct session {
	const struct session_caller *caller;
	struct request *request; // the caller's; its driver is set once it is known
	char *newest;            // of the requested branch; .request->driver is the same
	int lock;                // -1 = not taken
	struct node node; // the caller's, with the state and progress of this session, and boot and release of facts
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
	struct at_hand at_hand;
	struct plan plan;
	struct gpu_holds holds;    // GPUs that session_apply() has started stay open until session_done()
	enum proof_basis compared; // by session_apply() and session_stage(), when the plan has a proof
	struct progress progress;
};

// Up to the plan: reads, and unpacks a source if one is needed; does not touch the driver. is_change: the plan will be
// carried out, so the node's lock is taken before the facts are read, and held until session_done(). After a failure on
// a node without a driver the last good one is restored; the failure is returned all the same.
int session_open(const struct session_caller *caller, struct request *request, bool is_change, struct session *ret,
		 struct err *err);
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
// Checks for a plan that is only shown what its run would refuse before it fetches, compiles or touches anything:
// rights, firmware, room, and on a kernel that takes only signed modules those of a package on this machine. Uses up
// what was found.
int session_foresee(struct session *s, struct err *err);
// The long part of a plan, which touches nothing: fetch or compile, keep in the store, and prove. Runs without the
// node's lock, so that other changes of this node need not wait.
int session_stage(struct session *s, const struct compile_gate *gate, struct err *err);
