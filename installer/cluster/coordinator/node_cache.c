// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/node_cache.h"

#include "base/process/log.h"
#include "cluster/kube/client.h"
#include "cluster/node_state/annotations.h"
#include "cluster/policy/node_list.h"

static const char *const rows[] = {
	"metadata name",
	"metadata uid",
	"metadata resourceVersion",
	"metadata deletionTimestamp",
	"metadata labels kmodsmith.io/*", // of the tables in annotations.c and node_state.c
	"metadata labels nvidia.com/gpu.deploy.*",
	"metadata labels nvidia.com/gpu-driver-upgrade*",
	"metadata annotations kmodsmith.io/*",
	"metadata annotations cluster-autoscaler.kubernetes.io/scale-down-disabled",
	"metadata annotations karpenter.sh/do-not-disrupt",
	"metadata annotations nvidia.com/gpu-driver-upgrade*",
	"spec unschedulable",
	"status conditions type",
	"status conditions status",
};

static void fellow_done(struct fellow *w)
{
	free(w->name);
	free(w->version);
	free(w->holders);
	free(w->loaded);
	*w = (struct fellow){ 0 };
}

void fleet_done(struct fleet *f)
{
	for (size_t i = 0; i < f->count; i++)
		fellow_done(&f->fellows[i]);
	free(f->members);
	free(f->fellows);
	free(f->index);
	*f = FLEET_NONE;
}

void fleet_record(const struct policy *policy, bool is_event, struct strv *ret)
{
	static const char *const event[] = { KUBE_EVENT };
	struct strv asked = { 0 };
	const char *of = is_event ? "object " : "";
	for (size_t i = 0; is_event && i < ARRAY_SIZE(event); i++)
		strv_add(ret, str_dup(event[i]));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		strv_add(ret, str_fmt("%s%s", of, rows[i]));
	policy_keys(policy, &asked);
	bool is_room = ret->count + asked.count <= SIFT_PATHS;
	for (size_t i = 0; is_room && i < asked.count; i++)
		strv_add(ret, str_fmt("%smetadata labels %s", of, asked.items[i]));
	if (!is_room)
		strv_add(ret, str_fmt("%smetadata labels", of));
	strv_done(&asked);
}

// FNV-1a
static size_t slot_of(const struct fleet *f, const char *name)
{
	uint32_t hash = 0x811c9dc5;
	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x01000193;
	return hash & (f->slots - 1);
}

static size_t find(const struct fleet *f, const char *name)
{
	for (size_t slot = f->slots ? slot_of(f, name) : 0; f->slots && f->index[slot]; slot = (slot + 1) % f->slots)
		if (str_eq(f->fellows[f->index[slot] - 1].name, name))
			return f->index[slot] - 1;
	return f->count;
}

size_t fleet_find(const struct fleet *f, const char *name, const char *uid)
{
	size_t at = find(f, name);
	return at < f->count && str_eq(f->members[at].uid, uid) ? at : f->count;
}

static void enter(struct fleet *f, size_t at)
{
	size_t slot = slot_of(f, f->fellows[at].name);
	while (f->index[slot])
		slot = (slot + 1) % f->slots;
	f->index[slot] = (uint32_t)at + 1;
}

static void index_all(struct fleet *f)
{
	memset(f->index, 0, f->slots * sizeof(*f->index));
	for (size_t i = 0; i < f->count; i++)
		enter(f, i);
}

void fleet_forget(struct fleet *f, size_t at)
{
	fellow_done(&f->fellows[at]);
	f->count--;
	f->moves++;
	f->fellows[at] = f->fellows[f->count]; // the order says nothing
	f->members[at] = f->members[f->count];
	index_all(f);
}

static size_t add(struct fleet *f, const char *name)
{
	f->moves++;
	if (f->count == f->room) {
		f->room = f->room ? f->room * 2 : 64;
		f->members = mem_grow(f->members, f->room, sizeof(*f->members));
		f->fellows = mem_grow(f->fellows, f->room, sizeof(*f->fellows));
		f->slots = f->room * 2;
		f->index = mem_grow(f->index, f->slots, sizeof(*f->index));
		index_all(f);
	}
	f->fellows[f->count] = (struct fellow){ .name = str_dup(name) };
	f->members[f->count] = (struct member){ 0 };
	enter(f, f->count);
	return f->count++;
}

