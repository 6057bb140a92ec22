// SPDX-License-Identifier: Apache-2.0
// store ls, show, pin, unpin, verify, gc: list, check and clean the packages that a node keeps.
#include "cmd/package/store.h"

#include "acquire/build_cache.h"
#include "cmd/common/job.h"
#include "host/kernel.h"
#include "next_kernel/boot_candidates.h"
#include "precompiled/package/package.h"

#include <inttypes.h>
#include <stdio.h>

#define OPT(name, arg, env, member, help)                                               \
	{                                                                               \
		name, 0, arg, env, OPT_STR, offsetof(struct store_values, member), help \
	}

static const struct opt store_opts[] = {
	OPT("state-dir", "DIR", "KMODSMITH_STATE_DIR", state_dir,
	    "kept packages, headers, scratch; default /var/lib/kmodsmith of the host"),
	OPT("store-limit", "BYTES", "KMODSMITH_STORE_LIMIT", limit, STORE_LIMIT_HELP),
	{ 0 },
};

static const struct opt trust_opts[] = {
	OPT("trust-dir", "DIR", "KMODSMITH_TRUST_DIR", trust_dir,
	    "trusted keys and the policy for each repository; default etc/kmodsmith/trust of the host"),
	{ 0 },
};

// Without roots, for the command that repairs them.
static int open_unchecked(const struct store_values *v, struct store_session *ret, struct err *err)
{
	const struct job_values place = { .state_dir = v->state_dir };
	auto_store_session struct store_session d = STORE_SESSION_NONE;
	uint64_t limit;
	if (job_parse_store_limit(v->limit, &limit, err) < 0 || machine_open(&v->common, &d.machine, err) < 0 ||
	    job_state_for_reading(&place, &d.machine, &d.spare, &d.state, err) < 0 ||
	    store_open(&d.state, limit, &d.store, err) < 0)
		return -1;
	*ret = d;
	d = STORE_SESSION_NONE;
	return 0;
}

int store_session_open(const struct store_values *values, struct store_session *ret, struct err *err)
{
	auto_store_session struct store_session d = STORE_SESSION_NONE;
	if (open_unchecked(values, &d, err) < 0 || store_roots(&d.store, &d.roots, err) < 0 ||
	    layout_index(&d.store.layout, &d.index, err) < 0)
		return -1;
	*ret = d;
	d = STORE_SESSION_NONE;
	return 0;
}

void store_session_done(struct store_session *d)
{
	oci_index_done(&d->index);
	store_roots_done(&d->roots);
	store_done(&d->store);
	root_done(&d->state);
	job_temp_state_done(&d->spare);
	machine_done(&d->machine);
	*d = STORE_SESSION_NONE;
}

// A tag, sha256:HEX or HEX. E_NOT_FOUND, also if it is not a package.
static int find_stored_package(const struct store_session *d, const char *ref, struct package *ret, struct err *err)
{
	auto_str char *digest = digest_is_hex(ref) ? oci_digest_text(ref) : NULL;
	int i = oci_index_find(&d->index, digest ? digest : ref);
	if (i < 0)
		return err_set(err, E_NOT_FOUND, "the store '%s' has no '%s'; see `kmodsmith store ls`",
			       d->store.layout.root.name, ref);
	int r = package_read(&d->store.layout, &d->index.items[i], ret, err);
	if (r == 0)
		return err_set(err, E_NOT_FOUND, "'%s' in the store '%s' is not a package", ref,
			       d->store.layout.root.name);
	return r < 0 ? err_code(err, E_STORE_CORRUPT) : 0;
}

// "target, pinned"; "" = none.
static char *root_names(const struct store_session *d, const char *hex)
{
	auto_strv struct strv words = { 0 };
	if (str_eq(d->roots.target, hex))
		strv_add(&words, str_dup("target"));
	if (str_eq(d->roots.last_good, hex))
		strv_add(&words, str_dup("last-good"));
	if (strv_has_sorted(&d->roots.pins, hex))
		strv_add(&words, str_dup("pinned"));
	for (size_t i = 0; i < d->roots.reuse_count; i++)
		if (str_eq(d->roots.reuses[i].digest, hex))
			strv_add(&words, str_fmt("compatible with %s", d->roots.reuses[i].release));
	return strv_join(&words, ",");
}

