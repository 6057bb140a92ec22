// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/node_patch.h"

#include "cluster/kube/api.h"
#include "cluster/node_state/annotations.h"

#include <inttypes.h>

// RFC 6901: "~" and "/" in a key.
static char *json_pointer(const char *parent, const char *key)
{
	char *path = str_fmt("%s/", parent);
	for (const char *c = key; *c; c++)
		str_add(&path, *c == '~' ? "~0" : *c == '/' ? "~1" : "%c", *c);
	return path;
}

static void add_patch_operation(json_t *list, const char *op, const char *path, json_t *value)
{
	json_array_append_new(list, json_pack("{s:s, s:s, s:o*}", "op", op, "path", path, "value", value));
}

static void change_key(json_t *list, const struct change *c)
{
	auto_str char *path = json_pointer(c->is_label ? "/metadata/labels" : "/metadata/annotations", c->key);
	add_patch_operation(list, c->value ? "add" : "remove", path, c->value ? json_string(c->value) : NULL);
}

static void test_note(json_t *list, const char *key, const char *value) // NULL = it is absent
{
	auto_str char *path = json_pointer("/metadata/annotations", key);
	add_patch_operation(list, "test", path, value ? json_text(value) : json_null());
}

static void test_upgrade(json_t *list, const char *word)
{
	auto_str char *path = json_pointer("/metadata/labels", UPGRADE_LABEL);
	add_patch_operation(list, "test", path, json_string(word));
}

static json_t *json_patch(const struct node_state *m, const struct node_patch_seen *seen, const struct node_patch *p)
{
	json_t *list = json_array();
	auto_str char *seq = str_fmt("%" PRIu32 ".%" PRIu32, p->seq.epoch, p->seq.n);
	add_patch_operation(list, "test", "/metadata/uid", json_string(m->uid));
	test_note(list, KEY_PREFIX "seq", seq);
	if (p->tests_loaded)
		test_note(list, KEY_PREFIX "agent.loaded", seen->loaded);
	if (p->tests_holders)
		test_note(list, KEY_PREFIX "agent.holders", seen->holders);
	// Nobody is disturbed whose node NVIDIA's operator has taken over meanwhile.
	if ((p->cordon == CORDON_ON || p->tests_holders) && !m->facts.has_enabled)
		test_note(list, UPGRADE_ENABLED, NULL);
	if (p->tests_upgrade)
		test_upgrade(list, p->upgrade);
	if (p->tests_cordon) // absent where it is false
		add_patch_operation(list, "test", "/spec/unschedulable", p->was_cordoned ? json_true() : json_null());
	if (p->cordon != CORDON_KEEP)
		add_patch_operation(list, "add", "/spec/unschedulable", json_boolean(p->cordon == CORDON_ON));
	for (size_t i = 0; i < p->count; i++)
		change_key(list, &p->changes[i]);
	return list;
}

static json_t *merge_patch(const struct node_state *m, const char *version, const struct node_patch *p)
{
	json_t *labels = json_object(), *annotations = json_object();
	for (size_t i = 0; i < p->count; i++)
		json_object_set_new(p->changes[i].is_label ? labels : annotations, p->changes[i].key,
				    json_text(p->changes[i].value));
	json_t *patch = json_pack("{s:{s:s, s:s, s:o, s:o}}", "metadata", "uid", m->uid, "resourceVersion", version,
				  "labels", labels, "annotations", annotations);
	if (p->cordon != CORDON_KEEP)
		json_object_set_new(patch, "spec", json_pack("{s:b}", "unschedulable", p->cordon == CORDON_ON));
	return patch;
}

int node_patch_write(struct kube *k, const struct node_state *m, const struct node_patch_seen *seen,
		     const struct node_patch *p, json_t **ret, struct err *err)
{
	auto_str char *path = api_node(m->name);
	bool is_first = !p->seq.epoch && !p->seq.n;
	auto_json json_t *body = is_first ? merge_patch(m, seen->version, p) : json_patch(m, seen, p);
	return is_first ? api_merge(k, path, body, ret, err) : api_patch(k, path, body, ret, err);
}
