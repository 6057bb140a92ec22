// SPDX-License-Identifier: Apache-2.0
#include "host/modules.h"

#include "kmod/load/provider.h"
#include "kmod/module/elf.h"

#include <ctype.h>
#include <time.h>

// Modules of the driver and its usual companions, in unloading order. nvidia_fs and the stub form of
// nvidia_drm use the driver without a holder relation (symbol_get, no symbols at all), so rank decides for them.
static const struct {
	const char *name;
	bool is_driver;
} known[] = {
	{ "nvidia_drm", true },       { "nvidia_fs", false },     { "gdrdrv", false },    { "nvidia_peermem", true },
	{ "nvidia_vgpu_vfio", true }, { "nvidia_modeset", true }, { "nvidia_uvm", true }, { "nvidia", true },
};

char *module_canonical(const char *name)
{
	static const char *const variants[] = { "_current", "_tesla", "_legacy" };
	char *s = module_kernel_name(name);
	for (size_t i = 0; str_starts(s, "nvidia_") && i < ARRAY_SIZE(variants); i++) {
		char *start = s + strlen("nvidia");
		if (!str_starts(start, variants[i]))
			continue;
		char *end = start + strlen(variants[i]);
		if (*end == '_' && isdigit((unsigned char)end[1])) // "_470", "_390xx"
			end += 1 + strcspn(end + 1, "_");
		memmove(start, end, strlen(end) + 1);
		break;
	}
	return s;
}

const char *modules_state_name(enum loaded_state s)
{
	static const char *const names[] = { "live", "coming", "going" };
	return names[s];
}

static char *read_module_attribute(const struct root *kern, const char *module, const char *name)
{
	struct err err;
	auto_str char *path = str_fmt("sys/module/%s/%s", module, name);
	char *text = NULL;
	root_line(kern, path, &text, &err);
	return text;
}

static void read_sysfs_params(const struct root *kern, struct loaded_module *m)
{
	struct err err;
	auto_str char *path = str_fmt("sys/module/%s/parameters", m->name);
	auto_strv struct strv names = { 0 };
	root_list(kern, path, &names, &err);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *file = str_fmt("parameters/%s", names.items[i]);
		auto_str char *value = read_module_attribute(kern, m->name, file); // some may be written only
		if (value)
			strv_add(&m->params, str_fmt("%s=%s", names.items[i], value));
	}
}

// The file that modprobe would load: the entry of modules.dep with this module's name, or one of Debian's names for it.
static char *find_module_file(const struct root *host, const char *release, const char *dep, const char *module)
{
	for (const char *line = dep; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		auto_str char *path = str_ndup(line, strcspn(line, ":\n"));
		const char *slash = strrchr(path, '/');
		auto_str char *base = str_dup(slash ? slash + 1 : path);
		char *suffix = strstr(base, ".ko");
		if (!suffix)
			continue;
		*suffix = '\0';
		auto_str char *name = module_canonical(base);
		if (!str_eq(name, module))
			continue;
		auto_str char *file = provider_path(release, path);
		if (root_exists(host, file))
			return TAKE(file);
	}
	return NULL;
}

static int read_modules_dep(const struct root *host, const char *release, char **ret, struct err *err)
{
	auto_str char *path = str_fmt("lib/modules/%s/modules.dep", release);
	return root_read(host, path, ret, NULL, err);
}

int modules_host_file(const struct root *host, const char *release, const char *module, char **ret, struct err *err)
{
	auto_str char *dep = NULL;
	if (read_modules_dep(host, release, &dep, err) < 0)
		return err_wrap(err, "look for the host's %s", module);
	*ret = find_module_file(host, release, dep, module);
	return *ret != NULL;
}

