// SPDX-License-Identifier: Apache-2.0
// The side that has the compiler: a foreign root, into which the other container put this program.
#include "cmd/container/dtk.h"

#include "cmd/common/job.h"
#include "driver_toolkit/dtk.h"

#include <time.h>

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
};
#define DTK_BUILDER_NONE                                                            \
	((struct dtk_builder){ .machine = { .host = ROOT_NONE, .kern = ROOT_NONE }, \
			       .shared = ROOT_NONE,                                 \
			       .place = ROOT_NONE,                                  \
			       .state = ROOT_NONE,                                  \
			       .made = SCRATCH_NONE,                                \
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

static void beat(struct dtk_builder *t)
{
	struct err ignored;
	t->progress.beat++;
	dtk_progress_write(&t->shared, &t->progress, &ignored);
}

// Once a second is enough for somebody who waits for minutes.
static void progress_to_shared(void *ctx, const char *what, unsigned done, unsigned total)
{
	struct dtk_builder *t = ctx;
	t->log.progress(t->log.ctx, what, done, total);
	t->progress.done = done;
	t->progress.total = total;
	if (time(NULL) == t->told)
		return;
	t->told = time(NULL);
	beat(t);
}

static void enter_to_shared(void *ctx, const char *name)
{
	struct dtk_builder *t = ctx;
	t->log.enter(t->log.ctx, name);
	beat(t);
}

static int output(void *dtk_builder, const struct layout **ret, struct err *err)
{
	struct dtk_builder *t = dtk_builder;
	if (scratch_make(&t->place, "package", &t->made, err) < 0 || layout_make(&t->made.root, &t->layout, err) < 0)
		return -1;
	*ret = &t->layout;
	return 0;
}

// As NVIDIA's entrypoint tells a toolkit of another kernel; the headers say the rest.
static int check_toolkit_image(const struct dtk_builder *t, struct err *err)
{
	const char *release = t->host.release;
	auto_str char *image = str_fmt("lib/modules/%s/vmlinuz", release);
	auto_strv struct strv has = { 0 };
	if (!str_eq(t->request.kernel, release))
		return err_set(err, E_HEADERS_MISMATCH, "asked for kernel %s, running is %s", t->request.kernel,
			       release);
	if (root_exists(&t->machine.host, image))
		return 0;
	if (root_list(&t->machine.host, "lib/modules", &has, err) < 0)
		return -1;
	auto_str char *kernels = strv_join(&has, ", ");
	return err_set(err, E_HEADERS_NOT_FOUND, "the toolkit image is not of this kernel: no %s, it has %s", image,
		       has.count ? kernels : "none");
}

static int compile_request_here(struct dtk_builder *t, struct err *err)
{
	const struct dtk_request *r = &t->request;
	static const struct strv none;
	auto_root struct root patches = ROOT_NONE;
	auto_package struct package package = PACKAGE_NONE;
	auto_compile_report struct compile_report report = { 0 };
	auto_str char *path = str_fmt("kmodsmith/source/%s", r->source), *source = root_path(&t->shared, path);
	struct compile_request request = {
		.release = r->kernel,
		.banner = t->host.banner,
		.source_path = source,
		.source_sha256 = r->source_sha256,
		.headers = &none,
		.modules = &r->modules,
		.host = &t->machine.host,
		.kern = &t->machine.kern,
		.state = &t->state,
		.jobs = r->jobs,
		.timeout_s = r->timeout_s,
		.is_rt_allowed = r->is_rt_allowed,
		.output = output,
		.output_ctx = t,
	};
	if (!flavour_parse(r->flavour, &request.flavour))
		return err_set(err, E_CONFIG, "the request's flavour is '%s'", r->flavour);
	if (r->patches && root_sub(&t->shared, "kmodsmith/patches", &patches, err) < 0)
		return -1;
	request.patches = r->patches ? &patches : NULL;
	return compile_package(&request, &t->watch, &package, &report, err);
}

static bool is_request_current(const struct dtk_builder *t, const char *id)
{
	struct dtk_flags flags;
	struct err ignored;
	return dtk_flags_read(&t->shared, &flags, &ignored) == 0 && dtk_is_due(&flags, id);
}

static int publish_built_package(struct dtk_builder *t, const char *id, struct err *err)
{
	auto_str char *dir = dtk_package_dir(id);
	const char *name = strrchr(dir, '/') + 1;
	layout_done(&t->layout);
	if (root_rmtree(&t->place, name, err) < 0 || scratch_keep(&t->made, name, err) < 0)
		return -1;
	return dtk_flag_set(&t->shared, DTK_BUILT, id, err);
}

// The images of GPUDirect Storage and GDRCopy leave their sources here and wait for the toolkit to have made modules of
// them; who only looks at them waits for ever.
static void warn_of_other_builds(const struct dtk_builder *t)
{
	static const struct {
		const char *dir, *flag;
	} others[] = { { "gds-nvidia-fs", "nvidia_fs_built" }, { "gdrcopy", "gdrcopy_built" } };
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (root_exists(&t->shared, others[i].dir))
			log_warn("'%s' is here to be compiled, too: that is not done here, and %s will not be set",
				 others[i].dir, others[i].flag);
}

// Only what cannot be told to the other side is an error.
static int serve_request(struct dtk_builder *t, const char *id, struct err *err)
{
	struct err why = { 0 };
	t->progress = (struct dtk_progress){ .beat = t->progress.beat };
	memcpy(t->progress.id, id, sizeof(t->progress.id));
	if (dtk_flag_set(&t->shared, DTK_STARTED, id, err) < 0)
		return -1;
	beat(t);
	int r = check_toolkit_image(t, &why);
	if (r == 0)
		r = compile_request_here(t, &why);
	if (r < 0)
		progress_fail(&t->watch);
	if (!is_request_current(t, id)) {
		log_info("the request changed meanwhile: what came of it does not count");
		return 0;
	}
	if (r == 0)
		return publish_built_package(t, id, err);
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
	return root_sub(&t->place, "toolkit", &t->state, err);
}

// One look. 1 = something was done, 0 = there is nothing to do.
static int serve_next_request(struct dtk_builder *t, struct err *err)
{
	struct dtk_flags flags;
	char id[DIGEST_HEX + 1];
	if (dtk_flags_read(&t->shared, &flags, err) < 0)
		return -1;
	if (dtk_request_read(&t->shared, &t->request, id, err) == 0 || !dtk_is_due(&flags, id)) {
		drop_request(t);
		return 0;
	}
	log_info("asked for %s %s for kernel %s", t->request.driver, t->request.flavour, t->request.kernel);
	warn_of_other_builds(t);
	dtk_unblock_signals(); // a signal ends the compile
	int r = serve_request(t, id, err);
	dtk_block_signals();
	drop_request(t);
	return r < 0 ? -1 : 1;
}

int dtk_build(const struct dtk_values *v, struct err *err)
{
	auto_dtk_builder struct dtk_builder t = DTK_BUILDER_NONE;
	bool is_told = false;
	dtk_block_signals();
	if (v->is_image_missing)
		log_info("the cluster has no driver toolkit for this node: nothing to do here");
	else if (open_toolkit(v, &t, err) < 0)
		return -1;
	for (int signal; (signal = dtk_wait_second()) == 0;) {
		int r = v->is_image_missing ? 0 : serve_next_request(&t, err);
		if (r < 0)
			return -1;
		if (r == 0 && !is_told)
			log_info("waiting for a request");
		is_told = r == 0;
	}
	return 0;
}
