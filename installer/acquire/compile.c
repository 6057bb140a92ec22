// SPDX-License-Identifier: Apache-2.0
#include "acquire/compile.h"

#include "acquire/build_cache.h"
#include "acquire/build_inputs.h"
#include "acquire/signing.h"
#include "base/file/file.h"
#include "base/file/scratch.h"
#include "host/module_set.h"
#include "kmod/kernel_tree/distro.h"
#include "kmod/kernel_tree/toolchain.h"
#include "kmod/module/proof.h"
#include "kmod/sandbox/sandbox.h"
#include "kmod/source/patch.h"
#include "precompiled/package/spdx.h"

#include <sys/stat.h>

int compile_target_headers(const struct root *host, const struct root *state, const struct strv *files,
			   const struct headers_offer *offer, const char *release, const char *banner, struct tree *ret,
			   char **ret_from, struct err *err)
{
	static const char STORE[] = "headers";
	auto_root struct root store = ROOT_NONE;
	bool is_written = offer || (files && files->count);
	if ((is_written && root_mkdirs(state, STORE, 0755, err) < 0) ||
	    (root_exists(state, STORE) && root_sub(state, STORE, &store, err) < 0))
		return -1;
	struct headers_source sources[4] = { { .kind = HEADERS_ROOT, .name = "host", .root = host } };
	size_t count = 1;
	if (offer) // may have newer ones
		sources[count++] =
			(struct headers_source){ .kind = HEADERS_OFFER, .name = offer->name, .offer = offer };
	sources[count++] = (struct headers_source){ .kind = HEADERS_STORE, .name = "header store" };
	if (offer && offer->last)
		sources[count++] = (struct headers_source){ .kind = HEADERS_OFFER,
							    .name = offer->last->name,
							    .offer = offer->last };
	if (files && files->count) {
		sources[0] = (struct headers_source){ .kind = HEADERS_FILES, .name = "--headers", .files = files };
		count = 1; // report wrong files rather than use others
	}
	return headers_find(sources, count, release, banner, store.fd < 0 ? NULL : &store, ret, ret_from, err);
}

int compile_check_arch(const struct tree *tree, const char *arch, struct err *err)
{
	return !arch || str_eq(tree->arch, arch) ?
		       0 :
		       err_set(err, E_ARCH, "'%s%s': the headers of %s are for %s, expected %s", tree->root.name,
			       tree->build, tree->release, tree->arch, arch);
}

int compile_target_abi(const struct tree *tree, struct kernel_abi *ret, struct err *err)
{
	auto_str char *symvers = NULL;
	size_t len = 0;
	if (tree->symvers && root_read(&tree->root, tree->symvers, &symvers, &len, err) < 0)
		return -1;
	return kernel_abi_add_tree(ret, tree->release, symvers, len, tree->config, strlen(tree->config), err);
}

static const char MODULES[] = "modules", CORES[] = "cores"; // below the compile's scratch directory

void compile_report_done(struct compile_report *r)
{
	free(r->headers_from);
	*r = (struct compile_report){ 0 };
}

static void report_object_progress(void *ctx, size_t done, size_t total)
{
	struct progress *progress = ctx;
	progress_count(progress, progress->entered, done, total);
}

// Repositories have a colon in their names: what has none is on this machine.
static char *core_place(const char *from)
{
	return str_fmt("%s%s", strchr(from, ':') ? "" : "the ", from);
}

// Modules whose core is from there, NULL = was compiled. Caller frees; NULL = none.
static char *cores_from(const struct core_outcome *made, const char *from)
{
	auto_strv struct strv names = { 0 };
	for (size_t i = 0; i < made->keys.count; i++)
		if (from ? str_eq(made->from[i], from) : !made->from[i])
			strv_add(&names, str_dup(made->keys.items[i].core->module));
	return names.count ? strv_join(&names, ", ") : NULL;
}

// "nvidia: 3 objects, 0 of them from the cache, 3 jobs; from docker://r.example/d: nvidia-modeset". Caller frees.
static char *core_text(const struct core_outcome *made)
{
	auto_str char *fresh = cores_from(made, NULL);
	char *ret = NULL;
	if (fresh)
		str_add(&ret, "%s: %zu object%s, %zu of them from the cache, %u job%s", fresh, made->objects,
			str_plural(made->objects), made->objects_kept, made->jobs, str_plural(made->jobs));
	for (size_t i = 0; i < made->keys.count; i++) {
		const char *from = made->from[i];
		if (!from || (i > 0 && str_eq(from, made->from[0])))
			continue;
		auto_str char *names = cores_from(made, from), *place = core_place(from);
		if (fresh)
			str_add(&ret, "; from %s: %s", place, names);
		else
			str_add(&ret, "%s%s: from %s", ret ? "; " : "", names, place);
	}
	return ret;
}

