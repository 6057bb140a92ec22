// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/prebuild_internal.h"

#include "base/file/file.h"
#include "next_kernel/installed.h"
#include "precompiled/package/find.h"

#include <fcntl.h>
#include <inttypes.h>

void prebuild_done(struct prebuild *p)
{
	kernel_report_done(&p->kernel_report);
	kernel_report_done(&p->before);
	boot_candidates_done(&p->boot_candidates);
	strv_done(&p->kept);
	source_done(&p->source);
	scratch_done(&p->source_work);
}

bool prebuild_is_well(const struct kernel_report *f)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->items[i].verdict != KERNEL_READY)
			return false;
	return true;
}

static void add_file_stamp(char **text, const char *path)
{
	struct err ignored;
	struct stat st;
	auto_fd int fd = file_open_arg(path, O_RDONLY | O_NONBLOCK, &ignored);
	str_add(text, " %s", path);
	if (fd >= 0 && fstat(fd, &st) == 0)
		str_add(text, " %ju %ju.%09ld", (uintmax_t)st.st_size, (uintmax_t)st.st_mtim.tv_sec,
			st.st_mtim.tv_nsec);
}

// What a verdict rests on beside the kernel's own files; this program is part of it.
static void make_inputs(struct prebuild *p)
{
	const struct prebuild_request *w = p->request;
	const char *signing = host_signing_reason(&p->facts->host);
	auto_str char *modules = strv_join(w->modules, ","),
		      *text = str_fmt("%s %s %s %s %s %d %d %s", KMODSMITH_VERSION, reuse_name(w->reuse), w->driver,
				      flavour_name(w->flavour), modules, w->is_rt_allowed, w->is_compile_forbidden,
				      signing ? signing : "");
	if (w->source)
		add_file_stamp(&text, w->source);
	for (size_t i = 0; w->headers && i < w->headers->count; i++)
		add_file_stamp(&text, w->headers->items[i]);
	if (w->patches)
		add_file_stamp(&text, w->patches->name);
	digest_data(text, strlen(text), p->inputs);
}

static bool is_requested_release(const struct prebuild *p, const char *release)
{
	const struct strv *only = p->request->only;
	return !only || !only->count || strv_has(only, release);
}

static struct kernel_report_entry make_report_entry(const struct prebuild *p, const struct boot_candidate *k)
{
	const struct kernel_report_entry *old = kernel_report_find(&p->before, k->release);
	struct kernel_report_entry e = { .release = str_dup(k->release),
					 .where = str_dup(k->where),
					 .is_next = k->is_next };
	auto_str char *both = str_fmt("%s %s", p->inputs, k->stamp);
	digest_data(both, strlen(both), e.stamp);
	kernel_report_set(&e, KERNEL_NEEDS_BUILD, 0, "nobody has looked yet");
	if (old && str_eq(old->stamp, e.stamp)) {
		e.tries = old->tries;
		e.not_before_s = old->not_before_s;
	}
	return e;
}

static int list_report_candidates(struct prebuild *p, struct err *err)
{
	struct kernel_report *f = &p->kernel_report;
	const struct strv *only = p->request->only;
	const char *running = p->facts->host.release;
	if (boot_candidates_read(p->host, p->kern, running, p->request->roots, &p->boot_candidates, err) < 0 ||
	    installed_kernels(p->host, running, &p->kept, err) < 0)
		return -1;
	*f = (struct kernel_report){ .running = str_dup(running),
				     .driver = str_dup(p->request->driver),
				     .next = str_dup(p->boot_candidates.next),
				     .next_by = str_dup(p->boot_candidates.next_by),
				     .is_gated = p->request->is_gated };
	f->items = mem_alloc((p->boot_candidates.count + 1) * sizeof(*f->items));
	for (size_t i = 0; i < p->boot_candidates.count; i++) {
		const struct boot_candidate *k = &p->boot_candidates.items[i];
		if (is_requested_release(p, k->release))
			f->items[f->count++] = make_report_entry(p, k);
		if (!strv_has(&p->kept, k->release))
			strv_add(&p->kept, str_dup(k->release));
	}
	for (size_t i = 0; only && i < only->count; i++)
		if (!kernel_report_find(f, only->items[i]))
			return err_set(err, E_NOT_FOUND, "this machine has no kernel '%s' beside the running %s",
				       only->items[i], running);
	return 0;
}

// Kernels that were there at the last look, and whose packages nobody can load any more.
static void list_removed(const struct prebuild *p, struct strv *ret)
{
	for (size_t i = 0; i < p->before.count; i++)
		if (!strv_has(&p->kept, p->before.items[i].release))
			strv_add(ret, str_dup(p->before.items[i].release));
}

// Of every package in the store, but those of these releases.
static int list_stored(const struct store *s, const struct strv *but, struct strv *ret, struct err *err)
{
	auto_oci_index struct oci_index all = { 0 };
	if (layout_index(&s->layout, &all, err) < 0)
		return -1;
	for (size_t i = 0; i < all.count; i++) {
		struct err ignored;
		auto_package struct package p = PACKAGE_NONE;
		if (find_by_descriptor(&s->layout, &all.items[i], &p, &ignored) > 0 && !strv_has(but, p.key.release))
			strv_add(ret, str_dup(p.key.release));
	}
	return 0;
}

