// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/build.h"

#include "base/core/date.h"
#include "base/file/copy.h"
#include "kmod/build/jobs.h"
#include "kmod/build/objects.h"
#include "kmod/build/probes.h"
#include "kmod/forkserver/forkserver.h"
#include "kmod/sandbox/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

// Two canaries and a probe, before the driver's own probes are trusted (R-B1, R-B3). NVIDIA's conftest takes every
// failed compilation for "the kernel does not have this". So first one snippet that must compile and one that must not
// go through the very flags that conftest will use, and one object through the kernel's own flags, which decides
// whether this compiler suits the tree at all.
static const struct {
	const char *name, *text;
} canaries[] = {
	// With an export, because the program that makes its CRC has to run here, too.
	{ "probe/probe.c", "#include <linux/module.h>\n#include <linux/mm.h>\nMODULE_LICENSE(\"GPL\");\n"
			   "int kmodsmith_probe(void);\nint kmodsmith_probe(void) { return 0; }\n"
			   "EXPORT_SYMBOL(kmodsmith_probe);\n" },
	{ "probe/good.c", "#include <linux/kconfig.h>\n#include <linux/module.h>\n#include <linux/mm.h>\n"
			  "unsigned long good(struct vm_area_struct *vma) { return vma->vm_start; }\n" },
	{ "probe/bad.c",
	  "#include <linux/kconfig.h>\n#include <linux/module.h>\n#include <linux/mm.h>\n"
	  "unsigned long bad(struct vm_area_struct *vma) { return vma->kmodsmith_has_no_such_member; }\n" },
	{ "probe/Kbuild",
	  "obj-m := probe.o\n"
	  "SCRIPT := " SANDBOX_WORK "/src/conftest.sh\n"
	  "HOST := $(if $(shell grep ^HOSTCC= $(SCRIPT)),cc)\n" // which drivers before 450 want, too
	  "CONFTEST := $(shell /bin/sh $(SCRIPT) \"$(CC)\" $(HOST) $(ARCH) $(SYSSRC) $(SYSOUT) build_cflags)\n"
	  "FLAGS = $(filter-out $(GCC_PLUGINS_CFLAGS),$(KBUILD_CFLAGS)) $(CONFTEST) -fno-pie $(filter "
	  "-std=%,$(KBUILD_CFLAGS))\n"
	  "$(obj)/good.o $(obj)/bad.o: $(obj)/%.o: $(src)/%.c FORCE\n"
	  "\t@$(CC) $(FLAGS) -D__KERNEL__ -DMODULE -c -o $@ $< 2>$@.log\n" },
};

static char *compiler_text(struct compile *c, const char *path)
{
	enum { MOST_TEXT = 1 << 20 };
	char *text = NULL;
	struct err absent;
	if (root_read_most(&c->job, path, MOST_TEXT, &text, NULL, &absent) <= 0)
		return str_dup("no output");
	return text;
}

