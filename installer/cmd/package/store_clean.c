// SPDX-License-Identifier: Apache-2.0
// Looking after the store: damage and garbage.
#include "acquire/build_cache.h"
#include "cmd/package/store.h"
#include "host/kernel.h"
#include "next_kernel/installed.h"

#include <inttypes.h>
#include <stdio.h>

static void on_verify_progress(void *ctx, uint64_t done, uint64_t total)
{
	enum { MIB = 20 };
	(void)ctx;
	show_progress("verified MiB", (unsigned)(done >> MIB), (unsigned)(total >> MIB));
}

static json_t *store_report_json(const struct store_report *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->count; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:o, s:o}", "digest", r->damage[i].digest, "why",
						json_text(r->damage[i].why), "lost", json_strv(&r->damage[i].lost)));
	return json_pack("{s:b, s:I, s:I, s:o}", "sound", r->count == 0, "blobs", (json_int_t)r->blobs, "bytes",
			 (json_int_t)r->bytes, "damage", list);
}

static void show_store_report(const struct store_report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		auto_str char *lost = strv_join(&r->damage[i].lost, ", ");
		printf("sha256:%s %s; lost: %s\n", r->damage[i].digest, r->damage[i].why, *lost ? lost : "nothing");
	}
	printf("%zu blobs, %" PRIu64 " bytes: %s\n", r->blobs, r->bytes,
	       r->count ? "damage was found and quarantined" : "sound");
}

static int run_store_verify(void *values, char **args, size_t count, struct err *err)
{
	const struct store_values *v = values;
	auto_store_session struct store_session d = STORE_SESSION_NONE;
	auto_store_report struct store_report report = { 0 };
	(void)args, (void)count;
	if (store_session_open_unchecked(v, &d, err) < 0 ||
	    store_verify(&d.store, on_verify_progress, NULL, &report, err) < 0)
		return -1;
	auto_json json_t *json = store_report_json(&report);
	if (v->common.is_json)
		show_json(json);
	else
		show_store_report(&report);
	return report.count ? err_info(E_STORE_CORRUPT)->exit_status : 0;
}

struct gc_values {
	struct store_values store;
	bool is_dry, is_cache;
};

static const struct opt gc_opts[] = {
	{ "dry-run", 0, NULL, NULL, OPT_FLAG, offsetof(struct gc_values, is_dry), "only say what would go" },
	{ "cache", 0, NULL, NULL, OPT_FLAG, offsetof(struct gc_values, is_cache),
	  "also what compiles keep for the next: objects, conftest's answers" },
	{ 0 },
};

static void show_garbage(const struct store_garbage *g, bool is_dry)
{
	const char *verb = is_dry ? "would go" : "gone";
	for (size_t i = 0; i < g->packages.count; i++)
		printf("%s: %s\n", verb, g->packages.items[i]);
	printf("%s: %zu packages, %zu blobs, %zu unfinished transfers, %" PRIu64 " bytes\n", verb, g->packages.count,
	       g->blobs, g->parts, g->bytes);
}

static int run_store_gc(void *values, char **args, size_t count, struct err *err)
{
	const struct gc_values *v = values;
	auto_store_session struct store_session d = STORE_SESSION_NONE;
	auto_host struct host host = { 0 };
	auto_strv struct strv kernels = { 0 };
	auto_store_garbage struct store_garbage g = { 0 };
	uint64_t cache = 0;
	(void)args, (void)count;
	if (store_session_open(&v->store, &d, err) < 0 || host_read(&d.machine.host, &d.machine.kern, &host, err) < 0 ||
	    installed_kernels(&d.machine.host, host.release, &kernels, err) < 0 ||
	    (v->is_cache && build_cache_clear(&d.state, v->is_dry, &cache, err) < 0) ||
	    store_gc(&d.store, &kernels, v->is_dry, &g, err) < 0)
		return -1;
	auto_json json_t *json =
		json_pack("{s:b, s:o, s:I, s:I, s:I, s:I, s:o}", "dry_run", v->is_dry, "packages",
			  json_strv(&g.packages), "blobs", (json_int_t)g.blobs, "parts", (json_int_t)g.parts, "bytes",
			  (json_int_t)g.bytes, "cache_bytes", (json_int_t)cache, "kernels", json_strv(&kernels));
	if (v->store.common.is_json)
		show_json(json);
	else
		show_garbage(&g, v->is_dry);
	if (v->is_cache && !v->store.common.is_json)
		printf("%s: %" PRIu64 " bytes of the compiles' cache\n", v->is_dry ? "would go" : "gone", cache);
	return 0;
}

const struct cmd cmd_store_verify = {
	.name = "store verify",
	.help = "read every blob and compare it with its digest",
	.about = "What is damaged goes to the quarantine directory beside the store, and packages that need it leave "
		 "the "
		 "store: they\n"
		 "are built or fetched again when they are wanted. Exit status 1 when something was damaged.\n",
	.opts = { store_opts, common_opts },
	.values_size = sizeof(struct store_values),
	.run = run_store_verify,
};

const struct cmd cmd_store_gc = {
	.name = "store gc",
	.help = "remove what this machine cannot need any more",
	.about = "Packages stay that are in use, were the last good one, are pinned, or are for the running kernel or "
		 "one "
		 "that is\n"
		 "installed; signatures stay with their packages. Everything else goes. Nothing goes while another "
		 "kmodsmith uses\n"
		 "the store.\n\n"
		 "  kmodsmith store gc --dry-run\n",
	.opts = { gc_opts, store_opts, common_opts },
	.values_size = sizeof(struct gc_values),
	.run = run_store_gc,
};