static json_t *core_json(const struct core_outcome *made)
{
	json_t *cores = json_object();
	for (size_t i = 0; i < made->keys.count; i++)
		json_object_set_new(cores, made->keys.items[i].core->module,
				    json_text(made->from[i] ? made->from[i] : "compiled"));
	return json_pack("{s:o}", "cores", cores);
}

// A phase of its own, between the compile's checks and the rest of it.
static void report_core(void *ctx, const struct core_outcome *made)
{
	struct progress *progress = ctx;
	if (!made) {
		progress_enter(progress, "core");
		return;
	}
	auto_str char *text = core_text(made);
	progress_facts(progress, core_json(made));
	progress_end(progress, "core", "%s", text ? text : "none of these modules has one");
	progress_enter(progress, "compile");
}

static void fill_key(const struct compile_request *request, const struct module_signer *signer, const struct tree *tree,
		     const struct build_outcome *done, const struct strv *modules, struct package_key *key)
{
	*key = (struct package_key){
		.driver = str_dup(done->driver_version),
		.flavour = str_dup(module_type_name(done->flavour)),
		.release = str_dup(request->release),
		.build_id = *done->build_id ? str_dup(done->build_id) : NULL,
		.arch = str_dup(tree->arch),
		.distro = distro_of(request->release, tree->banner),
		.compiler = str_dup(done->compiler),
		.source = str_dup(request->source->digest),
		.signer = signer ? str_dup(module_signer_id(signer)) : NULL,
	};
	for (size_t i = 0; i < modules->count; i++)
		strv_add(&key->modules, str_dup(modules->items[i]));
	strv_sort(&key->modules);
	for (size_t i = 0; i < done->patches.count; i++)
		strv_add(&key->patches, str_fmt("%s %s", done->patches.items[i].name, done->patches.items[i].digest));
}

static int create_output_package(const struct layout *output, const struct root *dir, const struct package_key *key,
				 const struct module_set *set, struct package *ret, struct err *err)
{
	struct package_file *files = mem_alloc(set->count * sizeof(*files));
	for (size_t i = 0; i < set->count; i++)
		files[i] = (struct package_file){ .name = str_fmt("%s", set->items[i].file),
						  .module = module_set_name(set, i),
						  .srcversion = str_dup(set->items[i].srcversion) };
	int r = package_create(output, dir, key, files, set->count, ret, err);
	for (size_t i = 0; i < set->count; i++) {
		free(files[i].name);
		free(files[i].module);
		free(files[i].srcversion);
	}
	free(files);
	return r;
}

int compile_describe(const struct layout *output, const struct package *p, const json_t *predicate,
		     const struct module_set *set, struct err *err)
{
	auto_str char *tag = package_tag(&p->key);
	const char **licenses = mem_alloc(set->count * sizeof(*licenses));
	for (size_t i = 0; i < set->count; i++)
		licenses[i] = set->items[i].license;
	int r = predicate ? statement_put(output, &p->manifest, tag, predicate, err) : 0;
	if (r == 0)
		r = spdx_put(output, p, licenses, err);
	free(licenses);
	return r;
}

// Compilers of this root cannot see another mount namespace, such as a state directory below /proc/PID/root. A builder
// root is there, too.
static int make_work(const struct compile_request *request, const struct root *base, struct root *ret_parent,
		     struct scratch *ret, struct err *err)
{
	static const char LOCAL[] = "/var/tmp", NAME[] = "kmodsmith";
	auto_root struct root local = ROOT_NONE;
	bool is_near = base || !sandbox_is_foreign(request->node->state);
	if (is_near ? root_sub(request->node->state, ".", ret_parent, err) < 0 :
		      root_make(LOCAL, &local, err) < 0 || root_mkdir_private(&local, NAME, err) < 0 ||
			      root_sub(&local, NAME, ret_parent, err) < 0)
		return -1;
	return scratch_make(ret_parent, "build", ret, err);
}

