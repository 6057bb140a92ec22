// SPDX-License-Identifier: Apache-2.0
// A watch: events of a collection as text. An object that no longer matches the selector is DELETED for the watch, one
// that begins to match is ADDED.
#include "tests/sim/sim_internal.h"

#include <inttypes.h>

struct sim_watch *sim_watch_new(struct sim *s, struct sim_path *take)
{
	enum { LONGEST_S = 1800, BEFORE_END_MS = 2000 };
	struct sim_watch *w = mem_alloc(sizeof(*w));
	long seconds = take->timeout_s ? (long)take->timeout_s : LONGEST_S;
	*w = (struct sim_watch){
		.sim = s, .path = *take, .restores = s->store.restores, .end_ms = sim_now_ms() + seconds * 1000
	};
	*take = (struct sim_path){ 0 };
	w->bookmark_ms = sim_now_ms() + s->o.bookmark_ms;
	if (w->bookmark_ms > w->end_ms - BEFORE_END_MS)
		w->bookmark_ms = w->end_ms - BEFORE_END_MS;
	if (w->path.version)
		str_u64(w->path.version, 10, &w->version);
	return w;
}

void sim_watch_free(struct sim_watch *w)
{
	if (!w)
		return;
	sim_path_done(&w->path);
	free(w->key);
	free(w->first);
	free(w);
}

static char *event_text(const char *type, json_t *object)
{
	auto_json json_t *e = json_pack("{s:s, s:O}", "type", type, "object", object);
	auto_str char *text = json_dumps(e, JSON_COMPACT);
	return str_fmt("%s\n", text);
}

static char *refusal_event(struct sim_watch *w, long status, const char *reason, const char *why)
{
	auto_sim_answer struct sim_answer a = { 0 };
	w->is_over = true;
	sim_say(&a, status, reason, "%s", why);
	return event_text("ERROR", a.reply);
}

char *sim_watch_too_old(struct sim_watch *w)
{
	auto_str char *why =
		str_fmt("too old resource version: %" PRIu64 " (%" PRIu64 ")", w->version, w->sim->store.compacted);
	return refusal_event(w, 410, "Expired", why);
}

// A watch without resourceVersion would begin with all objects, and a server must refuse that if its etcd is older than
// 3.4.25 (cacher.go of apiserver 0.36): clients have to list first.
static char *refuse_without_version(struct sim_watch *w)
{
	return refusal_event(w, 500, "InternalError",
			     "a watch stream was requested by the client but the required storage feature "
			     "RequestWatchProgress is disabled");
}

static char *bookmark_event(struct sim_watch *w)
{
	const struct sim_kind *kind = w->path.kind;
	auto_str char *version = str_fmt("%" PRIu64, w->version);
	auto_str char *group = str_fmt("%s%sv1", kind->group, *kind->group ? "/" : "");
	auto_json json_t *object = json_pack("{s:s, s:s, s:{s:s, s:n}}", "kind", kind->kind, "apiVersion", group,
					     "metadata", "resourceVersion", version, "creationTimestamp");
	w->bookmark_ms += w->sim->o.bookmark_ms;
	return event_text("BOOKMARK", object);
}

// NULL = it does not match.
static char *change_event(const struct sim_watch *w, const struct sim_change *c)
{
	bool was = sim_selects(&w->path, c->before), is = !c->is_removal && sim_selects(&w->path, c->after);
	if (was && !is && !c->is_removal) {
		auto_json json_t *last = json_deep_copy(c->before);
		sim_set(last, "metadata resourceVersion", json_incref(sim_at(c->after, "metadata resourceVersion")));
		return event_text("DELETED", last);
	}
	return !was && !is ? NULL : event_text(!is ? "DELETED" : was ? "MODIFIED" : "ADDED", c->after);
}

// Of a watch from version 0: existing objects come first, as ADDED. NULL = all were sent.
static char *initial_event(struct sim_watch *w)
{
	const struct sim_store *store = &w->sim->store;
	const struct sim_shelf *shelf = &store->shelves[w->path.kind - sim_kinds];
	for (size_t i = 0; i < shelf->count; i++) {
		const struct sim_row *row = &shelf->rows[i];
		if ((w->first && strcmp(row->key, w->first) <= 0) || !sim_selects(&w->path, row->object))
			continue;
		free(w->first);
		w->first = str_dup(row->key);
		return event_text("ADDED", row->object);
	}
	w->version = store->version;
	return NULL;
}

char *sim_watch_next(struct sim_watch *w)
{
	const struct sim_store *store = &w->sim->store;
	w->is_over = w->is_over || w->restores != store->restores; // its API server was started again
	if (w->is_over)
		return NULL;
	if (w->version == 0 && !str_eq(w->path.version, "0"))
		return refuse_without_version(w);
	char *there = w->version == 0 ? initial_event(w) : NULL;
	if (there)
		return there;
	if (w->version < store->compacted)
		return sim_watch_too_old(w);
	for (size_t i = sim_store_after(store, w->version); i < store->count; i++) {
		const struct sim_change *c = &store->changes[i];
		if (c->ms + w->lag_ms > sim_now_ms())
			break;
		w->version = c->version;
		char *text = c->kind == w->path.kind ? change_event(w, c) : NULL;
		if (!text)
			continue;
		free(w->key);
		w->key = str_dup(c->key);
		return text;
	}
	w->is_over = sim_now_ms() >= w->end_ms;
	return w->path.has_bookmarks && !w->is_over && sim_now_ms() >= w->bookmark_ms ? bookmark_event(w) : NULL;
}

long sim_watch_due(const struct sim_watch *w)
{
	const struct sim_store *store = &w->sim->store;
	size_t next = sim_store_after(store, w->version);
	if (w->restores != store->restores)
		return sim_now_ms();
	long due = w->path.has_bookmarks && w->bookmark_ms < w->end_ms ? w->bookmark_ms : w->end_ms;
	if (next < store->count && store->changes[next].ms + w->lag_ms < due)
		due = store->changes[next].ms + w->lag_ms;
	return due;
}
