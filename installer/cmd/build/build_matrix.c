// SPDX-License-Identifier: Apache-2.0
// build --matrix: every driver of a file for each of its kernels. A failed pair does not stop the others, and a package
// that the output or a source already has from the same inputs is not built again.
#include "base/core/date.h"
#include "base/file/file.h"
#include "cmd/build/build.h"
#include "cmd/common/output.h"
#include "precompiled/package/package.h"

#include <fcntl.h>
#include <stdio.h>

// The result of one driver and kernel of a matrix.
enum build_result {
	BUILD_BUILT,
	BUILD_PRESENT,
	BUILD_FETCHED,
	BUILD_SKIPPED,
	BUILD_REFUSED,
	BUILD_FAILED,
	BUILD_RESULTS
};
struct build_pair {
	enum build_result result;
	char *driver; // version; NULL = the source could not be opened
	const char *source, *release;
	enum module_type flavour;
	char *tag, *digest; // NULL = there is no package
	struct err err;     // the failure; .code 0 = see why
	const char *why;    // why it was skipped
	double seconds;
};
struct build_pairs {
	struct build_pair *items;
	size_t count;
	size_t counts[BUILD_RESULTS];
};

static const char *const names[BUILD_RESULTS] = { "built", "there", "fetched", "skipped", "refused", "failed" };

static void build_pairs_done(struct build_pairs *pairs)
{
	for (size_t i = 0; i < pairs->count; i++) {
		free(pairs->items[i].driver);
		free(pairs->items[i].tag);
		free(pairs->items[i].digest);
	}
	free(pairs->items);
	*pairs = (struct build_pairs){ 0 };
}

struct matrix_build {
	const struct build_values *values;
	struct machine machine;
	struct host host;
	struct root state, patches;
	struct output output;
	const struct layout *layout;
	struct matrix matrix;
	struct source source; // of the current driver
	struct err unopened;  // why it could not be opened; .code 0 = it is open
	struct build_pairs pairs;
	struct origin origin;
	struct acquire acquire; // for headers and a builder root missing on the machine
	struct progress progress;
};

static void matrix_build_done(struct matrix_build *l)
{
	build_pairs_done(&l->pairs);
	progress_done(&l->progress);
	acquire_done(&l->acquire);
	origin_done(&l->origin);
	matrix_done(&l->matrix);
	host_done(&l->host);
	output_done(&l->output);
	root_done(&l->patches);
	root_done(&l->state);
	machine_done(&l->machine);
}

// The file and the command line must not set the same thing.
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
	return twice ? err_set(err, E_USAGE, "%s cannot be combined with --matrix: set it in the file", twice) : 0;
}

enum { ARG_MAX_BYTES = 256 << 20 }; // some ten thousand nodes

static int read_arg(const char *option, const char *path, char **ret, size_t *ret_len, struct err *err)
{
	bool is_stdin = str_eq(path, "-");
	auto_fd int fd = is_stdin ? -1 : file_open_arg(path, O_RDONLY | O_NONBLOCK, err);
	if ((fd < 0 && !is_stdin) ||
	    file_read_most(is_stdin ? STDIN_FILENO : fd, path, ARG_MAX_BYTES, ret, ret_len, err) < 0)
		return err_wrap(err, "%s", option);
	return 0;
}

static int read_nodes_file(const struct build_values *v, const char *arch, struct matrix *m, struct err *err)
{
	auto_str char *text = NULL;
	struct matrix_nodes found = { 0 };
	size_t len = 0;
	if (!v->nodes)
		return 0;
	if (read_arg("--nodes", v->nodes, &text, &len, err) < 0 ||
	    matrix_nodes_add(text, len, v->nodes, arch, m, &found, err) < 0)
		return -1;
	log_info("nodes       %zu more kernels from %zu nodes; %zu nodes of another architecture ignored",
		 found.kernels, found.nodes, found.others);
	if (found.bad)
		log_warn("%s; %zu such nodes ignored", found.first_bad.text, found.bad);
	return m->kernel_count ? 0 : err_set(err, E_CONFIG, "'%s' has no kernel to build for", v->nodes);
}

static int open_matrix_build(const struct build_values *v, struct matrix_build *l, struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0;
	if (check_options(v, err) < 0 || read_arg("--matrix", v->matrix, &text, &len, err) < 0 ||
	    matrix_parse(text, len, v->matrix, v->nodes, &l->matrix, err) < 0 ||
	    machine_open(&v->job.origin.remote.common, &l->machine, err) < 0 ||
	    host_read(&l->machine.host, &l->machine.kern, &l->host, err) < 0 ||
	    read_nodes_file(v, l->host.arch, &l->matrix, err) < 0 ||
	    job_state(&v->job, &l->machine, &l->state, err) < 0 ||
	    output_init(&l->output, v->output, &l->state, err) < 0 ||
	    (l->matrix.patches && root_init(&l->patches, l->matrix.patches, err) < 0) ||
	    origin_open(&v->job.origin, &l->machine.host, &l->origin, err) < 0)
		return -1;
	origin_fetch(&l->origin, &l->state, &l->acquire.fetch);
	l->acquire.want.arch = l->host.arch;
	l->acquire.progress = &l->progress;
	return output_layout(&l->output, &l->layout, err);
}

