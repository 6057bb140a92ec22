// SPDX-License-Identifier: Apache-2.0
// rebuild: a package again from the inputs that the statement about it names, and whether it is the same. Nothing that
// was compiled before counts: no cache, no cores of others.
#include "base/file/file.h"
#include "cmd/common/job.h"
#include "cmd/common/output.h"
#include "kmod/module/modsig.h"
#include "kmod/module/sections.h"
#include "precompiled/package/copy.h"
#include "precompiled/package/unpack.h"

#include <stdio.h>

struct rebuild_values {
	struct job_values job;
	char *output;
	bool is_verify;
};

static const struct opt opts[] = {
	{ "verify", 0, NULL, NULL, OPT_FLAG, offsetof(struct rebuild_values, is_verify),
	  "only compare: nothing is kept, and exit status 1 if the package is another" },
	{ "output", 'o', "NAME", NULL, OPT_STR, offsetof(struct rebuild_values, output),
	  "oci:DIR or oci-archive:FILE.tar: gets what was built" },
	{ 0 },
};

enum rebuild_result {
	REBUILD_SAME,     // the same manifest
	REBUILD_UNSIGNED, // the same but for the signatures in its modules
	REBUILD_DIFFERS,
};
static const char *const results[] = { [REBUILD_SAME] = "reproduced",
				       [REBUILD_UNSIGNED] = "reproduced without signatures",
				       [REBUILD_DIFFERS] = "differs" };

struct rebuild_file {
	const char *name;              // borrowed from a package
	char expected[DIGEST_HEX + 1]; // "" = the package has none
	char rebuilt[DIGEST_HEX + 1];  // "" = this build has none
	bool is_signature_dropped, is_same;
	char *section; // the first that differs; NULL = unknown
};

struct rebuild {
	struct machine machine;
	struct host host;
	struct root state, patches;
	struct output output;
	struct origin origin;
	struct acquire acquire;
	struct progress progress;
	struct repository *repository; // has the package
	struct store store;            // unless the store does
	struct package_candidate original;
	json_t *statement;
	struct scratch work;
	struct layout scratch;
	struct scratch source_work;
	struct source source;
	struct package made;
	struct compile_report report;
	struct rebuild_file *files;
	size_t count;
	enum rebuild_result result;
};
#define REBUILD_NONE                                                            \
	((struct rebuild){ .machine = { .host = ROOT_NONE, .kern = ROOT_NONE }, \
			   .state = ROOT_NONE,                                  \
			   .patches = ROOT_NONE,                                \
			   .output = OUTPUT_NONE,                               \
			   .acquire = ACQUIRE_NONE,                             \
			   .progress = show_progress_log(),                     \
			   .store = STORE_NONE,                                 \
			   .original = CANDIDATE_NONE,                          \
			   .work = SCRATCH_NONE,                                \
			   .scratch = LAYOUT_NONE,                              \
			   .source_work = SCRATCH_NONE,                         \
			   .source = { .root = ROOT_NONE },                     \
			   .made = PACKAGE_NONE })

static void rebuild_done(struct rebuild *b)
{
	for (size_t i = 0; i < b->count; i++)
		free(b->files[i].section);
	free(b->files);
	package_done(&b->made);
	compile_report_done(&b->report);
	source_done(&b->source);
	scratch_done(&b->source_work);
	layout_done(&b->scratch);
	scratch_done(&b->work);
	json_decref(b->statement);
	package_candidate_done(&b->original);
	repository_free(b->repository);
	store_done(&b->store);
	progress_done(&b->progress);
	host_done(&b->host);
	acquire_done(&b->acquire);
	origin_done(&b->origin);
	output_done(&b->output);
	root_done(&b->patches);
	root_done(&b->state);
	machine_done(&b->machine);
}
#define auto_rebuild __attribute__((cleanup(rebuild_done)))

