// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/job.h"

#include "base/file/file.h"
#include "cluster/kube/build_lease.h"
#include "daemons/holders_wait.h"
#include "devices/cdi_spec_file.h"
#include "host/module_set.h"
#include "host/settle.h"
#include "journal/node_lock.h"
#include "next_kernel/installed.h"

#include <fcntl.h>
#include <sys/stat.h>

#define OPT(name, letter, arg, env, type, member, help)                                 \
	{                                                                               \
		name, letter, arg, env, type, offsetof(struct job_values, member), help \
	}

const struct opt source_opts[] = {
	OPT("source", 's', "PATH", "KMODSMITH_SOURCE", OPT_STR, source,
	    "driver source: NVIDIA's directory, a .run file, Debian's .deb or .tar.xz, or a dkms package"),
	OPT("source-sha256", 0, "HEX", "KMODSMITH_SOURCE_SHA256", OPT_STR, source_sha256,
	    "digest that the source must have"),
	OPT("flavour", 'f', "auto|open|proprietary", "KERNEL_MODULE_TYPE", OPT_STR, flavour,
	    "which modules; auto decides by the GPUs and the driver branch"),
	OPT("headers", 0, "FILE,...", "KMODSMITH_HEADERS", OPT_LIST, headers,
	    "kernel header packages (.deb, .rpm, .tar.*) instead of the host's tree"),
	OPT("modules", 'm', "NAME,...", "KMODSMITH_MODULES", OPT_LIST, modules,
	    "module set: nvidia,uvm,modeset,drm,peermem; each of them must load. Default: nvidia,uvm, and modeset, "
	    "which "
	    "may fail"),
	OPT("patches", 0, "DIR", "KMODSMITH_PATCHES", OPT_STR, patches,
	    "more source patches, see kmodsmith-patches(7)"),
	OPT("jobs", 'j', "N", "MAX_THREADS", OPT_UINT, jobs,
	    "compilers at once; default: processors, CPU and memory limits"),
	OPT("timeout", 0, "SECONDS", NULL, OPT_UINT, timeout_s, "deadline of the compile; default 3600"),
	OPT("allow-rt", 0, NULL, NULL, OPT_FLAG, is_rt_allowed,
	    "compile for a PREEMPT_RT kernel although NVIDIA refuses it"),
	OPT("no-cache", 0, NULL, "KMODSMITH_NO_CACHE", OPT_FLAG, is_cache_off,
	    "compile everything anew: take and keep neither objects nor conftest's answers"),
	OPT("state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, state_dir,
	    "kept packages, headers, scratch; default /var/lib/kmodsmith of the host"),
	{ 0 },
};

