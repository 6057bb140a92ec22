// SPDX-License-Identifier: Apache-2.0
// dtk run, dtk build: a compile in OpenShift's driver toolkit.
#include "cmd/container/dtk.h"

#include "base/core/date.h"
#include "base/file/copy.h"
#include "base/file/file.h"
#include "cmd/common/entry.h"
#include "cmd/common/job.h"
#include "cmd/container/nvidia_driver.h"
#include "driver_toolkit/dtk.h"
#include "driver_toolkit/extra_modules.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#define PATIENCE_HELP \
	"how long the toolkit may show no sign of life before the driver is installed without it; default 600"

struct dtk_values {
	struct common common;
	char *shared, *program;
	unsigned patience_s;
	bool is_image_missing, is_nvidia_fs, is_gdrdrv;
};

static void stop_signals(sigset_t *ret)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	sigemptyset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(ret, signals[i]);
}

static void mask_stop_signals(int how) // SIG_BLOCK, SIG_UNBLOCK
{
	sigset_t set;
	stop_signals(&set);
	sigprocmask(how, &set, NULL);
}

// One second, or until told to stop: the signal, 0 = none. They are blocked.
static int wait_second(void)
{
	const struct timespec second = { .tv_sec = 1 };
	sigset_t set;
	stop_signals(&set);
	int signal = sigtimedwait(&set, NULL, &second);
	return signal > 0 ? signal : 0;
}

// The toolkit's side, with the compiler: a foreign root, into which the other container put this program.

struct dtk_builder {
	struct machine machine;
	struct host host;
	struct root shared, place, state; // place: kmodsmith in shared; state: in there, of this side
	struct progress watch;
	struct progress log; // what watch passes on to
	struct dtk_request request;
	struct dtk_progress progress;
	time_t told;
	struct scratch made; // a layout
	struct layout layout;
	struct extra_modules extra;
};
#define DTK_BUILDER_NONE                                \
	((struct dtk_builder){ .machine = MACHINE_NONE, \
			       .shared = ROOT_NONE,     \
			       .place = ROOT_NONE,      \
			       .state = ROOT_NONE,      \
			       .made = SCRATCH_NONE,    \
			       .layout = LAYOUT_NONE })

static void drop_request(struct dtk_builder *t)
{
	layout_done(&t->layout);
	scratch_done(&t->made);
	dtk_request_done(&t->request);
}

static void dtk_builder_done(struct dtk_builder *t)
{
	drop_request(t);
	progress_done(&t->watch);
	root_done(&t->state);
	root_done(&t->place);
	root_done(&t->shared);
	host_done(&t->host);
	machine_done(&t->machine);
}
#define auto_dtk_builder __attribute__((cleanup(dtk_builder_done)))

static void beat_dtk(struct dtk_builder *t)
{
	struct err ignored;
	t->progress.beat++;
	dtk_progress_write(&t->shared, &t->progress, &ignored);
}

// Once a second is enough for a reader that waits for minutes.
static void progress_to_shared(void *ctx, const char *what, unsigned done, unsigned total)
{
	struct dtk_builder *t = ctx;
	t->log.progress(t->log.ctx, what, done, total);
	t->progress.done = done;
	t->progress.total = total;
	if (time(NULL) == t->told)
		return;
	t->told = time(NULL);
	beat_dtk(t);
}

static void enter_to_shared(void *ctx, const char *name)
{
	struct dtk_builder *t = ctx;
	t->log.enter(t->log.ctx, name);
	beat_dtk(t);
}

static int open_output(void *dtk_builder, const struct layout **ret, struct err *err)
{
	struct dtk_builder *t = dtk_builder;
	if (scratch_make(&t->place, "package", &t->made, err) < 0 || layout_make(&t->made.root, &t->layout, err) < 0)
		return -1;
	*ret = &t->layout;
	return 0;
}

// Detects a toolkit image of another kernel as NVIDIA's entrypoint does; the headers decide the rest.
static int check_toolkit_image(const struct dtk_builder *t, struct err *err)
{
	const char *release = t->host.release;
	auto_str char *image = str_fmt("lib/modules/%s/vmlinuz", release);
	auto_strv struct strv has = { 0 };
	if (!str_eq(t->request.kernel, release))
		return err_set(err, E_HEADERS_MISMATCH, "requested for kernel %s, but %s is running", t->request.kernel,
			       release);
	if (root_exists(&t->machine.host, image))
		return 0;
	if (root_list(&t->machine.host, "lib/modules", &has, err) < 0)
		return -1;
	auto_str char *kernels = strv_join(&has, ", ");
	return err_set(err, E_HEADERS_NOT_FOUND, "the toolkit image is not for this kernel: no %s, it has %s", image,
		       has.count ? kernels : "none");
}

