// SPDX-License-Identifier: Apache-2.0
#include "cmd/build/build.h"
#include "cmd/common/output.h"

#include <stdio.h>

static const struct opt opts[] = {
	{ "kernel", 'k', "RELEASE", "KERNEL_VERSION", OPT_STR, offsetof(struct build_values, kernel),
	  "target kernel release; default: the running one" },
	{ "output", 'o', "NAME", NULL, OPT_STR, offsetof(struct build_values, output),
	  "oci:DIR adds it to this OCI layout, oci-archive:FILE.tar creates a bundle; default: the node's store" },
	{ "payload", 0, "DIR", "KMODSMITH_PAYLOAD", OPT_STR, offsetof(struct build_values, job.payload),
	  "payload directory of an image; its sources are the default for --source" },
	{ "matrix", 0, "FILE.json", NULL, OPT_STR, offsetof(struct build_values, matrix),
	  "build each driver of the file for each of its kernels, see kmodsmith-matrix(7)" },
	{ "nodes", 0, "FILE|-", NULL, OPT_STR, offsetof(struct build_values, nodes),
	  "with --matrix: also for the kernels of these nodes, from `kubectl get nodes -o json`; - reads standard "
	  "input" },
	{ "partial", 0, NULL, NULL, OPT_FLAG, offsetof(struct build_values, is_partial),
	  "with --matrix: exit status 0 if at least one pair succeeded, even if others failed" },
	{ "no-compile", 0, NULL, NULL, OPT_FLAG, offsetof(struct build_values, job.is_compile_forbidden),
	  "with --matrix: fail a pair that neither the output nor --from has; a check for completeness" },
	{ 0 },
};

struct build {
	struct machine machine;
	struct host host;
	struct gpus gpus;
	struct root state, patches;
	struct image_payload carry;
	char *source; // the payload's sources
	struct strv modules;
	struct output output;
	struct origin origin;
	struct acquire acquire; // for headers that are missing on the machine
	struct progress progress;
	struct package package;
	struct compile_report report;
};

static void build_done(struct build *b)
{
	package_done(&b->package);
	compile_report_done(&b->report);
	strv_done(&b->modules);
	progress_done(&b->progress);
	host_done(&b->host);
	gpus_done(&b->gpus);
	acquire_done(&b->acquire);
	origin_done(&b->origin);
	output_done(&b->output);
	free(b->source);
	image_payload_done(&b->carry);
	root_done(&b->patches);
	root_done(&b->state);
	machine_done(&b->machine);
}
#define auto_build __attribute__((cleanup(build_done)))

static int open_carried_source(const struct job_values *j, struct build *b, struct err *err)
{
	if (j->source)
		return 0;
	if (!j->payload)
		return err_set(err, E_USAGE, "build needs --source PATH, --payload DIR or --matrix FILE.json");
	if (image_payload_open(j->payload, &b->carry, err) < 0)
		return -1;
	b->source = image_payload_source_path(&b->carry);
	return b->source ? 0 :
			   err_set(err, E_PAYLOAD, "--payload '%s' has no sources for driver %s", j->payload,
				   b->carry.is.driver);
}

static int open_build(const struct build_values *v, struct build *b, struct err *err)
{
	const struct job_values *j = &v->job;
	if (open_carried_source(j, b, err) < 0 || job_check_inputs(j, err) < 0 ||
	    machine_open(&j->origin.remote.common, &b->machine, err) < 0 ||
	    job_state(j, &b->machine, &b->state, err) < 0 || output_init(&b->output, v->output, &b->state, err) < 0 ||
	    (j->patches && root_init(&b->patches, j->patches, err) < 0))
		return -1;
	// Host and GPUs only matter if this machine is the target; a build host may have neither.
	if (host_read(&b->machine.host, &b->machine.kern, &b->host, err) < 0 ||
	    gpus_read(&b->machine.kern, &b->gpus, err) < 0 ||
	    origin_open(&j->origin, &b->machine.host, &b->origin, err) < 0)
		return -1;
	origin_fetch(&b->origin, &b->state, &b->acquire.fetch);
	b->acquire.want.arch = b->host.arch;
	b->acquire.progress = &b->progress;
	return job_parse_modules(&j->modules, &b->modules, err);
}