static int canary_check(struct compile *c, struct err *err)
{
	auto_buildlog struct buildlog log = { .fd = -1 };
	auto_strv struct strv argv = { 0 };
	struct proc_end end;
	if (root_mkdirs(&c->job, "probe", 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(canaries); i++)
		if (root_write(&c->job, canaries[i].name, canaries[i].text, strlen(canaries[i].text), 0644, err) < 0)
			return -1;
	strv_add(&argv, str_dup(c->tools->make));
	strv_add(&argv, str_fmt("-C%s", c->tree->source));
	if (!str_eq(c->tree->build, c->tree->source))
		strv_add(&argv, str_fmt("O=%s", c->tree->build));
	strv_add(&argv, str_fmt("SYSSRC=%s", c->tree->source));
	strv_add(&argv, str_fmt("SYSOUT=%s", c->tree->build));
	strv_split(&argv, "M=" SANDBOX_WORK "/probe -k -j3", " ");
	make_variables(c, &argv);
	strv_split(&argv, "probe.o good.o bad.o", " ");
	if (make_run(c, &argv, NULL, &log, &end, err) < 0)
		return -1;
	if (!root_exists(&c->job, "probe/probe.o"))
		return err_set(err, E_TOOLCHAIN, "%s (%s) cannot compile an empty module for kernel %s: %s",
			       c->tools->cc, c->tools->version, c->tree->release, log.error ? log.error : end.tail);
	if (!root_exists(&c->job, "probe/good.o")) {
		auto_str char *text = compiler_text(c, "probe/good.o.log");
		return err_set(err, E_CONFTEST_BROKEN, "a test that must compile fails: %.400s", text);
	}
	if (root_exists(&c->job, "probe/bad.o")) {
		auto_str char *text = compiler_text(c, "probe/bad.o.log");
		return err_set(err, E_CONFTEST_BROKEN, "a test that must fail compiles: %.400s", text);
	}
	return 0;
}

enum { DEFAULT_TIMEOUT_S = 3600, MODULE_BYTES = 512 << 20 };
#define JOB "job"

struct build {
	const struct build_request *request;
	const char *dir; // of the flavour in the source
	struct root source;
	struct root copy;
	struct strv modules;
	struct toolchain tools;
	struct patches series, patches;
	struct compile compile;
	struct probes probes;
	struct jobs_facts facts;
	struct core_outcome core;
	unsigned jobs;
	size_t objects;
	bool has_probes;
	char *not_forked;          // why fork servers are not used; NULL = they are
	char same[DIGEST_HEX + 1]; // of all that decides what is compiled and how; "" = nothing is kept of it
};

static void build_end(struct build *b)
{
	struct err ignored;
	root_done(&b->source);
	root_done(&b->copy);
	make_done(&b->compile);
	probes_done(&b->probes);
	if (b->request->work)
		root_rmtree(b->request->work, JOB, &ignored);

	strv_done(&b->modules);
	toolchain_done(&b->tools);
	patches_done(&b->series);
	patches_done(&b->patches);
	core_outcome_done(&b->core);
	free(b->not_forked);
}
#define auto_end __attribute__((cleanup(build_end)))

// NVIDIA's own part of a driver comes compiled, also in distributions' source packages.
static int check_cores(const struct build *b, struct err *err)
{
	static const char *const cores[] = { "nvidia/nv-kernel.o_binary", "nvidia-modeset/nv-modeset-kernel.o_binary" };
	const struct build_request *w = b->request;
	for (size_t i = 0; i < ARRAY_SIZE(cores); i++) {
		const char *arch = tree_file_arch(&b->source, cores[i]);
		if (arch && !str_eq(arch, w->tree->arch))
			return err_set(err, E_ARCH, "'%s' of driver %s is for %s, kernel %s is for %s", cores[i],
				       w->source->version, arch, w->tree->release, w->tree->arch);
	}
	return 0;
}

// Everything that can refuse without running a compiler.
static int check_request(struct build *b, struct err *err)
{
	const struct build_request *w = b->request;
	b->dir = w->source->dirs[w->flavour];
	if (!b->dir)
		return err_set(err, E_FLAVOUR, "the source of driver %s has no %s modules", w->source->version,
			       module_type_name(w->flavour));
	if (w->is_core_only && !core_is_needed(w->source, w->flavour))
		return err_set(err, E_SOURCE,
			       "driver %s is no open source release as published: its core is compiled already",
			       w->source->version);
	if (recipe_check(w->source, w->flavour, w->modules, w->tree, err) < 0 ||
	    build_options_check(&w->options, w->tree, err) < 0)
		return -1;
	if (root_sub(&w->source->root, b->dir, &b->source, err) < 0 || check_cores(b, err) < 0 ||
	    recipe_modules(&b->source, w->modules, &b->modules, err) < 0 ||
	    toolchain_find(w->tree, w->path, w->base, &b->tools, err) < 0 ||
	    core_check(w->source, w->flavour, &b->modules, &b->tools, err) < 0 ||
	    patches_choose(w->options.patches, w->source, w->flavour, w->tree, &b->patches, err) < 0)
		return -1;
	b->objects = recipe_objects(&b->source, &b->modules) + b->modules.count; // and one .mod.o for each
	return 0;
}

static int prepare_job(struct build *b, struct err *err)
{
	const struct build_request *w = b->request;
	if (root_rmtree(w->work, JOB, err) < 0 || root_mkdirs(w->work, JOB, 0755, err) < 0 ||
	    root_sub(w->work, JOB, &b->compile.job, err) < 0 ||
	    copy_tree(&b->source, ".", &b->compile.job, "src", err) < 0 ||
	    root_sub(&b->compile.job, "src", &b->copy, err) < 0 || patches_series(&b->copy, &b->series, err) < 0 ||
	    make_bind_headers(&b->compile, err) < 0)
		return -1;
	if (patches_apply(&b->series, &b->copy, b->tools.path, w->base, err) < 0)
		return err_wrap(err, "the source's own patches");
	if (patches_apply(&b->patches, &b->copy, b->tools.path, w->base, err) < 0)
		return -1;
	int r = probes_shorten(&b->copy, err);
	b->has_probes = r > 0;
	return r < 0 ? -1 : 0;
}

// Of all that the tree's directories hold.
static int digest_tree(const struct tree *tree, char ret[DIGEST_HEX + 1], struct err *err)
{
	struct digest *d = digest_new();
	int r = 0;
	for (size_t i = 0; i < tree->dirs.count && r == 0; i++) {
		auto_root struct root dir = ROOT_NONE;
		char hex[DIGEST_HEX + 1];
		r = root_sub(&tree->root, tree->dirs.items[i], &dir, err) < 0 ? -1 : copy_digest(&dir, hex, err);
		digest_add(d, tree->dirs.items[i], strlen(tree->dirs.items[i]) + 1);
		if (r == 0)
			digest_add(d, hex, DIGEST_HEX);
	}
	digest_hex(d, ret);
	return r;
}

// The source is what lies in the sandbox, patches and all: the bytes that are compiled. A tree that cannot be read is
// for the compile to complain of. Where the probes come in a make of their own, which compiles nothing of the source,
// what asks them is all that their answers depend on.
static int use_cache(struct build *b, struct err *err)
{
	const struct build_request *w = b->request;
	auto_strv struct strv variables = { 0 };
	char tree[DIGEST_HEX + 1], source[DIGEST_HEX + 1], asks[DIGEST_HEX + 1];
	struct err unreadable;
	if (!w->cache || digest_tree(w->tree, tree, &unreadable) < 0)
		return 0;
	if (copy_digest(&b->copy, source, err) < 0 || probes_digest(&b->copy, asks, err) < 0)
		return -1;
	make_variables(&b->compile, &variables);
	auto_str char *all = strv_join(&variables, " ");
	auto_str char *what = str_fmt("%s\n%s\n%s", b->has_probes ? asks : source, b->tools.version, all),
		      *same = str_fmt("%s\n%s\n%s\n%s", tree, source, b->tools.version, all);
	digest_data(same, strlen(same), b->same);
	return probes_start(&b->probes, w->cache, &b->compile.job, tree, what, err);
}

static struct core_request request_cores(const struct build *b)
{
	const struct build_request *w = b->request;
	return (struct core_request){ .source = w->source,
				      .flavour = w->flavour,
				      .modules = &b->modules,
				      .arch = w->tree->arch,
				      .tools = &b->tools,
				      .cache = w->cache,
				      .offer = w->cores,
				      .work = w->work,
				      .facts = &b->facts,
				      .jobs = b->jobs,
				      .deadline_ms = b->compile.deadline_ms,
				      .log_fd = w->log_fd,
				      .progress = w->progress,
				      .ctx = w->ctx };
}

// What NVIDIA's open release has as sources, and other forms of the driver as files.
static int make_cores(struct build *b, const struct root *into, struct err *err)
{
	const struct build_request *w = b->request;
	const struct core_request request = request_cores(b);
	if (!core_is_needed(w->source, w->flavour))
		return 0;
	if (w->core)
		w->core(w->ctx, NULL);
	if (core_make(&request, into, &b->core, err) < 0)
		return -1;
	if (b->core.peak_kib > b->compile.peak_kib)
		b->compile.peak_kib = b->core.peak_kib;
	if (w->core)
		w->core(w->ctx, &b->core);
	return 0;
}

// Where the source has directories for them, output has none yet.
static int make_cores_only(struct build *b, struct err *err)
{
	const struct build_request *w = b->request;
	auto_root struct root into = ROOT_NONE;
	for (size_t i = 0; i < b->modules.count; i++) {
		auto_str char *dir = str_fmt("%s/%s", w->name, b->modules.items[i]);
		if (root_mkdirs(w->output, dir, 0755, err) < 0)
			return -1;
	}
	return root_sub(w->output, w->name, &into, err) < 0 ? -1 : make_cores(b, &into, err);
}

// Without them everything is compiled all the same.
static int use_forkserver(struct build *b, struct err *err)
{
	auto_buildlog struct buildlog log = { .fd = b->request->log_fd };
	auto_strv struct strv argv = { 0 };
	struct proc_end end;
	unsigned servers = forkserver_most(jobs_spare(&b->facts, b->jobs));
	const char *why = b->request->tree->has_dwarf_crcs ? "the kernel's CRCs need debug information" :
			  !servers                         ? "too little memory" :
			  !b->request->cache               ? "--no-cache" :
							     NULL;
	if (why) {
		b->not_forked = str_dup(why);
		return 0;
	}
	if (forkserver_prepare(&b->compile.job, err) < 0)
		return -1;
	strv_add(&argv, str_dup("/bin/sh"));
	strv_add(&argv, str_dup(SANDBOX_WORK "/" FORKSERVER_CHECK));
	strv_add(&argv, str_dup(b->tools.cc));
	if (make_run(&b->compile, &argv, NULL, &log, &end, err) < 0)
		return -1;
	if (end.status == 0 && !end.signal) {
		b->compile.servers = servers;
		return 0;
	}
	const char *last = strrchr(end.tail, '\n');
	b->not_forked = str_fmt("%.200s", last && last[1] ? last + 1 : end.tail);
	b->not_forked[strcspn(b->not_forked, "\n")] = '\0';
	return 0;
}

static void on_probe(void *probes)
{
	probes_save(probes, false);
}

// The probes' headers first, and the objects when they are there; what fails of the first fails of the second again.
// Their answers are kept before anything of the source is compiled.
static int run_make(struct build *b, struct err *err)
{
	auto_str char *names = strv_join(&b->modules, " ");
	auto_strv struct strv argv = { 0 };
	auto_buildlog struct buildlog log = {
		.fd = b->request->log_fd,
		.total = b->objects,
		.progress = b->request->progress,
		.ctx = b->request->ctx,
		.probe = b->has_probes ? NULL : on_probe,
		.probe_ctx = &b->probes,
	};
	struct proc_end end;
	strv_add(&argv, str_dup(b->tools.make));
	strv_add(&argv, str_fmt("-j%u", b->jobs));
	strv_add(&argv, str_dup("modules"));
	strv_add(&argv, str_fmt("SYSSRC=%s", b->request->tree->source));
	strv_add(&argv, str_fmt("SYSOUT=%s", b->request->tree->build));
	strv_add(&argv, str_fmt("NV_KERNEL_MODULES=%s", names));
	make_variables(&b->compile, &argv);
	int r = 0;
	if (b->has_probes) {
		auto_buildlog struct buildlog probes = { .fd = log.fd, .probe = on_probe, .probe_ctx = &b->probes };
		strv_add(&argv, str_dup(PROBES_ONLY "=1"));
		r = make_run(&b->compile, &argv, SANDBOX_WORK "/src", &probes, &end, err);
		probes_save(&b->probes, true);
		log.is_killed = probes.is_killed;
		free(argv.items[--argv.count]);
		argv.items[argv.count] = NULL;
	}
	if (r == 0)
		r = make_run(&b->compile, &argv, SANDBOX_WORK "/src", &log, &end, err);
	if (!b->has_probes)
		probes_save(&b->probes, true);
	if (r < 0 || (end.status == 0 && !end.signal))
		return r;
	if (log.is_killed || end.signal == SIGKILL) {
		auto_str char *numbers = jobs_text(&b->facts);
		return err_set(err, E_BUILD_OOM, "a compiler was killed with %u parallel jobs (%s)", b->jobs, numbers);
	}
	return err_set(err, E_BUILD, "driver %s (%s) for kernel %s: %s", b->request->source->version,
		       module_type_name(b->request->flavour), b->request->tree->release,
		       log.error ? log.error : end.tail);
}

static int strip_modules(struct build *b, struct err *err)
{
	auto_strv struct strv argv = { 0 };
	auto_buildlog struct buildlog log = { .fd = b->request->log_fd };
	struct proc_end end;
	strv_add(&argv, str_dup(b->tools.strip));
	strv_add(&argv, str_dup("-g"));
	for (size_t i = 0; i < b->modules.count; i++)
		strv_add(&argv, str_fmt("%s.ko", b->modules.items[i]));
	if (make_run(&b->compile, &argv, SANDBOX_WORK "/src", &log, &end, err) < 0)
		return -1;
	return end.status == 0 && !end.signal ? 0 : err_set(err, E_BUILD, "strip: %s", end.tail);
}

// The new directory takes the old one's place by renames; what was there survives until it is no longer needed.
static int publish_output(struct build *b, struct err *err)
{
	const struct root *output = b->request->output;
	const char *name = b->request->name;
	auto_str char *fresh = str_fmt(".%s.%d.new", name, (int)getpid()),
		      *old = str_fmt(".%s.%d.old", name, (int)getpid());
	// Only now: in what was there before, the source could have left anything.
	if (root_rmtree(&b->compile.job, "out", err) < 0 || root_mkdirs(&b->compile.job, "out", 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < b->modules.count; i++) {
		const char *module = b->modules.items[i];
		auto_str char *from = str_fmt("src/%s.ko", module), *to = str_fmt("out/%s.ko", module);
		struct stat st;
		int r = root_stat(&b->compile.job, from, &st, err);
		if (r <= 0)
			return r < 0 ? -1 : err_set(err, E_BUILD, "the build did not produce '%s.ko'", module);
		if (!S_ISREG(st.st_mode) || st.st_size > MODULE_BYTES) // the source may give anything that name
			return err_set(err, E_BUILD, "the build produced a '%s.ko' that is not a module: %s", module,
				       S_ISREG(st.st_mode) ? "it is larger than 512 MiB" : "not a regular file");
		if (root_rename(&b->compile.job, from, to, err) < 0)
			return -1;
	}
	if (root_rmtree(output, fresh, err) < 0 || root_rmtree(output, old, err) < 0)
		return -1;
	int r = copy_tree(&b->compile.job, "out", output, fresh, err);
	if (r == 0 && root_exists(output, name))
		r = root_rename(output, name, old, err);
	if (r == 0)
		r = root_rename(output, fresh, name, err);
	struct err ignored;
	root_rmtree(output, r < 0 ? fresh : old, r < 0 ? &ignored : err);
	return r;
}

static void fill_result(struct build *b, struct build_outcome *ret)
{
	const struct build_request *w = b->request;
	*ret = (struct build_outcome){
		.driver_version = str_dup(w->source->version),
		.flavour = w->flavour,
		.release = str_dup(w->tree->release),
		.compiler = str_dup(b->tools.version),
		.patches = b->patches,
		.counts = { .jobs = b->jobs, .peak_kib = b->compile.peak_kib, .objects = b->objects }
	};
	b->patches = (struct patches){ 0 };
	ret->core = b->core;
	b->core = (struct core_outcome){ 0 };
	for (size_t i = 0; i < ret->core.keys.count; i++) { // what they borrowed ends here
		ret->core.keys.items[i].driver = ret->driver_version;
		ret->core.keys.items[i].compiler = ret->compiler;
	}
	probes_count(&b->probes, &ret->counts.probes_kept, &ret->counts.probes_asked);
	ret->counts.objects_kept = objects_count(&b->compile.job);
	ret->counts.forked = forkserver_count(&b->compile.job);
	ret->not_forked = TAKE(b->not_forked);
	memcpy(ret->build_id, w->tree->build_id, sizeof(ret->build_id));
	for (size_t i = 0; i < b->modules.count; i++)
		strv_add(&ret->files, str_fmt("%s.ko", b->modules.items[i]));
}

int build_run(const struct build_request *request, struct build_outcome *ret, struct err *err)
{
	auto_end struct build b = {
		.request = request, .source = ROOT_NONE, .copy = ROOT_NONE, .compile = COMPILE_NONE
	};
	long started_ms = clock_ms();
	unsigned seconds = request->options.timeout_s ? request->options.timeout_s : DEFAULT_TIMEOUT_S;
	b.compile = (struct compile){ .tree = request->tree,
				      .tools = &b.tools,
				      .job = ROOT_NONE,
				      .headers = ROOT_NONE,
				      .objects = ROOT_NONE,
				      .objects_lock = -1,
				      .deadline_ms = started_ms + (long)seconds * 1000 };
	jobs_read(request->kern, &b.facts);
	b.jobs = jobs_count(&b.facts, request->options.jobs);
	if (check_request(&b, err) < 0)
		return -1;
	if (request->is_core_only) {
		if (make_cores_only(&b, err) < 0)
			return -1;
		fill_result(&b, ret);
		return 0;
	}
	if (prepare_job(&b, err) < 0 || canary_check(&b.compile, err) < 0 || make_cores(&b, &b.copy, err) < 0 ||
	    use_cache(&b, err) < 0)
		return -1;
	if (*b.same)
		objects_open(&b.compile, request->cache, b.same);
	if (use_forkserver(&b, err) < 0)
		return -1;
	int r = run_make(&b, err);
	if (r < 0 && err->code == E_BUILD_OOM && b.jobs > 1) {
		b.jobs /= 2;
		if (b.compile.servers)
			b.not_forked = str_dup("memory ran out");
		b.compile.servers = 0;
		r = run_make(&b, err); // continues: what was compiled before the kill is still there
	}
	if (r < 0 || strip_modules(&b, err) < 0 || publish_output(&b, err) < 0)
		return -1;
	fill_result(&b, ret);
	return 0;
}

void build_outcome_free(struct build_outcome *done)
{
	free(done->driver_version);
	free(done->release);
	free(done->compiler);
	free(done->not_forked);
	patches_done(&done->patches);
	core_outcome_done(&done->core);
	strv_done(&done->files);
	*done = (struct build_outcome){ 0 };
}

int build_preflight(const struct build_request *request, struct build_outcome *ret, struct err *err)
{
	auto_end struct build b = {
		.request = request, .source = ROOT_NONE, .copy = ROOT_NONE, .compile = COMPILE_NONE
	};
	if (check_request(&b, err) < 0)
		return -1;
	if (request->is_core_only) {
		const struct core_request cores = request_cores(&b);
		if (core_keys(&cores, &b.core.keys, err) < 0)
			return -1;
	}
	fill_result(&b, ret);
	return 0;
}