static int compile_request_here(struct dtk_builder *t, struct err *err)
{
	const struct dtk_request *r = &t->request;
	auto_root struct root patches = ROOT_NONE;
	auto_package struct package package = PACKAGE_NONE;
	auto_compile_report struct compile_report report = { 0 };
	auto_str char *path = str_fmt("kmodsmith/source/%s", r->source), *source = root_path(&t->shared, path);
	struct request asked = {
		.source = source, .source_sha256 = r->source_sha256, .modules = r->modules, .options = r->options
	};
	struct compile_request request = {
		.asked = &asked,
		.release = r->kernel,
		.banner = t->host.banner,
		.node = &t->machine.node,
		.output = open_output,
		.output_ctx = t,
	};
	if (!module_type_parse(r->flavour, &request.flavour))
		return err_set(err, E_CONFIG, "the request's flavour is '%s'", r->flavour);
	if (r->patches && root_sub(&t->shared, "kmodsmith/patches", &patches, err) < 0)
		return -1;
	asked.options.patches = r->patches ? &patches : NULL;
	return compile_package(&request, &t->watch, &package, &report, err);
}

// Only a failure to report to the other side is an error.
static int serve_request(struct dtk_builder *t, const char *id, struct err *err)
{
	struct err why = { 0 }, ignored;
	struct dtk_flags flags;
	t->progress = (struct dtk_progress){ .beat = t->progress.beat };
	memcpy(t->progress.id, id, sizeof(t->progress.id));
	if (dtk_flag_set(&t->shared, DTK_STARTED, id, err) < 0)
		return -1;
	beat_dtk(t);
	int r = check_toolkit_image(t, &why);
	if (r == 0)
		r = compile_request_here(t, &why);
	if (r < 0)
		progress_fail(&t->watch);
	if (dtk_flags_read(&t->shared, &flags, &ignored) < 0 || dtk_next(&flags, id) != DTK_WAIT) {
		log_info("the request changed meanwhile: its result is discarded");
		return 0;
	}
	if (r == 0) {
		auto_str char *name = str_fmt(DTK_PACKAGE "%s", id);
		layout_done(&t->layout);
		if (root_rmtree(&t->place, name, err) < 0 || scratch_keep(&t->made, name, err) < 0)
			return -1;
		return dtk_flag_set(&t->shared, DTK_BUILT, id, err);
	}
	log_err(&why);
	return dtk_reason_write(&t->shared, &why, err) < 0 ? -1 : dtk_flag_set(&t->shared, DTK_BROKEN, id, err);
}

// The compiler and the headers are this container's. Other commands find the node's files by its process ids, which
// this pod has, too; there are none.
static int open_toolkit(const struct dtk_values *v, struct dtk_builder *t, struct err *err)
{
	char root[] = "/";
	t->log = show_progress_log();
	t->watch = t->log;
	t->watch.ctx = t;
	t->watch.progress = progress_to_shared;
	t->watch.enter = enter_to_shared;
	struct common common = v->common;
	if (!common.root && !common.host_root)
		common.host_root = root;
	if (machine_open(&common, &t->machine, err) < 0 ||
	    host_read(&t->machine.host, &t->machine.kern, &t->host, err) < 0)
		return -1;
	if (root_init(&t->shared, v->shared ? v->shared : DTK_SHARED, err) < 0 ||
	    root_mkdirs(&t->shared, "kmodsmith/toolkit", 0755, err) < 0 ||
	    root_sub(&t->shared, "kmodsmith", &t->place, err) < 0)
		return -1;
	t->machine.node.state = &t->state;
	t->machine.node.progress = &t->log;
	return root_sub(&t->place, "toolkit", &t->state, err);
}

