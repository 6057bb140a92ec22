// SPDX-License-Identifier: Apache-2.0
// bundle verify, ls: inspect a bundle without unpacking it.
#include "precompiled/bundle/bundle.h"

#include "base/core/date.h"
#include "cmd/common/common.h"

#include <inttypes.h>
#include <stdio.h>

struct values {
	struct common common;
	char *trust_dir;
};

static const struct opt verify_opts[] = {
	{ "trust-dir", 0, "DIR", "KMODSMITH_TRUST_DIR", OPT_STR, offsetof(struct values, trust_dir),
	  "trusted keys and the policy for each repository; default etc/kmodsmith/trust of the host" },
	{ 0 },
};

static const char *bundle_file_name(const char *arg)
{
	const char *path = repository_path(arg, REPOSITORY_BUNDLE);
	return path ? path : arg;
}

static void show_bundle_report(const char *file, const struct bundle_report *r, bool is_json)
{
	if (is_json) {
		auto_json json_t *json = bundle_manifest_json(&r->manifest);
		json_object_set_new(json, "complete", json_boolean(!r->missing.count && !r->damaged.count));
		json_object_set_new(json, "signed_by", json_text(r->signers));
		json_object_set_new(json, "missing", json_strv(&r->missing));
		json_object_set_new(json, "damaged", json_strv(&r->damaged));
		json_object_set_new(json, "blobs", json_integer((json_int_t)r->blobs));
		json_object_set_new(json, "bytes", json_integer((json_int_t)r->bytes));
		show_json(json);
		return;
	}
	for (size_t i = 0; i < r->missing.count; i++)
		printf("missing: %s\n", r->missing.items[i]);
	for (size_t i = 0; i < r->damaged.count; i++)
		printf("damaged: %s\n", r->damaged.items[i]);
	if (r->missing.count || r->damaged.count)
		return;
	auto_str char *expires = date_text(r->manifest.expires);
	printf("%s: complete: %zu entr%s, %zu blob%s, %" PRIu64 " bytes; %s%s; expires %s\n", file, r->manifest.count,
	       r->manifest.count == 1 ? "y" : "ies", r->blobs, str_plural(r->blobs), r->bytes,
	       *r->signers ? "signed by " : "no signature required", r->signers, expires);
}

// The report lists all findings; the error summarizes them.
static int report_outcome(const char *file, const struct bundle_report *r)
{
	struct err err;
	const struct strv *all = r->missing.count ? &r->missing : &r->damaged;
	auto_str char *text = strv_join(all, "; ");
	if (!all->count)
		return 0;
	if (r->missing.count)
		err_set(&err, E_INCOMPLETE, "'%s': %zu of %zu are missing: %s", file, all->count, r->manifest.count,
			text);
	else
		err_set(&err, E_DIGEST, "'%s': %zu of %zu blobs are damaged: %s", file, all->count, r->blobs, text);
	log_err(&err);
	return err_info(err.code)->exit_status;
}

static int run_bundle_verify(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_root struct root dir = ROOT_NONE;
	auto_trust struct trust trust = { 0 };
	auto_bundle_report struct bundle_report report = { 0 };
	const char *file = bundle_file_name(args[0]);
	(void)count;
	if (machine_open(&v->common, &m, err) < 0 || trust_dir(&m.host, v->trust_dir, &dir, err) < 0 ||
	    trust_open(&dir, &trust, err) < 0 || bundle_verify(file, &trust, time(NULL), &report, err) < 0)
		return -1;
	show_bundle_report(file, &report, v->common.is_json);
	return report_outcome(file, &report);
}

static int run_bundle_ls(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_repository struct repository *r = NULL;
	auto_bundle_manifest struct bundle_manifest p = { 0 };
	auto_strv struct strv rows = { 0 };
	(void)count;
	if (repository_open_bundle(bundle_file_name(args[0]), NULL, &r, err) < 0 ||
	    bundle_manifest_read(r, NULL, &p, NULL, err) < 0)
		return -1;
	auto_json json_t *json = bundle_manifest_json(&p);
	if (v->common.is_json) {
		show_json(json);
		return 0;
	}
	strv_add(&rows, str_dup("KIND\tDRIVER\tFLAVOUR\tKERNEL\tARCH\tDIGEST"));
	for (size_t i = 0; i < p.count; i++) {
		const struct bundle_entry *it = &p.items[i];
		strv_add(&rows,
			 str_fmt("%s\t%s\t%s\t%s\t%s\tsha256:%.12s", it->kind, it->driver ? it->driver : "-",
				 it->flavour ? it->flavour : "-", it->kernel ? it->kernel : "-", it->arch, it->digest));
	}
	show_table(&rows);
	for (size_t i = 0; i < p.images.count; i++)
		printf("image %s\n", p.images.items[i]);
	printf("created %s, expires %s\n", json_string_value(json_object_get(json, "created")),
	       json_string_value(json_object_get(json, "expires")));
	return 0;
}

const struct cmd cmd_bundle_verify = {
	.name = "bundle verify",
	.args = "FILE",
	.args_min = 1,
	.args_max = 1,
	.help = "check that a bundle is complete, undamaged and signed by a trusted key",
	.about = "Checks the signatures of the bundle manifest and of every package, that everything in the\n"
		 "manifest is present, and the digest of every blob. Lists what is missing or damaged, one per\n"
		 "line. Nothing is unpacked.\n\n"
		 "  kmodsmith bundle verify site.tar\n",
	.opts = { verify_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_bundle_verify,
};

const struct cmd cmd_bundle_ls = {
	.name = "bundle ls",
	.args = "FILE",
	.args_min = 1,
	.args_max = 1,
	.help = "list the contents of a bundle",
	.about = "Prints the bundle manifest without checking it; see `kmodsmith bundle verify`.\n\n"
		 "  kmodsmith bundle ls site.tar\n",
	.opts = { common_opts },
	.values_size = sizeof(struct values),
	.run = run_bundle_ls,
};