const struct opt job_opts[] = {
	OPT("driver", 'd', "VERSION", "DRIVER_VERSION", OPT_STR, driver,
	    "driver version; default: that of --package or --source"),
	OPT("digest", 0, "sha256:HEX", NULL, OPT_STR, digest, "exactly this package, and no other of the same driver"),
	OPT("param", 0, "MODULE:NAME=VALUE,...", NULL, OPT_LIST, params,
	    "module parameters, beside modprobe.d and /drivers/*.conf"),
	OPT("host-driver", 0, "use|replace|fail", "KMODSMITH_HOST_DRIVER", OPT_STR, host_driver,
	    "what to do with a driver that others put on this host and that is not the wished one; default fail"),
	OPT("reuse", 0, "off|series|on", "KMODSMITH_REUSE", OPT_STR, reuse, REUSE_HELP),
	OPT("no-compile", 0, NULL, "KMODSMITH_NO_COMPILE", OPT_FLAG, is_compile_forbidden, "use packages only"),
	OPT("allow-unproven", 0, NULL, "KMODSMITH_ALLOW_UNPROVEN", OPT_FLAG, is_unproven_allowed,
	    "replace a driver that works although nothing could be compared with this kernel (E_UNPROVEN)"),
	OPT("retry", 0, NULL, NULL, OPT_FLAG, is_retry, "try a driver again that failed on this node before"),
	OPT("export", 0, "DIR|none", "KMODSMITH_EXPORT", OPT_STR, export,
	    "where others find the driver's user space; default: " DRIVER_ROOT_DEFAULT
	    " for init, else where it is now"),
	OPT("payload", 0, "DIR", "KMODSMITH_PAYLOAD", OPT_STR, payload,
	    "user space and sources that an image carries (`pack payload --output dir:DIR`); its driver is the "
	    "default"),
	OPT("cdi", 0, "FILE|none", "KMODSMITH_CDI", OPT_STR, cdi,
	    "CDI specification for container runtimes; default: " CDI_FILE " for init, else where it is now"),
	OPT("dev-root", 0, "DIR", "KMODSMITH_DEV_ROOT", OPT_STR, dev_root,
	    "directory that holds the dev/ to make nodes in; default the host's root"),
	OPT("imex-channels", 0, "N", NULL, OPT_UINT, imex_channels, "make N IMEX channel nodes; default none"),
	OPT("load-timeout", 0, "SECONDS", NULL, OPT_UINT, load_timeout_s,
	    "deadline of one load, after which the kernel counts as stuck (E_WEDGED); default 300"),
	OPT("unload-timeout", 0, "SECONDS", NULL, OPT_UINT, unload_timeout_s, UNLOAD_TIMEOUT_HELP),
	OPT("holders", 0, "refuse|wait|stop", "KMODSMITH_HOLDERS", OPT_STR, holders, HOLDERS_HELP),
	OPT("holders-timeout", 0, "SECONDS", NULL, OPT_UINT, holders_timeout_s, HOLDERS_TIMEOUT_HELP),
	{ 0 },
};

const struct opt share_opts[] = {
	OPT("share", 0, "REPOSITORY", "KMODSMITH_SHARE", OPT_SECRET, share,
	    "one of --from, to which builders push what they compile: the others wait for it"),
	OPT("share-role", 0, "builder|node", "KMODSMITH_SHARE_ROLE", OPT_STR, share_role,
	    "with --share: a builder signs and pushes what it compiles, for all; a node, the default, signs nothing"),
	OPT("share-key", 0, "FILE|URI,...", "KMODSMITH_SHARE_KEY", OPT_SECRETS, share_keys,
	    "with --share-role builder: private key that signs it"),
	OPT("compile-lease", 0, "NAMESPACE|auto|off", "KMODSMITH_COMPILE_LEASE", OPT_STR, compile_lease,
	    "with --share: where the Leases are that say who compiles; default auto: " BUILD_LEASE_NAMESPACE
	    ", and a lock in --state-dir where there is no Kubernetes API"),
	OPT("lease-duration", 0, "SECONDS", NULL, OPT_UINT, lease_duration_s,
	    "a compiling node that is silent for so long has died; default 60"),
	OPT("kubeconfig", 0, "FILE", "KMODSMITH_KUBECONFIG", OPT_STR, kubeconfig,
	    "the Kubernetes API, where this is no pod with a service account; NODE_NAME says which node this is"),
	{ 0 },
};

// Without waiting for a pipe's writer.
int job_check_path(const char *what, const char *path, bool is_dir_allowed, struct err *err)
{
	struct stat st;
	auto_fd int fd = file_open_arg(path, O_RDONLY | O_NONBLOCK, err);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_wrap(err, "%s", what);
	if (S_ISDIR(st.st_mode) && is_dir_allowed)
		return 0;
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_USAGE, "%s: '%s' is %s", what, path,
			       S_ISDIR(st.st_mode) ? "a directory, wanted is a package file" : "no regular file");
	return st.st_size ? 0 : err_set(err, E_ARCHIVE, "%s: '%s' is empty", what, path);
}

int job_check_inputs(const struct job_values *values, struct err *err)
{
	for (size_t i = 0; i < values->headers.count; i++)
		if (job_check_path("--headers", values->headers.items[i], false, err) < 0)
			return -1;
	if (values->source && job_check_path("--source", values->source, true, err) < 0)
		return -1;
	if (values->source_sha256 && !digest_is_hex(values->source_sha256))
		return err_set(err, E_USAGE, "--source-sha256 '%s' is no digest: 64 digits of 0-9 and a-f",
			       values->source_sha256);
	if (values->digest && (!str_starts(values->digest, "sha256:") || !digest_is_hex(values->digest + 7)))
		return err_set(err, E_USAGE, "--digest '%s' is not sha256: and 64 digits of 0-9 and a-f",
			       values->digest);
	return 0;
}