void package_trust_done(struct package_trust *v)
{
	provenance_done(&v->provenance);
}

void package_trust_read(const struct store_session *d, const struct trust_now *trust, const char *hex,
			struct package_trust *ret)
{
	*ret = (struct package_trust){ 0 };
	if (provenance_check(&d->store.layout, hex, trust, &ret->provenance, &ret->why) == 0)
		ret->why.code = 0;
}

static char *package_trust_text(const struct package_trust *v)
{
	return v->why.code ? str_fmt("no longer trusted (%s)", err_info(v->why.code)->name) :
			     provenance_text(&v->provenance);
}

static uint64_t package_size(const struct package *p)
{
	return p->layer.size + p->manifest.size;
}

static json_t *package_json(const struct store_session *d, const struct trust_now *trust,
			    const struct oci_descriptor *entry, const struct package *p)
{
	auto_package_trust struct package_trust v = { 0 };
	package_trust_read(d, trust, p->manifest.digest, &v);
	auto_str char *digest = oci_digest_text(p->manifest.digest), *layer = oci_digest_text(p->layer.digest);
	const char *hex = p->manifest.digest;
	json_t *reuses = json_array(); // the kernels that reuse this package, which was built for another one
	for (size_t i = 0; i < d->roots.reuse_count; i++)
		if (str_eq(d->roots.reuses[i].digest, hex))
			json_array_append_new(reuses, json_text(d->roots.reuses[i].release));
	json_t *vouched = provenance_json(&v.provenance);
	json_object_set_new(vouched, "trusted", json_boolean(!v.why.code));
	json_object_set_new(vouched, "code", json_text(v.why.code ? err_info(v.why.code)->name : NULL));
	json_object_set_new(vouched, "why", json_text(v.why.code ? v.why.text : NULL));
	return json_pack("{s:o, s:s, s:s, s:I, s:o, s:b, s:b, s:b, s:o, s:o}", "tag",
			 json_text(oci_descriptor_annotation(entry, OCI_REF_NAME)), "digest", digest, "layer", layer,
			 "size", (json_int_t)package_size(p), "key", package_key_json(&p->key), "target",
			 str_eq(d->roots.target, hex), "last_good", str_eq(d->roots.last_good, hex), "pinned",
			 strv_has_sorted(&d->roots.pins, hex), "compatible_with", reuses, "vouched", vouched);
}

static char *package_row(const struct store_session *d, const struct trust_now *trust,
			 const struct oci_descriptor *entry, const struct package *p)
{
	auto_package_trust struct package_trust v = { 0 };
	package_trust_read(d, trust, p->manifest.digest, &v);
	auto_str char *roots = root_names(d, p->manifest.digest), *who = package_trust_text(&v);
	const char *tag = oci_descriptor_annotation(entry, OCI_REF_NAME);
	return str_fmt("%s\t%s\t%s\t%s\t%" PRIu64 "\tsha256:%.12s\t%s\t%s", tag ? tag : "-", p->key.driver,
		       p->key.flavour, p->key.release, package_size(p), p->manifest.digest, *roots ? roots : "-", who);
}

struct listing {
	bool is_json;
	struct strv packages, assets; // rows of text
	json_t *json;                 // items: the packages; assets
};

static void listing_done(struct listing *l)
{
	strv_done(&l->packages);
	strv_done(&l->assets);
	json_decref(l->json);
}
#define auto_listing __attribute__((cleanup(listing_done)))

// What is no package: a signature, or the record of another entry, is not listed.
static int list_asset(const struct store_session *d, const struct oci_descriptor *entry, struct listing *l,
		      struct err *err)
{
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_str char *digest = oci_digest_text(entry->digest);
	if (entry->artifact_type && !asset_kind_of(entry->artifact_type))
		return 0;
	if (layout_manifest(&d->store.layout, entry, entry->digest, &m, err) < 0)
		return -1;
	const struct asset_kind *kind = asset_kind_of(m.artifact_type);
	const char *tag = oci_descriptor_annotation(entry, OCI_REF_NAME);
	uint64_t size = entry->size;
	if (!kind)
		return 0;
	for (size_t i = 0; i < m.count; i++)
		size += m.layers[i].size;
	if (l->is_json)
		json_array_append_new(json_object_get(l->json, "assets"),
				      json_pack("{s:s, s:o, s:s, s:I}", "kind", kind->name, "tag", json_text(tag),
						"digest", digest, "size", (json_int_t)size));
	else
		strv_add(&l->assets, str_fmt("%s\t%s\t%" PRIu64 "\tsha256:%.12s", kind->name, tag ? tag : "-", size,
					     entry->digest));
	return 0;
}

