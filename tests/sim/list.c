// SPDX-License-Identifier: Apache-2.0
// Lists in pages. A continue token has the list's version, and the key after which it continues.
#include "tests/sim/sim_internal.h"

#include <inttypes.h>

// Label selectors: a=b, a==b, a!=b, a, !a, joined by commas. Field selectors: a=b, a==b, a!=b.

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
	char *key, *value; // value NULL = any value
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

static bool parse_token(const char *token, uint64_t *version, const char **ret_key)
{
	const char *colon = strchr(token, ':');
	auto_str char *number = colon ? str_ndup(token, (size_t)(colon - token)) : NULL;
	if (!number || !str_u64(number, 10, version))
		return false;
	*ret_key = colon + 1;
	return true;
}

// Items of typed lists have no kind and apiVersion.
static json_t *as_item(json_t *object)
{
	json_t *item = json_copy(object);
	json_object_del(item, "kind");
	json_object_del(item, "apiVersion");
	return item;
}

static json_t *list_head(const struct sim_kind *kind, uint64_t version)
{
	auto_str char *name = str_fmt("%sList", kind->kind), *number = str_fmt("%" PRIu64, version);
	auto_str char *group = str_fmt("%s%sv1", kind->group, *kind->group ? "/" : "");
	return json_pack("{s:s, s:s, s:{s:s}, s:[]}", "kind", name, "apiVersion", group, "metadata", "resourceVersion",
			 number, "items");
}

// Of a watch only the check whether it may begin.
void sim_list(struct sim *s, const struct sim_path *p, struct sim_answer *ret)
{
	auto_str char *field = NULL;
	uint64_t version = s->store.version;
	const char *behind = "";
	if (!sim_can_select(p->kind, p->fields, &field)) {
		sim_say(ret, 400, "BadRequest", "field label not supported: %s", field);
		return;
	}
	if (p->labels && strchr(p->labels, '(') && !strchr(p->labels, ')')) {
		sim_say(ret, 400, "BadRequest", "unable to parse requirement: found '', expected: ',', or ')'");
		return;
	}
	if (p->labels && strchr(p->labels, '(')) {
		sim_say(ret, 501, "NotImplemented", "the simulation knows no sets in selectors: %s", p->labels);
		return;
	}
	if (p->is_watch) {
		ret->status = 200;
		return;
	}
	if (p->next && *p->next && !parse_token(p->next, &version, &behind)) {
		sim_say(ret, 400, "BadRequest", "continue key is not valid: %s", p->next);
		return;
	}
	if (version < s->store.compacted) {
		sim_say(ret, 410, "Expired",
			"The provided continue parameter is too old to display a consistent list result. You can start "
			"a new "
			"list without the continue parameter.");
		return;
	}
	struct sim_row *rows;
	size_t count = sim_store_at(&s->store, p->kind, version, &rows), taken = 0;
	const char *last = NULL;
	bool is_more = false;
	json_t *list = list_head(p->kind, version), *items = json_object_get(list, "items");
	for (size_t i = 0; i < count && !is_more; i++) {
		if (strcmp(rows[i].key, behind) <= 0 || !sim_selects(p, rows[i].object))
			continue;
		is_more = p->limit && taken == p->limit;
		if (is_more)
			break;
		json_array_append_new(items, as_item(rows[i].object));
		last = rows[i].key;
		taken++;
	}
	if (is_more) {
		auto_str char *token = str_fmt("%" PRIu64 ":%s", version, last);
		sim_set(list, "metadata continue", json_string(token));
	}
	free(rows);
	ret->status = 200;
	ret->reply = list;
}