int job_parse_flavour(const struct job_values *values, enum flavour *ret, struct err *err)
{
	*ret = FLAVOUR_AUTO;
	if (values->flavour && !flavour_parse(values->flavour, ret))
		return err_set(err, E_USAGE, "flavour: '%s' is none of auto, open, proprietary", values->flavour);
	return 0;
}

int job_parse_holders(const char *text, enum holders_policy *ret, struct err *err)
{
	*ret = HOLDERS_REFUSE;
	if (text && !holders_wait_parse(text, ret))
		return err_set(err, E_USAGE, "holders: '%s' is none of refuse, wait, stop", text);
	return 0;
}

int job_parse_reuse(const char *text, enum reuse *ret, struct err *err)
{
	*ret = REUSE_SERIES;
	if (text && !reuse_parse(text, ret))
		return err_set(err, E_USAGE, "reuse: '%s' is none of off, series, on", text);
	return 0;
}

int job_parse_modules(const struct strv *request, struct strv *ret, struct err *err)
{
	for (size_t i = 0; i < request->count; i++) {
		const char *name = request->items[i];
		strv_add(ret, str_starts(name, "nvidia") ? str_dup(name) : str_fmt("nvidia-%s", name));
		if (module_set_check_name("--modules", ret->items[ret->count - 1], err) < 0)
			return -1;
	}
	return 0;
}

static int host_policy(const struct job_values *values, enum host_policy *ret, struct err *err)
{
	*ret = HOST_FAIL;
	if (values->host_driver && !host_policy_parse(values->host_driver, ret))
		return err_set(err, E_USAGE, "host-driver: '%s' is none of use, replace, fail", values->host_driver);
	return 0;
}

static int open_roots(struct job *j, struct err *err)
{
	const struct job_values *v = j->values;
	if (machine_open(&v->origin.remote.common, &j->machine, err) < 0)
		return -1;
	if ((v->dev_root ? root_init(&j->dev_root, v->dev_root, err) :
			   root_sub(&j->machine.host, ".", &j->dev_root, err)) < 0)
		return -1;
	return v->patches ? root_init(&j->patches, v->patches, err) : 0;
}

// What stays as it is needs no package.
static bool is_host_used(const struct job *j)
{
	return j->facts.existing_driver.is_foreign && j->request.host_driver == HOST_USE;
}

static int read_existing_driver(struct job *j, struct err *err)
{
	const struct store *store = acquire_has_store(&j->acquire) ? &j->acquire.store : NULL;
	return existing_driver_read(&j->machine.host, &j->facts.host, &j->facts.loaded, store, &j->params.blacklist,
				    &j->facts.existing_driver, err);
}

// What is loaded already needs nobody (P1).
static bool is_requested_driver_loaded(const struct job *j)
{
	return j->driver && str_eq(j->driver, j->facts.loaded.version);
}

// And it is the requested flavour, too: a package of another kernel is not looked for.
static bool is_request_loaded(const struct job *j)
{
	return is_requested_driver_loaded(j) && (!j->request.flavour || j->request.flavour == j->facts.loaded.flavour);
}

// A layout or a bundle on this machine is at hand; of any other source the time is worth telling.
static bool has_remote_source(const struct strv *from)
{
	for (size_t i = 0; from && i < from->count; i++)
		if (!str_starts(from->items[i], "oci:") && !str_starts(from->items[i], "oci-archive:"))
			return true;
	return false;
}