static int list_entry(const struct store_session *d, const struct trust_now *trust, const struct oci_descriptor *entry,
		      struct listing *l, struct err *err)
{
	auto_package struct package p = PACKAGE_NONE;
	int r = package_read(&d->store.layout, entry, &p, err);
	if (r <= 0)
		return r < 0 ? -1 : list_asset(d, entry, l, err);
	if (l->is_json)
		json_array_append_new(json_object_get(l->json, "items"), package_json(d, trust, entry, &p));
	else
		strv_add(&l->packages, package_row(d, trust, entry, &p));
	return 0;
}

// An unreadable entry must not hide the others; `store verify` handles it.
static int list_store(const struct store_values *v, struct listing *l, struct err *err)
{
	auto_store_session struct store_session d = STORE_SESSION_NONE;
	auto_trust_now struct trust_now trust = { 0 };
	if (store_session_open(v, &d, err) < 0)
		return -1;
	trust_now(&d.machine.host, v->trust_dir, &trust);
	for (size_t i = 0; i < d.index.count; i++)
		if (list_entry(&d, &trust, &d.index.items[i], l, err) < 0)
			log_warn("sha256:%.12s: %s; `kmodsmith store verify` cleans up", d.index.items[i].digest,
				 err->text);
	return 0;
}

static bool has_store(const struct store_values *v)
{
	auto_machine struct machine m = MACHINE_NONE;
	auto_root struct root state = ROOT_NONE;
	struct err ignored; // store_session_open() tells it
	return machine_open(&v->common, &m, &ignored) < 0 || job_state_if_any(v->state_dir, &m, &state, &ignored) < 0 ||
	       (state.fd >= 0 && store_exists(&state));
}

static int run_store_ls(void *values, char **args, size_t count, struct err *err)
{
	const struct store_values *v = values;
	uint64_t limit;
	auto_listing struct listing l = { .is_json = v->common.is_json,
					  .json = json_pack("{s:[], s:[]}", "items", "assets") };
	(void)args, (void)count;
	strv_add(&l.packages, str_dup("TAG\tDRIVER\tFLAVOUR\tKERNEL\tBYTES\tDIGEST\tKEPT AS\tVOUCHED FOR"));
	strv_add(&l.assets, str_dup("KIND\tTAG\tBYTES\tDIGEST"));
	if (job_parse_store_limit(v->limit, &limit, err) < 0 || (has_store(v) && list_store(v, &l, err) < 0))
		return -1;
	if (v->common.is_json) {
		show_json(l.json);
		return 0;
	}
	if (l.packages.count > 1)
		show_table(&l.packages);
	else
		printf("no packages are stored; `kmodsmith install` and `kmodsmith watch` keep what they use\n");
	if (l.assets.count > 1) {
		printf("\n");
		show_table(&l.assets);
	}
	return 0;
}

// What is said of how a package was built; NULL = nothing that can be read. Signed or not: see package_trust_read().
static json_t *read_statement(const struct store_session *d, const struct package *p)
{
	auto_repository struct repository *r = repository_of_layout(&d->store.layout);
	struct err ignored;
	json_t *ret = NULL;
	statement_read(r, p->manifest.digest, &ret, &ignored);
	return ret;
}

static void show_statement(const json_t *statement)
{
	const json_t *inputs = statement_dependencies(statement),
		     *run = json_object_get(json_object_get(json_object_get(statement, "predicate"), "runDetails"),
					    "builder");
	const char *by = json_string_value(json_object_get(run, "id")),
		   *version = json_string_value(json_object_get(json_object_get(run, "version"), "kmodsmith"));
	if (by)
		printf("%-13s %s%s%s\n", "built by", by, version ? " " : "", version ? version : "");
	for (size_t i = 0; i < json_array_size(inputs); i++) {
		const json_t *one = json_array_get(inputs, i);
		const char *name = json_string_value(json_object_get(one, "name")),
			   *hex = statement_dependency_digest(one);
		printf("%-13s %s sha256:%s\n", "built from", name ? name : "?", hex ? hex : "?");
	}
}

