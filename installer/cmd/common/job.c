// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/job.h"

#include "acquire/source_url.h"
#include "base/file/file.h"
#include "cmd/common/entry.h"
#include "cmd/common/share.h"
#include "devices/cdi_spec_file.h"
#include "host/module_set.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#define OPT(name, letter, arg, env, type, member, help)                                 \
	{                                                                               \
		name, letter, arg, env, type, offsetof(struct job_values, member), help \
	}

const struct opt source_opts[] = {
	OPT("source", 's', "PATH|URL", "KMODSMITH_SOURCE", OPT_STR, request.source,
	    "driver source: NVIDIA's directory, a .run file, a checkout or tar of its open source release, Debian's "
	    ".deb or .tar.xz, or a dkms package; or its URL (http, https, file), with its digest"),
	OPT("source-sha256", 0, "HEX", "KMODSMITH_SOURCE_SHA256", OPT_STR, request.source_sha256,
	    "digest that the source must have; a URL needs one"),
	OPT("flavour", 'f', "auto|open|proprietary", "KERNEL_MODULE_TYPE", OPT_STR, flavour,
	    "which modules; auto decides by the GPUs and the driver branch"),
	OPT("headers", 0, "FILE,...", "KMODSMITH_HEADERS", OPT_LIST, request.headers,
	    "kernel header packages (.deb, .rpm, .tar.*) instead of the host's tree"),
	OPT("builder", 0, "[NAME@]sha256:HEX,...", "KMODSMITH_BUILDER", OPT_SECRETS, origin.builders,
	    "builder roots (`pack builder`) by digest, where no compiler fits: in that repository, else in --from; no "
	    "signature is needed"),
	OPT("modules", 'm', "NAME,...", "KMODSMITH_MODULES", OPT_LIST, modules,
	    "module set: nvidia,uvm,modeset,drm,peermem; each of them must load. Default: nvidia,uvm, and modeset, "
	    "which may fail"),
	OPT("patches", 0, "DIR", "KMODSMITH_PATCHES", OPT_STR, patches,
	    "more source patches, see kmodsmith-patches(7)"),
	OPT("jobs", 'j', "N", "MAX_THREADS", OPT_UINT, request.options.jobs,
	    "compilers at once; default: processors, CPU and memory limits"),
	OPT("timeout", 0, "SECONDS", NULL, OPT_UINT, request.options.timeout_s,
	    "deadline of the compile; default 3600"),
	OPT("allow-rt", 0, NULL, NULL, OPT_FLAG, request.options.is_rt_allowed,
	    "compile for a PREEMPT_RT kernel although NVIDIA refuses it"),
	OPT("no-cache", 0, NULL, "KMODSMITH_NO_CACHE", OPT_FLAG, request.options.is_cache_off,
	    "compile everything again and alone: without fork servers, cached objects and conftest results"),
	OPT("state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, state_dir,
	    "kept packages, headers, scratch; default /var/lib/kmodsmith of the host"),
	{ .help = "Compiling" },
};

const struct opt module_key_opts[] = {
	OPT("module-key", 0, "FILE|URI", "KMODSMITH_MODULE_KEY", OPT_SECRET, module_key,
	    "private key that signs what is compiled, for kernels that load only signed modules (Secure Boot): a PEM "
	    "file or a pkcs11: URI"),
	OPT("module-cert", 0, "FILE", "KMODSMITH_MODULE_CERT", OPT_STR, module_cert,
	    "certificate of --module-key, PEM or DER, that the kernel trusts"),
	{ .help = "Signing modules" },
};

const struct opt distribution_opts[] = {
	OPT("host-repositories", 0, "on|off", "KMODSMITH_HOST_REPOSITORIES", OPT_STR, host_repositories,
	    "kernel headers that are nowhere else: fetched by the host's own apt, dnf or zypper from the repositories "
	    "that it is configured for, without installing anything; default on, off with --offline"),
	OPT("headers-repositories", 0, "DIR,...", "KMODSMITH_HEADERS_REPOSITORIES", OPT_LIST, headers_repositories,
	    "*.list, *.sources or *.repo files of more repositories, which the host's own package manager asks before "
	    "those that it is configured for"),
	OPT("headers-archive", 0, "DIR", "KMODSMITH_HEADERS_ARCHIVE", OPT_STR, headers_archive,
	    "*.list, *.sources or *.repo files of archives of superseded kernels, asked after the host's repositories"),
	{ .help = "Kernel headers" },
};

