// SPDX-License-Identifier: Apache-2.0
// pack core: the core of NVIDIA's open release, compiled once for all machines that compile modules of that release.
#include "cmd/common/job.h"
#include "cmd/common/output.h"
#include "precompiled/package/asset.h"

#include <stdio.h>

struct values {
	struct job_values job;
	char *kernel, *arch, *output;
};

static const struct opt opts[] = {
	{ "kernel", 'k', "RELEASE", "KERNEL_VERSION", OPT_STR, offsetof(struct values, kernel),
	  "a kernel whose compiler is used; default: the running one" },
	{ "arch", 0, "ARCH", NULL, OPT_STR, offsetof(struct values, arch), ARCH_HELP "that of its headers" },
	{ "output", 'o', "NAME", NULL, OPT_STR, offsetof(struct values, output), OUTPUT_HELP },
	{ 0 },
};

struct core_pack {
	struct machine machine;
	struct host host;
	struct root state, patches; // patches: never open
	struct origin origin;
	struct request request;
	struct acquire acquire; // for headers and a builder root
	struct output output;
	struct progress progress;
	char *source; // what was downloaded
	struct compiled_cores cores;
	struct oci_descriptor manifests[SOURCE_CORES]; // by key
};
#define CORE_PACK_NONE                                                                                      \
	{                                                                                                   \
		.machine = MACHINE_NONE, .state = ROOT_NONE, .patches = ROOT_NONE, .acquire = ACQUIRE_NONE, \
		.output = OUTPUT_NONE, .progress = show_progress_log(), .cores = COMPILED_CORES_NONE        \
	}

static void core_pack_done(struct core_pack *p)
{
	for (size_t i = 0; i < SOURCE_CORES; i++)
		oci_descriptor_done(&p->manifests[i]);
	compile_cores_done(&p->cores);
	free(p->source);
	strv_done(&p->request.modules);
	progress_done(&p->progress);
	output_done(&p->output);
	acquire_done(&p->acquire);
	origin_done(&p->origin);
	root_done(&p->state);
	host_done(&p->host);
	machine_done(&p->machine);
}
#define auto_core_pack __attribute__((cleanup(core_pack_done)))

static int check_values(const struct values *v, struct err *err)
{
	enum module_type flavour;
	if (!v->job.request.source)
		return err_set(err, E_USAGE, "pack core needs --source PATH");
	if (v->job.patches)
		return err_set(err, E_USAGE, "--patches: no patch changes a core");
	if (job_parse_flavour(&v->job, &flavour, err) < 0)
		return -1;
	return flavour == MODULE_TYPE_PROPRIETARY ?
		       err_set(err, E_USAGE, "--flavour proprietary: only the open modules have a core to compile") :
		       job_check_inputs(&v->job, err);
}

static int open_core_pack(const struct values *v, struct core_pack *p, const char **ret_arch, struct err *err)
{
	const struct job_values *j = &v->job;
	if (check_values(v, err) < 0 || job_parse_arch(v->arch, ret_arch, err) < 0 ||
	    machine_open(&j->origin.remote.common, &p->machine, err) < 0 ||
	    host_read(&p->machine.host, &p->machine.kern, &p->host, err) < 0 ||
	    job_state(j, &p->machine, &p->state, err) < 0 || output_init(&p->output, v->output, &p->state, err) < 0 ||
	    origin_open(&j->origin, &p->machine.host, &p->origin, err) < 0 ||
	    job_request(j, &p->patches, &p->request, err) < 0)
		return -1;
	origin_fetch(&p->origin, &p->state, &p->acquire.fetch);
	p->acquire.want.arch = *ret_arch ? *ret_arch : p->host.arch;
	p->machine.node.state = &p->state;
	p->machine.node.progress = &p->progress;
	p->acquire.node = &p->machine.node;
	p->acquire.request = &p->request;
	return 0;
}

