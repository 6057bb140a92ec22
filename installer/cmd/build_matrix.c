// SPDX-License-Identifier: Apache-2.0
// build --matrix: every driver of a file for every kernel of it. One pair that fails does not keep the others from
// being built, and what the output has already, of the same inputs, is not built again.
#include "base/file.h"
#include "cmd/build.h"
#include "cmd/output.h"
#include "node/matrix.h"
#include "precompiled/find.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

enum result { BUILT, THERE, SKIPPED, REFUSED, FAILED, RESULTS };
static const char *const names[RESULTS] = { "built", "there", "skipped", "refused", "failed" };

struct pair {
	enum result result;
	char *driver; // version; NULL = the source could not be opened
	const char *source, *release;
	enum flavour flavour;
	char *tag, *digest; // NULL = there is no package
	struct err err;     // why not; .code 0 = see why
	const char *why;    // of a skip
	double seconds;
};

struct loop {
	const struct build_values *values;
	struct machine machine;
	struct host host;
	struct root state, patches;
	struct output output;
	const struct layout *layout;
	struct matrix matrix;
	struct source source; // of the driver that is built now
	struct err unopened;  // why there is none; .code 0 = there is
	struct pair *pairs;
	size_t count;
	size_t counts[RESULTS];
};

static void loop_done(struct loop *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->pairs[i].driver);
		free(l->pairs[i].tag);
		free(l->pairs[i].digest);
	}
	free(l->pairs);
	matrix_done(&l->matrix);
	host_done(&l->host);
	output_done(&l->output);
	root_done(&l->patches);
	root_done(&l->state);
	machine_done(&l->machine);
}

// What the file says and what the command line says is said once.
static int check_options(const struct build_values *v, struct err *err)
{
	const struct job_values *j = &v->job;
	const char *twice = j->source        ? "--source" :
			    j->source_sha256 ? "--source-sha256" :
			    j->flavour       ? "--flavour" :
			    j->headers.count ? "--headers" :
			    j->modules.count ? "--modules" :
			    j->patches       ? "--patches" :
			    v->kernel        ? "--kernel" :
					       NULL;
	return twice ? err_set(err, E_USAGE, "%s and --matrix: the file says it", twice) : 0;
}

static int read_file(const char *path, struct matrix *ret, struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0;
	auto_fd int fd = file_open_arg(path, O_RDONLY | O_NONBLOCK, err);
	if (fd < 0 || file_read(fd, path, &text, &len, err) < 0)
		return err_wrap(err, "--matrix");
	return matrix_parse(text, len, path, ret, err);
}

static int open_all(const struct build_values *v, struct loop *l, struct err *err)
{
	if (check_options(v, err) < 0 || read_file(v->matrix, &l->matrix, err) < 0 ||
	    machine_open(&v->job.origin.remote.common, &l->machine, err) < 0 ||
	    host_read(&l->machine.host, &l->machine.kern, &l->host, err) < 0 ||
	    job_state(&v->job, &l->machine, &l->state, err) < 0 ||
	    output_init(&l->output, v->output, &l->state, err) < 0 ||
	    (l->matrix.patches && root_init(&l->patches, l->matrix.patches, err) < 0))
		return -1;
	return output_layout(&l->output, &l->layout, err);
}

static void fill_wish(struct loop *l, const struct matrix_kernel *k, enum flavour flavour, struct compile_wish *ret)
{
	const struct job_values *j = &l->values->job;
	*ret = (struct compile_wish){
		.release = k->release,
		.banner = str_eq(k->release, l->host.release) && !k->headers.count ? l->host.banner : NULL,
		.source = &l->source,
		.headers = &k->headers,
		.modules = &l->matrix.modules,
		.flavour = flavour,
		.host = &l->machine.host,
		.kern = &l->machine.kern,
		.state = &l->state,
		.patches = l->matrix.patches ? &l->patches : NULL,
		.jobs = j->jobs,
		.timeout_s = j->timeout_s,
		.is_rt_allowed = j->is_rt_allowed,
		.is_cache_off = j->is_cache_off,
		.output = output_layout,
		.output_ctx = &l->output,
	};
}

// 1 = the output has the package of these inputs; 0 = not, or a damaged one.
static int look(const struct loop *l, const struct compile_wish *wish, struct package *ret, struct err *err)
{
	auto_package_key struct package_key key = { 0 };
	auto_package struct package p = PACKAGE_NONE;
	auto_index struct index all = { 0 };
	struct err ignored;
	if (compile_key(wish, &key, err) < 0 || layout_index(l->layout, &all, err) < 0)
		return -1;
	auto_str char *tag = package_tag(&key);
	int at = index_find(&all, tag);
	if (at < 0 || find_open(l->layout, &all.items[at], &p, &ignored) <= 0 || !package_key_is_same(&p.key, &key) ||
	    !layout_has(l->layout, p.layer.digest))
		return 0;
	package_move(&p, ret);
	return 1;
}