static void show_stored_package(const struct store_session *d, const struct trust_now *trust, const struct package *p)
{
	auto_package_trust struct package_trust v = { 0 };
	package_trust_read(d, trust, p->manifest.digest, &v);
	auto_str char *roots = root_names(d, p->manifest.digest), *who = package_trust_text(&v);
	const char *const rows[][2] = {
		{ "digest", p->manifest.digest },      { "layer", p->layer.digest },
		{ "driver", p->key.driver },           { "flavour", p->key.flavour },
		{ "kernel", p->key.release },          { "build id", p->key.build_id },
		{ "architecture", p->key.arch },       { "distribution", p->key.distro },
		{ "compiler", p->key.compiler },       { "source", p->key.source },
		{ "kept as", *roots ? roots : NULL },  { "vouched for", who },
		{ "taken from", v.provenance.source }, { "not trusted", v.why.code ? v.why.text : NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i][1])
			printf("%-13s %s\n", rows[i][0], rows[i][1]);
	auto_json json_t *statement = read_statement(d, p);
	show_statement(statement);
	for (size_t i = 0; i < p->count; i++)
		printf("%-13s %s, %" PRIu64 " bytes, srcversion %s\n", "file", p->files[i].name, p->files[i].size,
		       p->files[i].srcversion ? p->files[i].srcversion : "none");
}

static int run_store_show(void *values, char **args, size_t count, struct err *err)
{
	const struct store_values *v = values;
	auto_store_session struct store_session d = STORE_SESSION_NONE;
	auto_package struct package p = PACKAGE_NONE;
	auto_trust_now struct trust_now trust = { 0 };
	(void)count;
	if (store_session_open(v, &d, err) < 0 || find_stored_package(&d, args[0], &p, err) < 0)
		return -1;
	trust_now(&d.machine.host, v->trust_dir, &trust);
	if (!v->common.is_json) {
		show_stored_package(&d, &trust, &p);
		return 0;
	}
	auto_str char *ref = oci_digest_text(p.manifest.digest);
	auto_json json_t *json = package_json(&d, &trust, &d.index.items[oci_index_find(&d.index, ref)], &p);
	json_t *files = json_array();
	for (size_t i = 0; i < p.count; i++)
		json_array_append_new(files,
				      json_pack("{s:s, s:s, s:o, s:s, s:I}", "name", p.files[i].name, "module",
						p.files[i].module, "srcversion", json_text(p.files[i].srcversion),
						"sha256", p.files[i].sha256, "size", (json_int_t)p.files[i].size));
	json_object_set_new(json, "files", files);
	json_t *statement = read_statement(&d, &p);
	json_object_set_new(json, "statement", statement ? statement : json_null());
	show_json(json);
	return 0;
}

// Of all packages, or of those that are pinned: the tag, and the digest, which is what a pin has.
static void offer_packages(const struct store_values *v, bool is_pinned, struct strv *ret)
{
	auto_store_session struct store_session d = STORE_SESSION_NONE;
	struct err ignored;
	if (!has_store(v) || store_session_open(v, &d, &ignored) < 0)
		return;
	for (size_t i = 0; i < d.index.count; i++) {
		const struct oci_descriptor *entry = &d.index.items[i];
		const char *tag = oci_descriptor_annotation(entry, OCI_REF_NAME);
		if (!str_eq(entry->artifact_type, PACKAGE_TYPE) ||
		    (is_pinned && !strv_has_sorted(&d.roots.pins, entry->digest)))
			continue;
		if (tag)
			strv_add(ret, str_dup(tag));
		strv_add(ret, str_dup(entry->digest));
	}
}

static void offer_stored(const void *values, const char *option, size_t argument, struct strv *ret)
{
	if (!option && !argument)
		offer_packages(values, false, ret);
}

static void offer_pinned(const void *values, const char *option, size_t argument, struct strv *ret)
{
	if (!option && !argument)
		offer_packages(values, true, ret);
}