// What the statement decides must not be said twice.
static int check_rebuild_values(const struct rebuild_values *v, struct err *err)
{
	const struct job_values *j = &v->job;
	const char *twice = j->source_sha256 ? "--source-sha256" :
			    j->flavour       ? "--flavour" :
			    j->modules.count ? "--modules" :
			    j->is_rt_allowed ? "--allow-rt" :
					       NULL;
	if (twice)
		return err_set(err, E_USAGE, "%s: the statement of the package says that", twice);
	if (!j->source)
		return err_set(err, E_USAGE, "rebuild needs --source PATH");
	if (v->is_verify == !!v->output)
		return err_set(err, E_USAGE, "rebuild needs either --verify or --output NAME");
	return job_check_inputs(j, err) < 0 ? -1 : job_check_module_key(j, err);
}

static int open_rebuild(const struct rebuild_values *v, struct rebuild *b, struct err *err)
{
	const struct job_values *j = &v->job;
	if (check_rebuild_values(v, err) < 0 || machine_open(&j->origin.remote.common, &b->machine, err) < 0 ||
	    job_state(j, &b->machine, &b->state, err) < 0 || output_init(&b->output, v->output, &b->state, err) < 0 ||
	    (j->patches && root_init(&b->patches, j->patches, err) < 0) ||
	    host_read(&b->machine.host, &b->machine.kern, &b->host, err) < 0 ||
	    origin_open(&j->origin, &b->machine.host, &b->origin, err) < 0)
		return -1;
	origin_fetch(&b->origin, &b->state, &b->acquire.fetch);
	b->acquire.want.arch = b->host.arch;
	b->acquire.host = &b->machine.host;
	b->acquire.progress = &b->progress;
	return job_package_manager(j, &b->acquire.package_manager.options, err);
}

// The first repository that has it; without --from, --bundle and --package the store.
static int find_original(struct rebuild *b, const char *named, struct err *err)
{
	auto_str char *ref = digest_is_hex(named) ? oci_digest_text(named) : str_dup(named);
	const struct strv *from = &b->origin.from;
	int found = 0;
	if (!from->count && store_open(&b->state, 0, &b->store, err) < 0)
		return -1;
	for (size_t i = 0; i < (from->count ? from->count : 1) && found == 0; i++) {
		repository_free(TAKE(b->repository));
		if (!from->count)
			b->repository = repository_of_layout(&b->store.layout);
		else if (repository_open(from->items[i], b->acquire.fetch.options, &b->repository, err) < 0)
			return -1;
		found = package_candidate_read(b->repository, ref, &b->original, err);
	}
	if (found == 0)
		err_set(err, E_NOT_FOUND, "'%s' is not a package of %s", named,
			from->count ? "the named repositories" : "the store");
	return found > 0 ? 0 : -1;
}

static int read_original_statement(struct rebuild *b, struct err *err)
{
	const char *hex = b->original.package.manifest.digest;
	auto_json json_t *labels = NULL;
	int found = statement_read(b->repository, hex, &b->statement, err);
	if (found == 0)
		return err_set(err, E_NOT_FOUND, "%s has no statement of how sha256:%s was built", b->repository->name,
			       hex);
	if (found < 0 || statement_labels(b->repository, hex, &labels, err) < 0)
		return -1;
	auto_str char *lie = statement_contradiction(b->statement, hex, labels);
	return lie ? err_set(err, E_FORGED, "the statement of how sha256:%s was built contradicts the package: %s", hex,
			     lie) :
		     0;
}

static int open_recorded_source(const struct rebuild_values *v, struct rebuild *b, struct err *err)
{
	const char *hex = b->original.package.key.source;
	auto_str char *path = NULL;
	if (!hex)
		return err_set(err, E_SOURCE, "sha256:%s does not say of which source it is",
			       b->original.package.manifest.digest);
	if (job_fetch_source(&v->job, v->job.source, hex, &b->state, &path, err) < 0 ||
	    scratch_make(&b->state, "source", &b->source_work, err) < 0 ||
	    source_open(path ? path : v->job.source, hex, &b->source_work.root, &b->source, err) < 0)
		return err_wrap(err, "driver source");
	return 0;
}

static int rebuild_layout(void *rebuild, const struct layout **ret, struct err *err)
{
	struct rebuild *b = rebuild;
	if (b->output.name)
		return output_layout(&b->output, ret, err);
	*ret = &b->scratch;
	return 0;
}