struct asset_key compile_core_asset(const struct core_key *key)
{
	return (struct asset_key){ .kind = &ASSET_CORE,
				   .driver = key->driver,
				   .arch = key->arch,
				   .module = key->core->module,
				   .compiler = key->compiler,
				   .core = key->hex };
}

// Offers newly compiled cores to other nodes, read back from the cache. Unreadable ones are skipped.
static void offer_cores(const struct compile_gate *gate, const struct core_outcome *made, const struct root *cache,
			const struct root *work)
{
	static const char DIR[] = "beside";
	struct err ignored;
	for (size_t i = 0; i < made->keys.count; i++) {
		const struct core_key *key = &made->keys.items[i];
		const struct asset_key asset = compile_core_asset(key);
		auto_root struct root dir = ROOT_NONE;
		if (!made->from[i] && root_mkdirs(work, DIR, 0755, &ignored) == 0 &&
		    root_sub(work, DIR, &dir, &ignored) == 0 &&
		    core_copy_kept(cache, key, &dir, strrchr(key->core->file, '/') + 1, &ignored) > 0)
			gate->beside(gate->ctx, &dir, &asset);
		root_rmtree(work, DIR, &ignored);
	}
}

// A later driver may be compiled for this kernel on another node, when no repository has these headers any more.
static void offer_headers(const struct compile_request *request, const struct tree *tree, const char *headers_from)
{
	const struct compile_gate *gate = request->gate;
	const struct headers_offer *last = request->offer ? request->offer->last : NULL;
	if (!gate || !gate->beside || !last || !str_starts(headers_from, last->name))
		return;
	auto_str char *distro = distro_of(tree->release, tree->banner);
	const struct asset_key key = { .kind = &ASSET_HEADERS,
				       .release = tree->release,
				       .arch = tree->arch,
				       .build_id = *tree->build_id ? tree->build_id : NULL,
				       .distro = distro };
	gate->beside(gate->ctx, &tree->root, &key);
}

// base: a builder root, NULL = with the compilers of this machine.
static int build_with(const struct compile_request *request, const struct tree *tree, enum module_type flavour,
		      const struct root *base, const struct root *output, struct progress *progress,
		      struct build_outcome *ret, struct err *err)
{
	auto_strv struct strv modules = { 0 };
	auto_root struct root dir = ROOT_NONE, parent = ROOT_NONE, cache = ROOT_NONE;
	auto_scratch struct scratch work = SCRATCH_NONE;
	if (root_sub(&request->source->root, request->source->dirs[flavour], &dir, err) < 0 ||
	    recipe_modules(&dir, &request->asked->modules, &modules, err) < 0 ||
	    make_work(request, base, &parent, &work, err) < 0)
		return -1;
	auto_fd int cache_lock = -1;
	if (!request->asked->options.is_cache_off) // beside the scratch, so that both can be bind mounted
		build_cache_open(&parent, &cache, &cache_lock);
	auto_str char *log = str_fmt(COMPILE_LOGS "/%s-%s-%s.log", request->source->version, module_type_name(flavour),
				     request->release);
	if (root_mkdirs(request->node->state, COMPILE_LOGS, 0755, err) < 0)
		return -1;
	auto_fd int log_fd = root_create(request->node->state, log, err);
	if (log_fd < 0)
		return -1;
	struct build_request bw = {
		.tree = tree,
		.source = request->source,
		.flavour = flavour,
		.modules = &modules,
		.options = request->asked->options,
		.base = base,
		.kern = request->node->kern,
		.cache = cache.fd < 0 ? NULL : &cache,
		.cores = request->asked->options.is_cache_off ? NULL : request->cores,
		.is_core_only = request->is_core_only,
		.work = &work.root,
		.output = output,
		.name = request->is_core_only ? CORES : MODULES,
		.log_fd = log_fd,
		.progress = report_object_progress,
		.core = report_core,
		.ctx = progress,
	};
	if (build_run(&bw, ret, err) == 0) {
		if (request->gate && request->gate->beside && cache.fd >= 0)
			offer_cores(request->gate, &ret->core, &cache, &work.root);
		return 0;
	}
	struct stat st;
	auto_str char *path = root_path(request->node->state, log);
	if (fstat(log_fd, &st) == 0 && st.st_size > 0) // refusals come before the compiler
		progress_note(progress, "the compiler's full output is in %s (`kmodsmith logs`)", path);
	return -1;
}

