// SPDX-License-Identifier: Apache-2.0
// The effect of a request is computed first, shown to the observer, and applied then.
#include "tests/sim/sim_internal.h"

#include <stdarg.h>
#include <stdio.h>

// Errors in the server's own words: metav1.Status as in k8s.io/apimachinery/pkg/api/errors.

void sim_answer_done(struct sim_answer *a)
{
	json_decref(TAKE(a->reply));
}

static void set_sim_status(struct sim_answer *a, long status, const char *reason, json_t *details, const char *message)
{
	json_decref(a->reply);
	a->status = status;
	a->reply = json_pack("{s:s, s:s, s:{}, s:s, s:s, s:s*, s:o*, s:i}", "kind", "Status", "apiVersion", "v1",
			     "metadata", "status", "Failure", "message", message, "reason", reason, "details", details,
			     "code", (int)status);
}

void sim_say(struct sim_answer *a, long status, const char *reason, const char *fmt, ...)
{
	va_list args;
	char text[1024];
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	set_sim_status(a, status, reason, NULL, text);
}

void sim_say_of(struct sim_answer *a, long status, const char *reason, const struct sim_kind *kind, const char *name,
		const char *fmt, ...)
{
	va_list args;
	char text[1024];
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	bool is_kind = str_eq(reason, "Invalid"); // these errors name the kind, all others the resource
	set_sim_status(a, status, reason,
		       json_pack("{s:s*, s:s, s:s}", "group", *kind->group ? kind->group : NULL, "kind",
				 is_kind ? kind->kind : kind->resource, "name", name),
		       text);
}

void sim_say_cause(struct sim_answer *a, const char *reason, const char *message, const char *field)
{
	if (!sim_at(a->reply, "details causes"))
		sim_set(a->reply, "details causes", json_array());
	json_array_append_new(sim_at(a->reply, "details causes"),
			      json_pack("{s:s, s:s, s:s*}", "reason", reason, "message", message, "field", field));
}

// Requests that are still in flight after their client has given up, or was killed.

struct sim_ghost {
	struct sim *sim;
	char *client, *method, *path, *type;
	json_t *body;
	struct sim_ghost *next;
};

void sim_ghosts_free(struct sim_ghost *g)
{
	while (g) {
		struct sim_ghost *next = g->next;
		free(g->client);
		free(g->method);
		free(g->path);
		free(g->type);
		json_decref(g->body);
		free(g);
		g = next;
	}
}

static void deliver_late_request(void *ctx)
{
	const struct sim_ghost *g = ctx;
	auto_sim_path struct sim_path p = { 0 };
	auto_sim_answer struct sim_answer a = { 0 };
	struct sim_request r = { .client = g->client,
				 .method = g->method,
				 .path = g->path,
				 .type = g->type,
				 .body = g->body,
				 .is_late = true };
	sim_address(&r, &p);
	sim_serve(g->sim, &r, &p, &a);
}

void sim_linger(struct sim *s, const struct sim_request *r, long late_ms)
{
	struct sim_ghost *g = mem_alloc(sizeof(*g));
	*g = (struct sim_ghost){ .sim = s,
				 .client = str_dup(r->client),
				 .method = str_dup(r->method),
				 .path = str_dup(r->path),
				 .type = str_dup(r->type),
				 .body = json_deep_copy(r->body),
				 .next = s->ghosts };
	s->ghosts = g;
	sim_after(late_ms, deliver_late_request, g);
}

enum { CONNECT_MS = 3000 }; // connect timeout of a client (base/http/http.h)

// name: of the object in the body
static bool has_name(const struct sim_request *r, const json_t *body, struct sim_answer *a)
{
	const char *name = sim_text(body, "metadata name"), *namespace = sim_text(body, "metadata namespace");
	if (name && r->name && !str_eq(name, r->name))
		sim_say(a, 400, "BadRequest", "the name of the object (%s) does not match the name on the URL (%s)",
			name, r->name);
	else if (namespace && r->namespace && !str_eq(namespace, r->namespace))
		sim_say(a, 400, "BadRequest",
			"the namespace of the provided object does not match the namespace sent on the request");
	else if (!name && r->name)
		sim_say(a, 400, "BadRequest", "the name of the object (%s based on URL) was undeterminable", r->name);
	else
		return true;
	return false;
}

