// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/core.h"

#include "base/file/copy.h"
#include "base/file/file.h"
#include "kmod/build/buildlog.h"
#include "kmod/build/objects.h"
#include "kmod/sandbox/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define JOB "core"
#define CC_DIR ".kmodsmith-cc"
#define CORES "cores"     // of the cache
#define BROUGHT "brought" // in the scratch
enum { CORES_KEPT = 8, CORE_BYTES = 512 << 20 };

void core_outcome_done(struct core_outcome *o)
{
	for (size_t i = 0; i < SOURCE_CORES; i++)
		free(o->from[i]);
	*o = (struct core_outcome){ 0 };
}

bool core_is_needed(const struct source *source, enum module_type flavour)
{
	return flavour == MODULE_TYPE_OPEN && source->release;
}

// Of a file of the core's directory in the release; NULL = absent.
static char *read_release_file(const struct source *source, const struct source_core *core, const char *name)
{
	auto_str char *path = str_fmt("%s/%s/%s", source->release, core->sources, name);
	char *text = NULL;
	struct err absent;
	return root_read(&source->root, path, &text, NULL, &absent) > 0 ? text : NULL;
}

static size_t count_lines(const char *text, const char *start)
{
	size_t count = 0;
	for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
		count += str_starts(at, start);
	return count;
}

// The C++ compiler of the same kind and version: g++-12 of gcc-12. It lies where programs are looked for.
static char *cxx_name(const struct toolchain *tools)
{
	const char *slash = strrchr(tools->cc, '/'), *name = slash ? slash + 1 : tools->cc;
	const char *c = tools->is_clang ? "clang" : strstr(name, "gcc") ? "gcc" : "cc";
	const char *cxx = tools->is_clang ? "clang++" : str_eq(c, "gcc") ? "g++" : "c++";
	const char *at = strstr(name, c);
	return at ? str_fmt("%.*s%s%s", (int)(at - name), name, cxx, at + strlen(c)) : str_dup(cxx);
}

int core_check(const struct source *source, enum module_type flavour, const struct strv *modules,
	       const struct toolchain *tools, struct err *err)
{
	auto_str char *cxx = cxx_name(tools);
	for (size_t i = 0; i < SOURCE_CORES && core_is_needed(source, flavour); i++) {
		const struct source_core *core = &source_cores[i];
		if (!strv_has(modules, core->module))
			continue;
		auto_str char *srcs = read_release_file(source, core, "srcs.mk"),
			      *makefile = read_release_file(source, core, "Makefile");
		const struct {
			const char *program;
			bool is_needed;
		} needs[] = {
			{ cxx, srcs && count_lines(srcs, "SRCS_CXX +=") },
			{ "xz", makefile && strstr(makefile, "quiet_cmd,XZ)") },
			{ tools->is_clang ? "llvm-objcopy" : "objcopy", true },
		};
		for (size_t k = 0; k < ARRAY_SIZE(needs); k++) {
			auto_str char *found = needs[k].is_needed ?
						       toolchain_program(tools->base, tools->path, needs[k].program) :
						       NULL;
			if (needs[k].is_needed && !found)
				return err_set(err, E_TOOLCHAIN,
					       "no %s in %s, which the core of %s in NVIDIA's source release "
					       "(%s) is compiled with%s",
					       needs[k].program, tools->path, core->module, core->sources,
					       i > 0 ? "; --modules nvidia,uvm does without" : "");
		}
	}
	return 0;
}

struct core_job {
	const struct core_request *request;
	struct compile compile;
	char *cc, *cxx;
	struct strv variables;                           // of make, besides these
	const struct source_core *missing[SOURCE_CORES]; // that neither the cache nor anybody else has
	size_t missing_count;
	char release[DIGEST_HEX + 1]; // of its content
	struct root kept;             // ROOT_NONE = nothing is
};

static void core_job_done(struct core_job *j)
{
	struct err ignored;
	make_done(&j->compile);
	if (j->request->work)
		root_rmtree(j->request->work, JOB, &ignored);
	free(j->cc);
	free(j->cxx);
	strv_done(&j->variables);
	root_done(&j->kept);
}
#define auto_core_job __attribute__((cleanup(core_job_done)))