static int change_pin(const struct store_values *v, const char *ref, bool is_pin, struct err *err)
{
	auto_store_session struct store_session d = STORE_SESSION_NONE;
	auto_package struct package p = PACKAGE_NONE;
	if (store_session_open(v, &d, err) < 0)
		return -1;
	// A pin must be removable even if its package is gone.
	bool is_gone = !is_pin && digest_is_hex(ref) && strv_has_sorted(&d.roots.pins, ref);
	if (!is_gone && find_stored_package(&d, ref, &p, err) < 0)
		return -1;
	const char *hex = is_gone ? ref : p.manifest.digest;
	int r = store_pin(&d.store, hex, is_pin, err);
	if (r < 0)
		return -1;
	auto_json json_t *json = json_pack("{s:s, s:b, s:b}", "digest", hex, "pinned", is_pin, "changed", r);
	if (v->common.is_json)
		show_json(json);
	else
		printf("sha256:%s %s %s\n", hex, r ? "is" : "was already", is_pin ? "pinned" : "not pinned");
	return 0;
}

static int run_store_pin(void *values, char **args, size_t count, struct err *err)
{
	(void)count;
	return change_pin(values, args[0], true, err);
}

static int run_store_unpin(void *values, char **args, size_t count, struct err *err)
{
	(void)count;
	return change_pin(values, args[0], false, err);
}

static void on_verify_progress(void *ctx, uint64_t done, uint64_t total)
{
	(void)ctx;
	show_bytes("verified", done, total);
}

static void show_store_report(const struct store_report *r, bool is_json)
{
	json_t *damage = json_array();
	for (size_t i = 0; i < r->count; i++)
		json_array_append_new(damage,
				      json_pack("{s:s, s:o, s:o}", "digest", r->damage[i].digest, "why",
						json_text(r->damage[i].why), "lost", json_strv(&r->damage[i].lost)));
	auto_json json_t *json = json_pack("{s:b, s:I, s:I, s:o}", "sound", r->count == 0, "blobs",
					   (json_int_t)r->blobs, "bytes", (json_int_t)r->bytes, "damage", damage);
	if (is_json) {
		show_json(json);
		return;
	}
	for (size_t i = 0; i < r->count; i++) {
		auto_str char *lost = strv_join(&r->damage[i].lost, ", ");
		printf("sha256:%s %s; lost: %s\n", r->damage[i].digest, r->damage[i].why, *lost ? lost : "nothing");
	}
	printf("%zu blob%s, %" PRIu64 " bytes: %s\n", r->blobs, str_plural(r->blobs), r->bytes,
	       r->count ? "damage found and quarantined" : "no damage");
}

static int run_store_verify(void *values, char **args, size_t count, struct err *err)
{
	const struct store_values *v = values;
	auto_store_session struct store_session d = STORE_SESSION_NONE;
	auto_store_report struct store_report report = { 0 };
	(void)args, (void)count;
	if (open_unchecked(v, &d, err) < 0 || store_verify(&d.store, on_verify_progress, NULL, &report, err) < 0)
		return -1;
	show_store_report(&report, v->common.is_json);
	return report.count ? err_info(E_STORE_CORRUPT)->exit_status : 0;
}

struct gc_values {
	struct store_values store;
	bool is_dry, is_cache;
};

static const struct opt gc_opts[] = {
	{ "dry-run", 0, NULL, NULL, OPT_FLAG, offsetof(struct gc_values, is_dry), "only show what would be removed" },
	{ "cache", 0, NULL, NULL, OPT_FLAG, offsetof(struct gc_values, is_cache),
	  "also the cache: objects, conftest results, kernels' symbols" },
	{ 0 },
};

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
	    boot_installed_kernels(&d.machine.host, host.release, &kernels, err) < 0 ||
	    (v->is_cache && build_cache_clear(&d.state, v->is_dry, &cache, err) < 0) ||
	    store_gc(&d.store, &kernels, v->is_dry, &g, err) < 0)
		return -1;
	auto_json json_t *json =
		json_pack("{s:b, s:o, s:I, s:I, s:I, s:I, s:o}", "dry_run", v->is_dry, "packages",
			  json_strv(&g.packages), "blobs", (json_int_t)g.blobs, "parts", (json_int_t)g.parts, "bytes",
			  (json_int_t)g.bytes, "cache_bytes", (json_int_t)cache, "kernels", json_strv(&kernels));
	if (v->store.common.is_json) {
		show_json(json);
		return 0;
	}
	const char *verb = v->is_dry ? "would remove" : "removed";
	for (size_t i = 0; i < g.packages.count; i++)
		printf("%s: %s\n", verb, g.packages.items[i]);
	printf("%s: %zu package%s, %zu blob%s, %zu unfinished transfer%s, %" PRIu64 " bytes\n", verb, g.packages.count,
	       str_plural(g.packages.count), g.blobs, str_plural(g.blobs), g.parts, str_plural(g.parts), g.bytes);
	if (v->is_cache)
		printf("%s: %" PRIu64 " bytes of the cache\n", verb, cache);
	return 0;
}

