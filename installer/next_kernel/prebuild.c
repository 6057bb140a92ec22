// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/prebuild_internal.h"

#include "base/file/file.h"
#include "next_kernel/installed.h"
#include "precompiled/package/find.h"

#include <fcntl.h>
#include <inttypes.h>

void prebuild_done(struct prebuild *p)
{
	forecast_done(&p->forecast);
	forecast_done(&p->before);
	coming_done(&p->coming);
	strv_done(&p->kept);
	source_done(&p->source);
	scratch_done(&p->source_work);
}

bool prebuild_is_well(const struct forecast *f)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->items[i].verdict != FORECAST_READY)
			return false;
	return true;
}

static void add_file(char **text, const char *path)
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
	const struct prebuild_wish *w = p->wish;
	const char *signing = host_signing_reason(&p->facts->host);
	auto_str char *modules = strv_join(w->modules, ","),
		      *text = str_fmt("%s %s %s %s %s %d %d %s", KMODSMITH_VERSION, reuse_name(w->reuse), w->driver,
				      flavour_name(w->flavour), modules, w->is_rt_allowed, w->is_compile_forbidden,
				      signing ? signing : "");
	if (w->source)
		add_file(&text, w->source);
	for (size_t i = 0; w->headers && i < w->headers->count; i++)
		add_file(&text, w->headers->items[i]);
	if (w->patches)
		add_file(&text, w->patches->name);
	digest_data(text, strlen(text), p->inputs);
}

static bool is_wanted(const struct prebuild *p, const char *release)
{
	const struct strv *only = p->wish->only;
	return !only || !only->count || strv_has(only, release);
}

static struct forecast_kernel make_entry(const struct prebuild *p, const struct coming_kernel *k)
{
	const struct forecast_kernel *old = forecast_find(&p->before, k->release);
	struct forecast_kernel e = { .release = str_dup(k->release),
				     .where = str_dup(k->where),
				     .is_next = k->is_next };
	auto_str char *both = str_fmt("%s %s", p->inputs, k->stamp);
	digest_data(both, strlen(both), e.stamp);
	forecast_say(&e, FORECAST_NEEDS_BUILD, 0, "nobody has looked yet");
	if (old && str_eq(old->stamp, e.stamp)) {
		e.tries = old->tries;
		e.not_before_s = old->not_before_s;
	}
	return e;
}

