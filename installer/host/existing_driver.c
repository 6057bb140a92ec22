// SPDX-License-Identifier: Apache-2.0
#include "host/existing_driver.h"

#include "base/process/boot_record.h"
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

// The module that identifies the driver.
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

int existing_driver_note(const struct root *host, const struct root *kern, const char *boot_id,
			 const struct strv *modules, const char *made_for, struct err *err)
{
	auto_json json_t *old = NULL, *note = NULL;
	read_loaded_note(host, boot_id, &old);
	json_t *noted = json_object_get(old, "modules");
	auto_json json_t *list = json_is_object(noted) ? json_incref(noted) : json_object();
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

int existing_driver_read(const struct root *host, const struct host *facts, const struct modules *loaded,
			 const struct store *store, const struct strv *blacklist, struct existing_driver *ret,
			 struct err *err)
{
	const struct loaded_module *m = core_module(loaded);
	if (m && is_module_noted(host, facts->boot_id, m))
		return 0;
	if (m) {
		int ours = is_module_stored(store, facts, m->srcversion, loaded->version, loaded->flavour, err);
		if (ours == 0)
			*ret = (struct existing_driver){ .is_foreign = true,
							 .is_loaded = true,
							 .is_stale = !m->file && is_driver_idle(loaded),
							 .version = str_dup(loaded->version ? loaded->version :
											      m->version),
							 .flavour = loaded->flavour,
							 .file = str_dup(m->file) };
		return ours < 0 ? -1 : 0;
	}
	struct err unread;
	auto_module struct module module = MODULE_NONE;
	auto_str char *file = NULL;
	int found = modules_host_file(host, facts->release, "nvidia", &file, err);
	if (found <= 0 || strv_has(blacklist, "nvidia"))
		return found < 0 ? -1 : 0;
	auto_fd int fd = root_open(host, file, O_RDONLY, &unread);
	if (fd >= 0) // else the version stays unknown
		module_read(fd, file, &module, &unread);
	// The open modules are "Dual MIT/GPL", the others "NVIDIA".
	enum module_type flavour = !module.license        ? MODULE_TYPE_AUTO :
				   module_is_gpl(&module) ? MODULE_TYPE_OPEN :
							    MODULE_TYPE_PROPRIETARY;
	int ours = is_module_stored(store, facts, module.srcversion, module.version, flavour, err);
	if (ours == 0)
		*ret = (struct existing_driver){
			.is_foreign = true, .version = str_dup(module.version), .flavour = flavour, .file = TAKE(file)
		};
	return ours < 0 ? -1 : 0;
}
