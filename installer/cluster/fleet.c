// SPDX-License-Identifier: Apache-2.0
#include "cluster/fleet.h"

#include "base/log.h"
#include "cluster/keys.h"
#include "cluster/roster.h"

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
	*f = FLEET_NONE;
}

static size_t find(const struct fleet *f, const char *name)
{
	size_t at = 0;
	while (at < f->count && !str_eq(f->fellows[at].name, name))
		at++;
	return at;
}

void fleet_forget(struct fleet *f, size_t at)
{
	fellow_done(&f->fellows[at]);
	f->count--;
	f->fellows[at] = f->fellows[f->count]; // the order says nothing
	f->members[at] = f->members[f->count];
}

static size_t add(struct fleet *f, const char *name)
{
	if (f->count == f->room) {
		f->room = f->room ? f->room * 2 : 64;
		f->members = mem_grow(f->members, f->room, sizeof(*f->members));
		f->fellows = mem_grow(f->fellows, f->room, sizeof(*f->fellows));
	}
	f->fellows[f->count] = (struct fellow){ .name = str_dup(name) };
	f->members[f->count] = (struct member){ 0 };
	return f->count++;
}

static void keep_pods(const struct facts *from, struct facts *to)
{
	to->is_ours = from->is_ours;
	to->pods = from->pods;
	to->jobs = from->jobs;
	to->blocked_since = from->blocked_since;
	memcpy(to->blocker, from->blocker, sizeof(to->blocker));
}

static char *text_of(const json_t *object, const char *key)
{
	return str_dup(json_string_value(json_object_get(object, key)));
}

static void renew(struct fellow *w, const json_t *metadata)
{
	free(w->version);
	free(w->holders);
	free(w->loaded);
	w->version = text_of(metadata, "resourceVersion");
	w->holders = text_of(json_object_get(metadata, "annotations"), KEY_PREFIX "agent.holders");
	w->loaded = text_of(json_object_get(metadata, "annotations"), KEY_PREFIX "agent.loaded");
}

// Of what was read before what is known, by the numbers that versions are (KEP-5504).
static bool is_stale(const struct fellow *w, const json_t *metadata)
{
	uint64_t known, version;
	const char *text = json_string_value(json_object_get(metadata, "resourceVersion"));
	return w->version && text && str_u64(w->version, 10, &known) && str_u64(text, 10, &version) && version < known;
}

void fleet_put(struct fleet *f, const json_t *node, const struct policy *policy)
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
		return;
	}
	bool is_same = str_eq(f->members[at].uid, now.uid);
	f->fellows[at].is_listed = true;
	if (is_same && is_stale(&f->fellows[at], metadata))
		return;
	if (is_same)
		keep_pods(&f->members[at].facts, &now.facts);
	else
		f->fellows[at].retry_ms = f->fellows[at].look_ms = f->fellows[at].failures = 0;
	f->members[at] = now;
	renew(&f->fellows[at], metadata);
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
