// SPDX-License-Identifier: Apache-2.0
// build: one driver for one kernel, or with --matrix every driver of a file for each of its kernels. There, a failed
// pair does not stop the others, and a package that the output or a source already has from the same inputs is not
// built again.
#include "acquire/matrix.h"
#include "base/core/date.h"
#include "base/file/file.h"
#include "cmd/common/job.h"
#include "cmd/common/output.h"
#include "precompiled/package/package.h"

#include <fcntl.h>
#include <stdio.h>

struct build_values {
	struct job_values job;
	char *kernel, *arch, *output, *matrix, *nodes;
	bool is_partial;
};

static const struct opt opts[] = {
	{ "kernel", 'k', "RELEASE", "KERNEL_VERSION", OPT_STR, offsetof(struct build_values, kernel),
	  "target kernel release; default: the running one" },
	{ "arch", 0, "ARCH", NULL, OPT_STR, offsetof(struct build_values, arch), ARCH_HELP "that of its headers" },
	{ "output", 'o', "NAME", NULL, OPT_STR, offsetof(struct build_values, output), OUTPUT_HELP },
	{ "payload", 0, "DIR", "KMODSMITH_PAYLOAD", OPT_STR, offsetof(struct build_values, job.request.payload),
	  "payload directory of an image; its sources are the default for --source" },
	{ "matrix", 0, "FILE.json", NULL, OPT_STR, offsetof(struct build_values, matrix),
	  "build each driver of the file for each of its kernels, see kmodsmith-matrix(7)" },
	{ "nodes", 0, "FILE|-", NULL, OPT_STR, offsetof(struct build_values, nodes),
	  "with --matrix: also for the kernels of these nodes, from `kubectl get nodes -o json`; - reads standard "
	  "input" },
	{ "partial", 0, NULL, NULL, OPT_FLAG, offsetof(struct build_values, is_partial),
	  "with --matrix: exit status 0 if at least one pair succeeded, even if others failed" },
	{ "no-compile", 0, NULL, NULL, OPT_FLAG, offsetof(struct build_values, job.request.is_compile_forbidden),
	  "with --matrix: fail a pair that neither the output nor --from has; a check for completeness" },
	{ 0 },
};

struct build {
	struct machine machine;
	struct host host;
	struct root state, patches;
	const char *arch; // of the kernels; NULL = what their headers say
	struct output output;
	struct origin origin;
	struct request request; // as the command line has it, with opened patches
	struct acquire acquire; // for headers and a builder root missing on the machine
	struct progress progress;
};
#define BUILD_NONE                                                                                        \
	{                                                                                                 \
		.machine = MACHINE_NONE, .state = ROOT_NONE, .patches = ROOT_NONE, .output = OUTPUT_NONE, \
		.acquire = ACQUIRE_NONE, .progress = show_progress_log()                                  \
	}

static void build_done(struct build *b)
{
	progress_done(&b->progress);
	host_done(&b->host);
	acquire_done(&b->acquire);
	origin_done(&b->origin);
	output_done(&b->output);
	strv_done(&b->request.modules);
	root_done(&b->patches);
	root_done(&b->state);
	machine_done(&b->machine);
}

static void connect_sources(struct build *b)
{
	origin_fetch(&b->origin, &b->state, &b->acquire.fetch);
	b->acquire.want.arch = b->arch ? b->arch : b->host.arch;
	b->machine.node.state = &b->state;
	b->machine.node.progress = &b->progress;
	b->acquire.node = &b->machine.node;
	b->acquire.request = &b->request;
}

static struct compile_request build_request(struct build *b, const struct request *asked, const char *release)
{
	b->acquire.banner = str_eq(release, b->host.release) && !asked->headers.count ? b->host.banner : NULL;
	return (struct compile_request){
		.asked = asked,
		.release = release,
		.arch = b->arch,
		.banner = b->acquire.banner,
		.offer = acquire_headers_offer(&b->acquire),
		.cores = acquire_core_offer(&b->acquire),
		.builder = acquire_builder,
		.builder_ctx = &b->acquire,
		.node = &b->machine.node,
		.flavour = asked->flavour,
		.output = output_layout,
		.output_ctx = &b->output,
	};
}