// All that NVIDIA's Makefiles read: src/ and the files beside it, without what an earlier make left.
static enum copy_counts counts_for_core(void *release, const char *path)
{
	struct stat st;
	struct err ignored;
	if (str_eq(path, "src"))
		return COPY_CONTENT;
	if (!str_starts(path, "src/"))
		return !str_starts(path, ".git") && root_stat(release, path, &st, &ignored) > 0 && S_ISREG(st.st_mode) ?
			       COPY_CONTENT :
			       COPY_NOTHING;
	for (size_t i = 0; i < SOURCE_CORES; i++) {
		const char *rest =
			strstr(path, source_cores[i].sources) == path ? path + strlen(source_cores[i].sources) : "";
		if (str_eq(rest, "/_out"))
			return COPY_NOTHING;
	}
	return COPY_CONTENT;
}

static int digest_release(const struct root *release, char ret[DIGEST_HEX + 1], struct err *err)
{
	struct root of = *release; // a callback's context cannot be const
	return copy_digest_of(release, counts_for_core, &of, ret, err);
}

static int open_release(const struct core_request *request, struct root *ret, struct err *err)
{
	return root_sub(&request->source->root, request->source->release, ret, err);
}

// What is compiled is the copy: it cannot change meanwhile.
static int copy_release(struct core_job *j, struct err *err)
{
	const struct root *job = &j->compile.job;
	auto_root struct root release = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	char digest[DIGEST_HEX + 1];
	if (root_rmtree(j->request->work, JOB, err) < 0 || root_mkdirs(j->request->work, JOB, 0755, err) < 0 ||
	    root_sub(j->request->work, JOB, &j->compile.job, err) < 0 || open_release(j->request, &release, err) < 0 ||
	    root_list(&release, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		if (counts_for_core(&release, name) != COPY_NOTHING && copy_entry(&release, name, job, name, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < SOURCE_CORES; i++) {
		auto_str char *left = str_fmt("%s/_out", source_cores[i].sources);
		if (root_rmtree(job, left, err) < 0)
			return -1;
	}
	if (digest_release(job, digest, err) < 0)
		return -1;
	return str_eq(digest, j->release) ? 0 : err_set(err, E_SOURCE, "'%s' changed while it was read", release.name);
}

// The names are those of all branches: NV_BUILD_USER and NV_BUILD_HOST since 575, WHOAMI and HOSTNAME before.
static void add_core_variables(const struct core_request *request, struct strv *v)
{
	const struct toolchain *tools = request->tools;
	if (tools->is_clang)
		strv_split(v, "LD=ld.lld AR=llvm-ar OBJCOPY=llvm-objcopy STRIP_CMD=llvm-strip", " ");
	else
		toolchain_binutils(tools, v);
	strv_add(v, str_fmt("TARGET_ARCH=%s", request->arch));
	strv_split(v, "TARGET_OS=Linux NV_BUILD_USER=kmodsmith NV_BUILD_HOST=kmodsmith HOSTNAME=kmodsmith", " ");
	strv_add(v, str_dup("WHOAMI=echo kmodsmith"));
	strv_add(v, str_dup("DATE=echo Thu Jan  1 00:00:00 UTC 1970"));
}

static void name_core(const struct core_job *j, const char *module, char ret[DIGEST_HEX + 1])
{
	auto_str char *variables = strv_join(&j->variables, "\n"),
		      *all = str_fmt("%s\n%s\n%s\n%s", j->release, module, j->request->tools->version, variables);
	digest_data(all, strlen(all), ret);
}

static void list_keys(const struct core_job *j, struct core_keys *ret)
{
	const struct core_request *w = j->request;
	*ret = (struct core_keys){ 0 };
	for (size_t i = 0; i < SOURCE_CORES; i++) {
		if (!strv_has(w->modules, source_cores[i].module))
			continue;
		struct core_key *key = &ret->items[ret->count++];
		*key = (struct core_key){ .core = &source_cores[i],
					  .driver = w->source->version,
					  .arch = w->arch,
					  .compiler = w->tools->version };
		name_core(j, key->core->module, key->hex);
	}
}

static int start_core_job(struct core_job *j, struct core_keys *ret, struct err *err)
{
	auto_root struct root release = ROOT_NONE;
	if (open_release(j->request, &release, err) < 0 || digest_release(&release, j->release, err) < 0)
		return -1;
	j->cc = str_dup(j->request->tools->cc);
	j->cxx = cxx_name(j->request->tools);
	add_core_variables(j->request, &j->variables);
	list_keys(j, ret);
	return 0;
}

#define CORE_JOB_OF(w)                                                     \
	{                                                                  \
		.request = (w), .compile = COMPILE_NONE, .kept = ROOT_NONE \
	}

int core_keys(const struct core_request *request, struct core_keys *ret, struct err *err)
{
	auto_core_job struct core_job j = CORE_JOB_OF(request);
	return start_core_job(&j, ret, err);
}

static void open_kept_cores(struct core_job *j)
{
	struct err ignored;
	if (j->request->cache && root_mkdir_private(j->request->cache, CORES, &ignored) == 0)
		root_sub(j->request->cache, CORES, &j->kept, &ignored);
}

static int put_core(const struct root *from, const char *path, const struct root *into, const char *name,
		    char ret[DIGEST_HEX + 1], struct err *err)
{
	struct stat st;
	auto_fd int in = root_open(from, path, O_RDONLY, err);
	if (in < 0)
		return -1;
	if (fstat(in, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > CORE_BYTES) // the release may make anything
		return err_set(err, E_BUILD, "'%s' is not a regular file of at most 512 MiB", path);
	if (root_unlink(into, name, err) < 0) // a link that led into src/
		return -1;
	auto_fd int out = root_create(into, name, err);
	auto_fd int copy = out < 0 || file_copy(in, out, name, err) < 0 ? -1 : root_open(into, name, O_RDONLY, err);
	return copy < 0 ? -1 : digest_file(copy, name, ret, err);
}

static bool is_kept_as(const char *name, const struct core_key *key)
{
	return str_starts(name, key->hex) && name[DIGEST_HEX] == '-';
}

bool core_is_kept(const struct root *cache, const struct core_key *key)
{
	auto_strv struct strv names = { 0 };
	struct err absent;
	root_list(cache, CORES, &names, &absent);
	for (size_t i = 0; i < names.count; i++)
		if (is_kept_as(names.items[i], key))
			return true;
	return false;
}

// 1 = it was kept, and is `file` in `into`.
static int take_kept_core(const struct root *kept, const struct core_key *key, const struct root *into,
			  const char *file, char digest[DIGEST_HEX + 1], struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(kept, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		struct err bad;
		if (!is_kept_as(name, key))
			continue;
		if (put_core(kept, name, into, file, digest, &bad) == 0 && str_eq(name + DIGEST_HEX + 1, digest)) {
			utimensat(kept->fd, name, NULL, AT_SYMLINK_NOFOLLOW); // the last use
			return 1;
		}
		root_unlink(kept, name, &bad);
	}
	return 0;
}

int core_copy_kept(const struct root *cache, const struct core_key *key, const struct root *into, const char *name,
		   struct err *err)
{
	auto_root struct root kept = ROOT_NONE;
	char digest[DIGEST_HEX + 1];
	return root_sub(cache, CORES, &kept, err) < 0 ? -1 : take_kept_core(&kept, key, into, name, digest, err);
}

static void remove_oldest_core(const struct root *kept)
{
	auto_strv struct strv names = { 0 };
	struct timespec oldest = { 0 };
	const char *which = NULL;
	struct err ignored;
	if (root_list(kept, ".", &names, &ignored) < 0 || names.count <= CORES_KEPT)
		return;
	for (size_t i = 0; i < names.count; i++) {
		struct stat st;
		if (root_stat(kept, names.items[i], &st, &ignored) > 0 &&
		    (!which || st.st_mtim.tv_sec < oldest.tv_sec ||
		     (st.st_mtim.tv_sec == oldest.tv_sec && st.st_mtim.tv_nsec < oldest.tv_nsec))) {
			which = names.items[i];
			oldest = st.st_mtim;
		}
	}
	if (which)
		root_unlink(kept, which, &ignored);
}

// A core that cannot be kept is compiled again the next time.
static void keep_core(const struct core_job *j, const struct source_core *core, const struct root *from,
		      const char *digest)
{
	char key[DIGEST_HEX + 1], copied[DIGEST_HEX + 1];
	struct err ignored;
	name_core(j, core->module, key);
	auto_str char *fresh = str_fmt(".%s.%d", key, (int)getpid()), *name = str_fmt("%s-%s", key, digest);
	if (j->kept.fd < 0)
		return;
	if (put_core(from, core->file, &j->kept, fresh, copied, &ignored) < 0 || !str_eq(copied, digest) ||
	    root_rename(&j->kept, fresh, name, &ignored) < 0)
		root_unlink(&j->kept, fresh, &ignored);
	remove_oldest_core(&j->kept);
}

// NVIDIA's scripts ask the compiler by the first word of CC alone, so ccache does not come before it but in its place:
// under the compiler's name, which it then looks for in PATH.
static int use_ccache(struct core_job *j, struct err *err)
{
	const struct toolchain *tools = j->request->tools;
	char same[DIGEST_HEX + 1];
	const char *slash = strrchr(tools->cc, '/');
	auto_str char *cc = str_fmt(CC_DIR "/%s", slash ? slash + 1 : tools->cc), *cxx = str_fmt(CC_DIR "/%s", j->cxx);
	if (!j->request->cache)
		return 0;
	name_core(j, "objects", same);
	objects_open(&j->compile, j->request->cache, same);
	if (j->compile.objects.fd < 0)
		return 0;
	if (root_mkdirs(&j->compile.job, CC_DIR, 0755, err) < 0 ||
	    root_symlink(&j->compile.job, tools->ccache, cc, err) < 0 ||
	    root_symlink(&j->compile.job, tools->ccache, cxx, err) < 0)
		return -1;
	free(j->cc);
	free(j->cxx);
	j->cc = str_fmt(SANDBOX_WORK "/%s", cc);
	j->cxx = str_fmt(SANDBOX_WORK "/%s", cxx);
	return 0;
}

static int run_core_make(struct core_job *j, unsigned jobs, size_t objects, struct err *err)
{
	const struct core_request *w = j->request;
	auto_strv struct strv argv = { 0 };
	auto_buildlog struct buildlog log = {
		.fd = w->log_fd, .total = objects, .progress = w->progress, .ctx = w->ctx
	};
	struct proc_end end;
	strv_add(&argv, str_dup(w->tools->make));
	strv_add(&argv, str_fmt("-j%u", jobs));
	strv_add(&argv, str_fmt("CC=%s", j->cc));
	strv_add(&argv, str_fmt("CXX=%s", j->cxx));
	for (size_t i = 0; i < j->variables.count; i++)
		strv_add(&argv, str_dup(j->variables.items[i]));
	for (size_t i = 0; i < j->missing_count; i++) {
		auto_str char *target = str_fmt("kernel-open/%s", j->missing[i]->file), *dir = str_dup(target);
		*strrchr(dir, '/') = '\0';
		if (root_mkdirs(&j->compile.job, dir, 0755, err) < 0)
			return -1;
		strv_add(&argv, TAKE(target));
	}
	if (make_run(&j->compile, &argv, NULL, &log, &end, err) < 0)
		return -1;
	if (end.status == 0 && !end.signal)
		return 0;
	if (log.is_killed || end.signal == SIGKILL) {
		auto_str char *numbers = jobs_text(w->facts);
		return err_set(err, E_BUILD_OOM, "a compiler of the core was killed with %u parallel jobs (%s)", jobs,
			       numbers);
	}
	return err_set(err, E_BUILD, "the core of driver %s, below src/: %s", w->source->version,
		       log.error ? log.error : end.tail);
}

static int compile_missing_cores(struct core_job *j, const struct root *into, struct core_outcome *made,
				 struct err *err)
{
	made->jobs = j->request->jobs;
	for (size_t i = 0; i < j->missing_count; i++) {
		auto_str char *srcs = read_release_file(j->request->source, j->missing[i], "srcs.mk");
		made->objects += srcs ? count_lines(srcs, "SRCS +=") + count_lines(srcs, "SRCS_CXX +=") : 0;
		made->objects++; // the id string
	}
	if (use_ccache(j, err) < 0)
		return -1;
	int r = run_core_make(j, made->jobs, made->objects, err);
	while (r < 0 && err->code == E_BUILD_OOM && made->jobs > 1) {
		made->jobs /= 2;
		r = run_core_make(j, made->jobs, made->objects, err); // continues
	}
	if (r < 0)
		return -1;
	made->objects_kept = objects_count(&j->compile.job);
	made->peak_kib = j->compile.peak_kib;
	objects_close(&j->compile);
	for (size_t i = 0; i < j->missing_count; i++) {
		auto_str char *from = str_fmt("kernel-open/%s", j->missing[i]->file);
		char digest[DIGEST_HEX + 1];
		if (put_core(&j->compile.job, from, into, j->missing[i]->file, digest, err) < 0)
			return err_wrap(err, "the core of %s", j->missing[i]->module);
		keep_core(j, j->missing[i], into, digest);
		for (size_t k = 0; k < made->keys.count; k++)
			if (made->keys.items[k].core == j->missing[i])
				memcpy(made->digests[k], digest, sizeof(digest));
	}
	return 0;
}

int core_verify(const struct root *dir, const char *name, const struct core_key *key, struct err *err)
{
	struct stat st;
	const char *arch = tree_file_arch(dir, name);
	auto_fd int fd = root_open(dir, name, O_RDONLY | O_NOFOLLOW, err);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > CORE_BYTES || !arch)
		return err_set(err, E_ELF, "'%s' is not an object file of at most 512 MiB", name);
	if (!str_eq(arch, key->arch))
		return err_set(err, E_ARCH, "'%s' is for %s, expected %s", name, arch, key->arch);
	void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return file_fail("map", name, err);
	bool is_of_driver = memmem(data, (size_t)st.st_size, key->driver, strlen(key->driver));
	munmap(data, (size_t)st.st_size);
	return is_of_driver ? 0 : err_set(err, E_ELF, "'%s' does not say that it is of driver %s", name, key->driver);
}

// 1 = it is in `into`, from *ret_from.
static int take_offered_core(const struct core_job *j, const struct core_key *key, const struct root *into,
			     char **ret_from, char digest[DIGEST_HEX + 1], struct err *err)
{
	const struct core_offer *offer = j->request->offer;
	const struct root *work = j->request->work;
	auto_root struct root dir = ROOT_NONE;
	auto_str char *from = NULL;
	if (!offer)
		return 0;
	if (root_rmtree(work, BROUGHT, err) < 0 || root_mkdirs(work, BROUGHT, 0755, err) < 0 ||
	    root_sub(work, BROUGHT, &dir, err) < 0)
		return -1;
	const char *slash = strrchr(key->core->file, '/');
	int r = offer->bring(offer->ctx, key, &dir, slash + 1, &from);
	if (r > 0 && put_core(&dir, slash + 1, into, key->core->file, digest, err) < 0)
		r = -1;
	struct err ignored;
	root_rmtree(work, BROUGHT, &ignored);
	if (r > 0)
		*ret_from = TAKE(from);
	return r;
}

int core_make(const struct core_request *request, const struct root *into, struct core_outcome *ret, struct err *err)
{
	auto_core_outcome struct core_outcome made = { 0 };
	auto_core_job struct core_job j = CORE_JOB_OF(request);
	j.compile.tools = request->tools;
	j.compile.deadline_ms = request->deadline_ms;
	if (start_core_job(&j, &made.keys, err) < 0)
		return -1;
	open_kept_cores(&j);
	for (size_t i = 0; i < made.keys.count; i++) {
		const struct core_key *key = &made.keys.items[i];
		int r = j.kept.fd < 0 ? 0 : take_kept_core(&j.kept, key, into, key->core->file, made.digests[i], err);
		if (r > 0)
			made.from[i] = str_dup("cache");
		else if (r == 0)
			r = take_offered_core(&j, key, into, &made.from[i], made.digests[i], err);
		if (r < 0)
			return -1;
		if (r == 0)
			j.missing[j.missing_count++] = key->core;
	}
	if (j.missing_count && (copy_release(&j, err) < 0 || compile_missing_cores(&j, into, &made, err) < 0))
		return -1;
	*ret = made;
	made = (struct core_outcome){ 0 };
	return 0;
}
