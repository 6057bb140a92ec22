// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/node_cache.h"

#include "base/process/log.h"
#include "cluster/kube/client.h"
#include "cluster/node_state/annotations.h"
#include "cluster/policy/node_list.h"

static void cache_entry_done(struct cache_entry *w)
{
	free(w->name);
	free(w->version);
	free(w->holders);
	free(w->loaded);
	*w = (struct cache_entry){ 0 };
}

void node_cache_done(struct node_cache *f)
{
	for (size_t i = 0; i < f->count; i++)
		cache_entry_done(&f->entries[i]);
	free(f->nodes);
	free(f->entries);
	free(f->index);
	*f = NODE_CACHE_NONE;
}

void node_cache_record(const struct policy *policy, bool is_event, struct strv *ret)
{
	static const char *const event[] = { KUBE_EVENT };
	for (size_t i = 0; is_event && i < ARRAY_SIZE(event); i++)
		strv_add(ret, str_dup(event[i]));
	node_list_record(policy, is_event ? "object " : "", ret);
}

// FNV-1a
static size_t index_slot(const struct node_cache *f, const char *name)
{
	uint32_t hash = 0x811c9dc5;
	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x01000193;
	return hash & (f->slots - 1);
}

static size_t find_node(const struct node_cache *f, const char *name)
{
	for (size_t slot = f->slots ? index_slot(f, name) : 0; f->slots && f->index[slot]; slot = (slot + 1) % f->slots)
		if (str_eq(f->entries[f->index[slot] - 1].name, name))
			return f->index[slot] - 1;
	return f->count;
}

size_t node_cache_find(const struct node_cache *f, const char *name, const char *uid)
{
	size_t at = find_node(f, name);
	return at < f->count && str_eq(f->nodes[at].uid, uid) ? at : f->count;
}

static void index_node(struct node_cache *f, size_t at)
{
	size_t slot = index_slot(f, f->entries[at].name);
	while (f->index[slot])
		slot = (slot + 1) % f->slots;
	f->index[slot] = (uint32_t)at + 1;
}

static void rebuild_index(struct node_cache *f)
{
	memset(f->index, 0, f->slots * sizeof(*f->index));
	for (size_t i = 0; i < f->count; i++)
		index_node(f, i);
}

void node_cache_forget(struct node_cache *f, size_t at)
{
	cache_entry_done(&f->entries[at]);
	f->count--;
	f->moves++;
	f->entries[at] = f->entries[f->count]; // the order does not matter
	f->nodes[at] = f->nodes[f->count];
	rebuild_index(f);
}

static size_t add_cached_node(struct node_cache *f, const char *name)
{
	f->moves++;
	if (f->count == f->room) {
		f->room =
			f->room ? f->room + f->room / 4 : 64; // a node is large, and twice the room would be half empty
		f->nodes = mem_grow(f->nodes, f->room, sizeof(*f->nodes));
		f->entries = mem_grow(f->entries, f->room, sizeof(*f->entries));
		while (f->slots < f->room * 2)
			f->slots = f->slots ? f->slots * 2 : 128;
		f->index = mem_grow(f->index, f->slots, sizeof(*f->index));
		rebuild_index(f);
	}
	f->entries[f->count] = (struct cache_entry){ .name = str_dup(name) };
	f->nodes[f->count] = (struct node_state){ 0 };
	index_node(f, f->count);
	return f->count++;
}

// True: the agent reports something else.
static bool renew_entry(struct cache_entry *w, const json_t *metadata)
{
	const json_t *notes = json_object_get(metadata, "annotations");
	auto_str char *holders = TAKE(w->holders), *loaded = TAKE(w->loaded);
	free(w->version);
	w->version = json_text_dup(metadata, "resourceVersion");
	w->holders = json_text_dup(notes, KEY_PREFIX "agent.holders");
	w->loaded = json_text_dup(notes, KEY_PREFIX "agent.loaded");
	return (holders != w->holders && !str_eq(holders, w->holders)) ||
	       (loaded != w->loaded && !str_eq(loaded, w->loaded));
}

// Older than the cached object. Versions are numbers (KEP-5504) of the whole server, so a deleted object is older than
// the next one of its name.
static bool is_stale_object(const struct cache_entry *w, const json_t *metadata)
{
	uint64_t known, version;
	const char *text = json_string_value(json_object_get(metadata, "resourceVersion"));
	return w->version && text && str_u64(w->version, 10, &known) && str_u64(text, 10, &version) && version < known;
}

bool node_cache_put(struct node_cache *f, const json_t *node, const struct policy *policy)
{
	const json_t *metadata = json_object_get(node, "metadata");
	const char *name = json_string_value(json_object_get(metadata, "name"));
	struct node_state now;
	struct err why;
	size_t at = name ? find_node(f, name) : 0;
	if (name && at == f->count)
		at = add_cached_node(f, name);
	if (!name || node_list_read_node(node, f->entries[at].name, policy, &now, &why) < 0) {
		log_debug("an invalid Node object is ignored: %s", name ? why.text : "it has no name");
		if (name)
			node_cache_forget(f, at);
		return true;
	}
	bool is_same = str_eq(f->nodes[at].uid, now.uid);
	f->entries[at].is_listed = true;
	bool is_older = is_stale_object(&f->entries[at], metadata);
	if (is_older && !f->is_listing)
		return false;
	if (is_same && !is_older) { // what was seen of its pods may not be so any more after a restore
		now.facts.is_ours = f->nodes[at].facts.is_ours;
		now.facts.seen = f->nodes[at].facts.seen;
	} else {
		f->entries[at].retry_ms = f->entries[at].failures = 0;
		f->entries[at].looked = (struct stay){ 0 };
		f->moves++;
	}
	// Padding bytes may differ, too, which only costs another look.
	bool is_other = memcmp((const void *)&f->nodes[at], (const void *)&now, sizeof(now)) != 0;
	f->nodes[at] = now;
	return renew_entry(&f->entries[at], metadata) || is_other;
}

void node_cache_renew(struct node_cache *f, const json_t *node, const struct policy *policy)
{
	const char *name = json_string_value(json_object_get(json_object_get(node, "metadata"), "name"));
	if (name && find_node(f, name) < f->count)
		node_cache_put(f, node, policy);
}

void node_cache_remove(struct node_cache *f, const json_t *node)
{
	const json_t *metadata = json_object_get(node, "metadata");
	const char *name = json_string_value(json_object_get(metadata, "name"));
	const char *uid = json_string_value(json_object_get(metadata, "uid"));
	size_t at = name ? find_node(f, name) : f->count;
	if (at < f->count && str_eq(f->nodes[at].uid, uid))
		node_cache_forget(f, at);
}

void node_cache_list_begin(struct node_cache *f)
{
	f->is_listing = true;
	for (size_t i = 0; i < f->count; i++)
		f->entries[i].is_listed = false;
}

void node_cache_list_end(struct node_cache *f)
{
	f->is_listing = false;
	for (size_t i = f->count; i-- > 0;)
		if (!f->entries[i].is_listed)
			node_cache_forget(f, i);
}