static int find_job_package(struct job *j, struct err *err)
{
	struct acquire *o = &j->acquire;
	bool is_local = is_requested_driver_loaded(j), is_told = !is_local && has_remote_source(o->fetch.from);
	if (is_told)
		progress_enter(&j->progress, "find");
	if (acquire_find(o, is_local, err) < 0)
		return -1;
	const struct package *p = acquire_found(o);
	auto_str char *tag = p ? package_tag(&p->key) : str_dup("no package that fits");
	auto_str char *from = strv_join(o->fetch.from, ", ");
	log_debug("wanted: driver %s, %s, kernel %s, build id %.12s; asked: %s%s%s; found: %s%s%s",
		  o->want.driver ? o->want.driver : "any", o->want.flavour ? o->want.flavour : "any flavour",
		  o->want.release, o->want.build_id, o->is_named ? "" : "the store", *from && !is_local ? ", " : "",
		  is_local ? "" : from, tag, p ? " in " : ": ",
		  p          ? p->place :
		  o->why_not ? o->why_not :
			       "");
	if (is_told)
		progress_facts(&j->progress, json_pack("{s:o, s:o}", "package", json_text(p ? tag : NULL), "place",
						       json_text(p ? p->place : NULL)));
	if (is_told)
		progress_end(&j->progress, "find", "%s%s%s", tag, p ? " in " : "", p ? p->place : "");
	return p || is_request_loaded(j) ? 0 : acquire_find_compatible(o, err);
}

// What failed on this kernel while another one does well with it: parameters and hardware are not the package's.
static void refuse_failed_packages(struct job *j)
{
	for (size_t i = 0; i < j->journal.failure_count && !j->values->is_retry; i++) {
		const struct journal_failure *f = &j->journal.failures[i];
		if (f->driver.digest && str_eq(f->driver.kernel, j->facts.host.build_id) &&
		    !str_eq(f->code, "E_PARAM") && !str_eq(f->code, "E_NO_DEVICE"))
			strv_add(&j->acquire.refused, str_dup(f->driver.digest));
	}
}

static int find_package(struct job *j, struct err *err)
{
	const struct job_values *v = j->values;
	struct acquire *o = &j->acquire;
	char digest[DIGEST_HEX + 1];
	if (job_parse_store_limit(v->store_limit, &o->limit, err) < 0 ||
	    installed_kernels(&j->machine.host, j->facts.host.release, &o->kernels, err) < 0)
		return -1;
	o->is_named = v->origin.package;
	o->gpus = &j->facts.gpus;
	o->progress = &j->progress;
	o->host = &j->machine.host;
	o->kern = &j->machine.kern;
	state_dir_init(&o->memory, o->host, o->kern, o->progress, !j->facts.loaded.version);
	o->banner = j->facts.host.banner;
	refuse_failed_packages(j);
	o->want = (struct package_want){ .driver = j->driver,
					 .digest = v->digest ? v->digest + strlen("sha256:") : NULL,
					 .flavour = j->request.flavour ? flavour_name(j->request.flavour) : NULL,
					 .release = j->facts.host.release,
					 .build_id = j->facts.host.build_id,
					 .arch = j->facts.host.arch,
					 .modules = &j->modules };
	if (v->source && !v->origin.package && source_digest(v->source, v->source_sha256, digest, err) < 0)
		return -1;
	o->want.source = v->source && !v->origin.package ? digest : NULL;
	if (origin_open(&v->origin, &j->machine.host, &j->origin, err) < 0)
		return -1;
	origin_fetch(&j->origin, &j->state, &o->fetch);
	if (acquire_open_store(o, err) < 0 || read_existing_driver(j, err) < 0)
		return -1;
	int r = is_host_used(j) ? 0 : find_job_package(j, err);
	o->want.source = NULL; // it was of this function
	return r;
}

char *job_source_path(const struct job *j)
{
	const struct job_values *v = j->values;
	return v->source                                     ? str_dup(v->source) :
	       str_eq(j->acquire.carry.is.driver, j->driver) ? image_payload_source_path(&j->acquire.carry) :
							       NULL;
}

static int open_job_source(struct job *j, struct err *err)
{
	auto_str char *path = job_source_path(j);
	if (!path)
		return 0;
	if (scratch_make(&j->state, "source", &j->source_work, err) < 0)
		return -1;
	progress_enter(&j->progress, "source");
	if (source_open(path, j->values->source_sha256, &j->source_work.root, &j->source, err) < 0)
		return -1;
	progress_facts(&j->progress, json_pack("{s:s, s:s}", "driver", j->source.version, "sha256", j->source.digest));
	progress_end(&j->progress, "source", "%s, sha256 %.12s...", j->source.version, j->source.digest);
	return 0;
}