const struct cmd cmd_store_ls = {
	.name = "store ls",
	.help = "list what this machine's store holds",
	.about = "One line per package: tag, driver, flavour, kernel, bytes, digest, why it is kept, and who vouches\n"
		 "for it:\n"
		 "the keys that signed a fetched package, `by hand` (--package), `compiled here`, `not verified`\n"
		 "(--insecure-skip-verify), or `no longer trusted`, which is never loaded.\n"
		 "Below them what else `kmodsmith pack` or a fetch has left there: payloads, headers, builders and\n"
		 "cores.\n\n"
		 "  kmodsmith store ls\n",
	.opts = { trust_opts, store_opts, common_opts },
	.values_size = sizeof(struct store_values),
	.run = run_store_ls,
};

const struct cmd cmd_store_show = {
	.name = "store show",
	.args = "REF",
	.args_min = 1,
	.args_max = 1,
	.help = "show the key and files of a package",
	.about = "REF is a tag, sha256:HEX or HEX from `kmodsmith store ls`. Also shows what the package was built\n"
		 "from, as far as the statement beside it says so.\n\n"
		 "  kmodsmith store show 535.261.03-open-6.1.0-56-cloud-amd64-x86_64 --json\n",
	.opts = { trust_opts, store_opts, common_opts },
	.values_size = sizeof(struct store_values),
	.run = run_store_show,
	.offer = offer_stored,
};

const struct cmd cmd_store_pin = {
	.name = "store pin",
	.args = "REF",
	.args_min = 1,
	.args_max = 1,
	.help = "never remove a package to make room",
	.about = "A pinned package is never removed, neither by `kmodsmith store gc` nor to make room.\n\n"
		 "  kmodsmith store pin 535.261.03-open-6.1.0-56-cloud-amd64\n",
	.opts = { store_opts, common_opts },
	.values_size = sizeof(struct store_values),
	.run = run_store_pin,
	.offer = offer_stored,
};

const struct cmd cmd_store_unpin = {
	.name = "store unpin",
	.args = "REF",
	.args_min = 1,
	.args_max = 1,
	.help = "remove the pin of a package",
	.about = "The package stays until the next garbage collection, or longer if the node may need it.\n\n"
		 "  kmodsmith store unpin 535.261.03-open-6.1.0-56-cloud-amd64\n",
	.opts = { store_opts, common_opts },
	.values_size = sizeof(struct store_values),
	.run = run_store_unpin,
	.offer = offer_pinned,
};

const struct cmd cmd_store_verify = {
	.name = "store verify",
	.help = "read every blob and compare it with its digest",
	.about = "Damaged blobs are moved to the quarantine directory next to the store, and packages that need them\n"
		 "are removed; they are built or fetched again when needed. Damaged files of the store itself are set\n"
		 "aside and made again. Exit status 1 if there was damage.\n\n"
		 "  kmodsmith store verify\n",
	.opts = { store_opts, common_opts },
	.values_size = sizeof(struct store_values),
	.run = run_store_verify,
};

const struct cmd cmd_store_gc = {
	.name = "store gc",
	.help = "remove packages that this machine no longer needs",
	.about = "Keeps packages that are in use, the last good one, pinned ones, and those for the running kernel or\n"
		 "an installed one, with their signatures. All others are removed. Does nothing while another\n"
		 "kmodsmith uses the store.\n\n"
		 "  kmodsmith store gc --dry-run\n",
	.opts = { gc_opts, store_opts, common_opts },
	.values_size = sizeof(struct gc_values),
	.run = run_store_gc,
};
