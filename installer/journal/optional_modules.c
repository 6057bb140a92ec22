// SPDX-License-Identifier: Apache-2.0
#include "journal/optional_modules.h"

#include "base/process/boot_record.h"
#include "host/modules.h"

static const char FILE_NAME[] = BOOT_RECORD_DIR "/optional.json";

static void optional_failure_done(struct optional_failure *f)
{
	free(f->module);
	free(f->params);
	free(f->code);
	free(f->text);
}

void optional_modules_done(struct optional_modules *o)
{
	for (size_t i = 0; i < o->count; i++)
		optional_failure_done(&o->items[i]);
	free(o->items);
	free(o->driver);
	free(o->package);
	*o = (struct optional_modules){ 0 };
}

bool optional_modules_is(const char *module)
{
	static const char *const core[] = { "nvidia", "nvidia_uvm" };
	auto_str char *name = module_canonical(module);
	for (size_t i = 0; i < ARRAY_SIZE(core); i++)
		if (str_eq(name, core[i]))
			return false;
	return true;
}

struct optional_failure *optional_modules_find(const struct optional_modules *o, const char *module)
{
	auto_str char *name = module_canonical(module);
	for (size_t i = 0; o && i < o->count; i++) {
		auto_str char *has = module_canonical(o->items[i].module);
		if (str_eq(has, name))
			return &o->items[i];
	}
	return NULL;
}

void optional_modules_add(struct optional_modules *o, const char *module, const char *params, const char *code,
			  const char *text)
{
	struct optional_failure *f = optional_modules_find(o, module);
	if (f) {
		optional_failure_done(f);
	} else {
		o->items = mem_grow(o->items, o->count + 1, sizeof(*o->items));
		f = &o->items[o->count++];
	}
	*f = (struct optional_failure){
		.module = str_dup(module), .params = str_dup(params), .code = str_dup(code), .text = str_dup(text)
	};
}

static const char *failure_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

int optional_modules_read(const struct root *host, const char *boot_id, struct optional_modules *ret, struct err *err)
{
	auto_json json_t *file = NULL;
	int r = boot_record_read(host, FILE_NAME, boot_id, &file, err);
	if (r <= 0)
		return r;
	struct optional_modules o = { .driver = str_dup(failure_text(file, "driver")),
				      .package = str_dup(failure_text(file, "package")) };
	size_t i;
	json_t *item;
	json_array_foreach(json_object_get(file, "modules"), i, item)
	{
		if (*failure_text(item, "module"))
			optional_modules_add(&o, failure_text(item, "module"), failure_text(item, "params"),
					     failure_text(item, "code"), failure_text(item, "text"));
	}
	optional_modules_done(ret);
	*ret = o;
	return 1;
}

json_t *optional_modules_json(const struct optional_modules *o)
{
	json_t *list = json_array();
	for (size_t i = 0; i < o->count; i++) {
		const struct optional_failure *f = &o->items[i];
		json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o}", "module", json_text(f->module), "params",
						      json_text(f->params), "code", json_text(f->code), "text",
						      json_text(f->text)));
	}
	return list;
}

int optional_modules_write(const struct root *host, const char *boot_id, const struct optional_modules *o,
			   struct err *err)
{
	if (!o->count)
		return root_unlink(host, FILE_NAME, err) < 0 ? -1 : 0;
	auto_json json_t *file = json_pack("{s:o, s:o, s:o}", "driver", json_text(o->driver), "package",
					   json_text(o->package), "modules", optional_modules_json(o));
	return boot_record_write(host, FILE_NAME, boot_id, file, err);
}