static bool is_body_typed(const struct sim_kind *kind, const json_t *body, struct sim_answer *a)
{
	if (json_is_object(body) && sim_is_typed(kind, body))
		return true;
	sim_say(a, 400, "BadRequest", "%s in version \"v1\" cannot be handled as a %s: json: cannot unmarshal",
		kind->kind, kind->kind);
	return false;
}

static void answer_not_found(const struct sim_request *r, struct sim_effect *e)
{
	sim_say_of(&e->answer, 404, "NotFound", e->kind, r->name, "%s%s%s \"%s\" not found", e->kind->resource,
		   *e->kind->group ? "." : "", e->kind->group, r->name);
}

static void create_object(struct sim *s, const struct sim_request *r, struct sim_effect *e)
{
	const char *name = sim_text(r->body, "metadata name");
	auto_str char *key = sim_key(e->kind, r->namespace, name ? name : "");
	if (e->kind->is_namespaced && !r->namespace) {
		sim_say(&e->answer, 405, "MethodNotAllowed",
			"the server does not allow this method on the requested resource");
		return;
	}
	if (!is_body_typed(e->kind, r->body, &e->answer) || !has_name(r, r->body, &e->answer) ||
	    !sim_may_be_made(s, e->kind, r->namespace, name, &e->answer) ||
	    !sim_is_valid(e->kind, r->namespace, name, r->body, &e->answer))
		return;
	free(e->key);
	e->key = TAKE(key);
	json_decref(e->before);
	e->before = json_incref(sim_store_get(&s->store, e->kind, e->key));
	if (e->before) {
		sim_say_of(&e->answer, 409, "AlreadyExists", e->kind, name, "%s%s%s \"%s\" already exists",
			   e->kind->resource, *e->kind->group ? "." : "", e->kind->group, name);
		return;
	}
	e->after = sim_born(s, e->kind, r->namespace, r->body);
	e->is_write = true;
	e->answer.status = 201;
}

// Update to wanted: refused, unchanged, changed, or removed if its last finalizer went.
static void follow_object(const struct sim_request *r, struct sim_effect *e, const json_t *wanted)
{
	if (!sim_may_follow(e->kind, r->name, e->before, wanted, &e->answer))
		return;
	auto_json json_t *next = sim_next(e->kind, r->subresource, e->before, wanted);
	const json_t *metadata = json_object_get(next, "metadata");
	bool is_over = json_object_get(metadata, "deletionTimestamp") && !json_object_get(metadata, "finalizers") &&
		       json_integer_value(json_object_get(metadata, "deletionGracePeriodSeconds")) == 0;
	e->answer.status = 200;
	e->is_write = !json_equal(e->before, next);
	if (e->is_write && is_over)
		e->answer.reply = TAKE(next);
	else if (e->is_write)
		e->after = TAKE(next);
}

static void update_object(struct sim *s, const struct sim_request *r, struct sim_effect *e)
{
	const char *version = sim_text(r->body, "metadata resourceVersion"), *uid = sim_text(r->body, "metadata uid"),
		   *was = sim_text(e->before, "metadata uid");
	if (!is_body_typed(e->kind, r->body, &e->answer) || !has_name(r, r->body, &e->answer))
		return;
	if (!e->before && !e->kind->is_made_by_put)
		return answer_not_found(r, e);
	if (uid && !str_eq(uid, was)) {
		sim_say_of(
			&e->answer, 409, "Conflict", e->kind, r->name,
			"Operation cannot be fulfilled on %s%s%s \"%s\": StorageError: invalid object, Code: 4, Key: "
			"/registry/%s/%s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
			"precondition: %s, UID in object meta: %s",
			e->kind->resource, *e->kind->group ? "." : "", e->kind->group, r->name, e->kind->resource,
			e->key, uid, was ? was : "");
		return;
	}
	if (!e->before)
		return create_object(s, r, e);
	if (!version && e->kind->needs_version) {
		sim_say_of(
			&e->answer, 422, "Invalid", e->kind, r->name,
			"%s.%s \"%s\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an "
			"update",
			e->kind->resource, e->kind->group, r->name);
		sim_say_cause(&e->answer, "FieldValueInvalid", "must be specified for an update",
			      "metadata.resourceVersion");
		return;
	}
	follow_object(r, e, r->body);
}