static struct compile_request recorded_request(const struct rebuild_values *v, struct rebuild *b)
{
	const struct job_values *j = &v->job;
	const struct package_key *key = &b->original.package.key;
	enum module_type flavour = MODULE_TYPE_AUTO;
	module_type_parse(key->flavour, &flavour);
	b->acquire.banner = str_eq(key->release, b->host.release) && !j->headers.count ? b->host.banner : NULL;
	return (struct compile_request){
		.release = key->release,
		.arch = key->arch,
		.banner = b->acquire.banner,
		.source = &b->source,
		.headers = &j->headers,
		.builder = acquire_builder,
		.builder_ctx = &b->acquire,
		.offer = acquire_headers_offer(&b->acquire),
		.modules = &key->modules,
		.flavour = flavour,
		.host = &b->machine.host,
		.kern = &b->machine.kern,
		.state = &b->state,
		.patches = b->patches.fd >= 0 ? &b->patches : NULL,
		.module_key = job_module_key(j),
		.jobs = j->jobs,
		.timeout_s = j->timeout_s,
		.is_rt_allowed = json_is_true(json_object_get(statement_external(b->statement), "allowRealTime")),
		.is_cache_off = true,
		.recorded = statement_dependencies(b->statement),
		.output = rebuild_layout,
		.output_ctx = b,
	};
}