static int find_in_output(const struct fetch *fetch, const struct layout *output, const struct package_key *key,
			  struct package *ret, struct err *err)
{
	auto_package struct package p = PACKAGE_NONE;
	auto_oci_index struct oci_index all = { 0 };
	auto_str char *tag = package_tag(key);
	struct err ignored;
	if (layout_index(output, &all, err) < 0)
		return -1;
	int at = oci_index_find(&all, tag);
	// A damaged package does not count, nor does one in a node's store that is no longer trusted.
	if (at < 0 || package_read(output, &all.items[at], &p, &ignored) <= 0 || !package_key_is_same(&p.key, key) ||
	    !layout_has(output, p.layer.digest) ||
	    (output->is_store && fetch->now_trusted &&
	     provenance_check(output, p.manifest.digest, fetch->now_trusted, NULL, &ignored) != 0))
		return 0;
	package_move(&p, ret);
	return 1;
}

// Query each source separately: one with other inputs must not hide the next.
static int fetch_from_source(const struct fetch *all, size_t source, const struct package_want *want,
			     const struct package_key *key, const struct layout *output, struct package *ret)
{
	auto_fetch_result struct fetch_result found = FETCH_RESULT_NONE;
	struct strv one = { .items = &all->from->items[source], .count = 1 };
	struct fetch fetch = *all;
	struct err err;
	fetch.from = &one;
	fetch.down = &all->down[source];
	if (fetch_find(&fetch, want, &found, &err) < 0)
		return 0;
	if (!package_key_is_same(&found.candidate.package.key, key)) {
		auto_str char *note = str_fmt("%s: its package was built with another compiler or other patches",
					      found.candidate.package.place);
		all->note(all->ctx, note);
		return 0;
	}
	if (fetch_take(&fetch, want, &found, output, &err) < 0) {
		all->note(all->ctx, err.text);
		return 0;
	}
	package_move(&found.candidate.package, ret);
	return 1;
}

// Looks for the package with exactly these inputs, not just one for the same driver and kernel: a tag is only a
// pointer. First in the output, then in each source, trusted as on a node, from where it comes into the output with
// its signatures. A failing source is noted.
static int find_or_compile(struct matrix_build *l, const struct compile_request *request, struct build_pair *pair,
			   struct err *err)
{
	auto_package struct package p = PACKAGE_NONE;
	auto_package_key struct package_key key = { 0 };
	auto_compile_report struct compile_report report = { 0 };
	const struct fetch *fetch = &l->acquire.fetch;
	if (compile_key(request, &key, err) < 0)
		return -1;
	const struct package_want want = { .driver = key.driver,
					   .flavour = key.flavour,
					   .release = key.release,
					   .build_id = key.build_id,
					   .arch = key.arch,
					   .source = key.source,
					   .modules = &key.modules };
	enum build_result found = BUILD_PRESENT;
	int r = find_in_output(fetch, l->layout, &key, &p, err);
	for (size_t i = 0; i < fetch->from->count && r == 0; i++) {
		r = fetch_from_source(fetch, i, &want, &key, l->layout, &p);
		found = BUILD_FETCHED;
	}
	if (r == 0 && l->values->job.is_compile_forbidden)
		return err_set(err, E_NO_PACKAGE, "not in the output nor in any source, and --no-compile is set");
	if (r < 0 || (r == 0 && compile_package(request, &l->progress, &p, &report, err) < 0))
		return -1;
	pair->result = r > 0 ? found : BUILD_BUILT;
	pair->tag = package_tag(&p.key);
	pair->digest = oci_digest_text(p.manifest.digest);
	return 0;
}