static void patch_object_request(const struct sim_request *r, struct sim_effect *e)
{
	bool is_json = str_eq(r->type, "application/json-patch+json");
	if (!is_json && !str_eq(r->type, "application/merge-patch+json")) {
		sim_say(&e->answer, 415, "UnsupportedMediaType", "the body of the request was in an unknown format");
		return;
	}
	if (!e->before)
		return answer_not_found(r, e);
	if (is_json ? !json_is_array(r->body) : !json_is_object(r->body)) {
		sim_say(&e->answer, 400, "BadRequest", "error decoding patch");
		return;
	}
	auto_json json_t *wanted = is_json ? sim_json_patch(e->before, r->body) : sim_merge_patch(e->before, r->body);
	if (!wanted) {
		sim_say(&e->answer, 422, "Invalid", "the server rejected our request due to an error in our request");
		sim_set(e->answer.reply, "details", json_object());
		return;
	}
	if (!sim_is_typed(e->kind, wanted))
		sim_say(&e->answer, 422, "Invalid", " \"\" is invalid: patch: Invalid value: json: cannot unmarshal");
	else if (has_name(r, wanted, &e->answer))
		follow_object(r, e, wanted);
}

static void remove_object(struct sim *s, const struct sim_request *r, struct sim_effect *e)
{
	if (!e->before)
		return answer_not_found(r, e);
	if (!sim_holds(e->before, r->body, r->name, e->kind, &e->answer))
		return;
	e->after = sim_ended(s, e->kind, e->before, r->body);
	e->is_write = !e->after || !json_equal(e->before, e->after);
	e->answer.status = 200;
	if (!e->after)
		e->answer.reply = json_pack("{s:s, s:s, s:{}, s:s, s:{s:s, s:s, s:O}}", "kind", "Status", "apiVersion",
					    "v1", "metadata", "status", "Success", "details", "name", r->name, "kind",
					    e->kind->resource, "uid", sim_at(e->before, "metadata uid"));
}

static void decide_effect(struct sim *s, const struct sim_request *r, const struct sim_path *p, struct sim_effect *e)
{
	bool is_one = r->name != NULL;
	if (!r->resource)
		sim_say(&e->answer, 404, "NotFound", "the server could not find the requested resource");
	else if (str_eq(r->verb, "list") || str_eq(r->verb, "watch"))
		sim_list(s, p, &e->answer);
	else if (str_eq(r->verb, "evict"))
		sim_evict(s, r, e);
	else if (r->subresource && (!str_eq(r->subresource, "status") || !e->kind->has_status))
		sim_say(&e->answer, 404, "NotFound", "the server could not find the requested resource");
	else if (str_eq(r->verb, "get") && !e->before)
		answer_not_found(r, e);
	else if (str_eq(r->verb, "get"))
		e->answer.status = 200;
	else if (str_eq(r->verb, "create") && !is_one)
		create_object(s, r, e);
	else if (str_eq(r->verb, "update") && is_one)
		update_object(s, r, e);
	else if (str_eq(r->verb, "patch") && is_one)
		patch_object_request(r, e);
	else if (str_eq(r->verb, "delete") && is_one)
		remove_object(s, r, e);
	else
		sim_say(&e->answer, 405, "MethodNotAllowed",
			"the server does not allow this method on the requested resource");
}

