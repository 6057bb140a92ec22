// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/node_patch.h"

#include "cluster/kube/api.h"
#include "cluster/node_state/annotations.h"

#include <inttypes.h>

void node_patch_done(struct node_patch *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->changes[i].value);
	free(p->changes);
	*p = (struct node_patch){ 0 };
}

static void add_change(struct node_patch *p, const char *key, const char *value, bool is_label)
{
	p->changes = mem_grow(p->changes, p->count + 1, sizeof(*p->changes));
	p->changes[p->count++] = (struct change){ key, value && *value ? str_dup(value) : NULL, is_label };
}

static void add_borrowed(struct node_patch *p, const struct borrowed *table, unsigned from, unsigned to, bool is_label)
{
	for (unsigned i = 0; table[i].key; i++) {
		if ((from ^ to) & 1U << i)
			add_change(p, table[i].key, to & 1U << i ? table[i].ours : table[i].theirs, is_label);
	}
}

void node_patch_make(const struct node_state *m, const struct decision *d, bool has_mirror, struct node_patch *ret)
{
	bool is_replace = node_seq_cmp(d->next.go.seq, m->record.go.seq) != 0 && d->next.go.verb == VERB_REPLACE;
	*ret = (struct node_patch){ .seq = m->record.seq,
				    .cordon = d->cordon,
				    .tests_cordon = d->next.receipt.is_there != m->record.receipt.is_there ||
						    d->cordon != CORDON_KEEP || is_replace,
				    .was_cordoned = m->facts.is_unschedulable,
				    .tests_holders = is_replace,
				    .tests_loaded = d->cordon == CORDON_OFF && m->record.receipt.touched };
	if (!d->rule)
		return;
	for (unsigned i = 0; node_keys[i].name; i++) {
		char was[KEY_TEXT] = "", is[KEY_TEXT] = "";
		node_keys[i].text(&m->record, was, sizeof(was));
		node_keys[i].text(&d->next, is, sizeof(is));
		// A malformed value reads like an absent one, but it is there.
		bool was_malformed = m->record.malformed & 1U << i && !(d->next.malformed & 1U << i);
		if (was_malformed || !str_eq(was, is))
			add_change(ret, node_keys[i].name, is, node_keys[i].is_label);
	}
	add_borrowed(ret, operands, m->record.paused, d->next.paused, true);
	add_borrowed(ret, hints, m->record.autoscaler, d->next.autoscaler, false);
	enum upgrade word = m->facts.upgrade;
	ret->upgrade = word != UPGRADE_NONE && word < UPGRADE_OTHER ? upgrade_words[word] : NULL;
	ret->tests_upgrade = d->cordon == CORDON_OFF && node_state_is_foreign(m) && ret->upgrade;
	// NVIDIA's label, for dashboards that read it: upgrade-done and nothing else, with the state that means the
	// same, removed when that ends, and never repeated (T61, 5.12). Any other value would start something
	// (states.h).
	bool was_done = m->record.has_phase && m->record.phase == PHASE_DONE, is_done = d->next.phase == PHASE_DONE;
	bool is_ours = has_mirror && !node_state_is_foreign(m), has_label = word == UPGRADE_DONE;
	if (d->drops_word || (is_ours && was_done && !is_done && has_label)) {
		add_change(ret, UPGRADE_LABEL, NULL, true);
		ret->tests_upgrade = true;
	} else if (is_ours && is_done && !was_done && !has_label) {
		add_change(ret, UPGRADE_LABEL, upgrade_words[UPGRADE_DONE], true);
	}
}

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

// Of an annotation or label; value NULL = it is absent.
static void test_key(json_t *list, const char *parent, const char *key, const char *value)
{
	auto_str char *path = json_pointer(parent, key);
	add_patch_operation(list, "test", path, value ? json_text(value) : json_null());
}

static json_t *json_patch(const struct node_state *m, const struct node_patch_seen *seen, const struct node_patch *p)
{
	json_t *list = json_array();
	auto_str char *seq = str_fmt("%" PRIu32 ".%" PRIu32, p->seq.epoch, p->seq.n);
	add_patch_operation(list, "test", "/metadata/uid", json_string(m->uid));
	test_key(list, "/metadata/annotations", KEY_PREFIX "seq", seq);
	if (p->tests_loaded)
		test_key(list, "/metadata/annotations", KEY_PREFIX "agent.loaded", seen->loaded);
	if (p->tests_holders)
		test_key(list, "/metadata/annotations", KEY_PREFIX "agent.holders", seen->holders);
	// Not if NVIDIA's operator has taken over the node meanwhile.
	if ((p->cordon == CORDON_ON || p->tests_holders) && !m->facts.has_enabled)
		test_key(list, "/metadata/annotations", UPGRADE_ENABLED, NULL);
	if (p->tests_upgrade)
		test_key(list, "/metadata/labels", UPGRADE_LABEL, p->upgrade);
	if (p->tests_cordon) // absent where it is false
		add_patch_operation(list, "test", "/spec/unschedulable", p->was_cordoned ? json_true() : json_null());
	if (p->cordon != CORDON_KEEP)
		add_patch_operation(list, "add", "/spec/unschedulable", json_boolean(p->cordon == CORDON_ON));
	for (size_t i = 0; i < p->count; i++) {
		const struct change *c = &p->changes[i];
		auto_str char *path = json_pointer(c->is_label ? "/metadata/labels" : "/metadata/annotations", c->key);
		add_patch_operation(list, c->value ? "add" : "remove", path, c->value ? json_string(c->value) : NULL);
	}
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
	return api_change(k, is_first ? API_MERGE : API_PATCH, path, body, ret, err);
}