// Checks once. 1 = a request was handled, 0 = there was none.
static int serve_next_request(struct dtk_builder *t, struct err *err)
{
	struct dtk_flags flags;
	char id[DIGEST_HEX + 1];
	if (dtk_flags_read(&t->shared, &flags, err) < 0)
		return -1;
	if (dtk_request_read(&t->shared, &t->request, id, err) == 0 || dtk_next(&flags, id) != DTK_WAIT) {
		drop_request(t);
		return 0;
	}
	log_info("request: %s %s for kernel %s", t->request.driver, t->request.flavour, t->request.kernel);
	mask_stop_signals(SIG_UNBLOCK); // a signal ends the compile
	int r = serve_request(t, id, err);
	mask_stop_signals(SIG_BLOCK);
	drop_request(t);
	return r < 0 ? -1 : 1;
}

static void serve_extra_modules(struct dtk_builder *t)
{
	enum { COMPILE_MS = 600000 };
	const struct extra_toolkit at = { .shared = &t->shared,
					  .work = &t->state,
					  .node = &t->machine.node,
					  .release = t->host.release,
					  .timeout_ms = COMPILE_MS };
	enum extra_module which;
	struct err why;
	mask_stop_signals(SIG_UNBLOCK);
	int r = extra_modules_serve(&at, &t->extra, &which, &why);
	if (r > 0)
		log_info("%s is compiled and proven against the driver's nvidia.ko", extra_module_names[which]);
	else if (r < 0)
		log_warn("%s is not made, and its container waits: %s: %s", extra_module_names[which],
			 err_info(why.code)->name, why.text);
	mask_stop_signals(SIG_BLOCK);
}

static int run_dtk_build(void *values, char **args, size_t count, struct err *err)
{
	const struct dtk_values *v = values;
	(void)args, (void)count;
	auto_dtk_builder struct dtk_builder t = DTK_BUILDER_NONE;
	bool is_told = false;
	mask_stop_signals(SIG_BLOCK);
	if (v->is_image_missing)
		log_info("the cluster has no driver toolkit for this node: nothing to do here");
	else if (open_toolkit(v, &t, err) < 0)
		return -1;
	for (int signal; (signal = wait_second()) == 0;) {
		int r = v->is_image_missing ? 0 : serve_next_request(&t, err);
		if (r < 0)
			return -1;
		if (r == 0 && !is_told)
			log_info("waiting for a request");
		is_told = r == 0;
		if (r == 0 && !v->is_image_missing)
			serve_extra_modules(&t);
	}
	return 0;
}

// The driver's side. A failure here is only reported: `init` has its own ways to get the modules.

enum { PATIENCE_S = 600, COMPILE_S = 3600, PREPARES_MOST = 3 };
static const char PROGRAM[] = "/usr/libexec/kmodsmith";

extern const struct cmd cmd_init;

struct dtk_handover {
	const struct dtk_values *v;
	struct job *job;
	struct root shared;
	struct dtk_request request;
	char *source, *text, id[DIGEST_HEX + 1];
	struct dtk_inputs inputs;
	unsigned prepares;
	struct dtk_progress last;
	bool is_started;          // the other side has started
	time_t begun, last_alive; // seconds of the monotonic clock
};

static void dtk_handover_done(struct dtk_handover *s)
{
	free(s->text);
	free(s->source);
	dtk_request_done(&s->request);
	root_done(&s->shared);
}
#define auto_dtk_handover __attribute__((cleanup(dtk_handover_done)))

static char *last_name(const char *path)
{
	auto_str char *full = str_dup(path);
	for (size_t len = strlen(full); len > 1 && full[len - 1] == '/';)
		full[--len] = '\0';
	const char *slash = strrchr(full, '/');
	return str_dup(slash ? slash + 1 : full);
}

static int fill_request(struct dtk_handover *s, struct err *err)
{
	const struct job *j = s->job;
	const struct job_values *v = j->values;
	struct dtk_request *r = &s->request;
	char patches[DIGEST_HEX + 1], program[DIGEST_HEX + 1];
	s->source = str_dup(j->session.source_path);
	if (!s->source)
		return err_set(err, E_NOT_FOUND, "the driver has no source");
	if (v->module_key)
		return err_set(err, E_USAGE, "--module-key signs here, and the toolkit's packages cannot be changed");
	s->inputs = (struct dtk_inputs){ .program = s->v->program ? s->v->program : PROGRAM,
					 .source = s->source,
					 .patches = v->patches };
	if (v->patches && copy_digest(&j->patches, patches, err) < 0)
		return -1;
	*r = (struct dtk_request){ .driver = str_dup(j->session.plan.driver),
				   .flavour = str_dup(module_type_name(j->session.plan.flavour)),
				   .kernel = str_dup(j->session.facts.host.release),
				   .source = last_name(s->source),
				   .source_sha256 = str_dup(j->session.source.digest),
				   .patches = v->patches ? str_dup(patches) : NULL,
				   .options = j->request.options,
				   .attempt = 1 };
	for (size_t i = 0; i < j->request.modules.count; i++)
		strv_add(&r->modules, str_dup(j->request.modules.items[i]));
	auto_fd int fd = file_open_arg(s->inputs.program, O_RDONLY, err);
	if (fd < 0 || digest_file(fd, s->inputs.program, program, err) < 0)
		return -1;
	r->program = str_dup(program);
	return 0;
}