// This machine's own compilers come first, if they fit.
// inputs: gets the builder root, if that was used.
static int build_anywhere(const struct compile_request *request, const struct tree *tree, enum module_type flavour,
			  const struct root *output, struct progress *progress, json_t *inputs,
			  struct build_outcome *ret, struct err *err)
{
	auto_root struct root base = ROOT_NONE;
	if (build_with(request, tree, flavour, NULL, output, progress, ret, err) == 0)
		return 0;
	if (err->code != E_TOOLCHAIN || !request->builder)
		return -1;
	struct err own = *err;
	auto_str char *compiler = toolchain_wanted(tree);
	if (request->builder(request->builder_ctx, compiler, &base, err) < 0) {
		err_wrap(err, "%s; a builder image", own.text);
		return err->code == E_NO_PACKAGE ? err_code(err, E_TOOLCHAIN) : -1;
	}
	progress_note(progress, "no compiler of this machine fits; trying those of the builder image at '%s'",
		      base.name);
	if (build_inputs_builder(&base, inputs, err) < 0)
		return -1;
	if (build_with(request, tree, flavour, &base, output, progress, ret, err) == 0)
		return 0;
	return err->code == E_TOOLCHAIN ? err_wrap(err, "%s; the builder image", own.text) : -1;
}

static int sign_modules(const struct module_signer *signer, const struct kernel_abi *abi, const struct root *dir,
			const struct strv *files, struct progress *progress, struct err *err)
{
	const char *hash = abi->sig_hash ? abi->sig_hash : "sha256"; // each kernel has its own built in
	auto_str char *dates = module_signer_dates(signer, time(NULL));
	progress_enter(progress, "sign");
	if (dates)
		progress_note(progress, "%s; kernels do not look at dates", dates);
	if (signing_sign(signer, hash, dir, files, err) < 0)
		return -1;
	progress_end(progress, "sign", "%zu module%s by %s, %s", files->count, str_plural(files->count),
		     module_signer_name(signer), hash);
	module_signer_trust(signer, abi->trusted);
	return 0;
}

static int finish_package(const struct compile_request *request, const struct module_signer *signer,
			  const struct tree *tree, const struct build_outcome *done, json_t *inputs,
			  struct scratch *stage, struct progress *progress, struct package *ret, struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	auto_module_set struct module_set set = { 0 };
	auto_package_key struct package_key key = { 0 };
	auto_strv struct strv modules = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	if (root_sub(&stage->root, MODULES, &dir, err) < 0 || compile_target_abi(tree, &abi, err) < 0)
		return -1;
	abi.is_sig_enforced = false; // a node's demand for signatures is checked at the load, not at the build
	abi.trusted = signer ? modsig_certs_new() : NULL;
	if (signer && sign_modules(signer, &abi, &dir, &done->files, progress, err) < 0)
		return -1;
	progress_enter(progress, "prove");
	if (module_set_read(&dir, &done->files, &set, err) < 0)
		return -1;
	proof_make(set.pointers, set.count, &abi, NULL, &proof);
	if (proof_error(&proof, err) < 0)
		return -1;
	progress_end(progress, "prove", "%s", proof.text);
	progress_enter(progress, "package");
	for (size_t i = 0; i < set.count; i++)
		strv_add(&modules, module_set_name(&set, i));
	fill_key(request, signer, tree, done, &modules, &key);
	const struct layout *output = NULL;
	if (request->output(request->output_ctx, &output, err) < 0 ||
	    create_output_package(output, &dir, &key, &set, ret, err) < 0)
		return -1;
	auto_json json_t *predicate = build_inputs_predicate(tree, done, &key, inputs);
	if (compile_describe(output, ret, predicate, &set, err) < 0)
		return -1;
	ret->stage = *stage;
	*stage = SCRATCH_NONE;
	ret->dir = dir;
	dir = ROOT_NONE;
	auto_str char *tag = package_tag(&ret->key);
	progress_end(progress, "package", "%s in %s", tag, ret->place);
	return 0;
}