// One driver for one kernel

struct single_build {
	struct build build;
	struct gpus gpus;
	struct image_payload carry;
	char *source; // the payload's sources, or what was downloaded
	struct package package;
	struct compile_report report;
};

static void single_build_done(struct single_build *s)
{
	package_done(&s->package);
	compile_report_done(&s->report);
	gpus_done(&s->gpus);
	free(s->source);
	image_payload_done(&s->carry);
	build_done(&s->build);
}
#define auto_single_build __attribute__((cleanup(single_build_done)))

static int open_carried_source(const struct job_values *j, struct single_build *s, struct err *err)
{
	const char *payload = j->request.payload;
	if (j->request.source)
		return 0;
	if (!payload)
		return err_set(err, E_USAGE, "build needs --source PATH, --payload DIR or --matrix FILE.json");
	if (image_payload_open(payload, &s->carry, err) < 0)
		return -1;
	s->source = image_payload_source_path(&s->carry);
	return s->source ? 0 :
			   err_set(err, E_PAYLOAD, "--payload '%s' has no sources for driver %s", payload,
				   s->carry.is.driver);
}

static int open_single_build(const struct build_values *v, struct single_build *s, struct err *err)
{
	const struct job_values *j = &v->job;
	struct build *b = &s->build;
	if (open_carried_source(j, s, err) < 0 || job_check_inputs(j, err) < 0 ||
	    job_parse_arch(v->arch, &b->arch, err) < 0 ||
	    machine_open(&j->origin.remote.common, &b->machine, err) < 0 ||
	    job_state(j, &b->machine, &b->state, err) < 0 || output_init(&b->output, v->output, &b->state, err) < 0 ||
	    job_request(j, &b->patches, &b->request, err) < 0)
		return -1;
	// Host and GPUs only matter if this machine is the target; a build host may have neither.
	if (host_read(&b->machine.host, &b->machine.kern, &b->host, err) < 0 ||
	    gpus_read(&b->machine.kern, &s->gpus, err) < 0 ||
	    origin_open(&j->origin, &b->machine.host, &b->origin, err) < 0)
		return -1;
	connect_sources(b);
	return 0;
}

static int build_one(const struct build_values *v, struct single_build *s, struct err *err)
{
	struct build *b = &s->build;
	struct compile_request request = build_request(b, &b->request, v->kernel ? v->kernel : b->host.release);
	request.gpus = &s->gpus;
	if (job_fetch_source(&v->job, b->request.source, b->request.source_sha256, &b->state, &s->source, err) < 0)
		return -1;
	if (s->source)
		b->request.source = s->source;
	if (compile_package(&request, &b->progress, &s->package, &s->report, err) < 0)
		return -1;
	return output_finish(&b->output, err);
}

static void show_build(const struct build_values *v, const struct single_build *s)
{
	const struct package *p = &s->package;
	auto_str char *tag = package_tag(&p->key), *digest = oci_digest_text(p->manifest.digest);
	const char *place = s->build.output.name ? s->build.output.name : p->place;
	const struct build_counts *r = &s->report.counts;
	json_t *kept = json_pack("{s:i, s:i, s:i}", "objects", (int)r->objects_kept, "probes", (int)r->probes_kept,
				 "probes_asked", (int)r->probes_asked);
	auto_json json_t *json =
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:o, s:i}", "package", json_text(place), "tag",
			  json_text(tag), "digest", json_text(digest), "key", package_key_json(&p->key), "phases",
			  status_json_phases(&s->build.progress), "headers", json_text(s->report.headers_from), "jobs",
			  (int)r->jobs, "objects", (int)r->objects, "forked", (int)r->forked, "cache", kept, "peak_kib",
			  (int)r->peak_kib);
	if (v->job.origin.remote.common.is_json) {
		show_json(json);
		return;
	}
	auto_strv struct strv rows = { 0 };
	for (size_t i = 0; i < p->count; i++)
		strv_add(&rows, str_fmt("%s\t%llu bytes\tsha256 %s", p->files[i].name,
					(unsigned long long)p->files[i].size, p->files[i].sha256));
	show_table(&rows);
	for (size_t i = 0; i < p->key.patches.count; i++)
		printf("patch %s\n", p->key.patches.items[i]);
	printf("%s %s in %s\n", tag, digest, place);
}

