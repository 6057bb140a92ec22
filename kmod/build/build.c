// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/build.h"

#include "base/core/date.h"
#include "base/file/copy.h"
#include "base/file/lockfile.h"
#include "kmod/build/buildlog.h"
#include "kmod/build/jobs.h"
#include "kmod/build/probes.h"
#include "kmod/forkserver/forkserver.h"
#include "kmod/sandbox/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

// Objects of earlier compiles, kept by ccache where the machine (or the builder image) has it: a build that was killed
// resumes (R-H2), and a repeated one costs next to nothing.
//
// ccache runs in the sandbox, so code of the source can leave any object under any name. Each combination of source,
// kernel tree, compiler and variables therefore has a directory of its own, and the sandbox sees no other one: only the
// same compile reuses the objects of a compile. The compiler is identified by its content, because that of a builder
// root has any mtime. Directories do not matter, since no debug information is made.
#define OBJECTS_LOCK ".lock"
#define OBJECTS_LOG "objects.log"
#define OBJECTS_ROOM ((uint64_t)256 << 20) // of free disk
enum { OBJECTS_KEPT = 4, OBJECTS_LOG_MOST = 4 << 20 };

// make, as every step of a build calls it: in the sandbox, with one environment and one set of variables.
struct compile {
	const struct tree *tree;
	const struct toolchain *tools;
	struct root job;     // SANDBOX_WORK: src, probe, out
	struct root headers; // root of the tree's directories, where they can be bound from
	struct root objects; // SANDBOX_CACHE for ccache; ROOT_NONE = no object is kept
	unsigned servers;    // fork servers; 0 = they are not used
	long deadline_ms;    // on the monotonic clock
	bool is_rt_allowed;
	long peak_kib;
};

// The kernel does not bind directories of another mount namespace, so those of a host that is only seen through
// /proc/PID/root are copied.
static int bind_headers(struct compile *c, struct err *err)
{
	const struct tree *tree = c->tree;
	if (!str_starts(tree->root.name, "/proc/")) {
		auto_str char *name = str_dup(tree->root.name);
		if (root_sub(&tree->root, ".", &c->headers, err) < 0)
			return -1;
		free(c->headers.name);
		c->headers.name = TAKE(name);
		return 0;
	}
	for (size_t i = 0; i < tree->dirs.count; i++) {
		auto_str char *to = str_fmt("headers%s", tree->dirs.items[i]);
		if (copy_tree(&tree->root, tree->dirs.items[i], &c->job, to, err) < 0)
			return -1;
	}
	return root_sub(&c->job, "headers", &c->headers, err);
}

// -g0: debug information is stripped anyway, and making it costs a quarter of the time; without it, and with the BTF
// switch off, no pahole is ever run (R-B6). The path inside the sandbox is constant, so no prefix has to be mapped.
static void make_variables(const struct compile *c, struct strv *argv)
{
	const char *arch = c->tree->arch;
	bool is_kept = c->objects.fd >= 0;
	strv_split(argv, "IGNORE_CC_MISMATCH=1 KCFLAGS=-g0 CONFIG_DEBUG_INFO_BTF_MODULES= KBUILD_MODPOST_WARN=", " ");
	strv_split(argv,
		   c->tools->is_clang ? "LLVM=1" :
					"LD=ld AR=ar NM=nm OBJCOPY=objcopy OBJDUMP=objdump READELF=readelf STRIP=strip",
		   " ");
	strv_add(argv, str_fmt("CC=%s%s%s", is_kept ? c->tools->ccache : "", is_kept ? " " : "", c->tools->cc));
	strv_add(argv, str_fmt("ARCH=%s", str_eq(arch, "aarch64") ? "arm64" :
					  str_eq(arch, "ppc64le") ? "powerpc" :
								    arch));
	if (c->is_rt_allowed)
		strv_add(argv, str_dup("IGNORE_PREEMPT_RT_PRESENCE=1"));
}