static int compile(const struct values *v, struct core_pack *p, const char *arch, struct err *err)
{
	struct request *asked = &p->request;
	const char *release = v->kernel ? v->kernel : p->host.release;
	p->acquire.banner = str_eq(release, p->host.release) && !asked->headers.count ? p->host.banner : NULL;
	struct compile_request request = { .asked = asked,
					   .release = release,
					   .arch = arch,
					   .banner = p->acquire.banner,
					   .offer = acquire_headers_offer(&p->acquire),
					   .builder = acquire_builder,
					   .builder_ctx = &p->acquire,
					   .flavour = MODULE_TYPE_OPEN,
					   .node = &p->machine.node };
	if (job_fetch_source(&v->job, asked->source, asked->source_sha256, &p->state, &p->source, err) < 0)
		return -1;
	if (p->source)
		asked->source = p->source;
	return compile_cores(&request, &p->progress, &p->cores, err);
}

static int pack_cores(struct core_pack *p, struct err *err)
{
	const struct core_keys *keys = &p->cores.outcome.core.keys;
	const struct layout *into = NULL;
	if (!keys->count)
		return err_set(err, E_USAGE, "none of the modules of --modules has a core");
	if (output_layout(&p->output, &into, err) < 0)
		return -1;
	for (size_t i = 0; i < keys->count; i++) {
		auto_root struct root dir = ROOT_NONE;
		const struct asset_key key = compile_core_asset(&keys->items[i]);
		if (root_sub(&p->cores.dir, key.module, &dir, err) < 0 ||
		    asset_create(into, &dir, &key, &p->manifests[i], err) < 0)
			return -1;
	}
	return output_finish(&p->output, err);
}

static void show_packed(const struct values *v, const struct core_pack *p)
{
	const struct core_outcome *made = &p->cores.outcome.core;
	const char *place = p->output.name ? p->output.name : "the store";
	json_t *cores = json_array();
	for (size_t i = 0; i < made->keys.count; i++) {
		const struct asset_key key = compile_core_asset(&made->keys.items[i]);
		auto_str char *tag = asset_tag(&key), *digest = oci_digest_text(p->manifests[i].digest);
		json_array_append_new(cores, json_pack("{s:s, s:s, s:s, s:s}", "module", key.module, "tag", tag,
						       "digest", digest, "key", key.core));
		if (!v->job.origin.remote.common.is_json)
			printf("%s %s in %s\n", tag, digest, place);
	}
	auto_json json_t *json =
		json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "driver", p->cores.outcome.driver_version, "arch",
			  p->cores.tree.arch, "compiler", json_text(p->cores.outcome.compiler), "cores", cores, "into",
			  json_text(place), "phases", status_json_phases(&p->progress));
	if (v->job.origin.remote.common.is_json)
		show_json(json);
}

static int run_pack_core(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	const char *arch = NULL;
	auto_core_pack struct core_pack p = CORE_PACK_NONE;
	if (open_core_pack(v, &p, &arch, err) < 0 || compile(v, &p, arch, err) < 0 || pack_cores(&p, err) < 0)
		return -1;
	show_packed(v, &p);
	return 0;
}

const struct cmd cmd_pack_core = {
	.name = "pack core",
	.help = "compile the core of NVIDIA's open release once, for all that compile its modules",
	.about = "--source is the open release as published, with src/. Its core is the greater part of a compile,\n"
		 "and the same for every kernel: a node or a `build` takes it from its cache, its store, a\n"
		 "repository (--from) or a bundle (--bundle), signed like packages, where release, compiler and\n"
		 "architecture are the same, and compiles it where nobody has it. The headers of --kernel only say\n"
		 "which compiler: run it once for each compiler that the kernels were built with.\n\n"
		 "  kmodsmith pack core --source open-gpu-kernel-modules-595.45.04.tar.gz \\\n"
		 "      --kernel 6.1.0-56-cloud-amd64 --output oci:DIR\n",
	.opts = { source_opts, distribution_opts, opts, origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_pack_core,
};