// Continues the request of an earlier start, unless it failed for a retryable reason.
static int continue_request(struct dtk_handover *s, struct err *err)
{
	auto_dtk_request struct dtk_request old = { 0 };
	struct dtk_flags flags;
	char id[DIGEST_HEX + 1];
	struct err ignored, why;
	if (dtk_flags_read(&s->shared, &flags, err) < 0)
		return -1;
	if (dtk_request_read(&s->shared, &old, id, &ignored) > 0 && dtk_request_equal(&old, &s->request)) {
		s->request.attempt = old.attempt;
		dtk_reason_read(&s->shared, &why);
		if (dtk_next(&flags, id) == DTK_LEAVE && err_info(why.code)->retryable)
			s->request.attempt++;
	}
	s->text = dtk_request_text(&s->request);
	digest_data(s->text, strlen(s->text), s->id);
	auto_dtk_request struct dtk_request parsed = { 0 }; // the other side must be able to read it
	return dtk_request_parse(s->text, strlen(s->text), &parsed, err);
}

static int prepare_shared_dir(struct dtk_handover *s, struct err *err)
{
	if (s->prepares++ >= PREPARES_MOST)
		return err_set(err, E_CONFLICT, "another process changes '%s'", s->shared.name);
	if (dtk_prepare(&s->shared, &s->inputs, s->text, err) < 0)
		return -1;
	s->begun = s->last_alive = clock_ms() / 1000;
	s->is_started = false;
	progress_note(&s->job->session.progress, "requested %s %s for kernel %s from the driver toolkit, in '%s'",
		      s->request.driver, s->request.flavour, s->request.kernel, s->shared.name);
	return 0;
}

// 0 = go on waiting, or the signal that ends it.
static int wait_for_toolkit(struct dtk_handover *s, const struct dtk_flags *flags, struct err *err)
{
	unsigned patience = s->v->patience_s ? s->v->patience_s : PATIENCE_S;
	unsigned compile = s->request.options.timeout_s ? s->request.options.timeout_s : COMPILE_S;
	struct dtk_progress latest = { 0 };
	time_t now = clock_ms() / 1000;
	if (!s->is_started && str_eq(flags->id[DTK_STARTED], s->id)) {
		s->is_started = true;
		s->last_alive = now;
		progress_note(&s->job->session.progress, "the driver toolkit has started");
	}
	if (dtk_progress_read(&s->shared, &latest) && latest.beat != s->last.beat) {
		s->last = latest;
		s->last_alive = now;
		if (latest.total && str_eq(latest.id, s->id)) // else it still completes an earlier request
			progress_count(&s->job->session.progress, "toolkit", latest.done, latest.total);
	}
	if (now - s->last_alive >= (time_t)patience)
		return err_set(err, E_TIMEOUT, "the toolkit's container %s within %u s",
			       s->is_started ? "showed no sign of life" : "did not start", patience);
	if (now - s->begun >= (time_t)patience + (time_t)compile)
		return err_set(err, E_BUILD_TIMEOUT, "the toolkit's container took longer than %u s", compile);
	return wait_second();
}

static int take_toolkit_package(struct dtk_handover *s, struct err *err)
{
	struct job *j = s->job;
	struct err ignored;
	auto_str char *tag = NULL;
	if (dtk_take(&j->session.acquire, &s->request, &s->shared, s->id, &tag, err) < 0) {
		dtk_flag_set(&s->shared, DTK_PREPARED, NULL, &ignored); // the next start requests it again
		return err_wrap(err, "the toolkit's package");
	}
	progress_end(&j->session.progress, "toolkit", "%s, proven, is in the store", tag);
	return 0;
}