static int make(struct loop *l, const struct compile_wish *wish, struct pair *pair, struct err *err)
{
	auto_package struct package p = PACKAGE_NONE;
	auto_compile_report struct compile_report report = { 0 };
	auto_watch struct watch watch = show_watch();
	int r = look(l, wish, &p, err);
	if (r < 0 || (r == 0 && compile_package(wish, &watch, &p, &report, err) < 0))
		return -1;
	pair->result = r > 0 ? THERE : BUILT;
	pair->tag = package_tag(&p.key);
	pair->digest = oci_digest_text(p.manifest.digest);
	return 0;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void judge(struct loop *l, const struct matrix_kernel *k, struct pair *pair)
{
	struct compile_wish wish;
	double started = now();
	pair->driver = str_dup(l->source.version);
	pair->why = pair->driver ? matrix_skipped(&l->matrix, pair->driver, k->release) : NULL;
	fill_wish(l, k, pair->flavour, &wish);
	if (pair->why) {
		pair->result = SKIPPED;
		return;
	}
	pair->err = l->unopened;
	if (pair->err.code || make(l, &wish, pair, &pair->err) < 0)
		pair->result = pair->err.code == E_SOURCE_KERNEL ? REFUSED : FAILED;
	else
		pair->err.code = 0;
	pair->seconds = now() - started;
	if (pair->result == FAILED)
		log_err(&pair->err);
}

static void run_driver(struct loop *l, const struct matrix_driver *d)
{
	static const enum flavour both[] = { FLAVOUR_OPEN, FLAVOUR_PROPRIETARY };
	unsigned flavours = d->flavours ? d->flavours : l->source.flavours;
	for (size_t f = 0; f < ARRAY_SIZE(both); f++)
		for (size_t k = 0; k < l->matrix.kernel_count; k++) {
			// A source that cannot be opened does not say what it has: one line for each kernel.
			bool is_wanted = flavours ? flavours & (unsigned)both[f] : f == 0;
			if (!is_wanted)
				continue;
			struct pair *pair = &l->pairs[l->count++];
			pair->source = d->source;
			pair->release = l->matrix.kernels[k].release;
			pair->flavour = flavours ? both[f] : FLAVOUR_AUTO;
			log_info("%s for %s (%s)", d->source, pair->release, flavour_name(pair->flavour));
			judge(l, &l->matrix.kernels[k], pair);
			l->counts[pair->result]++;
		}
}

// Unpacked once, for all kernels.
static void open_and_run(struct loop *l, const struct matrix_driver *d)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	l->source = (struct source){ .root = ROOT_NONE };
	l->unopened = (struct err){ 0 };
	if (scratch_make(&l->state, "source", &work, &l->unopened) == 0 &&
	    source_open(d->source, d->sha256, &work.root, &l->source, &l->unopened) == 0)
		l->unopened.code = 0;
	run_driver(l, d);
	source_done(&l->source);
}

static const char *reason(const struct pair *p)
{
	return p->err.code ? p->err.text : p->why ? p->why : p->digest;
}

static json_t *pair_json(const struct pair *p)
{
	json_t *json = json_pack("{s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:f}", "source", json_text(p->source),
				 "driver", json_text(p->driver), "flavour", flavour_name(p->flavour), "kernel",
				 p->release, "result", names[p->result], "tag", json_text(p->tag), "digest",
				 json_text(p->digest), "why", json_text(p->why), "seconds", p->seconds);
	auto_json json_t *failure = p->err.code ? failure_json(&p->err) : NULL;
	if (failure)
		json_object_update(json, failure);
	return json;
}

static void show_all_json(const struct loop *l)
{
	const char *place = l->output.name ? l->output.name : l->layout->root.name;
	json_t *list = json_array();
	for (size_t i = 0; i < l->count; i++)
		json_array_append_new(list, pair_json(&l->pairs[i]));
	auto_json json_t *json = json_pack("{s:o, s:o}", "output", json_text(place), "pairs", list);
	for (size_t i = 0; i < RESULTS; i++)
		json_object_set_new(json, names[i], json_integer((json_int_t)l->counts[i]));
	show_json(json);
}

static void show(const struct loop *l)
{
	auto_strv struct strv rows = { 0 };
	if (l->values->job.origin.remote.common.is_json) {
		show_all_json(l);
		return;
	}
	for (size_t i = 0; i < l->count; i++) {
		const struct pair *p = &l->pairs[i];
		strv_add(&rows, str_fmt("%s\t%s\t%s\t%s%s%s\t%.1f s\t%s", p->driver ? p->driver : p->source,
					flavour_name(p->flavour), p->release, names[p->result], p->err.code ? " " : "",
					p->err.code ? err_info(p->err.code)->name : "", p->seconds, reason(p)));
	}
	show_table(&rows);
	for (size_t i = 0; i < RESULTS; i++)
		printf("%zu %s%s", l->counts[i], names[i], i + 1 < RESULTS ? ", " : "\n");
}

int build_matrix(const struct build_values *v, struct err *err)
{
	struct loop l = { .values = v,
			  .machine = { .host = ROOT_NONE, .kern = ROOT_NONE },
			  .state = ROOT_NONE,
			  .patches = ROOT_NONE,
			  .output = OUTPUT_NONE,
			  .source = { .root = ROOT_NONE } };
	int r = open_all(v, &l, err);
	if (r == 0) {
		l.pairs = mem_alloc(2 * l.matrix.driver_count * l.matrix.kernel_count * sizeof(*l.pairs));
		for (size_t i = 0; i < l.matrix.driver_count; i++)
			open_and_run(&l, &l.matrix.drivers[i]);
		r = output_finish(&l.output, err);
	}
	if (r == 0) {
		show(&l);
		r = l.counts[FAILED] ? 1 : 0;
	}
	loop_done(&l);
	return r;
}