// Runs a program of the toolchain; 0 however it ended, except E_BUILD_TIMEOUT.
static int make_run(struct compile *c, const struct strv *argv, const char *dir, struct buildlog *log,
		    struct proc_end *ret, struct err *err)
{
	auto_str char *path = str_fmt("PATH=%s", c->tools->path), *servers = str_fmt("FORKSERVER_MOST=%u", c->servers);
	const char *env[] = { path, "LC_ALL=C", "HOME=/tmp", "TMPDIR=/tmp",
			      "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970", "KBUILD_BUILD_USER=kmodsmith",
			      "KBUILD_BUILD_HOST=kmodsmith", "SOURCE_DATE_EPOCH=0", ("CCACHE_DIR=" SANDBOX_CACHE),
			      "CCACHE_CONFIGPATH=/dev/null", "CCACHE_NOHASHDIR=1", "CCACHE_COMPILERCHECK=content",
			      "CCACHE_MAXSIZE=512M", "CCACHE_MAXFILES=20000",
			      "CCACHE_SLOPPINESS=include_file_mtime,include_file_ctime",
			      ("CCACHE_STATSLOG=" SANDBOX_WORK "/" OBJECTS_LOG),
			      // No preprocessor run before a compile that is not in the cache: the compiler lists what
			      // it read.
			      "CCACHE_DEPEND=1", c->servers ? servers : NULL,
			      ("COMPILER_PATH=" SANDBOX_WORK "/" FORKSERVER_DIR), NULL };
	long left = c->deadline_ms - clock_ms();
	struct sandbox sandbox = { .base = c->tools->base,
				   .headers = &c->headers,
				   .dirs = &c->tree->dirs,
				   .scratch = c->tree->build,
				   .work = &c->job,
				   .cache = c->objects.fd >= 0 ? &c->objects : NULL,
				   .argv = (const char *const *)argv->items,
				   .tool = c->tools->cc,
				   .env = env,
				   .dir = dir,
				   .timeout_ms = left > 1 ? (int)left : 1,
				   .line = buildlog_line,
				   .ctx = log };
	if (sandbox_run(&sandbox, ret, err) < 0)
		return -1;
	if (ret->peak_kib > c->peak_kib)
		c->peak_kib = ret->peak_kib;
	return ret->is_timed_out ?
		       err_set(err, E_BUILD_TIMEOUT, "the deadline passed while '%s' was running", argv->items[0]) :
		       0;
}

// Two canaries and a probe, before the driver's own probes are trusted (R-B1, R-B3). NVIDIA's conftest takes every
// failed compilation for "the kernel does not have this". So first one snippet that must compile and one that must not
// go through the very flags that conftest will use, and one object through the kernel's own flags, which decides
// whether this compiler suits the tree at all.
static const struct {
	const char *name, *text;
} canaries[] = {
	{ "probe/probe.c", "#include <linux/module.h>\n#include <linux/mm.h>\nMODULE_LICENSE(\"GPL\");\n" },
	{ "probe/good.c", "#include <linux/kconfig.h>\n#include <linux/module.h>\n#include <linux/mm.h>\n"
			  "unsigned long good(struct vm_area_struct *vma) { return vma->vm_start; }\n" },
	{ "probe/bad.c",
	  "#include <linux/kconfig.h>\n#include <linux/module.h>\n#include <linux/mm.h>\n"
	  "unsigned long bad(struct vm_area_struct *vma) { return vma->kmodsmith_has_no_such_member; }\n" },
	{ "probe/Kbuild", "obj-m := probe.o\n"
			  "CONFTEST := $(shell /bin/sh " SANDBOX_WORK
			  "/src/conftest.sh \"$(CC)\" $(ARCH) $(SYSSRC) $(SYSOUT) build_cflags)\n"
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
	unsigned jobs;
	size_t objects;
	bool has_probes;
	char *not_forked;          // why fork servers are not used; NULL = they are
	char same[DIGEST_HEX + 1]; // of all that decides what is compiled and how; "" = nothing is kept of it
	int objects_lock;
};

static void build_end(struct build *b)
{
	struct err ignored;
	root_done(&b->source);
	root_done(&b->copy);
	root_done(&b->compile.headers);
	root_done(&b->compile.job);
	root_done(&b->compile.objects);
	close_fdp(&b->objects_lock);
	probes_done(&b->probes);
	if (b->request->work)
		root_rmtree(b->request->work, JOB, &ignored);

	strv_done(&b->modules);
	toolchain_done(&b->tools);
	patches_done(&b->series);
	patches_done(&b->patches);
	free(b->not_forked);
}
#define auto_end __attribute__((cleanup(build_end)))

// Everything that can refuse without running a compiler.
static int check_request(struct build *b, struct err *err)
{
	const struct build_request *w = b->request;
	b->dir = w->source->dirs[w->flavour];
	if (!b->dir)
		return err_set(err, E_FLAVOUR, "the source of driver %s has no %s modules", w->source->version,
			       module_type_name(w->flavour));
	if (recipe_check(w->source->version, w->flavour, w->tree, err) < 0)
		return -1;
	if (w->tree->is_rt && !w->is_rt_allowed)
		return err_set(err, E_SOURCE_KERNEL,
			       "kernel %s is PREEMPT_RT, which NVIDIA does not support; --allow-rt builds "
			       "anyway",
			       w->tree->release);
	if (root_sub(&w->source->root, b->dir, &b->source, err) < 0 ||
	    recipe_modules(&b->source, w->modules, &b->modules, err) < 0 ||
	    toolchain_find(w->tree, w->path, w->base, &b->tools, err) < 0 ||
	    patches_choose(w->patches, w->source->version, w->flavour, w->tree, &b->patches, err) < 0)
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
	    bind_headers(&b->compile, err) < 0)
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

// The lock lies beside the directory, where the sandbox does not see it. Its mtime is the last use. A file that was
// removed in the meantime locks nothing.
static int lock_objects(const struct root *all, const char *digest)
{
	auto_str char *name = str_fmt("%s" OBJECTS_LOCK, digest);
	auto_fd int fd = lockfile_open(all->fd, name, O_RDWR);
	struct stat st;
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 || !st.st_nlink || futimens(fd, NULL) < 0)
		return -1;
	return TAKE_FD(fd);
}