// 0 = the store has it; a signal; negative = the toolkit cannot.
static int hand_to_toolkit(struct dtk_handover *s, struct err *err)
{
	const char *dir = s->v->shared ? s->v->shared : DTK_SHARED;
	if (root_init(&s->shared, dir, err) < 0 || fill_request(s, err) < 0 || continue_request(s, err) < 0)
		return -1;
	s->begun = s->last_alive = clock_ms() / 1000;
	for (int r = 0; r == 0;) {
		struct dtk_flags flags;
		if (dtk_flags_read(&s->shared, &flags, err) < 0)
			return -1;
		switch (dtk_next(&flags, s->id)) {
		case DTK_PREPARE:
			r = prepare_shared_dir(s, err);
			break;
		case DTK_WAIT:
			r = wait_for_toolkit(s, &flags, err);
			break;
		case DTK_TAKE:
			return take_toolkit_package(s, err);
		case DTK_LEAVE:
			dtk_reason_read(&s->shared, err);
			return -1;
		}
		if (r != 0)
			return r;
	}
	return 0;
}

// 0, or the signal that ended the wait.
static int use_toolkit(const struct dtk_values *v, const struct job_values *init)
{
	auto_job struct job job = JOB_NONE;
	auto_dtk_handover struct dtk_handover dtk_handover = { .v = v, .job = &job, .shared = ROOT_NONE };
	struct err err;
	if (job_open(init, false, &job, &err) < 0 || !plan_has(&job.session.plan, STEP_COMPILE))
		return 0; // init reports the same, and more
	progress_enter(&job.session.progress, "toolkit");
	mask_stop_signals(SIG_BLOCK);
	int r = hand_to_toolkit(&dtk_handover, &err);
	mask_stop_signals(SIG_UNBLOCK);
	if (r < 0) {
		progress_note(&job.session.progress, "continuing without the driver toolkit: %s: %s",
			      err_info(err.code)->name, err.text);
		progress_fail(&job.session.progress);
	}
	return r > 0 ? r : 0;
}

// The headers beside nv-p2p.h, of whatever form the source of the driver has.
static int open_interface(struct job *job, const struct root *work, struct root *ret, struct err *err)
{
	const struct plan *plan = &job->session.plan;
	auto_source struct source source = { .root = ROOT_NONE };
	auto_str char *carried = NULL;
	const char *named = job->request.source, *path = job->session.source_path;
	if (!path && named && !strstr(named, "://")) // that is not opened where a package fits
		path = named;
	if (!path && acquire_payload_source(&job->session.acquire, plan->driver, &carried, err) < 0)
		return -1;
	path = path ? path : carried;
	if (!path)
		return err_set(err, E_NOT_FOUND, "driver %s has no source here, and so no nv-p2p.h", plan->driver);
	if (source_open(path, NULL, work, &source, err) < 0)
		return -1;
	const char *dir = plan->flavour < ARRAY_SIZE(source.dirs) ? source.dirs[plan->flavour] : NULL;
	if (!dir || !str_eq(source.version, plan->driver))
		return err_set(err, E_NOT_FOUND, "'%s' is not the source of the %s modules of driver %s", path,
			       module_type_name(plan->flavour), plan->driver);
	auto_str char *interface = str_fmt("%s/nvidia", dir);
	return root_sub(&source.root, interface, ret, err);
}

static int offer_to_toolkit(const struct dtk_values *v, struct job *job, struct err *err)
{
	const struct session *s = &job->session;
	struct acquire *o = &job->session.acquire;
	auto_package struct package package = PACKAGE_NONE;
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_root struct root interface = ROOT_NONE, shared = ROOT_NONE;
	o->want.driver = s->plan.driver;
	o->want.flavour = module_type_name(s->plan.flavour);
	if (root_init(&shared, v->shared ? v->shared : DTK_SHARED, err) < 0 || acquire_find(o, false, err) < 0)
		return -1;
	if (!acquire_found(o))
		return err_set(err, E_NO_PACKAGE, "there is no package of driver %s here", s->plan.driver);
	if (acquire_take(o, &package, err) < 0 || scratch_make(&s->state, "interface", &work, err) < 0 ||
	    open_interface(job, &work.root, &interface, err) < 0)
		return -1;
	const struct extra_offer offer = {
		.kernel = s->facts.host.release,
		.driver = s->plan.driver,
		.flavour = s->plan.flavour,
		.modules = &package.dir,
		.interface = &interface,
		.is_wanted = { [EXTRA_NVIDIA_FS] = v->is_nvidia_fs, [EXTRA_GDRDRV] = v->is_gdrdrv },
		.program = v->program ? v->program : PROGRAM
	};
	return extra_modules_offer(&shared, &offer, err);
}

