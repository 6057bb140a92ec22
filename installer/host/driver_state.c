// SPDX-License-Identifier: Apache-2.0
#include "host/driver_state.h"

#include "host/modules.h"

void driver_state_done(struct driver_state *d)
{
	free(d->version);
	free(d->flavour);
	free(d->digest);
	free(d->kernel);
	strv_done(&d->modules);
	strv_done(&d->params);
	strv_done(&d->options);
	*d = (struct driver_state){ 0 };
}

static void copy_list(const struct strv *from, struct strv *to)
{
	for (size_t i = 0; i < from->count; i++)
		strv_add(to, str_dup(from->items[i]));
}

void driver_state_copy(const struct driver_state *from, struct driver_state *to)
{
	struct driver_state d = { .version = str_dup(from->version),
				  .flavour = str_dup(from->flavour),
				  .digest = str_dup(from->digest),
				  .kernel = str_dup(from->kernel) };
	copy_list(&from->modules, &d.modules);
	copy_list(&from->params, &d.params);
	copy_list(&from->options, &d.options);
	driver_state_done(to);
	*to = d;
}

static bool is_list_equal(const struct strv *a, const struct strv *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!strv_has(b, a->items[i]))
			return false;
	return true;
}

static bool is_text_equal(const char *a, const char *b)
{
	return a ? str_eq(a, b) : !b;
}

bool driver_state_same(const struct driver_state *a, const struct driver_state *b)
{
	return is_text_equal(a->version, b->version) && is_text_equal(a->flavour, b->flavour) &&
	       is_text_equal(a->digest, b->digest) && is_text_equal(a->kernel, b->kernel) &&
	       is_list_equal(&a->modules, &b->modules) && is_list_equal(&a->params, &b->params);
}

const char *driver_state_params(const struct driver_state *d, const char *module)
{
	size_t len = strlen(module);
	for (size_t i = 0; i < d->params.count; i++)
		if (str_starts(d->params.items[i], module) && d->params.items[i][len] == ' ')
			return d->params.items[i] + len + 1;
	return "";
}

static void drop_module(struct strv *list, const char *canonical)
{
	struct strv kept = { 0 };
	for (size_t i = 0; i < list->count; i++) {
		auto_str char *word = str_ndup(list->items[i], strcspn(list->items[i], " :"));
		auto_str char *name = module_canonical(word);
		if (!str_eq(name, canonical))
			strv_add(&kept, str_dup(list->items[i]));
	}
	strv_done(list);
	*list = kept;
}

void driver_state_drop(struct driver_state *d, const char *module)
{
	auto_str char *name = module_canonical(module);
	drop_module(&d->modules, name);
	drop_module(&d->params, name);
	drop_module(&d->options, name);
}

void driver_state_set_params(struct driver_state *d, const char *module, const char *text)
{
	if (*text)
		strv_add(&d->params, str_fmt("%s %s", module, text));
	strv_sort(&d->params);
}

json_t *driver_state_json(const struct driver_state *d)
{
	if (!d->version)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version", json_text(d->version), "flavour",
			 json_text(d->flavour), "package", json_text(d->digest), "kernel", json_text(d->kernel),
			 "modules", json_strv(&d->modules), "params", json_strv(&d->params), "options",
			 json_strv(&d->options));
}

bool driver_state_parse(const json_t *json, struct driver_state *ret)
{
	struct driver_state d = { .version = json_text_dup(json, "version"),
				  .flavour = json_text_dup(json, "flavour"),
				  .digest = json_text_dup(json, "package"),
				  .kernel = json_text_dup(json, "kernel") };
	json_strv_read(json_object_get(json, "modules"), &d.modules);
	json_strv_read(json_object_get(json, "params"), &d.params);
	json_strv_read(json_object_get(json, "options"), &d.options);
	driver_state_done(ret);
	*ret = d;
	return d.version;
}
