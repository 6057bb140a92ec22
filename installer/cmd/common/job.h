// SPDX-License-Identifier: Apache-2.0
// Shared by plan, install, init and doctor: the options that describe the request, and how they become the request of a
// session.
#pragma once
#include "cmd/common/origin.h"
#include "status/status.h"
#include "transaction/session.h"

struct job_values { // first member of the values of each of these commands
	struct origin_values origin;
	struct request request; // what needs no reading; job_open() copies it, and adds what these texts say:
	char *driver, *flavour, *digest;
	struct strv modules, headers_repositories;
	char *holders, *host_driver, *reuse, *gpu_check, *host_repositories, *patches;
	char *export; // directory, JOB_AUTO, "none"; NULL = as the command does
	char *module_key, *module_cert;
	char *state_dir, *dev_root, *store_limit, *headers_archive;
	char *share, *share_role, *compile_lease, *kubeconfig; // see cluster/shared_build/
	struct strv share_keys;
	unsigned lease_duration_s;
	unsigned load_timeout_s, unload_timeout_s, holders_timeout_s, gpu_timeout_s;
	bool is_export_default;          // the command exports if there is something to export
	bool is_cdi_default;             // the command writes a CDI specification
	bool is_for_operator;            // JOB_FROM_VFIO counts
	const struct progress *progress; // NULL = show_progress_log()
	bool is_ordered; // driver is what the agent said, and not typed: a source of another one does not count
	bool has_branch; // driver may be a branch ("535") or "latest": the newest that there is a package of
};
// As --from-vfio for the operator's pods: the driver manager writes it, by the Node's label. It is gone after a reboot.
#define JOB_FROM_VFIO "run/kmodsmith/from-vfio"
#define JOB_AUTO "auto"                      // of export: as with is_export_default
extern const struct opt source_opts[];       // what and how to compile; for job_values
extern const struct opt module_key_opts[];   // who signs what is compiled; for job_values
extern const struct opt distribution_opts[]; // whom to ask for headers that are not there; for job_values
extern const struct opt job_opts[];          // what to install; for job_values
extern const struct opt share_opts[];        // which of several nodes compiles; for job_values

struct job {
	const struct job_values *values;
	struct machine machine;
	struct root patches;
	struct origin origin;
	struct request request; // session points to it, and to caller: a job must not be moved
	struct session_caller caller;
	struct session session;
};

// Turns values into a request, E_USAGE if that is not possible, then calls session_open().
int job_open(const struct job_values *values, bool is_change, struct job *ret, struct err *err);
void job_done(struct job *job);
#define auto_job __attribute__((cleanup(job_done)))
#define JOB_NONE ((struct job){ .machine = MACHINE_NONE, .patches = ROOT_NONE, .session = SESSION_NONE })
// session_apply() and session_stage(), sharing the compile with other nodes (share.h).
int job_apply(struct job *job, struct status *ret, struct err *err);
int job_stage(struct job *job, struct err *err);

#define JOB_STATE "var/lib/kmodsmith" // of the host
// The directory for the store, headers and scratch: --state-dir, else var/lib/kmodsmith of the host, else (for
// ordinary users, who only build) ~/.local/state/kmodsmith.
int job_state(const struct job_values *values, const struct machine *m, struct root *ret, struct err *err);
// The same without making a directory: ret stays closed if there is none.
int job_state_if_any(const char *state_dir, const struct machine *m, struct root *ret, struct err *err);
// The host's, also for ordinary users.
int job_state_existing(const char *state_dir, const struct machine *m, struct root *ret, struct err *err);
// The same for a read-only command. A user whose home cannot be used gets an empty one, which is removed with `spare`,
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
int job_check_module_key(const struct job_values *values, struct err *err); // E_USAGE: half of it
// Makes the request of a command that compiles: reads the texts, opens the patches, takes the password from the
// environment. The caller frees ret->modules.
int job_request(const struct job_values *values, struct root *patches, struct request *ret, struct err *err);
// Checks the files that options name, before any work is done: E_USAGE for the wrong kind of file.
int job_check_inputs(const struct job_values *values, struct err *err);
int job_check_path(const char *what, const char *path, bool is_dir_allowed, struct err *err); // one; what: for messages
// --source or a matrix's source, when it is a URL: downloaded below state unless it is kept there. 1 = *ret is the path
// to open, 0 = it is no URL.
int job_fetch_source(const struct job_values *values, const char *source, const char *sha256, const struct root *state,
		     char **ret, struct err *err);
int job_check_driver(const char *driver, struct err *err); // E_USAGE: no word, such as "535.261.03 # of the fleet"
int job_parse_flavour(const struct job_values *values, enum module_type *ret, struct err *err); // E_USAGE
int job_parse_arch(const char *text, const char **ret, struct err *err); // as `uname -m`; NULL: NULL
#define ARCH_HELP "architecture of the kernel: x86_64 (or amd64), aarch64 (arm64); default: "
int job_parse_gpu_check(const char *text, struct gpu_demand *ret, struct err *err); // the same; NULL: all levels
int job_parse_holders(const char *text, enum holders_policy *ret, struct err *err); // E_USAGE; NULL: refuse
int job_parse_reuse(const char *text, enum reuse *ret, struct err *err);            // E_USAGE; NULL: series
#define REUSE_HELP                                                                               \
	"packages of other kernels whose symbol CRCs are proven equal: none, those of the same " \
	"distribution and x.y series (default), any"
#define HOLDERS_HELP "what to do when processes use the driver that is to be unloaded; default refuse"
#define HOLDERS_TIMEOUT_HELP "deadline of --holders; default 300 to wait, 30 to stop"
#define UNLOAD_TIMEOUT_HELP "deadline of one unload, and of modules that are coming or going; default 60"
// From distribution_opts, --offline and --bundle. E_USAGE.
int job_package_manager(const struct job_values *values, struct package_manager_options *ret, struct err *err);
int job_unload_timeout_ms(unsigned seconds);                                          // 0 = the default, a minute
int job_parse_modules(const struct strv *request, struct strv *ret, struct err *err); // "uvm" -> "nvidia-uvm"
