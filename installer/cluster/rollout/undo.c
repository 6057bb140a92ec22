// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/undo.h"

static int apply_undo_entry(const json_t *word, const struct pool *pool, json_t *document, struct strv *ret,
			    json_t *replaced, struct err *err)
{
	struct target_hash instead;
	json_t *target = json_object_get(word, "target");
	const char *hash = json_string_value(json_object_get(word, "instead"));
	if (!hash || !target_hash_parse(hash, &instead) || !json_is_object(target))
		return err_set(err, E_CONFIG,
			       "the annotation " UNDO_NOTE
			       " is not valid for '%s'; `kmodsmith rollout resume` removes it",
			       pool->name);
	if (!target_hash_eq(&instead, &pool->target.target_hash))
		return 0;
	json_object_set(replaced, pool->name, json_object_get(document, "target"));
	json_object_set_new(document, "target", json_deep_copy(target));
	strv_add(ret, str_fmt("pool %s: driver %s instead of %s, by rollout undo", pool->name,
			      json_string_value(json_object_get(target, "driver")), pool->target.driver));
	return 1;
}

int undo_apply(const char *note, const struct policy *p, json_t *document, struct strv *ret, json_t *replaced,
	       struct err *err)
{
	auto_json json_t *words = json_loads(note, JSON_REJECT_DUPLICATES, NULL);
	json_t *pools = json_object_get(document, "pools");
	int changed = 0;
	if (!json_is_object(words))
		return err_set(err, E_CONFIG, "the annotation " UNDO_NOTE " is not a JSON object");
	for (size_t i = 0; i < p->pool_count; i++) {
		const json_t *word = json_object_get(words, p->pools[i].name);
		int r = word ? apply_undo_entry(word, &p->pools[i], json_array_get(pools, i), ret, replaced, err) : 0;
		if (r < 0)
			return -1;
		changed = changed || r;
	}
	return changed;
}

void undo_revert(json_t *document, const json_t *replaced)
{
	json_t *pools = json_object_get(document, "pools");
	for (size_t i = 0; i < json_array_size(pools); i++) {
		json_t *pool = json_array_get(pools, i);
		const char *name = json_string_value(json_object_get(pool, "name"));
		json_t *target = name ? json_object_get(replaced, name) : NULL;
		if (target)
			json_object_set(pool, "target", target);
	}
}

char *undo_note(const char *note, const char *pool, const struct target_hash *instead, const json_t *target)
{
	char target_hash[TARGET_HASH_TEXT];
	auto_json json_t *words = note ? json_loads(note, 0, NULL) : NULL;
	if (!json_is_object(words)) {
		json_decref(words);
		words = json_object();
	}
	json_object_del(words, pool);
	if (target) {
		target_hash_text(instead, target_hash);
		json_object_set_new(
			words, pool,
			json_pack("{s:s, s:O}", "instead", target_hash, "target", (json_t *)(uintptr_t)target));
	}
	return json_object_size(words) ? json_dumps(words, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
}