static void build_matrix_pair(struct matrix_build *l, const struct matrix_kernel *k, struct build_pair *pair)
{
	const struct job_values *j = &l->values->job;
	struct headers_offer offer = { .bring = acquire_headers, .ctx = &l->acquire };
	const struct compile_request request = {
		.release = k->release,
		.banner = str_eq(k->release, l->host.release) && !k->headers.count ? l->host.banner : NULL,
		.source = &l->source,
		.headers = &k->headers,
		.offer = &offer,
		.builder = acquire_builder,
		.builder_ctx = &l->acquire,
		.modules = &l->matrix.modules,
		.flavour = pair->flavour,
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
	long started = clock_ms();
	pair->driver = str_dup(l->source.version);
	pair->why = pair->driver ? matrix_skipped(&l->matrix, pair->driver, k->release) : NULL;
	if (pair->why) {
		pair->result = BUILD_SKIPPED;
		return;
	}
	pair->err = l->unopened;
	if (pair->err.code || find_or_compile(l, &request, pair, &pair->err) < 0)
		pair->result = pair->err.code == E_SOURCE_KERNEL ? BUILD_REFUSED : BUILD_FAILED;
	else
		pair->err.code = 0;
	pair->seconds = (double)(clock_ms() - started) / 1000;
	if (pair->result == BUILD_FAILED)
		log_err(&pair->err);
}

// Unpacks the source once for all kernels.
static void build_driver(struct matrix_build *l, const struct matrix_driver *d)
{
	static const enum module_type both[] = { MODULE_TYPE_OPEN, MODULE_TYPE_PROPRIETARY };
	auto_scratch struct scratch work = SCRATCH_NONE;
	l->source = (struct source){ .root = ROOT_NONE };
	l->unopened = (struct err){ 0 };
	if (scratch_make(&l->state, "source", &work, &l->unopened) == 0 &&
	    source_open(d->source, d->sha256, &work.root, &l->source, &l->unopened) == 0)
		l->unopened.code = 0;
	unsigned flavours = d->flavours ? d->flavours : l->source.flavours;
	for (size_t f = 0; f < ARRAY_SIZE(both); f++)
		for (size_t k = 0; k < l->matrix.kernel_count; k++) {
			// An unreadable source does not tell its module types: one line per kernel.
			bool is_wanted = flavours ? flavours & (unsigned)both[f] : f == 0;
			if (!is_wanted)
				continue;
			struct build_pair *pair = &l->pairs.items[l->pairs.count++];
			pair->source = d->source;
			pair->release = l->matrix.kernels[k].release;
			pair->flavour = flavours ? both[f] : MODULE_TYPE_AUTO;
			log_info("%s for %s (%s)", d->source, pair->release, module_type_name(pair->flavour));
			build_matrix_pair(l, &l->matrix.kernels[k], pair);
			l->pairs.counts[pair->result]++;
		}
	source_done(&l->source);
}

static void show_pairs_json(const struct build_pairs *pairs, const char *output)
{
	json_t *list = json_array();
	for (size_t i = 0; i < pairs->count; i++) {
		const struct build_pair *p = &pairs->items[i];
		json_t *pair =
			json_pack("{s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:f}", "source", json_text(p->source),
				  "driver", json_text(p->driver), "flavour", module_type_name(p->flavour), "kernel",
				  p->release, "result", names[p->result], "tag", json_text(p->tag), "digest",
				  json_text(p->digest), "why", json_text(p->why), "seconds", p->seconds);
		auto_json json_t *failure = p->err.code ? show_failure_json(&p->err) : NULL;
		if (failure)
			json_object_update(pair, failure);
		json_array_append_new(list, pair);
	}
	auto_json json_t *json = json_pack("{s:o, s:o}", "output", json_text(output), "pairs", list);
	for (size_t i = 0; i < BUILD_RESULTS; i++)
		json_object_set_new(json, names[i], json_integer((json_int_t)pairs->counts[i]));
	show_json(json);
}

static void show_pairs(const struct build_pairs *pairs)
{
	auto_strv struct strv rows = { 0 };
	for (size_t i = 0; i < pairs->count; i++) {
		const struct build_pair *p = &pairs->items[i];
		const char *result = p->err.code ? p->err.text : p->why ? p->why : p->digest;
		strv_add(&rows,
			 str_fmt("%s\t%s\t%s\t%s%s%s\t%.1f s\t%s", p->driver ? p->driver : p->source,
				 module_type_name(p->flavour), p->release, names[p->result], p->err.code ? " " : "",
				 p->err.code ? err_info(p->err.code)->name : "", p->seconds, result));
	}
	show_table(&rows);
	for (size_t i = 0; i < BUILD_RESULTS; i++)
		printf("%zu %s%s", pairs->counts[i], names[i], i + 1 < BUILD_RESULTS ? ", " : "\n");
}

int build_matrix(const struct build_values *v, struct err *err)
{
	struct matrix_build l = { .values = v,
				  .machine = { .host = ROOT_NONE, .kern = ROOT_NONE },
				  .state = ROOT_NONE,
				  .patches = ROOT_NONE,
				  .output = OUTPUT_NONE,
				  .acquire = ACQUIRE_NONE,
				  .progress = show_progress_log(),
				  .source = { .root = ROOT_NONE } };
	int r = open_matrix_build(v, &l, err);
	if (r == 0) {
		l.pairs.items = mem_alloc(2 * l.matrix.driver_count * l.matrix.kernel_count * sizeof(*l.pairs.items));
		for (size_t i = 0; i < l.matrix.driver_count; i++)
			build_driver(&l, &l.matrix.drivers[i]);
		r = output_finish(&l.output, err);
	}
	if (r == 0) {
		const size_t *counts = l.pairs.counts;
		bool is_some_built = counts[BUILD_BUILT] + counts[BUILD_PRESENT] + counts[BUILD_FETCHED];
		if (v->job.origin.remote.common.is_json)
			show_pairs_json(&l.pairs, l.output.name ? l.output.name : l.layout->root.name);
		else
			show_pairs(&l.pairs);
		// --partial: some packages can be signed and pushed, and the failures are listed.
		r = !counts[BUILD_FAILED] || (v->is_partial && is_some_built) ? 0 : 1;
	}
	matrix_build_done(&l);
	return r;
}