// What nvidia-fs and gdrdrv are compiled against in the toolkit. Nobody waits for that here.
static void offer_extra_modules(const struct dtk_values *v, const struct job_values *init)
{
	auto_job struct job job = JOB_NONE;
	struct err err;
	if ((!v->is_nvidia_fs && !v->is_gdrdrv) || job_open(init, false, &job, &err) < 0 ||
	    job.session.plan.outcome == PLAN_NO_GPU)
		return; // init reports the same, and more
	if (offer_to_toolkit(v, &job, &err) < 0)
		log_warn("nothing is compiled in the toolkit for GPUDirect Storage and GDRCopy, whose containers wait: "
			 "%s: %s",
			 err_info(err.code)->name, err.text);
}

static void command_line(const struct common *c, char **args, size_t count, struct strv *ret)
{
	strv_add(ret, str_dup("init"));
	if (c->root)
		strv_add(ret, str_fmt("--root=%s", c->root));
	if (c->host_root)
		strv_add(ret, str_fmt("--host-root=%s", c->host_root));
	if (c->log_format)
		strv_add(ret, str_fmt("--log-format=%s", c->log_format));
	if (c->is_json)
		strv_add(ret, str_dup("--json"));
	if (c->is_quiet)
		strv_add(ret, str_dup("--quiet"));
	if (c->is_verbose)
		strv_add(ret, str_dup("--verbose"));
	for (size_t i = 0; i < count; i++)
		strv_add(ret, str_dup(args[i]));
}

static int run_dtk(void *values, char **args, size_t count, struct err *err)
{
	const struct dtk_values *v = values;
	auto_strv struct strv line = { 0 }, again = { 0 }; // getopt sorts what it is given
	command_line(&v->common, args, count, &line);
	command_line(&v->common, args, count, &again);
	void *init = mem_alloc(cmd_init.values_size);
	int signal = 0;
	(void)err;
	if (v->is_image_missing)
		log_info("the cluster has no driver toolkit for this node: continuing without it");
	else if (entry_values(&cmd_init, (int)line.count, line.items, init) == 0) {
		signal = use_toolkit(v, init);
		if (!signal)
			offer_extra_modules(v, init);
	}
	opt_done(&cmd_init, init);
	free(init);
	if (signal) {
		log_info("signal %d: exiting before the driver is loaded", signal);
		return 1;
	}
	return entry_run(&cmd_init, (int)again.count, again.items);
}

static const struct opt shared_opts[] = {
	{ "shared", 0, "DIR", "KMODSMITH_DTK_SHARED", OPT_STR, offsetof(struct dtk_values, shared),
	  "the directory that both containers share; default " DTK_SHARED },
	{ "image-missing", 0, NULL, "RHCOS_IMAGE_MISSING", OPT_FLAG, offsetof(struct dtk_values, is_image_missing),
	  "the cluster has no toolkit image for this node's system: compile without it" },
	{ 0 },
};
static const struct opt run_opts[] = {
	{ "program", 0, "FILE", "KMODSMITH_STATIC", OPT_STR, offsetof(struct dtk_values, program),
	  "statically linked kmodsmith for the toolkit's container; default /usr/libexec/kmodsmith" },
	{ "toolkit-timeout", 0, "SECONDS", "KMODSMITH_DTK_TIMEOUT", OPT_UINT, offsetof(struct dtk_values, patience_s),
	  PATIENCE_HELP },
	{ "nvidia-fs", 0, NULL, "GDS_ENABLED", OPT_FLAG, offsetof(struct dtk_values, is_nvidia_fs),
	  "have the toolkit compile nvidia-fs, of the sources that its container shares" },
	{ "gdrdrv", 0, NULL, "GDRCOPY_ENABLED", OPT_FLAG, offsetof(struct dtk_values, is_gdrdrv),
	  "the same for GDRCopy's gdrdrv" },
	{ 0 },
};

