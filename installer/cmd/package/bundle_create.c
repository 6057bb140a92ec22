// SPDX-License-Identifier: Apache-2.0
// bundle create: everything an offline site needs in one file.
#include "cmd/common/job.h"
#include "precompiled/bundle/bundle.h"
#include "precompiled/bundle/catalog_publish.h"
#include "precompiled/bundle/collect.h"
#include "precompiled/trust/signers.h"

#include <stdio.h>
#include <time.h>

enum { DAYS_DEFAULT = 365, DAYS_MAX = 3650, DAY_S = 24 * 60 * 60 };

struct values {
	struct origin_values origin;
	struct strv drivers, kernels, archs, images, keys;
	char *flavour, *output, *state_dir;
	unsigned days;
	bool is_with_headers, is_with_payload, is_with_builder, is_with_cores;
};

#define OPT(name, letter, arg, env, type, member, help)                             \
	{                                                                           \
		name, letter, arg, env, type, offsetof(struct values, member), help \
	}

static const struct opt opts[] = {
	OPT("output", 'o', "FILE.tar", NULL, OPT_STR, output, "the bundle; written completely or not at all"),
	OPT("driver", 'd', "VERSION,...", NULL, OPT_LIST, drivers, "driver versions"),
	OPT("kernel", 'k', "RELEASE,...", NULL, OPT_LIST, kernels, "kernel releases"),
	OPT("flavour", 'f', "open|proprietary|both", NULL, OPT_STR, flavour,
	    "module type; default: all that are available, at least one"),
	OPT("arch", 0, "ARCH,...", NULL, OPT_LIST, archs, "x86_64, aarch64; default: this machine's"),
	OPT("headers-too", 0, NULL, NULL, OPT_FLAG, is_with_headers,
	    "also the headers of each kernel, from `kmodsmith pack headers`"),
	OPT("payload-too", 0, NULL, NULL, OPT_FLAG, is_with_payload,
	    "also the libraries, firmware and programs of each driver, from `kmodsmith pack payload`"),
	OPT("builder-too", 0, NULL, NULL, OPT_FLAG, is_with_builder,
	    "also the root of a builder image, from `kmodsmith pack builder`"),
	OPT("core-too", 0, NULL, NULL, OPT_FLAG, is_with_cores,
	    "also the cores of each driver, from `kmodsmith pack core`"),
	OPT("image", 0, "REF,...", NULL, OPT_LIST, images,
	    "compiler images to list in the bundle, each as NAME@sha256:HEX; the images themselves are not included"),
	OPT("key", 0, "FILE|URI,...", "KMODSMITH_KEY", OPT_LIST, keys,
	    "private key to sign the bundle manifest, every package and a catalogue: a PEM file or a pkcs11: URI"),
	OPT("expires", 0, "DAYS", NULL, OPT_UINT, days, "validity of the bundle; default 365"),
	OPT("state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, state_dir,
	    "working directory, needs room for the whole bundle; default as for `install`"),
	{ 0 },
};

struct bundle_job {
	struct machine machine;
	struct host host;
	struct root state;
	struct strv archs;
	struct origin origin;
	struct signers by;
	struct scratch work;
	struct layout layout;
	struct bundle_manifest manifest;
	size_t brought;
};

static void bundle_job_done(struct bundle_job *c)
{
	bundle_manifest_done(&c->manifest);
	layout_done(&c->layout);
	scratch_done(&c->work);
	signers_done(&c->by);
	origin_done(&c->origin);
	strv_done(&c->archs);
	root_done(&c->state);
	host_done(&c->host);
	machine_done(&c->machine);
}
#define auto_bundle_job __attribute__((cleanup(bundle_job_done)))

static int check_bundle_values(const struct values *v, struct err *err)
{
	if (!v->output || !v->drivers.count || !v->kernels.count)
		return err_set(err, E_USAGE,
			       "bundle create needs --output FILE.tar, --driver V,... and --kernel K,...");
	if (v->days > DAYS_MAX)
		return err_set(err, E_USAGE, "--expires %u: at most %d days", v->days, DAYS_MAX);
	for (size_t i = 0; i < v->images.count; i++)
		if (!bundle_image_is_pinned(v->images.items[i]))
			return err_set(err, E_USAGE,
				       "--image '%s' is not pinned, and a tag can change; use NAME@sha256:HEX",
				       v->images.items[i]);
	return bundle_check_place(v->output, err);
}

