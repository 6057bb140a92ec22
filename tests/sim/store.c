// SPDX-License-Identifier: Apache-2.0
// Objects by kind and key, one version counter, and the recent changes: watches continue from them, and a list in pages
// is consistent as of the version of its first page, like in etcd.
#include "tests/sim/sim_internal.h"

// Index of the key, or where it would be.
static size_t find_row(const struct sim_shelf *shelf, const char *key, bool *is_there)
{
	size_t low = 0, high = shelf->count;
	*is_there = false;
	while (low < high && !*is_there) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(shelf->rows[middle].key, key);
		*is_there = order == 0;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return *is_there ? high : low;
}

json_t *sim_store_get(const struct sim_store *s, const struct sim_kind *kind, const char *key)
{
	bool is_there;
	const struct sim_shelf *shelf = &s->shelves[kind - sim_kinds];
	size_t at = find_row(shelf, key, &is_there);
	return is_there ? shelf->rows[at].object : NULL;
}

static void forget_change(struct sim_change *c)
{
	free(c->key);
	json_decref(c->before);
	json_decref(c->after);
}

static void record_change(struct sim_store *s, const struct sim_kind *kind, const char *key, json_t *before,
			  json_t *after, bool is_removal)
{
	if (s->count == 2 * s->keep)
		sim_store_compact(s, s->changes[s->keep].version);
	if (s->count == s->room) {
		s->room = s->room ? s->room * 2 : 64;
		s->changes = mem_grow(s->changes, s->room, sizeof(*s->changes));
	}
	s->changes[s->count++] = (struct sim_change){ .version = s->version,
						      .ms = sim_now_ms(),
						      .kind = kind,
						      .key = str_dup(key),
						      .before = before,
						      .after = json_incref(after),
						      .is_removal = is_removal };
}

static void stamp_version(struct sim_store *s, json_t *object)
{
	auto_str char *version = str_fmt("%llu", (unsigned long long)++s->version);
	sim_set(object, "metadata resourceVersion", json_string(version));
}

void sim_store_put(struct sim_store *s, const struct sim_kind *kind, const char *key, json_t *take)
{
	bool is_there;
	struct sim_shelf *shelf = &s->shelves[kind - sim_kinds];
	size_t at = find_row(shelf, key, &is_there);
	json_t *before = is_there ? shelf->rows[at].object : NULL;
	stamp_version(s, take);
	record_change(s, kind, key, before, take, false);
	if (!is_there) {
		if (shelf->count == shelf->room) {
			shelf->room = shelf->room ? shelf->room * 2 : 16;
			shelf->rows = mem_grow(shelf->rows, shelf->room, sizeof(*shelf->rows));
		}
		memmove(shelf->rows + at + 1, shelf->rows + at, (shelf->count - at) * sizeof(*shelf->rows));
		shelf->rows[at].key = str_dup(key);
		shelf->count++;
	}
	shelf->rows[at].object = take;
}

void sim_store_remove(struct sim_store *s, const struct sim_kind *kind, const char *key)
{
	bool is_there;
	struct sim_shelf *shelf = &s->shelves[kind - sim_kinds];
	size_t at = find_row(shelf, key, &is_there);
	auto_json json_t *last = json_deep_copy(shelf->rows[at].object);
	stamp_version(s, last);
	record_change(s, kind, key, shelf->rows[at].object, last, true);
	free(shelf->rows[at].key);
	memmove(shelf->rows + at, shelf->rows + at + 1, (--shelf->count - at) * sizeof(*shelf->rows));
}

size_t sim_store_after(const struct sim_store *s, uint64_t version)
{
	size_t low = 0, high = s->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->changes[middle].version <= version)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void sim_store_compact(struct sim_store *s, uint64_t version)
{
	size_t gone = sim_store_after(s, version);
	for (size_t i = 0; i < gone; i++)
		forget_change(&s->changes[i]);
	s->count -= gone;
	if (s->count)
		memmove(s->changes, s->changes + gone, s->count * sizeof(*s->changes));
	s->compacted = version;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct sim_row *)a)->key, ((const struct sim_row *)b)->key);
}

// The current objects, with every later change reverted.
size_t sim_store_at(const struct sim_store *s, const struct sim_kind *kind, uint64_t version, struct sim_row **ret)
{
	const struct sim_shelf *shelf = &s->shelves[kind - sim_kinds];
	size_t first = sim_store_after(s, version), count = 0;
	struct sim_row *rows = mem_grow(NULL, shelf->count + s->count - first + 1, sizeof(*rows));
	auto_json json_t *other = json_object(); // by key: the object at that version; null = none
	for (size_t i = s->count; i > first; i--) {
		const struct sim_change *c = &s->changes[i - 1];
		if (c->kind == kind)
			json_object_set(other, c->key, c->before ? c->before : json_null());
	}
	for (size_t i = 0; i < shelf->count; i++) {
		if (!json_object_get(other, shelf->rows[i].key))
			rows[count++] = shelf->rows[i];
	}
	for (size_t i = first; i < s->count; i++) {
		const struct sim_change *c = &s->changes[i];
		json_t *then = c->kind == kind ? json_object_get(other, c->key) : NULL;
		if (json_is_object(then))
			rows[count++] = (struct sim_row){ .key = c->key, .object = then };
		if (then)
			json_object_del(other, c->key);
	}
	qsort(rows, count, sizeof(*rows), by_key);
	*ret = rows;
	return count;
}

static void shelf_done(struct sim_shelf *shelf)
{
	for (size_t i = 0; i < shelf->count; i++) {
		free(shelf->rows[i].key);
		json_decref(shelf->rows[i].object);
	}
	free(shelf->rows);
	*shelf = (struct sim_shelf){ 0 };
}

// Objects and versions as they were: the next change gets a version that was given before.
void sim_store_restore(struct sim_store *s, uint64_t version)
{
	struct sim_shelf then[SIM_KINDS] = { 0 };
	size_t kept = sim_store_after(s, version);
	for (size_t k = 0; k < SIM_KINDS; k++) {
		then[k].count = then[k].room = sim_store_at(s, &sim_kinds[k], version, &then[k].rows);
		for (size_t i = 0; i < then[k].count; i++) {
			then[k].rows[i].key = str_dup(then[k].rows[i].key);
			json_incref(then[k].rows[i].object);
		}
	}
	for (size_t k = 0; k < SIM_KINDS; k++) {
		shelf_done(&s->shelves[k]);
		s->shelves[k] = then[k];
	}
	while (s->count > kept)
		forget_change(&s->changes[--s->count]);
	s->version = version;
	s->restores++;
}

void sim_store_done(struct sim_store *s)
{
	for (size_t i = 0; i < s->count; i++)
		forget_change(&s->changes[i]);
	free(s->changes);
	for (size_t k = 0; k < SIM_KINDS; k++)
		shelf_done(&s->shelves[k]);
	*s = (struct sim_store){ 0 };
}