static void keep_pods(const struct facts *from, struct facts *to)
{
	to->is_ours = from->is_ours;
	to->seen = from->seen;
}

static char *text_of(const json_t *object, const char *key)
{
	return str_dup(json_string_value(json_object_get(object, key)));
}

static bool is_other_text(const char *a, const char *b)
{
	return a != b && !str_eq(a, b);
}

// True: the agent says something else.
static bool renew(struct fellow *w, const json_t *metadata)
{
	const json_t *notes = json_object_get(metadata, "annotations");
	auto_str char *holders = TAKE(w->holders), *loaded = TAKE(w->loaded);
	free(w->version);
	w->version = text_of(metadata, "resourceVersion");
	w->holders = text_of(notes, KEY_PREFIX "agent.holders");
	w->loaded = text_of(notes, KEY_PREFIX "agent.loaded");
	return is_other_text(holders, w->holders) || is_other_text(loaded, w->loaded);
}

// Bytes between the fields that differ make it another one too often, which costs a look.
static bool is_same_bytes(const void *a, const void *b, size_t len)
{
	return memcmp(a, b, len) == 0;
}

// Of what was read before what is known, by the numbers that versions are (KEP-5504): those of the whole server, so
// that an object that was deleted is older than the next one of its name.
static bool is_stale(const struct fellow *w, const json_t *metadata)
{
	uint64_t known, version;
	const char *text = json_string_value(json_object_get(metadata, "resourceVersion"));
	return w->version && text && str_u64(w->version, 10, &known) && str_u64(text, 10, &version) && version < known;
}

bool fleet_put(struct fleet *f, const json_t *node, const struct policy *policy)
{
	const json_t *metadata = json_object_get(node, "metadata");
	const char *name = json_string_value(json_object_get(metadata, "name"));
	struct member now;
	struct err why;
	size_t at = name ? find(f, name) : 0;
	if (name && at == f->count)
		at = add(f, name);
	if (!name || roster_node(node, f->fellows[at].name, policy, &now, &why) < 0) {
		log_debug("a Node that is none is left out: %s", name ? why.text : "it has no name");
		if (name)
			fleet_forget(f, at);
		return true;
	}
	bool is_same = str_eq(f->members[at].uid, now.uid);
	f->fellows[at].is_listed = true;
	if (is_stale(&f->fellows[at], metadata))
		return false;
	if (is_same) {
		keep_pods(&f->members[at].facts, &now.facts);
	} else {
		f->fellows[at].retry_ms = f->fellows[at].failures = 0;
		f->fellows[at].looked = (struct stay){ 0 };
		f->moves++;
	}
	bool is_other = !is_same_bytes(&f->members[at], &now, sizeof(now));
	f->members[at] = now;
	return renew(&f->fellows[at], metadata) || is_other;
}

void fleet_renew(struct fleet *f, const json_t *node, const struct policy *policy)
{
	const char *name = json_string_value(json_object_get(json_object_get(node, "metadata"), "name"));
	if (name && find(f, name) < f->count)
		fleet_put(f, node, policy);
}

void fleet_remove(struct fleet *f, const json_t *node)
{
	const json_t *metadata = json_object_get(node, "metadata");
	const char *name = json_string_value(json_object_get(metadata, "name"));
	const char *uid = json_string_value(json_object_get(metadata, "uid"));
	size_t at = name ? find(f, name) : f->count;
	if (at < f->count && str_eq(f->members[at].uid, uid))
		fleet_forget(f, at);
}

void fleet_list_begin(struct fleet *f)
{
	for (size_t i = 0; i < f->count; i++)
		f->fellows[i].is_listed = false;
}

void fleet_list_end(struct fleet *f)
{
	for (size_t i = f->count; i-- > 0;)
		if (!f->fellows[i].is_listed)
			fleet_forget(f, i);
}