static int list(struct prebuild *p, struct err *err)
{
	struct forecast *f = &p->forecast;
	const struct strv *only = p->wish->only;
	const char *running = p->facts->host.release;
	if (coming_read(p->host, p->kern, running, p->wish->roots, &p->coming, err) < 0 ||
	    kernels_list(p->host, running, &p->kept, err) < 0)
		return -1;
	*f = (struct forecast){ .running = str_dup(running),
				.driver = str_dup(p->wish->driver),
				.next = str_dup(p->coming.next),
				.next_by = str_dup(p->coming.next_by),
				.is_gated = p->wish->is_gated };
	f->items = mem_alloc((p->coming.count + 1) * sizeof(*f->items));
	for (size_t i = 0; i < p->coming.count; i++) {
		const struct coming_kernel *k = &p->coming.items[i];
		if (is_wanted(p, k->release))
			f->items[f->count++] = make_entry(p, k);
		if (!strv_has(&p->kept, k->release))
			strv_add(&p->kept, str_dup(k->release));
	}
	for (size_t i = 0; only && i < only->count; i++)
		if (!forecast_find(f, only->items[i]))
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
	auto_index struct index all = { 0 };
	if (layout_index(&s->layout, &all, err) < 0)
		return -1;
	for (size_t i = 0; i < all.count; i++) {
		struct err ignored;
		auto_package struct package p = PACKAGE_NONE;
		if (find_open(&s->layout, &all.items[i], &p, &ignored) > 0 && !strv_has(but, p.key.release))
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
		watch_note(p->watch, "%s leaves the store: its kernel was removed", g.packages.items[i]);
	return 0;
}

static void look_after_removed(const struct prebuild *p)
{
	struct err why;
	auto_strv struct strv removed = { 0 };
	list_removed(p, &removed);
	if (removed.count && free_removed(p, &removed, &why) < 0)
		watch_note(p->watch, "packages of removed kernels stay until `kmodsmith store gc`: %s", why.text);
}

// A verdict of before that only other inputs can change. A builder image may come to the sources any time.
static bool is_settled(const struct prebuild *p, struct forecast_kernel *e)
{
	const struct forecast_kernel *old = forecast_find(&p->before, e->release);
	if (p->wish->is_retry || !old || !str_eq(old->stamp, e->stamp) || old->verdict != FORECAST_IMPOSSIBLE ||
	    !old->code || old->code == E_TOOLCHAIN || err_info(old->code)->retryable)
		return false;
	forecast_say(e, old->verdict, old->code, old->evidence);
	return true;
}

static void look(struct prebuild *p, size_t at)
{
	struct err why;
	auto_ahead struct ahead a = AHEAD_NONE;
	ahead_open(p, at, &a);
	if (a.kernel->lacks) {
		auto_str char *text =
			str_fmt("it has %s yet: it is being installed, or only half of it was", a.kernel->lacks);
		forecast_say(a.entry, FORECAST_INCOMPLETE, 0, text);
	} else if (ahead_obtain(&a, &why) == 0) {
		if (!p->wish->source || p->wish->is_compile_forbidden)
			forecast_say(a.entry, FORECAST_IMPOSSIBLE, why.code, why.text);
		else if (!is_settled(p, a.entry))
			ahead_judge(&a);
	}
}

static bool is_gone(const struct coming_kernel *k)
{
	auto_str char *path = str_fmt("lib/modules/%s/modules.builtin", k->release);
	return !root_exists(&k->root, path);
}

static void drop(struct forecast *f, size_t at)
{
	struct forecast gone = { .items = mem_alloc(sizeof(*gone.items)), .count = 1 };
	gone.items[0] = f->items[at];
	memmove(&f->items[at], &f->items[at + 1], (--f->count - at) * sizeof(*f->items));
	forecast_done(&gone);
}

// 1 = the kernel was removed meanwhile.
static int compile_one(struct prebuild *p, size_t at)
{
	auto_ahead struct ahead a = AHEAD_NONE;
	ahead_open(p, at, &a);
	if (is_gone(a.kernel))
		return 1;
	watch_note(p->watch, "kernel %s: a package is made for it", a.kernel->release);
	ahead_compile(&a);
	return a.entry->verdict != FORECAST_READY && is_gone(a.kernel);
}

static int compile_all(struct prebuild *p, struct err *err)
{
	struct forecast *f = &p->forecast;
	unsigned begun = 0;
	for (size_t i = 0; i < f->count; i++) {
		if (f->items[i].verdict != FORECAST_NEEDS_BUILD)
			continue;
		if (begun++ >= p->wish->limit) {
			auto_str char *text = str_fmt("%s; kernels before it are more than --limit %u",
						      f->items[i].evidence, p->wish->limit);
			forecast_say(&f->items[i], FORECAST_NEEDS_BUILD, 0, text);
			continue;
		}
		if (compile_one(p, i) > 0) {
			watch_note(p->watch, "kernel %s was removed meanwhile", f->items[i].release);
			drop(f, i--);
		}
		if (forecast_write(p->host, p->facts->host.boot_id, f, err) < 0)
			return -1;
	}
	return 0;
}

int prebuild_run(struct prebuild *p, struct err *err)
{
	const char *boot_id = p->facts->host.boot_id;
	const struct prebuild_wish *w = p->wish;
	make_inputs(p);
	if (w->source && source_digest(w->source, w->source_sha256, p->source_digest, err) < 0)
		return -1;
	if (forecast_read(p->host, boot_id, &p->before, err) < 0 || list(p, err) < 0)
		return -1;
	look_after_removed(p);
	for (size_t i = 0; i < p->forecast.count; i++)
		look(p, i);
	if (forecast_write(p->host, boot_id, &p->forecast, err) < 0 || compile_all(p, err) < 0)
		return -1;
	return forecast_write(p->host, boot_id, &p->forecast, err) < 0 ? -1 : 0;
}