static int build_one(const struct build_values *v, struct build *b, struct err *err)
{
	const struct job_values *j = &v->job;
	const char *release = v->kernel ? v->kernel : b->host.release;
	struct headers_offer offer = { .bring = acquire_headers, .ctx = &b->acquire };
	struct compile_request request = {
		.release = release,
		.banner = str_eq(release, b->host.release) && !j->headers.count ? b->host.banner : NULL,
		.source_path = j->source ? j->source : b->source,
		.source_sha256 = j->source_sha256,
		.headers = &j->headers,
		.offer = &offer,
		.builder = acquire_builder,
		.builder_ctx = &b->acquire,
		.modules = &b->modules,
		.gpus = &b->gpus,
		.host = &b->machine.host,
		.kern = &b->machine.kern,
		.state = &b->state,
		.patches = j->patches ? &b->patches : NULL,
		.jobs = j->jobs,
		.timeout_s = j->timeout_s,
		.is_rt_allowed = j->is_rt_allowed,
		.is_cache_off = j->is_cache_off,
		.output = output_layout,
		.output_ctx = &b->output,
	};
	if (job_parse_flavour(j, &request.flavour, err) < 0)
		return -1;
	return compile_package(&request, &b->progress, &b->package, &b->report, err) < 0 ?
		       -1 :
		       output_finish(&b->output, err);
}

static void show_build(const struct build_values *v, const struct build *b)
{
	const struct package *p = &b->package;
	auto_str char *tag = package_tag(&p->key), *digest = oci_digest_text(p->manifest.digest);
	const char *place = b->output.name ? b->output.name : p->place;
	const struct compile_report *r = &b->report;
	json_t *kept = json_pack("{s:i, s:i, s:i}", "objects", (int)r->objects_kept, "probes", (int)r->probes_kept,
				 "probes_asked", (int)r->probes_asked);
	auto_json json_t *json = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:o, s:i}", "package", json_text(place), "tag",
		json_text(tag), "digest", json_text(digest), "key", package_key_json(&p->key), "phases",
		status_json_phases(&b->progress), "headers", json_text(b->report.headers_from), "jobs", b->report.jobs,
		"objects", (int)b->report.objects, "cache", kept, "peak_kib", (int)b->report.peak_kib);
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

static int run_build(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct build_values *v = values;
	const char *lonely = v->nodes                    ? "--nodes" :
			     v->is_partial               ? "--partial" :
			     v->job.is_compile_forbidden ? "--no-compile" :
							   NULL;
	if (v->matrix)
		return build_matrix(v, err);
	if (lonely)
		return err_set(err, E_USAGE, "%s requires --matrix FILE.json", lonely);
	auto_build struct build b = { .machine = { .host = ROOT_NONE, .kern = ROOT_NONE },
				      .state = ROOT_NONE,
				      .patches = ROOT_NONE,
				      .carry = IMAGE_PAYLOAD_NONE,
				      .output = OUTPUT_NONE,
				      .acquire = ACQUIRE_NONE,
				      .package = PACKAGE_NONE,
				      .progress = show_progress_log() };
	if (open_build(v, &b, err) < 0 || build_one(v, &b, err) < 0)
		return -1;
	show_build(v, &b);
	return 0;
}

const struct cmd cmd_build = {
	.name = "build",
	.help = "compile a driver for a kernel into a package",
	.about =
		"Needs no GPU, no root and no network. The same source, headers and compiler give the same bytes. "
		"Headers\n"
		"that are neither in --headers nor on this machine are fetched from --from or --bundle (see `kmodsmith "
		"pack\n"
		"headers`); if no local compiler matches the kernel's, so is the root of a builder image (see "
		"`kmodsmith "
		"pack\n"
		"builder`).\n\n"
		"  kmodsmith build --source nvidia-open-kernel-source_535.261.03-1_amd64.deb \\\n"
		"      --kernel 6.1.0-56-cloud-amd64 --headers A.deb,B.deb,C.deb --output oci:DIR\n\n"
		"With --matrix, drivers and kernels come from a file, and a package that the output or --from already "
		"has "
		"from\n"
		"the same inputs is not built again. Exit status 1 if a pair failed, 0 if all were built, present, "
		"skipped "
		"or\n"
		"known not to work.\n",
	.opts = { source_opts, opts, origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct build_values),
	.run = run_build,
};
