// SPDX-License-Identifier: Apache-2.0
// Label selectors: a=b, a==b, a!=b, a, !a, joined by commas. Field selectors: a=b, a==b, a!=b.
#include "tests/sim/own.h"

json_t *sim_at(const json_t *object, const char *keys)
{
	json_t *at = NULL;
	for (const char *end;; keys = end + 1) {
		end = strchrnul(keys, ' ');
		at = json_object_getn(at ? at : object, keys, (size_t)(end - keys));
		if (!at || !*end)
			return at;
	}
}

const char *sim_text(const json_t *object, const char *keys)
{
	return json_string_value(sim_at(object, keys));
}

struct term {
	char *key, *value; // value NULL = whether there is one
	bool is_not;
};

static struct term parse_term(const char *text)
{
	size_t len = strcspn(text, "=!");
	if (*text == '!')
		return (struct term){ .key = str_dup(text + 1), .is_not = true };
	if (!text[len])
		return (struct term){ .key = str_dup(text) };
	const char *value = text + len + 1 + (text[len + 1] == '=');
	return (struct term){ .key = str_ndup(text, len), .value = str_dup(value), .is_not = text[len] == '!' };
}

static const char *field(const json_t *object, const char *name)
{
	auto_str char *keys = str_dup(name);
	for (char *p = keys; *p; p++)
		*p = *p == '.' ? ' ' : *p;
	const json_t *value = sim_at(object, keys);
	return json_is_true(value)                                          ? "true" :
	       json_is_boolean(value) || str_eq(name, "spec.unschedulable") ? "false" :
	       json_is_string(value)                                        ? json_string_value(value) :
									      "";
}

static bool term_fits(const struct term *t, const json_t *object, bool is_field)
{
	const char *value = is_field ? field(object, t->key) :
				       json_string_value(json_object_get(sim_at(object, "metadata labels"), t->key));
	return (t->value ? str_eq(value, t->value) : value != NULL) != t->is_not;
}

static bool all_terms_fit(const char *selector, const json_t *object, bool is_field)
{
	auto_strv struct strv terms = { 0 };
	bool is_fit = true;
	strv_split(&terms, selector ? selector : "", ",");
	for (size_t i = 0; i < terms.count && is_fit; i++) {
		struct term t = parse_term(terms.items[i]);
		is_fit = term_fits(&t, object, is_field);
		free(t.key);
		free(t.value);
	}
	return is_fit;
}

bool sim_selects(const struct sim_path *p, const json_t *object)
{
	if (!object || (p->namespace && !str_eq(p->namespace, sim_text(object, "metadata namespace"))))
		return false;
	return all_terms_fit(p->labels, object, false) && all_terms_fit(p->fields, object, true);
}

bool sim_can_select(const struct sim_kind *kind, const char *fields, char **ret_field)
{
	auto_strv struct strv terms = { 0 }, known = { 0 };
	strv_split(&terms, fields ? fields : "", ",");
	strv_split(&known, kind->selectable ? kind->selectable : "", " ");
	for (size_t i = 0; i < terms.count; i++) {
		auto_str char *name = str_ndup(terms.items[i], strcspn(terms.items[i], "=!"));
		bool is_known = str_eq(name, "metadata.name") ||
				(kind->is_namespaced && str_eq(name, "metadata.namespace")) || strv_has(&known, name);
		if (is_known)
			continue;
		*ret_field = TAKE(name);
		return false;
	}
	return true;
}

bool sim_has_labels(const json_t *object, json_t *labels)
{
	const char *key;
	json_t *value;
	json_object_foreach(labels, key, value)
	{
		const json_t *have = json_object_get(sim_at(object, "metadata labels"), key);
		if (!have || !json_equal(have, value))
			return false;
	}
	return true;
}