static int compile_source(const struct compile_request *request, const struct module_signer *signer,
			  const struct tree *tree, struct progress *progress, struct package *ret,
			  struct compile_report *report, struct err *err)
{
	const struct source *source = request->source;
	enum module_type flavour;
	auto_build_outcome struct build_outcome done = { 0 };
	auto_scratch struct scratch stage = SCRATCH_NONE;
	auto_json json_t *inputs = NULL;
	progress_enter(progress, "compile");
	if (gpu_support_choose(request->gpus, source->version, request->flavour, source->flavours, &flavour, NULL,
			       err) < 0 ||
	    patches_check_removed(request->asked->options.patches, source, flavour, tree, err) < 0 ||
	    build_inputs_open(request, tree, &inputs, err) < 0 ||
	    scratch_make(request->node->state, "stage", &stage, err) < 0 ||
	    build_anywhere(request, tree, flavour, &stage.root, progress, inputs, &done, err) < 0)
		return -1;
	const struct build_counts *counts = &done.counts;
	auto_str char *kept = str_dup("");
	if (counts->objects_kept || counts->probes_kept)
		str_add(&kept, "; from the cache: %zu object%s, %zu of %zu probes", counts->objects_kept,
			str_plural(counts->objects_kept), counts->probes_kept,
			counts->probes_kept + counts->probes_asked);
	if (done.not_forked)
		str_add(&kept, "; without fork servers: %s", done.not_forked);
	else
		str_add(&kept, "; by fork servers: %zu compile%s", counts->forked, str_plural(counts->forked));
	progress_end(progress, "compile", "%s %s: %zu object%s with %s, %u job%s%s", done.driver_version,
		     module_type_name(flavour), counts->objects, str_plural(counts->objects), done.compiler,
		     counts->jobs, str_plural(counts->jobs), kept);
	report->counts = *counts;
	return finish_package(request, signer, tree, &done, inputs, &stage, progress, ret, err);
}

// Refuses a pair that is known to fail before a few hundred megabytes are unpacked (R-B2).
static int refuse_known_failure(const struct compile_request *request, const struct tree *tree, const struct root *work,
				struct err *err)
{
	auto_source struct source peek = { .root = ROOT_NONE };
	int r = source_peek(request->asked->source, work, &peek, err);
	if (r <= 0 || (peek.flavours != MODULE_TYPE_OPEN && peek.flavours != MODULE_TYPE_PROPRIETARY))
		return r < 0 ? -1 : 0;
	enum module_type flavour = (enum module_type)peek.flavours;
	return recipe_check(&peek, flavour, &request->asked->modules, tree, err) < 0 ?
		       -1 :
		       patches_check_removed(request->asked->options.patches, &peek, flavour, tree, err);
}

// Finds the kernel's headers and opens the source, unless the request has one; then ret_source stays as it was.
static int open_inputs(const struct compile_request *request, struct progress *progress, struct tree *ret_tree,
		       char **ret_from, struct scratch *work, struct source *ret_source, struct err *err)
{
	progress_enter(progress, "headers");
	if (compile_target_headers(request->node->host, request->node->state, &request->asked->headers, request->offer,
				   request->release, request->banner, ret_tree, ret_from, err) < 0 ||
	    compile_check_arch(ret_tree, request->arch, err) < 0)
		return -1;
	progress_end(progress, "headers", "%s", *ret_from);
	if (request->source)
		return 0;
	progress_enter(progress, "source");
	if (scratch_make(request->node->state, "source", work, err) < 0 ||
	    refuse_known_failure(request, ret_tree, &work->root, err) < 0 ||
	    source_open(request->asked->source, request->asked->source_sha256, &work->root, ret_source, err) < 0)
		return -1;
	progress_end(progress, "source", "%s, sha256 %.12s...", ret_source->version, ret_source->digest);
	return 0;
}

static int compile_here(const struct compile_request *request, struct progress *progress, struct package *ret,
			struct compile_report *report, struct err *err)
{
	auto_tree struct tree tree = { .root = ROOT_NONE };
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_source struct source source = { .root = ROOT_NONE };
	auto_module_signer struct module_signer *signer = NULL;
	struct compile_request opened = *request;
	if ((request->asked->module_key.key && module_signer_open(&request->asked->module_key, &signer, err) < 0) ||
	    open_inputs(request, progress, &tree, &report->headers_from, &work, &source, err) < 0)
		return -1;
	if (!opened.source)
		opened.source = &source;
	if (compile_source(&opened, signer, &tree, progress, ret, report, err) < 0)
		return -1;
	offer_headers(request, &tree, report->headers_from);
	return 0;
}

void compile_cores_done(struct compiled_cores *c)
{
	build_outcome_free(&c->outcome);
	tree_done(&c->tree);
	root_done(&c->dir);
	scratch_done(&c->stage);
}