const struct opt job_opts[] = {
	OPT("driver", 'd', "VERSION", "DRIVER_VERSION", OPT_STR, driver,
	    "driver version; `install` and `plan` also take a branch, such as 535, or latest: the newest that the "
	    "store or --from has for this kernel; default: that of --package or --source"),
	OPT("digest", 0, "sha256:HEX", NULL, OPT_STR, digest, "exactly this package, and no other of the same driver"),
	OPT("param", 0, "MODULE:NAME=VALUE,...", NULL, OPT_LIST, request.params,
	    "module parameters, beside modprobe.d and /drivers/*.conf"),
	OPT("host-driver", 0, "use|replace|fail", "KMODSMITH_HOST_DRIVER", OPT_STR, host_driver,
	    "what to do with a driver that something else installed on this host and that is not the requested one; "
	    "default fail"),
	OPT("from-vfio", 0, NULL, "KMODSMITH_FROM_VFIO", OPT_FLAG, request.is_from_vfio,
	    "unbind GPUs from vfio-pci that no virtual machine has open; without it they are left alone"),
	OPT("reuse", 0, "off|series|on", "KMODSMITH_REUSE", OPT_STR, reuse, REUSE_HELP),
	OPT("no-compile", 0, NULL, "KMODSMITH_NO_COMPILE", OPT_FLAG, request.is_compile_forbidden, "use packages only"),
	OPT("allow-unproven", 0, NULL, "KMODSMITH_ALLOW_UNPROVEN", OPT_FLAG, request.is_unproven_allowed,
	    "replace a driver that works although nothing could be compared with this kernel (E_UNPROVEN)"),
	OPT("retry", 0, NULL, NULL, OPT_FLAG, request.is_retry, "try a driver again that failed on this node before"),
	OPT("export", 0, "DIR|auto|none", "KMODSMITH_EXPORT", OPT_STR, export,
	    "where others find the driver's user space; auto, the default of init and its agent: where it is now, "
	    "else " DRIVER_ROOT_DEFAULT " if there is some; default: where it is now"),
	OPT("payload", 0, "DIR", "KMODSMITH_PAYLOAD", OPT_STR, request.payload,
	    "user space and sources that an image carries (`pack payload --output dir:DIR`); its driver is the "
	    "default"),
	OPT("cdi", 0, "FILE|none", "KMODSMITH_CDI", OPT_STR, request.cdi,
	    "CDI specification for container runtimes; default: " CDI_FILE
	    " for init and its agent, else where it is now"),
	OPT("dev-root", 0, "DIR", "KMODSMITH_DEV_ROOT", OPT_STR, dev_root,
	    "directory that holds the dev/ to make nodes in; default the host's root"),
	OPT("imex-channels", 0, "N", NULL, OPT_UINT, request.imex_channels, "make N IMEX channel nodes; default none"),
	OPT("load-timeout", 0, "SECONDS", NULL, OPT_UINT, load_timeout_s,
	    "deadline of one load, after which the kernel counts as stuck (E_WEDGED); default 300"),
	OPT("unload-timeout", 0, "SECONDS", NULL, OPT_UINT, unload_timeout_s, UNLOAD_TIMEOUT_HELP),
	OPT("holders", 0, "refuse|wait|stop", "KMODSMITH_HOLDERS", OPT_STR, holders, HOLDERS_HELP),
	OPT("holders-timeout", 0, "SECONDS", NULL, OPT_UINT, holders_timeout_s, HOLDERS_TIMEOUT_HELP),
	OPT("gpu-check", 0, "start|none", "KMODSMITH_GPU_CHECK", OPT_STR, gpu_check,
	    "how far each GPU is tried before the node is ready: start only opens them, which boots them; none asks "
	    "only whether the modules and nodes are there; default: as far as the node has user space"),
	OPT("gpu-timeout", 0, "SECONDS", NULL, OPT_UINT, gpu_timeout_s,
	    "deadline of the start of one GPU (E_GPU_PENDING); default 120"),
	OPT("allow-missing-gpus", 0, "N", "KMODSMITH_ALLOW_MISSING_GPUS", OPT_UINT, request.gpus.allowed_missing,
	    "how many GPUs may be broken on a node that is ready all the same; default 0"),
	{ .help = "The driver on this machine" },
};

