// SPDX-License-Identifier: Apache-2.0
// Lists in pages. A continue token says of which version the list is, and behind which key it goes on.
#include "tests/sim/own.h"

#include <inttypes.h>

static bool parse_token(const char *token, uint64_t *version, const char **ret_key)
{
	const char *colon = strchr(token, ':');
	auto_str char *number = colon ? str_ndup(token, (size_t)(colon - token)) : NULL;
	if (!number || !str_u64(number, 10, version))
		return false;
	*ret_key = colon + 1;
	return true;
}

// Typed lists do not say of each item what it is.
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

// Of a watch only whether it may begin.
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