// --matrix

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

struct matrix_build {
	struct build build;
	const struct build_values *values;
	const struct layout *layout;
	struct matrix matrix;
	struct source source; // of the current driver
	struct err unopened;  // why it could not be opened; .code 0 = it is open
	struct build_pairs pairs;
};

static void matrix_build_done(struct matrix_build *l)
{
	for (size_t i = 0; i < l->pairs.count; i++) {
		free(l->pairs.items[i].driver);
		free(l->pairs.items[i].tag);
		free(l->pairs.items[i].digest);
	}
	free(l->pairs.items);
	matrix_done(&l->matrix);
	build_done(&l->build);
}
#define auto_matrix_build __attribute__((cleanup(matrix_build_done)))

// The file and the command line must not set the same thing.
static int check_options(const struct build_values *v, struct err *err)
{
	const struct job_values *j = &v->job;
	const struct request *r = &j->request;
	const char *twice = r->source        ? "--source" :
			    r->source_sha256 ? "--source-sha256" :
			    j->flavour       ? "--flavour" :
			    r->headers.count ? "--headers" :
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
	log_info("nodes       %zu more kernel%s from %zu node%s; %zu of another architecture ignored", found.kernels,
		 str_plural(found.kernels), found.nodes, str_plural(found.nodes), found.others);
	if (found.bad)
		log_warn("%s; %zu such nodes ignored", found.first_bad.text, found.bad);
	return m->kernel_count ? 0 : err_set(err, E_CONFIG, "'%s' has no kernel to build for", v->nodes);
}

static int open_matrix_build(const struct build_values *v, struct matrix_build *l, struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0;
	struct build *b = &l->build;
	if (check_options(v, err) < 0 || job_parse_arch(v->arch, &b->arch, err) < 0 ||
	    read_arg("--matrix", v->matrix, &text, &len, err) < 0 ||
	    matrix_parse(text, len, v->matrix, v->nodes, &l->matrix, err) < 0 ||
	    machine_open(&v->job.origin.remote.common, &b->machine, err) < 0 ||
	    host_read(&b->machine.host, &b->machine.kern, &b->host, err) < 0 ||
	    read_nodes_file(v, b->arch ? b->arch : b->host.arch, &l->matrix, err) < 0 ||
	    job_state(&v->job, &b->machine, &b->state, err) < 0 ||
	    output_init(&b->output, v->output, &b->state, err) < 0 ||
	    job_request(&v->job, &b->patches, &b->request, err) < 0 ||
	    (l->matrix.patches && root_init(&b->patches, l->matrix.patches, err) < 0) ||
	    origin_open(&v->job.origin, &b->machine.host, &b->origin, err) < 0)
		return -1;
	b->request.options.patches = l->matrix.patches ? &b->patches : NULL;
	connect_sources(b);
	return output_layout(&b->output, &l->layout, err);
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
	if (fetch_find(&fetch, want, &found, &err) < 0) {
		all->note(all->ctx, err.text);
		return 0;
	}
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
	const struct fetch *fetch = &l->build.acquire.fetch;
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
	if (r == 0 && l->build.request.is_compile_forbidden)
		return err_set(err, E_NO_PACKAGE, "not in the output nor in any source, and --no-compile is set");
	if (r < 0 || (r == 0 && compile_package(request, &l->build.progress, &p, &report, err) < 0))
		return -1;
	pair->result = r > 0 ? found : BUILD_BUILT;
	pair->tag = package_tag(&p.key);
	pair->digest = oci_digest_text(p.manifest.digest);
	return 0;
}

