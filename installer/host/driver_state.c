// SPDX-License-Identifier: Apache-2.0
#include "host/driver_state.h"

#include "host/modules.h"

void driver_done(struct driver *d)
{
	free(d->version);
	free(d->flavour);
	free(d->digest);
	free(d->kernel);
	strv_done(&d->modules);
	strv_done(&d->params);
	strv_done(&d->options);
	*d = (struct driver){ 0 };
}

static void copy_list(const struct strv *from, struct strv *to)
{
	for (size_t i = 0; i < from->count; i++)
		strv_add(to, str_dup(from->items[i]));
}

void driver_copy(const struct driver *from, struct driver *to)
{
	struct driver d = { .version = str_dup(from->version),
			    .flavour = str_dup(from->flavour),
			    .digest = str_dup(from->digest),
			    .kernel = str_dup(from->kernel) };
	copy_list(&from->modules, &d.modules);
	copy_list(&from->params, &d.params);
	copy_list(&from->options, &d.options);
	driver_done(to);
	*to = d;
}

static bool is_same_list(const struct strv *a, const struct strv *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!strv_has(b, a->items[i]))
			return false;
	return true;
}

static bool is_same_text(const char *a, const char *b)
{
	return a ? str_eq(a, b) : !b;
}

bool driver_same(const struct driver *a, const struct driver *b)
{
	return is_same_text(a->version, b->version) && is_same_text(a->flavour, b->flavour) &&
	       is_same_text(a->digest, b->digest) && is_same_text(a->kernel, b->kernel) &&
	       is_same_list(&a->modules, &b->modules) && is_same_list(&a->params, &b->params);
}

const char *driver_params(const struct driver *d, const char *module)
{
	size_t len = strlen(module);
	for (size_t i = 0; i < d->params.count; i++)
		if (str_starts(d->params.items[i], module) && d->params.items[i][len] == ' ')
			return d->params.items[i] + len + 1;
	return "";
}

static void drop(struct strv *list, const char *canonical)
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

void driver_drop(struct driver *d, const char *module)
{
	auto_str char *name = module_canonical(module);
	drop(&d->modules, name);
	drop(&d->params, name);
	drop(&d->options, name);
}

void driver_set_params(struct driver *d, const char *module, const char *text)
{
	if (*text)
		strv_add(&d->params, str_fmt("%s %s", module, text));
	strv_sort(&d->params);
}

json_t *driver_json(const struct driver *d)
{
	if (!d->version)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version", json_text(d->version), "flavour",
			 json_text(d->flavour), "package", json_text(d->digest), "kernel", json_text(d->kernel),
			 "modules", json_strv(&d->modules), "params", json_strv(&d->params), "options",
			 json_strv(&d->options));
}

static void parse_list(const json_t *json, struct strv *ret)
{
	size_t i;
	json_t *item;
	json_array_foreach(json, i, item) if (json_is_string(item)) strv_add(ret, str_dup(json_string_value(item)));
}

static char *text_of(const json_t *json, const char *key)
{
	return str_dup(json_string_value(json_object_get(json, key)));
}

bool driver_parse(const json_t *json, struct driver *ret)
{
	struct driver d = { .version = text_of(json, "version"),
			    .flavour = text_of(json, "flavour"),
			    .digest = text_of(json, "package"),
			    .kernel = text_of(json, "kernel") };
	parse_list(json_object_get(json, "modules"), &d.modules);
	parse_list(json_object_get(json, "params"), &d.params);
	parse_list(json_object_get(json, "options"), &d.options);
	driver_done(ret);
	*ret = d;
	return d.version;
}