const struct cmd cmd_dtk_run = {
	.name = "dtk run",
	.args = "[-- INIT-OPTION...]",
	.args_max = 64,
	.help = "`init`, with compiles handed over to the toolkit's container",
	.about = "Plans what `init` with the same options would do. Only if that includes a compile, it puts a\n"
		 "request, the source and this program into the directory that both containers share. The package\n"
		 "that comes back is proven against the running kernel and kept in the node's store; then `init`\n"
		 "continues from there. If the toolkit fails or shows no sign of life, one line says so, and `init`\n"
		 "continues without it. nvidia-fs and gdrdrv, where they are asked for, are compiled there and proven\n"
		 "against the driver's nvidia.ko, as soon as their containers have shared their sources.\n\n"
		 "Pods call this `ocp_dtk_entrypoint nv-ctr-run-with-dtk`.\n\n"
		 "  kmodsmith dtk run -- --driver 535.261.03\n",
	.opts = { shared_opts, run_opts, common_opts },
	.values_size = sizeof(struct dtk_values),
	.run = run_dtk,
};

const struct cmd cmd_dtk_build = {
	.name = "dtk build",
	.help = "the toolkit's side: compile what is requested, until a signal",
	.about = "Waits for a request in the shared directory, compiles it with the compiler and the headers of\n"
		 "this container, and leaves the package or the reason why there is none. Then waits for the next\n"
		 "request.\n\n"
		 "Pods call this `ocp_dtk_entrypoint dtk-build-driver`.\n\n"
		 "  kmodsmith dtk build\n",
	.opts = { shared_opts, common_opts },
	.values_size = sizeof(struct dtk_values),
	.run = run_dtk_build,
};

static int refuse_dtk_verb(const char *verb, const char *why)
{
	struct err err;
	err_set(&err, E_USAGE, "%s '%s': %s", DTK_PROGRAM, verb, why);
	log_err(&err);
	return err_info(err.code)->exit_status;
}

// Starts as `nvidia-driver init` does, with its environment and flags; other arguments go to our own init.
static int run_init_with_toolkit(int argc, char **argv)
{
	auto_strv struct strv words = { 0 }, warnings = { 0 }, of_words = { 0 }, given = { 0 }, theirs = { 0 };
	struct err err;
	int r = nvidia_driver_environment_init(&warnings, &err);
	strv_add(&theirs, str_dup(argv[0]));
	if (argc < 2 || *argv[1] == '-') // both templates call it so: what runs with the toolkit is init
		strv_add(&theirs, str_dup("init"));
	for (int i = 1; i < argc; i++)
		strv_add(&theirs, str_dup(argv[i]));
	bool is_theirs = nvidia_driver_words((int)theirs.count, theirs.items, &words, &of_words) == 0 &&
			 str_eq(words.items[0], "init");
	strv_add(&given, str_dup("run"));
	strv_add(&given, str_dup("--"));
	for (size_t i = 1; is_theirs && i < words.count; i++)
		strv_add(&given, str_dup(words.items[i]));
	if (!is_theirs)
		strv_add(&given, str_dup("--operator"));
	for (int i = 1; !is_theirs && i < argc; i++)
		strv_add(&given, str_dup(argv[i]));
	for (size_t i = 0; i < warnings.count; i++)
		log_warn("%s", warnings.items[i]);
	for (size_t i = 0; is_theirs && i < of_words.count; i++)
		log_warn("%s", of_words.items[i]);
	if (r < 0)
		return nvidia_driver_refuse(&err);
	return entry_run(&cmd_dtk_run, (int)given.count, given.items);
}

int dtk_main(int argc, char **argv)
{
	static const char OTHERS[] = "this is the driver's image; that verb belongs to the image of GPUDirect Storage "
				     "or GDRCopy, which has its own program of this name";
	const char *verb = argc > 1 ? argv[1] : "";
	if (str_eq(verb, "nv-ctr-run-with-dtk"))
		return run_init_with_toolkit(argc - 1, argv + 1);
	if (str_eq(verb, "dtk-build-driver"))
		return entry_run(&cmd_dtk_build, argc - 1, argv + 1);
	if (str_eq(verb, "nv-fs-ctr-run-with-dtk") || str_eq(verb, "gdrcopy-ctr-run-with-dtk"))
		return refuse_dtk_verb(verb, OTHERS);
	return refuse_dtk_verb(verb, "unknown verb (expected nv-ctr-run-with-dtk in the driver's container or "
				     "dtk-build-driver in the toolkit's)");
}