// A built-in module, or one that only has parameters in sysfs, has no initstate and does not count.
static void add_loaded_module(struct modules *l, const struct root *kern, const char *name, bool is_driver)
{
	struct err err;
	uint64_t refcount = 0;
	auto_str char *state = modules_find(l, name) ? NULL : read_module_attribute(kern, name, "initstate");
	if (!state)
		return;
	auto_str char *count = read_module_attribute(kern, name, "refcnt");
	auto_str char *holders = str_fmt("sys/module/%s/holders", name);
	str_u64(count, 10, &refcount);
	struct loaded_module m = {
		.name = str_dup(name),
		.is_driver = is_driver,
		.state = str_eq(state, "coming") ? LOADED_COMING :
			 str_eq(state, "going")  ? LOADED_GOING :
						   LOADED_LIVE,
		.version = read_module_attribute(kern, name, "version"),
		.srcversion = read_module_attribute(kern, name, "srcversion"),
		.refcount = (unsigned)refcount,
		.taint = read_module_attribute(kern, name, "taint"),
	};
	root_list(kern, holders, &m.holders, &err);
	read_sysfs_params(kern, &m);
	l->items = mem_grow(l->items, l->count + 1, sizeof(*l->items));
	l->items[l->count++] = m;
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.261.03  Release Build ..." or
// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Sat Jun 14 ...": the first word that begins with digits
// and a dot; only the open modules have the word Open.
static void read_version(const struct root *kern, struct modules *l)
{
	struct err err;
	auto_str char *text = NULL;
	if (root_read(kern, "proc/driver/nvidia/version", &text, NULL, &err) <= 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	auto_strv struct strv words = { 0 };
	strv_split(&words, text, " \t");
	l->flavour = strv_has(&words, "Open") ? MODULE_TYPE_OPEN : MODULE_TYPE_PROPRIETARY;
	for (size_t i = 0; i < words.count && !l->version; i++) {
		const char *digits = words.items[i] + strspn(words.items[i], "0123456789");
		if (digits > words.items[i] && *digits == '.')
			l->version = str_dup(words.items[i]);
	}
}

static uint64_t read_load(const struct root *kern)
{
	struct stat st;
	struct err ignored;
	return root_stat(kern, "sys/module/nvidia", &st, &ignored) > 0 ? st.st_ino : 0;
}

static void read_nvidia_params(const struct root *kern, struct modules *l)
{
	struct err err;
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	if (root_read(kern, "proc/driver/nvidia/params", &text, NULL, &err) <= 0)
		return;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		char *colon = strchr(lines.items[i], ':');
		if (!colon)
			continue;
		*colon = '\0';
		char *value = str_trim(colon + 1);
		size_t len = strlen(value);
		if (len >= 2 && *value == '"' && value[len - 1] == '"') {
			value[len - 1] = '\0';
			value++;
		}
		strv_add(&l->params, str_fmt("%s=%s", lines.items[i], value));
	}
}

static int compare_module_names(const void *a, const void *b)
{
	return strcmp(((const struct loaded_module *)a)->name, ((const struct loaded_module *)b)->name);
}

int modules_read(const struct root *host, const struct root *kern, const char *release, struct modules *ret,
		 struct err *err)
{
	struct modules l = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		add_loaded_module(&l, kern, known[i].name, known[i].is_driver);
	for (size_t i = 0; i < l.count; i++) // grows: holders of holders
		for (size_t j = 0; j < l.items[i].holders.count; j++)
			add_loaded_module(&l, kern, l.items[i].holders.items[j], false);
	if (l.count) {
		auto_str char *dep = NULL;
		if (read_modules_dep(host, release, &dep, err) < 0) {
			modules_done(&l);
			return err_wrap(err, "look for the files of the loaded modules");
		}
		for (size_t i = 0; i < l.count; i++)
			l.items[i].file = find_module_file(host, release, dep, l.items[i].name);
		qsort(l.items, l.count, sizeof(*l.items), compare_module_names);
		read_version(kern, &l);
		read_nvidia_params(kern, &l);
		l.load = read_load(kern);
	}
	*ret = l;
	return l.count > 0;
}

void modules_done(struct modules *l)
{
	for (size_t i = 0; i < l->count; i++) {
		struct loaded_module *m = &l->items[i];
		free(m->name);
		free(m->version);
		free(m->srcversion);
		free(m->taint);
		free(m->file);
		strv_done(&m->holders);
		strv_done(&m->params);
	}
	free(l->items);
	free(l->version);
	strv_done(&l->params);
	*l = (struct modules){ 0 };
}

const struct loaded_module *modules_find(const struct modules *l, const char *name)
{
	auto_str char *wanted = module_canonical(name);
	for (size_t i = 0; i < l->count; i++)
		if (str_eq(l->items[i].name, wanted))
			return &l->items[i];
	return NULL;
}

enum { VISIT_NEW, VISIT_OPEN, VISIT_DONE };

// Depth first: all holders of a module are unloaded before it.
static int visit_module(const struct modules *l, const struct loaded_module *m, char *marks, struct strv *order,
			struct err *err)
{
	char *mark = &marks[m - l->items];
	if (*mark == VISIT_DONE)
		return 0;
	if (*mark == VISIT_OPEN)
		return err_set(err, E_IN_USE, "module %s depends on itself through its holders", m->name);
	*mark = VISIT_OPEN;
	for (size_t i = 0; i < m->holders.count; i++) {
		const struct loaded_module *holder = modules_find(l, m->holders.items[i]);
		if (holder && visit_module(l, holder, marks, order, err) < 0)
			return -1;
	}
	*mark = VISIT_DONE;
	strv_add(order, str_dup(m->name));
	return 0;
}

int modules_unload_order(const struct modules *l, struct strv *ret, struct err *err)
{
	auto_str char *marks = mem_alloc(l->count);
	auto_strv struct strv order = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		const struct loaded_module *m = modules_find(l, known[i].name);
		if (m && visit_module(l, m, marks, &order, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < l->count; i++)
		if (visit_module(l, &l->items[i], marks, &order, err) < 0)
			return -1;
	*ret = order;
	order = (struct strv){ 0 };
	return 0;
}

enum { POLL_MS = 100 };

const struct loaded_module *modules_pending(const struct modules *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].state != LOADED_LIVE)
			return &l->items[i];
	return NULL;
}

int modules_read_settled(const struct root *host, const struct root *kern, const char *release, int timeout_ms,
			 struct progress *progress, struct modules *ret, struct err *err)
{
	const struct timespec nap = { .tv_nsec = POLL_MS * 1000 * 1000 };
	for (int waited_ms = 0;; waited_ms += POLL_MS) {
		auto_modules struct modules l = { 0 };
		if (modules_read(host, kern, release, &l, err) < 0)
			return -1;
		const struct loaded_module *m = modules_pending(&l);
		if (!m) {
			*ret = l;
			l = (struct modules){ 0 };
			return ret->count > 0;
		}
		if (waited_ms >= timeout_ms)
			return err_set(err, E_MODULE_BUSY, "module %s is still %s after %g s", m->name,
				       modules_state_name(m->state), timeout_ms / 1e3);
		if (!waited_ms)
			progress_note(progress, "module %s is %s: waiting for it", m->name,
				      modules_state_name(m->state));
		nanosleep(&nap, NULL);
	}
}