const struct opt share_opts[] = {
	OPT("share", 0, "REPOSITORY", "KMODSMITH_SHARE", OPT_SECRET, share,
	    "one of --from, to which builders push what they compile: the others wait for it"),
	OPT("share-role", 0, "builder|node", "KMODSMITH_SHARE_ROLE", OPT_STR, share_role,
	    "with --share: a builder signs and pushes what it compiles, for all; a node, the default, signs nothing"),
	OPT("share-key", 0, "FILE|URI,...", "KMODSMITH_SHARE_KEY", OPT_SECRETS, share_keys,
	    "with --share-role builder: private key that signs it"),
	OPT("compile-lease", 0, "NAMESPACE|auto|off", "KMODSMITH_COMPILE_LEASE", OPT_STR, compile_lease,
	    "with --share: namespace of the Leases that decide which node compiles; default "
	    "auto: " BUILD_LEASE_NAMESPACE ", or a lock in --state-dir without a Kubernetes API"),
	OPT("lease-duration", 0, "SECONDS", NULL, OPT_UINT, lease_duration_s,
	    "a compiling node that is silent for this long counts as dead; default 60"),
	OPT("kubeconfig", 0, "FILE", "KMODSMITH_KUBECONFIG", OPT_STR, kubeconfig,
	    "how to reach the Kubernetes API outside a pod with a service account; NODE_NAME names this node"),
	{ .help = "Sharing what is compiled" },
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
			       S_ISDIR(st.st_mode) ? "a directory, expected a package file" : "not a regular file");
	return st.st_size ? 0 : err_set(err, E_ARCHIVE, "%s: '%s' is empty", what, path);
}

int job_check_module_key(const struct job_values *values, struct err *err)
{
	return !values->module_key == !values->module_cert ?
		       0 :
		       err_set(err, E_USAGE, "--module-key and --module-cert need each other");
}

int job_check_inputs(const struct job_values *values, struct err *err)
{
	const struct request *request = &values->request;
	if (job_check_module_key(values, err) < 0)
		return -1;
	for (size_t i = 0; i < request->headers.count; i++)
		if (job_check_path("--headers", request->headers.items[i], false, err) < 0)
			return -1;
	bool is_url = source_url_is(request->source);
	if (request->source && (is_url ? source_url_check("--source", request->source, request->source_sha256, err) :
					 job_check_path("--source", request->source, true, err)) < 0)
		return -1;
	if (request->source_sha256 && !digest_is_hex(request->source_sha256))
		return err_set(err, E_USAGE, "--source-sha256 '%s' is not a digest: expected 64 digits of 0-9 and a-f",
			       request->source_sha256);
	if (values->digest && (!str_starts(values->digest, "sha256:") || !digest_is_hex(values->digest + 7)))
		return err_set(err, E_USAGE, "--digest '%s' is not sha256: and 64 digits of 0-9 and a-f",
			       values->digest);
	return 0;
}

int job_fetch_source(const struct job_values *values, const char *source, const char *sha256, const struct root *state,
		     char **ret, struct err *err)
{
	auto_remote_access struct remote_access access = { 0 };
	struct remote_values remote = values->origin.remote;
	if (!source_url_is(source))
		return 0;
	remote.is_offline |= values->origin.bundle != NULL; // as in origin_open()
	if (remote_access_open(&remote, &access, err) < 0)
		return -1;
	const struct source_url request = {
		.url = source, .sha256 = sha256, .state = state, .http = access.http, .progress = origin_show_bytes
	};
	return source_url_fetch(&request, ret, err) < 0 ? -1 : 1;
}

int job_check_driver(const char *driver, struct err *err)
{
	if (!driver || (*driver && !driver[strcspn(driver, " \t#")]))
		return 0;
	return err_set(err, E_USAGE, "--driver '%s' is not a driver version%s", driver,
		       strchr(driver, '#') ? ": a comment has a line of its own" : "");
}

int job_parse_flavour(const struct job_values *values, enum module_type *ret, struct err *err)
{
	*ret = MODULE_TYPE_AUTO;
	if (values->flavour && !module_type_parse(values->flavour, ret))
		return err_set(err, E_USAGE, "--flavour '%s' is not one of auto, open, proprietary", values->flavour);
	return 0;
}