void sim_commit(struct sim *s, const struct sim_kind *kind, const char *key, json_t *take)
{
	if (take)
		sim_store_put(&s->store, kind, key, take);
	else
		sim_store_remove(&s->store, kind, key);
	if (s->o.is_bare || (kind != SIM_PODS && kind != SIM_BUDGETS))
		return;
	if (kind == SIM_PODS && sim_store_get(&s->store, kind, key))
		sim_kubelet(s, key);
	auto_str char *namespace = str_ndup(key, strcspn(key, "/"));
	sim_budgets(s, namespace);
}

void sim_serve(struct sim *s, struct sim_request *r, const struct sim_path *p, struct sim_answer *ret)
{
	struct sim_effect e = { .kind = p->kind };
	if (r->resource && r->name) {
		e.key = sim_key(e.kind, r->namespace, r->name);
		e.before = json_incref(sim_store_get(&s->store, e.kind, e.key));
	}
	decide_effect(s, r, p, &e);
	r->before = e.before;
	r->after = e.is_write ? e.after : e.before;
	r->status = e.answer.status;
	if (s->o.seen)
		s->o.seen(s->o.ctx, r);
	json_t *shown = e.after ? e.after : e.before;
	if (e.answer.status / 100 == 2 && !e.answer.reply && shown)
		e.answer.reply = json_incref(shown);
	if (e.budget) {
		auto_str char *key = sim_key(SIM_BUDGETS, r->namespace, sim_text(e.budget, "metadata name"));
		sim_store_put(&s->store, SIM_BUDGETS, key, TAKE(e.budget));
	}
	if (e.is_write)
		sim_commit(s, e.kind, e.key, TAKE(e.after));
	json_decref(e.before);
	json_decref(e.after);
	free(e.key);
	r->before = r->after = NULL;
	*ret = e.answer;
}

static const char *verb_of(const char *method, const struct sim_path *p)
{
	static const char *const verbs[][2] = {
		{ "POST", "create" }, { "PUT", "update" }, { "PATCH", "patch" }, { "DELETE", "delete" }
	};
	if (str_eq(method, "GET"))
		return p->is_watch ? "watch" : p->name ? "get" : "list";
	if (str_eq(p->subresource, "eviction") && p->kind == SIM_PODS && str_eq(method, "POST"))
		return "evict";
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (str_eq(method, verbs[i][0]))
			return verbs[i][1];
	}
	return "";
}

// The request's path, parsed.
void sim_address(struct sim_request *r, struct sim_path *p)
{
	if (sim_path_parse(r->path, p))
		r->resource = p->kind->resource;
	r->verb = verb_of(r->method, p);
	r->namespace = p->namespace;
	r->name = p->name;
	r->subresource = p->subresource;
}

void sim_exchange(struct sim *s, struct sim_request *r, struct sim_path *p, struct sim_answer *ret)
{
	sim_address(r, p);
	if (sim_parted(s, r->client, NULL)) {
		ret->code = E_NETWORK;
		ret->took_ms = CONNECT_MS;
		return;
	}
	const struct sim_fault *f = sim_fault_hit(s, r->client, r->verb, r->resource, r->name);
	if (f && f->what == SIM_LINGER && str_eq(r->verb, "watch"))
		f = NULL; // no client waits for it
	if (f && f->hits == 1 && f->hit)
		f->hit(f->ctx);
	if (f && f->what == SIM_FREEZE_BEFORE) {
		r->is_late = true;
		sim_pass(f->late_ms);
	}
	if (f && (f->what == SIM_LINGER || f->what == SIM_DIE_LINGER) && f->hits == 1)
		sim_linger(s, r, f->late_ms);
	if (f && sim_fault_before(f, ret))
		return;
	sim_serve(s, r, p, ret);
	if (f)
		sim_fault_after(f, ret);
	if (f && f->what == SIM_FREEZE_AFTER)
		sim_pass(f->late_ms);
}