// Removes what older versions kept for all sources in one place, and the least recently used directory.
static void evict_oldest_objects(const struct root *all)
{
	auto_strv struct strv names = { 0 };
	struct err ignored;
	struct timespec oldest = { 0 };
	const char *which = NULL;
	size_t count = 0;
	root_list(all, ".", &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		auto_str char *file = str_fmt("%s" OBJECTS_LOCK, name);
		struct stat st;
		if (!digest_is_hex(name)) {
			if (!str_ends(name, OBJECTS_LOCK))
				root_rmtree(all, name, &ignored);
			continue;
		}
		count++;
		if (root_stat(all, file, &st, &ignored) <= 0)
			st.st_mtim = (struct timespec){ 0 };
		if (!which || st.st_mtim.tv_sec < oldest.tv_sec ||
		    (st.st_mtim.tv_sec == oldest.tv_sec && st.st_mtim.tv_nsec < oldest.tv_nsec)) {
			which = name;
			oldest = st.st_mtim;
		}
	}
	if (count <= OBJECTS_KEPT)
		return;
	auto_str char *lock = str_fmt("%s" OBJECTS_LOCK, which);
	auto_fd int fd = lock_objects(all, which);
	if (fd >= 0 && root_rmtree(all, which, &ignored) >= 0)
		root_unlink(all, lock, &ignored);
}

// A directory for the objects of exactly this compile, and a lock on it until the build ends. Nothing is kept when
// there is no ccache, the directory cannot be made, or another process compiles the same.
static void open_objects(struct build *b)
{
	static const char DIR[] = "objects";
	auto_root struct root all = ROOT_NONE, dir = ROOT_NONE;
	struct err ignored;
	struct statvfs st;
	if (!b->tools.ccache || root_mkdir_private(b->request->cache, DIR, &ignored) < 0 ||
	    root_sub(b->request->cache, DIR, &all, &ignored) < 0)
		return;
	auto_fd int lock = lock_objects(&all, b->same);
	if (lock < 0 || root_mkdirs(&all, b->same, 0700, &ignored) < 0)
		return;
	evict_oldest_objects(&all);
	// On a full disk ccache works without keeping anything, but fills the disk to the last byte first.
	if (root_sub(&all, b->same, &dir, &ignored) < 0 || fstatvfs(dir.fd, &st) < 0 ||
	    (uint64_t)st.f_bavail * st.f_frsize < OBJECTS_ROOM)
		return;
	b->compile.objects = dir;
	dir = ROOT_NONE;
	b->objects_lock = TAKE_FD(lock);
}