static bool is_source_needed(const struct job *j)
{
	return !is_host_used(j) && !acquire_found(&j->acquire) && facts_has_gpu(&j->facts) &&
	       !is_requested_driver_loaded(j);
}

// What an image carries is the request when nothing else says which driver is.
static int open_carried_payload(struct job *j, struct err *err)
{
	const struct job_values *v = j->values;
	struct image_payload *c = &j->acquire.carry;
	if (v->payload && image_payload_open(v->payload, c, err) < 0)
		return -1;
	if (!j->driver && !v->source && !v->origin.package)
		j->driver = c->is.driver;
	if (v->payload && j->driver && !image_payload_matches(c, j->driver, j->facts.host.arch))
		progress_note(&j->progress, "the image carries driver %s for %s, wanted is %s for %s", c->is.driver,
			      c->is.arch, j->driver, j->facts.host.arch);
	return 0;
}

// What is loaded may have changed until the lock was ours.
static int lock(struct job *j, struct err *err)
{
	const struct machine *m = &j->machine;
	j->lock = node_lock_take(&m->host, err);
	if (j->lock < 0)
		return -1;
	modules_done(&j->facts.loaded);
	return modules_read(&m->host, &m->kern, j->facts.host.release, &j->facts.loaded, err) < 0 ? -1 : 0;
}

// What is loaded may be changing now. In a boot whose kernel is stuck it will not stop to, and the plan says so.
static int wait_for_modules(struct job *j, bool is_change, struct err *err)
{
	const struct machine *m = &j->machine;
	const struct loaded_module *restless = settle_pending(&j->facts.loaded);
	if (!restless || journal_is_wedged(&j->journal, j->facts.host.boot_id))
		return 0;
	if (!is_change) {
		progress_note(&j->progress, "module %s is %s: an install would wait for it", restless->name,
			      modules_state_name(restless->state));
		return 0;
	}
	modules_done(&j->facts.loaded);
	return settle_read(&m->host, &m->kern, j->facts.host.release,
			   job_unload_timeout_ms(j->values->unload_timeout_s), &j->progress, &j->facts.loaded, err);
}

static int collect_facts(struct job *j, bool is_change, struct err *err)
{
	const struct job_values *v = j->values;
	progress_enter(&j->progress, "detect");
	if (facts_read(&j->machine.host, &j->machine.kern, &j->facts, err) < 0 ||
	    (is_change && facts_has_gpu(&j->facts) && lock(j, err) < 0))
		return -1;
	progress_facts(&j->progress, json_pack("{s:o, s:i, s:i, s:o}", "kernel", json_text(j->facts.host.release),
					       "gpus", (int)gpus_count_ours(&j->facts.gpus, GPU_DISPLAY), "switches",
					       (int)gpus_count_ours(&j->facts.gpus, GPU_SWITCH), "driver",
					       json_text(j->facts.loaded.version)));
	progress_end(&j->progress, "detect", "kernel %s, %zu GPUs, %zu switches, driver %s", j->facts.host.release,
		     gpus_count_ours(&j->facts.gpus, GPU_DISPLAY), gpus_count_ours(&j->facts.gpus, GPU_SWITCH),
		     j->facts.loaded.version ? j->facts.loaded.version : "not loaded");
	if (!facts_has_gpu(&j->facts))
		return 0;
	if (job_check_inputs(v, err) < 0 || open_carried_payload(j, err) < 0 ||
	    job_state(v, &j->machine, &j->state, err) < 0 ||
	    journal_find(&j->machine.host, &j->state, &j->journal, err) < 0 ||
	    optional_modules_read(&j->machine.host, j->facts.host.boot_id, &j->failed, err) < 0 ||
	    wait_for_modules(j, is_change, err) < 0 ||
	    module_params_read(&j->machine.host, &j->machine.kern, &j->machine.kern, &v->params, &j->params, err) < 0 ||
	    find_package(j, err) < 0)
		return -1;
	module_params_add_defaults(&j->params, &j->facts.gpus);
	return is_source_needed(j) ? open_job_source(j, err) : 0;
}