int job_parse_arch(const char *text, const char **ret, struct err *err)
{
	static const char *const known[][2] = { { "x86_64", "amd64" }, { "aarch64", "arm64" } };
	*ret = NULL;
	for (size_t i = 0; text && i < 2 * ARRAY_SIZE(known); i++)
		if (str_eq(text, known[i / 2][i % 2]))
			*ret = known[i / 2][0];
	if (text && !*ret)
		return err_set(err, E_USAGE, "--arch '%s' is not one of x86_64 (amd64), aarch64 (arm64)", text);
	return 0;
}

int job_parse_holders(const char *text, enum holders_policy *ret, struct err *err)
{
	*ret = HOLDERS_REFUSE;
	if (text && !holders_wait_parse(text, ret))
		return err_set(err, E_USAGE, "--holders '%s' is not one of refuse, wait, stop", text);
	return 0;
}

int job_parse_gpu_check(const char *text, struct gpu_demand *ret, struct err *err)
{
	ret->is_off = str_eq(text, "none");
	ret->is_start_only = str_eq(text, "start");
	if (text && !ret->is_off && !ret->is_start_only)
		return err_set(err, E_USAGE, "--gpu-check '%s' is not one of start, none", text);
	return 0;
}

int job_parse_reuse(const char *text, enum reuse *ret, struct err *err)
{
	*ret = REUSE_SERIES;
	if (text && !reuse_parse(text, ret))
		return err_set(err, E_USAGE, "--reuse '%s' is not one of off, series, on", text);
	return 0;
}

int job_parse_store_limit(const char *text, uint64_t *ret, struct err *err)
{
	*ret = 0;
	if (text && !store_size_parse(text, ret))
		return err_set(err, E_USAGE, "--store-limit '%s' is not a size such as 500M or 2G", text);
	return 0;
}

int job_package_manager(const struct job_values *v, struct package_manager_options *ret, struct err *err)
{
	const char *word = v->host_repositories;
	*ret = (struct package_manager_options){ .added = &v->headers_repositories,
						 .archive = v->headers_archive,
						 .stall_s = v->origin.remote.stall_timeout_s };
	auto_root struct root archive = ROOT_NONE;
	for (size_t i = 0; i < v->headers_repositories.count; i++) {
		auto_root struct root dir = ROOT_NONE;
		if (root_init(&dir, v->headers_repositories.items[i], err) < 0)
			return err_wrap(err, "--headers-repositories");
	}
	if (v->headers_archive && root_init(&archive, v->headers_archive, err) < 0)
		return err_wrap(err, "--headers-archive");
	ret->why_not = v->origin.remote.is_offline ? "--offline: not asked" :
		       v->origin.bundle            ? "--bundle: not asked" :
		       str_eq(word, "off")         ? "--host-repositories off: not asked" :
						     NULL;
	return 0;
}