static void build_matrix_pair(struct matrix_build *l, const struct matrix_kernel *k, struct build_pair *pair)
{
	struct request asked = l->build.request;
	asked.headers = k->headers;
	asked.modules = l->matrix.modules;
	asked.flavour = pair->flavour;
	struct compile_request request = build_request(&l->build, &asked, k->release);
	request.source = &l->source;
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
	auto_str char *path = NULL;
	l->source = (struct source){ .root = ROOT_NONE };
	l->unopened = (struct err){ 0 };
	if (scratch_make(&l->build.state, "source", &work, &l->unopened) == 0 &&
	    job_fetch_source(&l->values->job, d->source, d->sha256, &l->build.state, &path, &l->unopened) >= 0 &&
	    source_open(path ? path : d->source, d->sha256, &work.root, &l->source, &l->unopened) == 0)
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

// The exit status, or negative.
static int build_matrix(const struct build_values *v, struct err *err)
{
	auto_matrix_build struct matrix_build l = { .build = BUILD_NONE, .values = v, .source = { .root = ROOT_NONE } };
	if (job_check_module_key(&v->job, err) < 0 || open_matrix_build(v, &l, err) < 0)
		return -1;
	l.pairs.items = mem_alloc(2 * l.matrix.driver_count * l.matrix.kernel_count * sizeof(*l.pairs.items));
	for (size_t i = 0; i < l.matrix.driver_count; i++)
		build_driver(&l, &l.matrix.drivers[i]);
	if (output_finish(&l.build.output, err) < 0)
		return -1;
	const size_t *counts = l.pairs.counts;
	bool is_some_built = counts[BUILD_BUILT] + counts[BUILD_PRESENT] + counts[BUILD_FETCHED];
	if (v->job.origin.remote.common.is_json)
		show_pairs_json(&l.pairs, l.build.output.name ? l.build.output.name : l.layout->root.name);
	else
		show_pairs(&l.pairs);
	// --partial: some packages can be signed and pushed, and the failures are listed.
	return !counts[BUILD_FAILED] || (v->is_partial && is_some_built) ? 0 : 1;
}

static int run_build(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct build_values *v = values;
	const char *lonely = v->nodes                            ? "--nodes" :
			     v->is_partial                       ? "--partial" :
			     v->job.request.is_compile_forbidden ? "--no-compile" :
								   NULL;
	if (v->matrix)
		return build_matrix(v, err);
	if (lonely)
		return err_set(err, E_USAGE, "%s requires --matrix FILE.json", lonely);
	auto_single_build struct single_build s = { .build = BUILD_NONE,
						    .carry = IMAGE_PAYLOAD_NONE,
						    .package = PACKAGE_NONE };
	if (open_single_build(v, &s, err) < 0 || build_one(v, &s, err) < 0)
		return -1;
	show_build(v, &s);
	return 0;
}

const struct cmd cmd_build = {
	.name = "build",
	.help = "compile a driver for a kernel into a package",
	.about = "Needs no GPU, no root and no network. The same source, headers and compiler give the same\n"
		 "bytes. Headers that are neither in --headers nor on this machine are fetched from --from or\n"
		 "--bundle (see `kmodsmith pack headers`); if no local compiler matches the kernel's, so is the\n"
		 "root of a builder image (see `kmodsmith pack builder`).\n\n"
		 "  kmodsmith build --source nvidia-open-kernel-source_535.261.03-1_amd64.deb \\\n"
		 "      --kernel 6.1.0-56-cloud-amd64 --headers A.deb,B.deb,C.deb --output oci:DIR\n\n"
		 "With --matrix, drivers and kernels come from a file, and a package that the output or --from\n"
		 "already has from the same inputs is not built again. Exit status 1 if a pair failed, 0 if all\n"
		 "were built, present, skipped or known not to work.\n",
	.opts = { source_opts, module_key_opts, distribution_opts, opts, origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct build_values),
	.run = run_build,
};
