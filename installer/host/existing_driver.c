// SPDX-License-Identifier: Apache-2.0
#include "host/existing_driver.h"

#include "base/formats/boot_record.h"
#include "kmod/module/elf.h"

#include <fcntl.h>

static const char NOTE[] = BOOT_RECORD_DIR "/loaded.json";

bool host_policy_parse(const char *text, enum host_policy *ret)
{
	static const char *const names[] = { "fail", "use", "replace" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_eq(text, names[i])) {
			*ret = (enum host_policy)i;
			return true;
		}
	}
	return false;
}

void existing_driver_done(struct existing_driver *r)
{
	free(r->version);
	free(r->file);
	*r = (struct existing_driver){ 0 };
}

char *existing_driver_text(const struct existing_driver *r)
{
	return str_fmt("%s (%s, %s%s)", r->version ? r->version : "unknown version",
		       r->flavour ? module_type_name(r->flavour) : "unknown module type",
		       r->file ? "from " : "no file on the host", r->file ? r->file : "");
}

// The module that tells which driver this is.
static const struct loaded_module *core_module(const struct modules *l)
{
	const struct loaded_module *nvidia = modules_find(l, "nvidia");
	for (size_t i = 0; i < l->count && !nvidia; i++)
		if (l->items[i].is_driver)
			return &l->items[i];
	return nvidia;
}

// 1 = this boot has a note. One that cannot be read counts as none.
static int read_loaded_note(const struct root *host, const char *boot_id, json_t **ret)
{
	struct err ignored;
	return boot_record_read(host, NOTE, boot_id, ret, &ignored) > 0;
}

static bool is_module_noted(const struct root *host, const char *boot_id, const struct loaded_module *m)
{
	auto_json json_t *note = NULL;
	if (!read_loaded_note(host, boot_id, &note))
		return false;
	const json_t *srcversion = json_object_get(json_object_get(note, "modules"), m->name);
	return srcversion &&
	       (m->srcversion ? str_eq(json_string_value(srcversion), m->srcversion) : json_is_null(srcversion));
}

static json_t *noted_modules(json_t *note)
{
	json_t *modules = json_object_get(note, "modules");
	return json_is_object(modules) ? json_incref(modules) : json_object();
}

int existing_driver_note(const struct root *host, const struct root *kern, const char *boot_id,
			 const struct strv *modules, const char *made_for, struct err *err)
{
	auto_json json_t *old = NULL, *note = NULL;
	read_loaded_note(host, boot_id, &old);
	auto_json json_t *list = noted_modules(old);
	for (size_t i = 0; i < modules->count; i++) {
		struct err ignored;
		auto_str char *name = module_canonical(modules->items[i]), *srcversion = NULL,
			      *path = str_fmt("sys/module/%s/srcversion", name);
		root_line(kern, path, &srcversion, &ignored);
		json_object_set_new(list, name, json_text(srcversion));
	}
	note = json_pack("{s:O}", "modules", list);
	if (made_for)
		json_object_set_new(note, "made_for", json_text(made_for));
	return boot_record_write(host, NOTE, boot_id, note, err);
}

char *existing_driver_made_for(const struct root *host, const char *boot_id, const struct modules *loaded)
{
	auto_json json_t *note = NULL;
	const struct loaded_module *m = core_module(loaded);
	if (!m || !is_module_noted(host, boot_id, m) || !read_loaded_note(host, boot_id, &note))
		return NULL;
	return json_text_dup(note, "made_for");
}

// 1 = the store has a package with this module of the driver.
static int is_module_stored(const struct store *store, const struct host *facts, const char *srcversion,
			    const char *version, enum module_type flavour, struct err *err)
{
	auto_package struct package p = PACKAGE_NONE;
	struct package_want want = { .release = facts->release, .build_id = facts->build_id, .srcversion = srcversion };
	if (!store || (!srcversion && !version))
		return 0;
	if (!srcversion) {
		want.driver = version;
		want.flavour = module_type_name(flavour);
	}
	return store_find(store, &want, &p, err);
}

// What is loaded counts as idle when only modules of the set refer to modules of the set.
static bool is_driver_idle(const struct modules *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (!l->items[i].is_driver || l->items[i].refcount > l->items[i].holders.count)
			return false;
	return true;
}

// If the file cannot be read, the version stays unknown.
static void read_module_file(const struct root *host, const char *path, struct module *ret)
{
	struct err ignored;
	auto_fd int fd = root_open(host, path, O_RDONLY, &ignored);
	if (fd >= 0)
		module_read(fd, path, ret, &ignored);
}

// The open modules are "Dual MIT/GPL", the others "NVIDIA".
static enum module_type module_flavour(const struct module *m)
{
	return !m->license ? MODULE_TYPE_AUTO : module_is_gpl(m) ? MODULE_TYPE_OPEN : MODULE_TYPE_PROPRIETARY;
}

static void inspect_loaded(const struct modules *l, const struct loaded_module *m, struct existing_driver *r)
{
	*r = (struct existing_driver){ .is_foreign = true,
				       .is_loaded = true,
				       .is_stale = !m->file && is_driver_idle(l),
				       .version = str_dup(l->version ? l->version : m->version),
				       .flavour = l->flavour,
				       .file = str_dup(m->file) };
}

static int inspect_installed(const struct root *host, const struct host *facts, const struct store *store,
			     const struct strv *blacklist, struct existing_driver *r, struct err *err)
{
	auto_module struct module module = MODULE_NONE;
	auto_str char *file = NULL;
	int found = modules_host_file(host, facts->release, "nvidia", &file, err);
	if (found <= 0 || strv_has(blacklist, "nvidia"))
		return found < 0 ? -1 : 0;
	read_module_file(host, file, &module);
	enum module_type flavour = module_flavour(&module);
	int ours = is_module_stored(store, facts, module.srcversion, module.version, flavour, err);
	if (ours == 0)
		*r = (struct existing_driver){
			.is_foreign = true, .version = str_dup(module.version), .flavour = flavour, .file = TAKE(file)
		};
	return ours < 0 ? -1 : 0;
}

int existing_driver_read(const struct root *host, const struct host *facts, const struct modules *loaded,
			 const struct store *store, const struct strv *blacklist, struct existing_driver *ret,
			 struct err *err)
{
	const struct loaded_module *m = core_module(loaded);
	if (!m)
		return inspect_installed(host, facts, store, blacklist, ret, err);
	if (is_module_noted(host, facts->boot_id, m))
		return 0;
	int ours = is_module_stored(store, facts, m->srcversion, loaded->version, loaded->flavour, err);
	if (ours == 0)
		inspect_loaded(loaded, m, ret);
	return ours < 0 ? -1 : 0;
}
