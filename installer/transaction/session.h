// SPDX-License-Identifier: Apache-2.0
// One install as a whole: what a node has and what is requested become a plan, the plan is applied, and a node that had
// a driver does not stay without one because the request cannot be had.
//
// What costs something is left out where it is not needed. Without an NVIDIA function there is no lock, no state
// directory and no repository (R-P11); with the requested driver loaded no repository is asked and no source opened.
#pragma once
#include "base/file/scratch.h"
#include "transaction/apply.h"

struct session_request {                                     // borrowed, until session_done()
	const struct root *host, *kern, *dev_root, *patches; // patches: NULL = none beside the built-in ones
	const struct sys *sys;
	const char *driver, *digest; // digest: 64 hexadecimal digits of the package's manifest; NULL = any
	enum module_type flavour;
	const struct strv *modules, *params, *headers; // modules: full names; params: "MODULE:NAME=VALUE"
	const char *source, *source_sha256;            // NULL = what an image carries
	const char *payload;                           // directory that an image carries
	bool is_named;                                 // the one repository is a package that was named by hand
	enum host_policy host_driver;
	enum holders_policy holders;
	enum reuse reuse;
	const char *driver_root;         // directory, "none"; NULL = where it is now,
	const char *driver_root_default; // else here; NULL = nowhere
	const char *cdi;                 // as of cdi_spec_file_update()
	unsigned imex_channels, jobs, compile_timeout_s;
	int load_timeout_ms, unload_timeout_ms, holders_timeout_ms; // as of struct apply
	bool is_compile_forbidden, is_unproven_allowed, is_rt_allowed, is_cache_off, is_retry;
	bool has_daemons;      // the driver's daemons will be started
	const char *trust_dir; // whom a recovery believes, when the repositories were not opened; as of trust_now()
	bool is_unverified;
	struct progress progress; // who looks on; copied
	// Called in this order, once there is a GPU to serve:
	int (*check_inputs)(void *ctx, struct err *err); // the files that were named
	int (*open_state)(void *ctx, struct root *ret, struct err *err);
	int (*open_repositories)(void *ctx, const struct root *state, struct fetch *ret, struct err *err);
	void *ctx;
};

struct session {
	const struct session_request *request;
	const char *driver; // that is requested; NULL = that of what was named
	int lock;           // -1 = not taken
	struct root state;
	struct scratch source_work;
	struct facts facts;
	struct module_params params;
	struct trust_now trust; // of a recovery
	struct acquire acquire;
	struct source source; // opened only when nothing else can serve; .version NULL = not opened
	struct journal journal;
	struct optional_modules failed; // modules, in this boot
	struct driver_root driver_root; // .dir NULL = nothing is exported
	struct driver_root_request driver_root_request;
	char modules_dir[DIGEST_HEX + 1];
	char *driver_root_why; // why what is exported is not right, or cannot be made right
	struct holders holders;
	struct request plan_request;
	struct at_hand at_hand;
	struct plan plan;
	enum proof_basis compared; // by session_apply() and session_stage(), when the plan has a proof
	struct progress progress;
};

// Up to the plan: reads, and unpacks a source when one is needed; changes nothing of the driver. is_change: the plan
// will be carried out, so the node's lock is taken before the facts that it rests on are read, and held until
// session_done(). A failure on a node without a driver brings back the one that worked last, and stays what it was.
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
int session_stage(struct session *s, const struct compile_gate *gate, struct err *err); // see apply_stage()
// What is compiled when it must be: as named, else of the image, when its driver is the requested one. NULL = nothing
// is there to compile. Caller frees.
char *session_source_path(const struct session *s);
