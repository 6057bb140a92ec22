// SPDX-License-Identifier: Apache-2.0
#include "cluster/policy/node_list.h"

void node_list_done(struct node_list *r)
{
	free(r->nodes);
	strv_done(&r->names);
	*r = (struct node_list){ 0 };
}

static bool is_node_ready(const json_t *node)
{
	const json_t *conditions = json_object_get(json_object_get(node, "status"), "conditions");
	for (size_t i = 0; i < json_array_size(conditions); i++) {
		const json_t *c = json_array_get(conditions, i);
		if (str_eq(json_string_value(json_object_get(c, "type")), "Ready"))
			return str_eq(json_string_value(json_object_get(c, "status")), "True");
	}
	return false;
}

int node_list_read_node(const json_t *node, const char *name, const struct policy *policy, struct node_state *ret,
			struct err *err)
{
	const json_t *metadata = json_object_get(node, "metadata");
	const char *uid = json_string_value(json_object_get(metadata, "uid")), *key;
	json_t *value;
	if (!*name || !uid || !*uid || strlen(uid) >= UID_TEXT)
		return err_set(err, E_CONFIG, "metadata: must have a name and a uid");
	node_state_init(ret, name, uid);
	ret->facts.is_unschedulable = json_is_true(json_object_get(json_object_get(node, "spec"), "unschedulable"));
	ret->facts.is_ready = is_node_ready(node);
	ret->facts.is_deleting = json_object_get(metadata, "deletionTimestamp") != NULL;
	json_object_foreach(json_object_get(metadata, "labels"), key, value)
	{
		const char *text = json_string_value(value);
		if (text) {
			node_state_label(ret, key, text);
			policy_label(policy, key, text, &ret->facts);
		}
	}
	json_object_foreach(json_object_get(metadata, "annotations"), key, value)
	{
		if (json_is_string(value))
			node_state_annotation(ret, key, json_string_value(value));
	}
	for (size_t i = 0; i < policy->driver_set_count && !*ret->facts.driver_set; i++) {
		const struct driver_set *set = &policy->driver_sets[i];
		if ((ret->facts.terms & set->terms) == set->terms)
			memcpy(ret->facts.driver_set, set->name, sizeof(ret->facts.driver_set));
	}
	return 0;
}

int node_list_parse(const char *text, size_t len, const struct policy *policy, struct node_list *ret, struct err *err)
{
	auto_node_list struct node_list r = { 0 };
	json_error_t problem;
	auto_json json_t *list = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
	if (!list)
		return err_set(err, E_CONFIG, "line %d is not JSON: %s", problem.line, problem.text);
	const json_t *items = json_object_get(list, "items");
	if (!json_is_array(items) || json_array_size(items) > NODE_LIST_MOST)
		return err_set(err, E_CONFIG, "items: must be a list of at most %d nodes", NODE_LIST_MOST);
	r.nodes = mem_alloc(json_array_size(items) * sizeof(*r.nodes));
	for (; r.count < json_array_size(items); r.count++) {
		const json_t *node = json_array_get(items, r.count);
		const char *name = json_string_value(json_object_get(json_object_get(node, "metadata"), "name"));
		struct node_state *m = &r.nodes[r.count];
		strv_add(&r.names, str_dup(name ? name : ""));
		if (node_list_read_node(node, r.names.items[r.count], policy, m, err) < 0)
			return err_wrap(err, "items[%zu]", r.count);
		for (size_t i = 0; i < r.count; i++)
			if (str_eq(r.nodes[i].uid, m->uid))
				return err_set(err, E_CONFIG, "items[%zu].metadata.uid: node '%s' has the same one",
					       r.count, r.nodes[i].name);
	}
	*ret = r;
	r = (struct node_list){ 0 };
	return 0;
}