static int open_bundle_job(const struct values *v, struct bundle_job *c, struct err *err)
{
	struct job_values job = { .state_dir = v->state_dir };
	if (check_bundle_values(v, err) < 0 || machine_open(&v->origin.remote.common, &c->machine, err) < 0 ||
	    host_read(&c->machine.host, &c->machine.kern, &c->host, err) < 0 ||
	    job_state(&job, &c->machine, &c->state, err) < 0 ||
	    origin_open(&v->origin, &c->machine.host, &c->origin, err) < 0)
		return -1;
	if (!c->origin.from.count)
		return err_set(err, E_USAGE, "bundle create needs --from NAME,...");
	if (!v->archs.count)
		strv_add(&c->archs, str_dup(c->host.arch));
	for (size_t i = 0; i < v->images.count; i++)
		strv_add(&c->manifest.images, str_dup(v->images.items[i]));
	if (!v->keys.count)
		log_warn("no --key: the bundle manifest is not signed, so `bundle verify` will reject the bundle");
	return signers_open(&v->keys, "kmodsmith", &c->by, err) < 0 ||
			       scratch_make(&c->state, "bundle", &c->work, err) < 0 ?
		       -1 :
		       layout_make(&c->work.root, &c->layout, err);
}

static void on_entry_added(void *ctx, const struct bundle_entry *p)
{
	struct bundle_job *c = ctx;
	log_info("bundle      %zu: %s", ++c->brought, p->tag);
}

static int collect_contents(const struct values *v, struct bundle_job *c, struct err *err)
{
	auto_strv struct strv missing = { 0 };
	struct collect_request g = { .drivers = &v->drivers,
				     .kernels = &v->kernels,
				     .archs = v->archs.count ? &v->archs : &c->archs,
				     .flavour = v->flavour,
				     .is_with_headers = v->is_with_headers,
				     .is_with_payload = v->is_with_payload,
				     .is_with_builder = v->is_with_builder,
				     .is_with_cores = v->is_with_cores,
				     .brought = on_entry_added,
				     .ctx = c };
	origin_fetch(&c->origin, &c->state, &g.fetch);
	int r = collect_bundle(&g, &c->layout, &c->manifest, &missing, err);
	if (r <= 0)
		return r;
	auto_str char *all = strv_join(&missing, "; ");
	for (size_t i = 0; i < missing.count; i++)
		log_warn("missing     %s", missing.items[i]);
	return err_set(err, E_INCOMPLETE, "%zu missing, nothing was written: %s", missing.count, all);
}

static int sign_packages(const struct bundle_job *c, unsigned days, time_t now, struct err *err)
{
	auto_catalog struct catalog all = { 0 }, made = { 0 };
	if (!c->by.count)
		return 0;
	if (catalog_publish_list(&c->layout, &all, err) < 0)
		return -1;
	bool *is_made = mem_alloc((all.count + 1) * sizeof(*is_made));
	int r = catalog_publish_signatures(&c->layout, &all, c->by.makers, c->by.count, is_made, err);
	free(is_made);
	return r < 0 ? -1 : catalog_publish(&c->layout, days, now, c->by.makers, c->by.count, &made, err);
}

static int run_bundle_create(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_bundle_job struct bundle_job c = {
		.machine = MACHINE_NONE, .state = ROOT_NONE, .work = SCRATCH_NONE, .layout = LAYOUT_NONE
	};
	unsigned days = v->days ? v->days : DAYS_DEFAULT;
	(void)args, (void)count;
	if (open_bundle_job(v, &c, err) < 0 || collect_contents(v, &c, err) < 0)
		return -1;
	c.manifest.created = time(NULL);
	c.manifest.expires = c.manifest.created + (time_t)days * DAY_S;
	if (sign_packages(&c, days, c.manifest.created, err) < 0 ||
	    bundle_manifest_publish(&c.layout, &c.manifest, c.by.makers, c.by.count, err) < 0 ||
	    bundle_write(&c.layout, v->output, err) < 0)
		return -1;
	auto_json json_t *json = bundle_manifest_json(&c.manifest);
	json_object_set_new(json, "bundle", json_text(v->output));
	if (v->origin.remote.common.is_json)
		show_json(json);
	else
		printf("%s: %zu entr%s, expires %s\n", v->output, c.manifest.count, c.manifest.count == 1 ? "y" : "ies",
		       json_string_value(json_object_get(json, "expires")));
	return 0;
}

const struct cmd cmd_bundle_create = {
	.name = "bundle create",
	.help = "collect packages for an offline site in one file",
	.about = "Each driver for each kernel is fetched like `kmodsmith fetch` does, with its signatures. If\n"
		 "something is missing, it is listed and nothing is written. The file contains a manifest, so that\n"
		 "`kmodsmith bundle verify` can tell whether it is complete.\n\n"
		 "  kmodsmith bundle create --output site.tar --from docker://registry.example/drivers \\\n"
		 "      --driver 535.261.03 --kernel 6.1.0-56-cloud-amd64,6.1.0-57-cloud-amd64 --key site.key\n",
	.opts = { opts, origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_bundle_create,
};
