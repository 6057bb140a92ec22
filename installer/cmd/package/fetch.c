// SPDX-License-Identifier: Apache-2.0
// fetch: get a package from the first repository that has it, to the node's store or another layout.
#include "cmd/common/job.h"
#include "cmd/common/output.h"
#include "precompiled/package/asset.h"
#include "precompiled/package/package.h"

#include <stdio.h>

struct values {
	struct origin_values origin;
	char *driver, *flavour, *kernel, *arch, *output, *state_dir;
	bool is_payload;
};

static const struct opt opts[] = {
	{ "driver", 'd', "VERSION", "DRIVER_VERSION", OPT_STR, offsetof(struct values, driver),
	  "driver version; default: the newest available" },
	{ "flavour", 'f', "open|proprietary", "KERNEL_MODULE_TYPE", OPT_STR, offsetof(struct values, flavour),
	  "module type; default: either" },
	{ "kernel", 'k', "RELEASE", "KERNEL_VERSION", OPT_STR, offsetof(struct values, kernel),
	  "kernel release; default: the running one" },
	{ "arch", 0, "ARCH", NULL, OPT_STR, offsetof(struct values, arch), "x86_64, aarch64; default: this machine's" },
	{ "payload", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_payload),
	  "the libraries, firmware and programs of --driver instead of modules; --flavour and --kernel are ignored" },
	{ "output", 'o', "NAME", NULL, OPT_STR, offsetof(struct values, output), OUTPUT_HELP },
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir),
	  "holds the store; default as for `install`" },
	{ 0 },
};

struct fetch_job {
	struct machine machine;
	struct host host;
	struct root state;
	struct origin origin;
	struct output output;
};
#define FETCH_JOB_NONE ((struct fetch_job){ .machine = MACHINE_NONE, .state = ROOT_NONE, .output = OUTPUT_NONE })

static void fetch_job_done(struct fetch_job *f)
{
	output_done(&f->output);
	origin_done(&f->origin);
	root_done(&f->state);
	host_done(&f->host);
	machine_done(&f->machine);
}
#define auto_fetch_job __attribute__((cleanup(fetch_job_done)))

static int open_fetch_job(const struct values *v, struct fetch_job *f, struct err *err)
{
	struct job_values job = { .state_dir = v->state_dir };
	if (machine_open(&v->origin.remote.common, &f->machine, err) < 0 ||
	    host_read(&f->machine.host, &f->machine.kern, &f->host, err) < 0 ||
	    job_state(&job, &f->machine, &f->state, err) < 0 ||
	    origin_open(&v->origin, &f->machine.host, &f->origin, err) < 0)
		return -1;
	if (!f->origin.from.count)
		return err_set(err, E_USAGE, "fetch needs --from NAME or --bundle FILE");
	return output_init(&f->output, v->output, &f->state, err);
}

static int fetch_payload(const struct values *v, struct fetch_job *f, struct err *err)
{
	struct fetch fetch;
	const struct layout *into = NULL;
	const struct asset_key key = { .kind = &ASSET_PAYLOAD,
				       .driver = v->driver,
				       .arch = v->arch ? v->arch : f->host.arch };
	char hex[DIGEST_HEX + 1];
	if (!v->driver)
		return err_set(err, E_USAGE, "fetch --payload needs --driver VERSION");
	origin_fetch(&f->origin, &f->state, &fetch);
	if (asset_fetch(&fetch, &key, NULL, hex, err) < 0 || output_layout(&f->output, &into, err) < 0 ||
	    asset_fetch(&fetch, &key, into, hex, err) < 0 || output_finish(&f->output, err) < 0)
		return -1;
	auto_str char *tag = asset_tag(&key), *digest = oci_digest_text(hex);
	const char *place = f->output.name ? f->output.name : "the store";
	auto_json json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:o}", "tag", tag, "digest", digest, "driver",
					   key.driver, "arch", key.arch, "into", json_text(place));
	if (v->origin.remote.common.is_json)
		show_json(json);
	else
		printf("%s %s\ninto %s\n", tag, digest, place);
	return 0;
}

static int fetch_package(const struct values *v, struct fetch_job *f, struct err *err)
{
	const char *release = v->kernel ? v->kernel : f->host.release;
	struct package_want want = { .driver = v->driver,
				     .flavour = v->flavour,
				     .release = release,
				     .build_id = str_eq(release, f->host.release) ? f->host.build_id : NULL,
				     .arch = v->arch ? v->arch : f->host.arch };
	struct fetch fetch;
	auto_fetch_result struct fetch_result found = FETCH_RESULT_NONE;
	const struct layout *into = NULL;
	origin_fetch(&f->origin, &f->state, &fetch);
	if (fetch_find(&fetch, &want, &found, err) < 0 || output_layout(&f->output, &into, err) < 0 ||
	    fetch_take(&fetch, &want, &found, into, err) < 0 || output_finish(&f->output, err) < 0)
		return -1;
	const struct package *p = &found.candidate.package;
	auto_str char *tag = package_tag(&p->key), *digest = oci_digest_text(p->manifest.digest);
	const char *signers = found.signers, *place = f->output.name ? f->output.name : "the store";
	if (v->origin.remote.common.is_json) {
		auto_json json_t *json = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "tag", tag, "digest", digest,
						   "from", json_text(p->place), "into", json_text(place), "signed_by",
						   json_text(signers), "key", package_key_json(&p->key));
		show_json(json);
		return 0;
	}
	printf("%s %s\nfrom %s into %s, %s%s\n", tag, digest, p->place, place,
	       signers && *signers ? "signed by " : "signatures not checked", signers ? signers : "");
	return 0;
}

static int run_fetch(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_fetch_job struct fetch_job f = FETCH_JOB_NONE;
	if (open_fetch_job(v, &f, err) < 0)
		return -1;
	return v->is_payload ? fetch_payload(v, &f, err) : fetch_package(v, &f, err);
}

const struct cmd cmd_fetch = {
	.name = "fetch",
	.help = "get a package from a registry, a web server, a layout or a bundle",
	.about = "Tries the repositories of --from in order. The download is hashed, decompressed and unpacked on\n"
		 "the fly, and not used until its digest and signature have been checked. An interrupted download\n"
		 "resumes, even from another mirror or after a restart. --payload fetches what `kmodsmith pack\n"
		 "payload` packed; `kmodsmith install --export` uses it from the store.\n\n"
		 "  kmodsmith fetch --driver 535.261.03 --flavour open --kernel 6.1.0-56-cloud-amd64 \\\n"
		 "      --from docker://registry.example/drivers,https://mirror.example/drivers\n",
	.opts = { opts, package_opts, origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_fetch,
};