int compile_cores(const struct compile_request *request, struct progress *progress, struct compiled_cores *ret,
		  struct err *err)
{
	auto_compiled_cores struct compiled_cores made = COMPILED_CORES_NONE;
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_source struct source source = { .root = ROOT_NONE };
	auto_str char *headers_from = NULL;
	auto_json json_t *inputs = json_array();
	struct compile_request opened = *request;
	opened.is_core_only = true;
	if (open_inputs(request, progress, &made.tree, &headers_from, &work, &source, err) < 0)
		return -1;
	if (!opened.source)
		opened.source = &source;
	if (scratch_make(request->node->state, "stage", &made.stage, err) < 0 ||
	    build_anywhere(&opened, &made.tree, MODULE_TYPE_OPEN, &made.stage.root, progress, inputs, &made.outcome,
			   err) < 0 ||
	    root_sub(&made.stage.root, CORES, &made.dir, err) < 0)
		return -1;
	*ret = made;
	made = COMPILED_CORES_NONE;
	return 0;
}

char *compile_core_plan(const struct compile_request *request, const struct tree *tree)
{
	auto_build_outcome struct build_outcome done = { 0 };
	auto_root struct root cache = ROOT_NONE;
	const struct core_offer *offer = request->asked->options.is_cache_off ? NULL : request->cores;
	const struct build_request bw = { .tree = tree,
					  .source = request->source,
					  .flavour = MODULE_TYPE_OPEN,
					  .modules = &request->asked->modules,
					  .options = request->asked->options,
					  .is_core_only = true };
	struct err ignored;
	if (!core_is_needed(request->source, MODULE_TYPE_OPEN) || build_preflight(&bw, &done, &ignored) < 0)
		return NULL;
	if (!request->asked->options.is_cache_off)
		root_sub(request->node->state, "cache", &cache, &ignored);
	struct core_outcome *made = &done.core;
	char *ret = NULL;
	for (size_t i = 0; i < made->keys.count; i++) {
		const struct core_key *key = &made->keys.items[i];
		if (cache.fd >= 0 && core_is_kept(&cache, key))
			made->from[i] = str_dup("cache");
		else if (offer)
			offer->find(offer->ctx, key, &made->from[i]);
		auto_str char *place = made->from[i] ? core_place(made->from[i]) : NULL;
		str_add(&ret, "%s%s %s%s", ret ? ", " : "core: ", key->core->module,
			place ? "from " : "is to be compiled", place ? place : "");
	}
	return ret;
}

int compile_package(const struct compile_request *request, struct progress *progress, struct package *ret,
		    struct compile_report *report, struct err *err)
{
	const struct compile_gate *gate = request->gate;
	if (!gate)
		return compile_here(request, progress, ret, report, err);
	int made = gate->enter(gate->ctx, err);
	if (made != 0)
		return made;
	progress->tick = gate->tick;
	progress->tick_ctx = gate->ctx;
	int r = compile_here(request, progress, ret, report, err);
	progress->tick = NULL;
	gate->leave(gate->ctx, r < 0 ? NULL : ret, err);
	return r;
}

int compile_key(const struct compile_request *request, struct package_key *ret, struct err *err)
{
	auto_tree struct tree tree = { .root = ROOT_NONE };
	auto_build_outcome struct build_outcome done = { 0 };
	auto_str char *from = NULL;
	auto_strv struct strv modules = { 0 };
	auto_module_signer struct module_signer *signer = NULL;
	if ((request->asked->module_key.key && module_signer_open(&request->asked->module_key, &signer, err) < 0) ||
	    compile_target_headers(request->node->host, request->node->state, &request->asked->headers, request->offer,
				   request->release, request->banner, &tree, &from, err) < 0 ||
	    compile_check_arch(&tree, request->arch, err) < 0 ||
	    patches_check_removed(request->asked->options.patches, request->source, request->flavour, &tree, err) < 0)
		return -1;
	struct build_request bw = { .tree = &tree,
				    .source = request->source,
				    .flavour = request->flavour,
				    .modules = &request->asked->modules,
				    .options = request->asked->options };
	if (build_preflight(&bw, &done, err) < 0)
		return -1;
	for (size_t i = 0; i < done.files.count; i++) // without ".ko"
		strv_add(&modules, str_ndup(done.files.items[i], strlen(done.files.items[i]) - strlen(".ko")));
	fill_key(request, signer, &tree, &done, &modules, ret);
	return 0;
}