static int free_removed(const struct prebuild *p, const struct strv *removed, struct err *err)
{
	auto_store struct store s = STORE_NONE;
	auto_strv struct strv stay = { 0 };
	auto_store_garbage struct store_garbage g = { 0 };
	if (!root_exists(p->state, "store/oci-layout"))
		return 0;
	for (size_t i = 0; i < p->kept.count; i++) // one that serves another kernel than it was made for
		strv_add(&stay, str_dup(p->kept.items[i]));
	if (store_open(p->state, 0, &s, err) < 0 || list_stored(&s, removed, &stay, err) < 0 ||
	    store_gc(&s, &stay, false, &g, err) < 0)
		return -1;
	for (size_t i = 0; i < g.packages.count; i++)
		progress_note(p->progress, "%s leaves the store: its kernel was removed", g.packages.items[i]);
	return 0;
}

static void collect_removed_kernels(const struct prebuild *p)
{
	struct err why;
	auto_strv struct strv removed = { 0 };
	list_removed(p, &removed);
	if (removed.count && free_removed(p, &removed, &why) < 0)
		progress_note(p->progress, "packages of removed kernels stay until `kmodsmith store gc`: %s", why.text);
}

// A verdict of before that only other inputs can change. A builder image may come to the sources any time.
static bool is_verdict_final(const struct prebuild *p, struct kernel_report_entry *e)
{
	const struct kernel_report_entry *old = kernel_report_find(&p->before, e->release);
	if (p->request->is_retry || !old || !str_eq(old->stamp, e->stamp) || old->verdict != KERNEL_IMPOSSIBLE ||
	    !old->code || old->code == E_TOOLCHAIN || err_info(old->code)->retryable)
		return false;
	kernel_report_set(e, old->verdict, old->code, old->evidence);
	return true;
}

static void look_at_candidate(struct prebuild *p, size_t at)
{
	struct err why;
	auto_prebuild_kernel struct prebuild_kernel a = PREBUILD_KERNEL_NONE;
	prebuild_kernel_open(p, at, &a);
	if (a.kernel->lacks) {
		auto_str char *text =
			str_fmt("it has %s yet: it is being installed, or only half of it was", a.kernel->lacks);
		kernel_report_set(a.entry, KERNEL_INCOMPLETE, 0, text);
	} else if (prebuild_acquire(&a, &why) == 0) {
		if (!p->request->source || p->request->is_compile_forbidden)
			kernel_report_set(a.entry, KERNEL_IMPOSSIBLE, why.code, why.text);
		else if (!is_verdict_final(p, a.entry))
			prebuild_judge(&a);
	}
}

static bool is_kernel_removed(const struct boot_candidate *k)
{
	auto_str char *path = str_fmt("lib/modules/%s/modules.builtin", k->release);
	return !root_exists(&k->root, path);
}

static void drop_report_entry(struct kernel_report *f, size_t at)
{
	struct kernel_report gone = { .items = mem_alloc(sizeof(*gone.items)), .count = 1 };
	gone.items[0] = f->items[at];
	memmove(&f->items[at], &f->items[at + 1], (--f->count - at) * sizeof(*f->items));
	kernel_report_done(&gone);
}

// 1 = the kernel was removed meanwhile.
static int compile_candidate(struct prebuild *p, size_t at)
{
	auto_prebuild_kernel struct prebuild_kernel a = PREBUILD_KERNEL_NONE;
	prebuild_kernel_open(p, at, &a);
	if (is_kernel_removed(a.kernel))
		return 1;
	progress_note(p->progress, "kernel %s: a package is made for it", a.kernel->release);
	prebuild_compile(&a);
	return a.entry->verdict != KERNEL_READY && is_kernel_removed(a.kernel);
}

static int compile_candidates(struct prebuild *p, struct err *err)
{
	struct kernel_report *f = &p->kernel_report;
	unsigned begun = 0;
	for (size_t i = 0; i < f->count; i++) {
		if (f->items[i].verdict != KERNEL_NEEDS_BUILD)
			continue;
		if (begun++ >= p->request->limit) {
			auto_str char *text = str_fmt("%s; kernels before it are more than --limit %u",
						      f->items[i].evidence, p->request->limit);
			kernel_report_set(&f->items[i], KERNEL_NEEDS_BUILD, 0, text);
			continue;
		}
		if (compile_candidate(p, i) > 0) {
			progress_note(p->progress, "kernel %s was removed meanwhile", f->items[i].release);
			drop_report_entry(f, i--);
		}
		if (kernel_report_write(p->host, p->facts->host.boot_id, f, err) < 0)
			return -1;
	}
	return 0;
}

int prebuild_run(struct prebuild *p, struct err *err)
{
	const char *boot_id = p->facts->host.boot_id;
	const struct prebuild_request *w = p->request;
	make_inputs(p);
	if (w->source && source_digest(w->source, w->source_sha256, p->source_digest, err) < 0)
		return -1;
	if (kernel_report_read(p->host, boot_id, &p->before, err) < 0 || list_report_candidates(p, err) < 0)
		return -1;
	collect_removed_kernels(p);
	for (size_t i = 0; i < p->kernel_report.count; i++)
		look_at_candidate(p, i);
	if (kernel_report_write(p->host, boot_id, &p->kernel_report, err) < 0 || compile_candidates(p, err) < 0)
		return -1;
	return kernel_report_write(p->host, boot_id, &p->kernel_report, err) < 0 ? -1 : 0;
}