// What the recorded digests do not cover and is known before a compiler runs.
static int check_recorded_key(const struct compile_request *request, const struct package_key *was, struct err *err)
{
	auto_package_key struct package_key now = { 0 };
	if (compile_key(request, &now, err) < 0)
		return err->code == E_TOOLCHAIN && request->builder ? 0 : -1; // the builder root may have it
	auto_str char *patches = strv_join(&now.patches, ", "), *had = strv_join(&was->patches, ", ");
	const struct {
		const char *what, *is, *expected;
		int code;
	} rows[] = {
		{ "driver", now.driver, was->driver, E_DIGEST },
		{ "kernel build id", now.build_id, was->build_id, E_DIGEST },
		{ "source patches", patches, had, E_DIGEST },
		{ "compiler", now.compiler, was->compiler, E_TOOLCHAIN },
		{ "certificate of --module-cert", now.signer, now.signer ? was->signer : NULL, E_KEY },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((rows[i].is || rows[i].expected) && !str_eq(rows[i].is, rows[i].expected))
			return err_set(err, rows[i].code, "%s: '%s', but the package was built with '%s'", rows[i].what,
				       rows[i].is ? rows[i].is : "", rows[i].expected ? rows[i].expected : "");
	return 0;
}

// A module without the signature behind it.
static int digest_unsigned(const struct root *dir, const char *name, char ret[DIGEST_HEX + 1], bool *ret_signed,
			   struct err *err)
{
	auto_str char *data = NULL;
	auto_modsig struct modsig sig = { 0 };
	size_t len = 0;
	if (root_read(dir, name, &data, &len, err) < 0)
		return -1;
	modsig_read(data, len, &sig);
	*ret_signed = sig.state != MODSIG_NONE;
	digest_data(data, sig.state == MODSIG_NONE ? len : sig.payload, ret);
	return 0;
}

static struct rebuild_file *find_rebuilt(struct rebuild *b, const char *name)
{
	for (size_t i = 0; i < b->count; i++)
		if (str_eq(b->files[i].name, name))
			return &b->files[i];
	b->files[b->count] = (struct rebuild_file){ .name = name };
	return &b->files[b->count++];
}

static void list_files(struct rebuild *b)
{
	const struct package *was = &b->original.package, *now = &b->made;
	b->files = mem_alloc((was->count + now->count) * sizeof(*b->files));
	for (size_t i = 0; i < was->count; i++)
		memcpy(find_rebuilt(b, was->files[i].name)->expected, was->files[i].sha256, DIGEST_HEX + 1);
	for (size_t i = 0; i < now->count; i++)
		memcpy(find_rebuilt(b, now->files[i].name)->rebuilt, now->files[i].sha256, DIGEST_HEX + 1);
	for (size_t i = 0; i < b->count; i++)
		b->files[i].is_same = str_eq(b->files[i].expected, b->files[i].rebuilt);
}

static int unpack_original(struct rebuild *b, struct err *err)
{
	struct package *was = &b->original.package;
	auto_str char *ref = oci_digest_text(was->manifest.digest);
	int found = copy_to_layout(b->repository, ref, &b->scratch, err);
	if (found <= 0)
		return found < 0 ? -1 : err_set(err, E_NOT_FOUND, "%s no longer has %s", b->repository->name, ref);
	return unpack_package(&b->scratch, &b->state, was, err);
}

// The first section of the package's module that this build has otherwise. Caller frees; NULL = none, or not readable.
static char *differing_section(const struct rebuild *b, const char *name)
{
	auto_str char *was = NULL, *now = NULL;
	auto_sections struct sections old = { 0 }, new = { 0 };
	size_t was_len = 0, now_len = 0;
	struct err ignored;
	if (root_read(&b->original.package.dir, name, &was, &was_len, &ignored) < 0 ||
	    root_read(&b->made.dir, name, &now, &now_len, &ignored) < 0 ||
	    sections_read(was, was_len, name, &old, &ignored) < 0 ||
	    sections_read(now, now_len, name, &new, &ignored) < 0)
		return NULL;
	for (size_t i = 1; i < old.count; i++) {
		const struct section *a = &old.items[i], *c = sections_find(&new, a->name);
		if (!c || c->size != a->size || (a->size && memcmp(a->data, c->data, a->size) != 0))
			return str_dup(a->name);
	}
	return NULL;
}

// Compares the contents without signature, which nobody can make again without the key.
static int drop_signature(const struct rebuild *b, struct rebuild_file *f, struct err *err)
{
	if (digest_unsigned(&b->original.package.dir, f->name, f->expected, &f->is_signature_dropped, err) < 0)
		return -1;
	f->is_same = str_eq(f->expected, f->rebuilt);
	return 0;
}

static int compare_packages(struct rebuild *b, struct err *err)
{
	bool is_unsigned = b->original.package.key.signer && !b->made.key.signer, is_same = true;
	list_files(b);
	if (str_eq(b->original.package.manifest.digest, b->made.manifest.digest)) {
		b->result = REBUILD_SAME;
		return 0;
	}
	if (unpack_original(b, err) < 0)
		return -1;
	for (size_t i = 0; i < b->count; i++) {
		struct rebuild_file *f = &b->files[i];
		bool is_in_both = *f->expected && *f->rebuilt;
		if (is_unsigned && is_in_both && drop_signature(b, f, err) < 0)
			return -1;
		if (is_in_both && !f->is_same)
			f->section = differing_section(b, f->name);
		is_same &= f->is_same;
	}
	b->result = is_same && is_unsigned ? REBUILD_UNSIGNED : REBUILD_DIFFERS;
	return 0;
}

static int rebuild_package(const struct rebuild_values *v, struct rebuild *b, struct err *err)
{
	struct compile_request request = recorded_request(v, b);
	statement_set_time(b->statement);
	if (scratch_make(&b->state, "rebuild", &b->work, err) < 0 || layout_make(&b->work.root, &b->scratch, err) < 0 ||
	    check_recorded_key(&request, &b->original.package.key, err) < 0 ||
	    compile_package(&request, &b->progress, &b->made, &b->report, err) < 0 || compare_packages(b, err) < 0)
		return -1;
	return output_finish(&b->output, err);
}

static json_t *rebuild_json(const struct rebuild *b)
{
	const struct package *was = &b->original.package;
	auto_str char *tag = package_tag(&was->key), *digest = oci_digest_text(was->manifest.digest),
		      *rebuilt = oci_digest_text(b->made.manifest.digest);
	json_t *files = json_array();
	for (size_t i = 0; i < b->count; i++) {
		const struct rebuild_file *f = &b->files[i];
		json_array_append_new(files, json_pack("{s:s, s:o, s:o, s:b, s:b, s:o}", "name", f->name, "expected",
						       json_text(*f->expected ? f->expected : NULL), "rebuilt",
						       json_text(*f->rebuilt ? f->rebuilt : NULL), "same", f->is_same,
						       "without_signature", f->is_signature_dropped, "section",
						       json_text(f->section)));
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:b, s:O, s:o, s:o}", "result", results[b->result], "tag", tag,
			 "digest", digest, "rebuilt", rebuilt, "files", files, "layer_same",
			 str_eq(was->layer.digest, b->made.layer.digest), "inputs",
			 statement_dependencies(b->statement), "headers", json_text(b->report.headers_from), "phases",
			 status_json_phases(&b->progress));
}