static bool has_unload(const struct plan *p)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->steps[i].kind == STEP_UNLOAD)
			return true;
	return false;
}

// Who holds the driver only matters when it would have to go, and looking at thousands of processes is not free.
static int make_plan(struct job *j, struct err *err)
{
	if (plan_make(&j->facts, &j->request, &j->at_hand, NULL, &j->plan, err) < 0)
		return -1;
	if (!has_unload(&j->plan))
		return 0;
	plan_done(&j->plan);
	if (holders_find(&j->machine.kern, &j->facts.loaded, &j->holders, err) < 0 ||
	    holders_wait_omit_daemons(&j->machine.host, &j->machine.kern, &j->holders, err) < 0)
		return -1;
	if (plan_make(&j->facts, &j->request, &j->at_hand, &j->holders, &j->plan, err) == 0)
		return 0;
	if (err->code == E_IN_USE)
		holders_wait_note(&j->progress, &j->holders);
	return -1;
}

void job_done(struct job *j)
{
	plan_done(&j->plan);
	driver_root_done(&j->export);
	free(j->export_why);
	holders_done(&j->holders);
	journal_done(&j->journal);
	source_done(&j->source);
	acquire_done(&j->acquire);
	origin_done(&j->origin);
	module_params_done(&j->params);
	optional_modules_done(&j->failed);
	facts_done(&j->facts);
	strv_done(&j->modules);
	progress_done(&j->progress);
	scratch_done(&j->source_work);
	root_done(&j->patches);
	root_done(&j->dev_root);
	root_done(&j->state);
	machine_done(&j->machine);
	close_fdp(&j->lock);
}

static int plan_job(struct job *j, struct err *err)
{
	const struct job_values *v = j->values;
	j->request.driver = j->driver;
	j->request.modules = &j->modules;
	j->request.params = &j->params;
	j->request.is_compile_forbidden = v->is_compile_forbidden || v->digest;
	j->request.is_retry = v->is_retry;
	j->at_hand = (struct at_hand){ .package = acquire_found(&j->acquire),
				       .compatible = j->acquire.compatible,
				       .is_named = j->acquire.is_named,
				       .package_why_not = j->acquire.why_not,
				       .package_code = j->acquire.code,
				       .journal = &j->journal,
				       .failed = &j->failed,
				       .source_version = j->source.version,
				       .source_flavours = j->source.flavours };
	if ((facts_has_gpu(&j->facts) && job_export(j, err) < 0) || make_plan(j, err) < 0)
		return -1;
	if (j->plan.flavour_why)
		log_debug("flavour %s: %s", flavour_name(j->plan.flavour), j->plan.flavour_why);
	for (size_t i = 0; i < j->plan.count; i++)
		log_debug("step %zu: %s %s: %s", i + 1, plan_step_name(j->plan.steps[i].kind), j->plan.steps[i].subject,
			  j->plan.steps[i].why);
	return 0;
}

int job_open(const struct job_values *values, bool is_change, struct job *ret, struct err *err)
{
	*ret = JOB_NONE;
	ret->values = values;
	ret->driver = values->driver;
	ret->progress = values->progress ? *values->progress : show_progress_log();
	if (job_parse_modules(&values->modules, &ret->modules, err) < 0 || open_roots(ret, err) < 0 ||
	    job_parse_flavour(values, &ret->request.flavour, err) < 0 ||
	    host_policy(values, &ret->request.host_driver, err) < 0 ||
	    job_parse_holders(values->holders, &ret->request.holders, err) < 0 ||
	    job_parse_reuse(values->reuse, &ret->acquire.reuse, err) < 0 ||
	    (values->cdi && cdi_spec_file_check(values->cdi, err) < 0))
		return -1;
	if (collect_facts(ret, is_change, err) == 0 && plan_job(ret, err) == 0)
		return 0;
	progress_fail(&ret->progress);
	if (ret->lock >= 0)
		job_recover(ret, "refused", err);
	return -1;
}