// How many compiles of the job's make were answered from the cache. The log has a line "# INPUT" for each compile and
// some with its outcome. The kernel's makefiles also compile /dev/null, to learn what the compiler supports.
static size_t count_objects(const struct root *job)
{
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	struct err absent;
	size_t count = 0;
	bool is_source = false;
	if (job->fd < 0 || root_read_most(job, OBJECTS_LOG, OBJECTS_LOG_MOST, &text, NULL, &absent) <= 0)
		return 0;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		if (str_starts(lines.items[i], "# "))
			is_source = str_ends(lines.items[i], ".c");
		count += is_source && (str_eq(lines.items[i], "direct_cache_hit") ||
				       str_eq(lines.items[i], "preprocessed_cache_hit"));
	}
	return count;
}

// Without them everything is compiled all the same.
static int use_forkserver(struct build *b, struct err *err)
{
	auto_buildlog struct buildlog log = { .fd = b->request->log_fd };
	auto_strv struct strv argv = { 0 };
	struct proc_end end;
	unsigned servers = forkserver_most(jobs_spare(&b->facts, b->jobs));
	if (!servers || !b->request->cache) {
		b->not_forked = str_dup(servers ? "--no-cache" : "too little memory");
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
	*ret = (struct build_outcome){ .driver_version = str_dup(w->source->version),
				       .flavour = w->flavour,
				       .release = str_dup(w->tree->release),
				       .compiler = str_dup(b->tools.version),
				       .patches = b->patches,
				       .jobs = b->jobs,
				       .peak_kib = b->compile.peak_kib,
				       .objects = b->objects };
	b->patches = (struct patches){ 0 };
	probes_count(&b->probes, &ret->probes_kept, &ret->probes_asked);
	ret->objects_kept = count_objects(&b->compile.job);
	ret->forked = forkserver_count(&b->compile.job);
	ret->not_forked = TAKE(b->not_forked);
	memcpy(ret->build_id, w->tree->build_id, sizeof(ret->build_id));
	for (size_t i = 0; i < b->modules.count; i++)
		strv_add(&ret->files, str_fmt("%s.ko", b->modules.items[i]));
}

int build_run(const struct build_request *request, struct build_outcome *ret, struct err *err)
{
	auto_end struct build b = { .request = request, .source = ROOT_NONE, .copy = ROOT_NONE, .objects_lock = -1 };
	long started_ms = clock_ms();
	unsigned seconds = request->timeout_s ? request->timeout_s : DEFAULT_TIMEOUT_S;
	b.compile = (struct compile){ .tree = request->tree,
				      .tools = &b.tools,
				      .job = ROOT_NONE,
				      .headers = ROOT_NONE,
				      .objects = ROOT_NONE,
				      .deadline_ms = started_ms + (long)seconds * 1000,
				      .is_rt_allowed = request->is_rt_allowed };
	jobs_read(request->kern, &b.facts);
	b.jobs = jobs_count(&b.facts, request->jobs);
	if (check_request(&b, err) < 0 || prepare_job(&b, err) < 0 || use_cache(&b, err) < 0 ||
	    canary_check(&b.compile, err) < 0)
		return -1;
	if (*b.same)
		open_objects(&b); // only now: the canaries test the compiler, not a cache
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
	strv_done(&done->files);
	*done = (struct build_outcome){ 0 };
}

int build_preflight(const struct build_request *request, struct build_outcome *ret, struct err *err)
{
	auto_end struct build b = { .request = request, .source = ROOT_NONE, .copy = ROOT_NONE, .objects_lock = -1 };
	b.compile = (struct compile){ .job = ROOT_NONE, .headers = ROOT_NONE, .objects = ROOT_NONE };
	if (check_request(&b, err) < 0)
		return -1;
	fill_result(&b, ret);
	return 0;
}