static void show_rebuild(const struct rebuild *b)
{
	const struct package *was = &b->original.package, *now = &b->made;
	auto_str char *tag = package_tag(&was->key);
	bool is_same = true;
	for (size_t i = 0; i < b->count; i++) {
		const struct rebuild_file *f = &b->files[i];
		is_same &= f->is_same;
		if (!*f->expected || !*f->rebuilt)
			printf("%s: only in %s\n", f->name, *f->rebuilt ? "this build" : "the package");
		else if (!f->is_same)
			printf("%s: sha256 %s instead of %s%s%s\n", f->name, f->rebuilt, f->expected,
			       f->section ? ", first in section " : "", f->section ? f->section : "");
		else
			printf("%s: the same%s\n", f->name, f->is_signature_dropped ? ", without its signature" : "");
	}
	if (b->result == REBUILD_DIFFERS && is_same && !str_eq(was->layer.digest, now->layer.digest))
		printf("layer: sha256 %s instead of %s: the modules are the same, and were compressed differently\n",
		       now->layer.digest, was->layer.digest);
	else if (b->result == REBUILD_DIFFERS && is_same)
		printf("configuration: other labels\n");
	printf("%s sha256:%s %s", tag, was->manifest.digest, results[b->result]);
	if (b->result != REBUILD_SAME)
		printf(": this build is sha256:%s", now->manifest.digest);
	printf("\n");
}

static int run_rebuild(void *values, char **args, size_t count, struct err *err)
{
	const struct rebuild_values *v = values;
	auto_rebuild struct rebuild b = REBUILD_NONE;
	(void)count;
	if (open_rebuild(v, &b, err) < 0 || find_original(&b, args[0], err) < 0 ||
	    read_original_statement(&b, err) < 0 || open_recorded_source(v, &b, err) < 0 ||
	    rebuild_package(v, &b, err) < 0)
		return -1;
	if (v->job.origin.remote.common.is_json) {
		auto_json json_t *json = rebuild_json(&b);
		show_json(json);
	} else {
		show_rebuild(&b);
	}
	return b.result == REBUILD_DIFFERS ? 1 : 0;
}

const struct cmd cmd_rebuild = {
	.name = "rebuild",
	.args = "PACKAGE",
	.args_min = 1,
	.args_max = 1,
	.help = "build a package again from the inputs it states, and compare",
	.about =
		"PACKAGE is a tag, sha256:HEX or HEX in --package, --from or --bundle, else in the store. The "
		"statement "
		"of how\n"
		"it was built says which driver source, headers, patches, compiler and builder root; whatever is given "
		"here must\n"
		"have the digests recorded there, or nothing is compiled. Nothing is taken from caches. A module's "
		"signature\n"
		"cannot be made again without its key: without --module-key, modules are compared without it. Exit "
		"status 0 if\n"
		"the package is the same, 1 if it is not.\n\n"
		"  kmodsmith rebuild --verify 535.261.03-open-6.1.0-56-cloud-amd64-x86_64 --package oci:DIR \\\n"
		"      --source nvidia-open-kernel-source_535.261.03-1_amd64.deb --headers A.deb,B.deb,C.deb\n",
	.opts = { opts, source_opts, module_key_opts, distribution_opts, package_opts, origin_opts, remote_opts,
		  common_opts },
	.values_size = sizeof(struct rebuild_values),
	.run = run_rebuild,
};
