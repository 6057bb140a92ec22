// SPDX-License-Identifier: Apache-2.0
// What plan, install, init and doctor have in common: the options that say what is requested, and the gathering of the
// facts, packages and sources that a plan is made from.
#pragma once
#include "base/file/scratch.h"
#include "cmd/common/origin.h"
#include "driver_root/driver_root.h"
#include "status/status_json.h"
#include "transaction/apply.h"

struct job_values { // first member of the values of each of these commands
	struct origin_values origin;
	char *driver, *flavour, *source, *source_sha256, *state_dir, *dev_root, *patches;
	char *package, *bundle, *trust_dir; // where packages come from
	char *digest;                       // of the manifest of the one that is requested; NULL = any
	char *store_limit, *holders, *host_driver, *reuse;
	struct strv from;
	struct strv headers, modules, params;
	char *share, *compile_lease, *kubeconfig; // see share.h
	struct strv share_keys;
	char *share_role;
	unsigned lease_duration_s;
	unsigned jobs, timeout_s, imex_channels, load_timeout_s, unload_timeout_s, holders_timeout_s;
	char *payload;          // directory that an image carries
	char *export;           // directory, "none"; NULL = as the command does
	bool is_export_default; // the command exports when there is something to export
	char *cdi;              // file, "none"; NULL = as the command does
	bool is_cdi_default;    // the command tells container runtimes of the GPUs
	bool is_keeping;        // and starts the driver's daemons
	bool is_rt_allowed, is_unproven_allowed, is_compile_forbidden, is_cache_off, is_retry;
	const struct progress *progress; // who looks on; NULL = show_progress_log()
};
extern const struct opt source_opts[]; // what and how to compile; for job_values
extern const struct opt job_opts[];    // what to install; for job_values
extern const struct opt share_opts[];  // who compiles, of several nodes; for job_values

struct job {
	const struct job_values *values;
	const char *driver; // that is requested; NULL = that of what was named
	struct machine machine;
	int lock; // -1 = not taken
	struct root state, dev_root, patches;
	struct scratch source_work;
	struct facts facts;
	struct module_params params;
	struct strv modules; // full names
	struct origin origin;
	struct acquire acquire;
	struct source source; // opened only when nothing else can serve; .version NULL = not opened
	struct journal journal;
	struct optional_modules failed; // modules, in this boot
	struct driver_root export;      // .dir NULL = nothing is exported
	struct driver_root_request driver_root_request;
	char export_modules[DIGEST_HEX + 1];
	char *export_why; // why what is exported is not right, or cannot be made right
	struct holders holders;
	struct request request;
	struct at_hand at_hand;
	struct plan plan;
	enum proof_basis compared; // by job_apply() and job_stage(), when the plan has a proof
	struct progress progress;
};

// Up to the plan: reads, and unpacks a source when one is needed; changes nothing of the driver. is_change: the plan
// will be carried out, so the node's lock is taken before the facts that it rests on are read, and held until
// job_done(). A failure on a node without a driver brings back the one that worked last.
int job_open(const struct job_values *values, bool is_change, struct job *ret, struct err *err);
void job_done(struct job *job);
// What is compiled when it must be: as named, else of the image, when its driver is the requested one. NULL = nothing
// is there to compile. Caller frees.
char *job_source_path(const struct job *job);
#define auto_job __attribute__((cleanup(job_done)))
#define JOB_NONE                                                            \
	((struct job){ .lock = -1,                                          \
		       .state = ROOT_NONE,                                  \
		       .dev_root = ROOT_NONE,                               \
		       .patches = ROOT_NONE,                                \
		       .source_work = SCRATCH_NONE,                         \
		       .machine = { .host = ROOT_NONE, .kern = ROOT_NONE }, \
		       .acquire = ACQUIRE_NONE,                             \
		       .source = { .root = ROOT_NONE } })
int job_export_open(struct job *job, bool *ret_is_demanded, struct err *err); // where to; once
int job_export_withdraw(struct job *job, struct err *err); // an export that is no longer requested, or is elsewhere now
int job_export(struct job *job, struct err *err);          // of job_open(): what is to be exported, and whether it is
// A node that had a driver does not stay without one because its request cannot be had. The error stays what it was.
// outcome: of a run that could not even begin; NULL = it has told its end.
void job_recover(struct job *job, const char *outcome, struct err *err);
int job_apply(struct job *job, struct status *ret, struct err *err); // needs the lock
int job_stage(struct job *job, struct err *err);                     // see apply_stage()

#define JOB_STATE "var/lib/kmodsmith" // of the host
// The directory for the store, headers and scratch: --state-dir, else var/lib/kmodsmith of the host, else (for
// ordinary users, who only build) ~/.local/state/kmodsmith.
int job_state(const struct job_values *values, const struct machine *m, struct root *ret, struct err *err);
// The same for a command that only looks. A user whose home cannot be used gets an empty one, which goes with `spare`,
// and a warning.
struct job_temp_state {
	struct root parent;
	char *name; // NULL = none was needed
};
#define JOB_TEMP_STATE_NONE ((struct job_temp_state){ .parent = ROOT_NONE })
int job_state_for_reading(const struct job_values *values, const struct machine *m, struct job_temp_state *spare,
			  struct root *ret, struct err *err);
void job_temp_state_done(struct job_temp_state *s);
#define auto_job_temp_state __attribute__((cleanup(job_temp_state_done)))
int job_parse_store_limit(const char *text, uint64_t *ret, struct err *err); // NULL: 0 = none
#define STORE_LIMIT_HELP "what the store may hold, with K, M or G; more makes old packages leave; default: the disk"
// What was named on the command line, looked at before any work is done: E_USAGE for the wrong kind of thing.
int job_check_inputs(const struct job_values *values, struct err *err);
int job_check_path(const char *what, const char *path, bool is_dir_allowed, struct err *err); // one; what: for messages
int job_parse_flavour(const struct job_values *values, enum flavour *ret, struct err *err);   // E_USAGE
int job_parse_holders(const char *text, enum holders_policy *ret, struct err *err);           // E_USAGE; NULL: refuse
int job_parse_reuse(const char *text, enum reuse *ret, struct err *err);                      // E_USAGE; NULL: series
#define REUSE_HELP                                                                               \
	"packages of other kernels whose symbol CRCs are proven equal: none, those of the same " \
	"distribution and x.y series (default), any"
#define HOLDERS_HELP "when somebody uses a driver that has to go; default refuse"
#define HOLDERS_TIMEOUT_HELP "deadline of --holders; default 300 to wait, 30 to stop"
#define UNLOAD_TIMEOUT_HELP "deadline of one unload, and of modules that are coming or going; default 60"
int job_parse_modules(const struct strv *request, struct strv *ret, struct err *err); // "uvm" -> "nvidia-uvm"

void show_phase(void *ctx, const struct phase *p);
void show_note(void *ctx, const char *text);
void show_bytes(void *ctx, uint64_t done, uint64_t total); // of a download, in MiB
struct progress show_progress_log(void);                   // phases, progress and notes as log lines
void show_status(const struct status *s);