int job_unload_timeout_ms(unsigned seconds)
{
	enum { DEFAULT_S = 60, DAY_S = 24 * 60 * 60 };
	seconds = seconds ? seconds : DEFAULT_S;
	return (int)(seconds < DAY_S ? seconds : DAY_S) * 1000;
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

// Where it is when no option names it.
static int find_state_place(const struct machine *m, struct root *ret_base, const char **ret_path, struct err *err)
{
	const char *home = getenv("HOME");
	bool is_host = m->is_recorded || geteuid() == 0 || !home;
	*ret_path = is_host ? JOB_STATE : ".local/state/kmodsmith";
	return is_host ? root_sub(&m->host, ".", ret_base, err) : root_init(ret_base, home, err);
}

int job_state(const struct job_values *values, const struct machine *m, struct root *ret, struct err *err)
{
	const char *path;
	auto_root struct root base = ROOT_NONE;
	if (values->state_dir) {
		if (root_make(values->state_dir, ret, err) < 0)
			return err_wrap(err, "--state-dir");
		return 0;
	}
	if (find_state_place(m, &base, &path, err) < 0 || root_mkdirs(&base, path, 0755, err) < 0)
		return -1;
	return root_sub(&base, path, ret, err);
}

int job_state_if_any(const char *state_dir, const struct machine *m, struct root *ret, struct err *err)
{
	const char *path;
	auto_root struct root base = ROOT_NONE;
	if (state_dir)
		return root_init(ret, state_dir, err) < 0 && err->code != ENOENT ? -1 : 0;
	if (find_state_place(m, &base, &path, err) < 0)
		return -1;
	return root_exists(&base, path) ? root_sub(&base, path, ret, err) : 0;
}

int job_state_existing(const char *state_dir, const struct machine *m, struct root *ret, struct err *err)
{
	if (state_dir)
		return root_init(ret, state_dir, err);
	return root_exists(&m->host, JOB_STATE) ? root_sub(&m->host, JOB_STATE, ret, err) : 0;
}

// An unpredictable name, because everybody can write to the directory.
static int make_temp_state(struct job_temp_state *ret, struct err *err)
{
	const char *named = getenv("TMPDIR");
	uint64_t random;
	if (root_init(&ret->parent, named && *named ? named : "/tmp", err) < 0)
		return -1;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return err_set(err, errno, "random bytes");
	auto_str char *name = str_fmt("kmodsmith-%016llx", (unsigned long long)random);
	if (mkdirat(ret->parent.fd, name, 0700) < 0)
		return err_set(err, errno, "make the directory '%s' in '%s'", name, ret->parent.name);
	ret->name = TAKE(name);
	return 0;
}

int job_state_for_reading(const struct job_values *values, const struct machine *m, struct job_temp_state *spare,
			  struct root *ret, struct err *err)
{
	if (job_state(values, m, ret, err) == 0)
		return 0;
	if (values->state_dir || m->is_recorded || geteuid() == 0)
		return -1;
	const struct err why = *err;
	if (make_temp_state(spare, err) < 0)
		return -1;
	log_warn("kept packages are not visible, because there is no state directory: %s; name one with --state-dir",
		 why.text);
	return root_sub(&spare->parent, spare->name, ret, err);
}

void job_temp_state_done(struct job_temp_state *s)
{
	struct err ignored;
	if (s->name)
		root_rmtree(&s->parent, s->name, &ignored);
	free(s->name);
	root_done(&s->parent);
	*s = JOB_TEMP_STATE_NONE;
}

static int check_job_inputs(void *ctx, struct err *err)
{
	const struct job *j = ctx;
	return job_check_inputs(j->values, err);
}

static int open_job_state(void *ctx, struct root *ret, struct err *err)
{
	const struct job *j = ctx;
	return job_state(j->values, &j->machine, ret, err);
}

static int open_job_repositories(void *ctx, const struct root *state, struct fetch *ret, struct err *err)
{
	struct job *j = ctx;
	if (origin_open(&j->values->origin, &j->machine.host, &j->origin, err) < 0)
		return -1;
	origin_fetch(&j->origin, state, ret);
	return 0;
}

static int fetch_job_source(void *ctx, const struct root *state, char **ret, struct err *err)
{
	const struct job *j = ctx;
	return job_fetch_source(j->values, j->request.source, j->request.source_sha256, state, ret, err);
}

int job_request(const struct job_values *v, struct root *patches, struct request *ret, struct err *err)
{
	*ret = v->request;
	ret->driver = v->driver;
	ret->digest = v->digest && str_starts(v->digest, "sha256:") ? v->digest + strlen("sha256:") : v->digest;
	ret->is_named = v->origin.package;
	ret->module_key = (struct module_key){ .key = v->module_key,
					       .cert = v->module_cert,
					       .password = getenv("KMODSMITH_KEY_PASSWORD") };
	if (job_parse_modules(&v->modules, &ret->modules, err) < 0 ||
	    (v->patches && root_init(patches, v->patches, err) < 0) || job_parse_flavour(v, &ret->flavour, err) < 0 ||
	    job_package_manager(v, &ret->package_manager, err) < 0 || job_parse_reuse(v->reuse, &ret->reuse, err) < 0)
		return -1;
	ret->options.patches = v->patches ? patches : NULL;
	return 0;
}

static int parse_job_words(struct job *j, struct err *err)
{
	const struct job_values *v = j->values;
	struct request *r = &j->request;
	if (job_check_driver(v->driver, err) < 0 || machine_open(&v->origin.remote.common, &j->machine, err) < 0 ||
	    machine_open_dev(&j->machine, v->dev_root, err) < 0 || job_request(v, &j->patches, r, err) < 0)
		return -1;
	r->is_from_vfio = r->is_from_vfio || (v->is_for_operator && root_exists(&j->machine.host, JOB_FROM_VFIO));
	if (v->host_driver && !host_policy_parse(v->host_driver, &r->host_driver))
		return err_set(err, E_USAGE, "--host-driver '%s' is not one of use, replace, fail", v->host_driver);
	if (job_parse_holders(v->holders, &r->holders, err) < 0 || job_parse_gpu_check(v->gpu_check, &r->gpus, err) < 0)
		return -1;
	return r->cdi ? cdi_spec_file_check(r->cdi, err) : 0;
}

// Whether driver and source, or driver and package, were named together, and which counts if not. In a file or in the
// environment one of them may be old, so only what was typed is an error.
static void compare_origins(struct job *j)
{
	struct request *r = &j->request;
	const enum opt_source driver = entry_source_of("driver"), source = entry_source_of("source");
	bool is_ordered = j->values->is_ordered, has_driver = r->driver || r->branch;
	r->is_source_spare = r->source && has_driver && (is_ordered || driver > source);
	r->is_source_bound = r->source && !is_ordered && driver && driver == source;
	r->is_package_bound = r->is_named && !is_ordered && driver && driver == entry_source_of("package");
	r->is_driver_typed = driver == OPT_FLAGS;
}

// Adds what depends on the command, and the deadlines in milliseconds.
static void complete_request(struct job *j)
{
	static char cdi_default[] = CDI_FILE;
	const struct job_values *v = j->values;
	struct request *r = &j->request;
	bool is_latest = str_eq(v->driver, "latest");
	bool is_branch = v->driver && *v->driver && strspn(v->driver, "0123456789") == strlen(v->driver);
	if (v->has_branch && (is_latest || is_branch)) {
		r->driver = NULL;
		r->branch = is_latest ? "" : v->driver;
	}
	bool is_auto = str_eq(v->export, JOB_AUTO);
	r->driver_root = is_auto ? NULL : v->export;
	r->driver_root_default = is_auto || v->is_export_default ? DRIVER_ROOT_DEFAULT : NULL;
	if (!r->cdi && v->is_cdi_default)
		r->cdi = cdi_default;
	r->load_timeout_ms = v->load_timeout_s ? job_unload_timeout_ms(v->load_timeout_s) : 0;
	r->unload_timeout_ms = job_unload_timeout_ms(v->unload_timeout_s);
	r->holders_timeout_ms = holders_wait_deadline_ms(r->holders, v->holders_timeout_s);
	r->gpus.timeout_ms = v->gpu_timeout_s ? job_unload_timeout_ms(v->gpu_timeout_s) : 0;
	compare_origins(j);
}

int job_open(const struct job_values *values, bool is_change, struct job *ret, struct err *err)
{
	*ret = JOB_NONE;
	ret->values = values;
	if (parse_job_words(ret, err) < 0)
		return -1;
	complete_request(ret);
	ret->caller = (struct session_caller){
		.node = &ret->machine.node,
		.progress = values->progress ? *values->progress : show_progress_log(),
		.trust_dir = values->origin.trust_dir,
		.is_unverified = values->origin.is_unverified,
		.blame = entry_add_origin,
		.check_inputs = check_job_inputs,
		.open_state = open_job_state,
		.open_repositories = open_job_repositories,
		.fetch_source = source_url_is(ret->request.source) ? fetch_job_source : NULL,
		.ctx = ret,
	};
	return session_open(&ret->caller, &ret->request, is_change, &ret->session, err);
}

void job_done(struct job *j)
{
	session_done(&j->session);
	origin_done(&j->origin);
	strv_done(&j->request.modules);
	root_done(&j->patches);
	machine_done(&j->machine);
}

static int open_share(struct job *j, struct shared_build *ret, struct err *err)
{
	struct session *s = &j->session;
	const struct shared_build_request request = { .acquire = &s->acquire,
						      .source = &s->source,
						      .flavour = s->plan.flavour };
	return share_open(j->values, &j->origin, request, ret, err);
}

int job_stage(struct job *j, struct err *err)
{
	auto_shared_build struct shared_build share = SHARED_BUILD_NONE;
	int r = open_share(j, &share, err);
	return r < 0 ? -1 : session_stage(&j->session, r > 0 ? &share.gate : NULL, err);
}

int job_apply(struct job *j, struct status *ret, struct err *err)
{
	auto_shared_build struct shared_build share = SHARED_BUILD_NONE;
	int r = open_share(j, &share, err);
	return r < 0 ? -1 : session_apply(&j->session, r > 0 ? &share.gate : NULL, ret, err);
}
