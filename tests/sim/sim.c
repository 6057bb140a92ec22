// SPDX-License-Identifier: Apache-2.0
// One simulated server: start and end, log, clients, and administrator.
#include "tests/sim/sim_internal.h"

#include <stdarg.h>
#include <stdio.h>

static struct sim *current;

struct sim *sim_current(void)
{
	return current;
}

struct sim *sim_new(const struct sim_options *options)
{
	struct sim *s = mem_alloc(sizeof(*s));
	s->o = options ? *options : (struct sim_options){ 0 };
	s->o.call_ms = s->o.call_ms ? s->o.call_ms : 2;
	s->o.bookmark_ms = s->o.bookmark_ms ? s->o.bookmark_ms : 60000;
	s->store.keep = s->o.keep ? s->o.keep : 10000;
	s->store.version = 100; // a server has objects of its own before the first request
	sim_clock_start(s->o.seed);
	current = s;
	return s;
}

void sim_free(struct sim *s)
{
	if (!s)
		return;
	sim_clock_start(0);
	sim_store_done(&s->store);
	sim_endings_free(s->endings);
	sim_ghosts_free(s->ghosts);
	sim_heal(s);
	for (size_t i = 0; i < s->calls_count; i++) {
		free(s->calls[i].client);
		free(s->calls[i].path);
	}
	free(s->calls);
	current = current == s ? NULL : current;
	free(s);
}

int64_t sim_time(const struct sim *s)
{
	return SIM_EPOCH + sim_now_ms() / 1000 + s->o.ahead_s;
}

void sim_skew(struct sim *s, int64_t ahead_s)
{
	s->o.ahead_s = ahead_s;
}

struct kube *sim_client(struct sim *s, const char *name)
{
	return sim_client_within(s, name, 0);
}

struct kube *sim_client_within(struct sim *s, const char *name, unsigned deadline_ms)
{
	struct err err = { 0 };
	struct kube *kube = NULL;
	struct kube_config c = KUBE_CONFIG_NONE;
	c.server = str_dup("http://sim");
	c.token = str_dup(name);
	c.namespace = str_dup("kmodsmith");
	c.deadline_ms = deadline_ms;
	current = s;
	if (kube_open(&c, &kube, &err) < 0)
		kube_config_done(&c);
	return kube;
}

void sim_note(struct sim *s, const struct sim_request *r, long status)
{
	if (s->calls_count == s->calls_room) {
		s->calls_room = s->calls_room ? s->calls_room * 2 : 256;
		s->calls = mem_grow(s->calls, s->calls_room, sizeof(*s->calls));
	}
	s->calls[s->calls_count++] = (struct sim_call){ .ms = sim_now_ms(),
							.client = str_dup(r->client),
							.verb = r->verb,
							.path = str_dup(r->path),
							.status = status };
}

size_t sim_count(const struct sim *s, const char *client, const char *verb)
{
	size_t count = 0;
	for (size_t i = 0; i < s->calls_count; i++)
		count += (!client || str_eq(s->calls[i].client, client)) && (!verb || str_eq(s->calls[i].verb, verb));
	return count;
}

const struct sim_call *sim_log(const struct sim *s, size_t *ret_count)
{
	*ret_count = s->calls_count;
	return s->calls;
}

// ' stands for ". Aborts if it is not valid JSON: the test is wrong.
static json_t *parse_quoted_json(const char *fmt, va_list args) PRINTF(1, 0);
static json_t *parse_quoted_json(const char *fmt, va_list args)
{
	auto_str char *text = NULL;
	json_error_t problem;
	if (vasprintf(&text, fmt, args) < 0)
		abort();
	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	json_t *value = json_loads(text, 0, &problem);
	if (value)
		return value;
	fprintf(stderr, "sim: %s: %s\n", problem.text, text);
	abort();
}

static json_t *ask_as_admin(struct sim *s, const char *method, const char *path, const json_t *body)
{
	auto_sim_path struct sim_path p = { 0 };
	struct sim_answer a = { 0 };
	struct sim_request r = { .client = "admin",
				 .method = method,
				 .path = path,
				 .type = str_eq(method, "PATCH") ? "application/merge-patch+json" : NULL,
				 .body = body };
	sim_address(&r, &p);
	sim_serve(s, &r, &p, &a);
	if (a.status / 100 == 2)
		return a.reply;
	fprintf(stderr, "sim: %s %s: status %ld: %s\n", method, path, a.status, sim_text(a.reply, "message"));
	abort();
}

json_t *sim_ask(struct sim *s, const char *method, const char *path, const char *json, ...)
{
	va_list args;
	va_start(args, json);
	auto_json json_t *body = json ? parse_quoted_json(json, args) : NULL;
	va_end(args);
	return ask_as_admin(s, method, path, body);
}

void sim_make(struct sim *s, const char *path, const char *json, ...)
{
	va_list args;
	va_start(args, json);
	auto_json json_t *body = parse_quoted_json(json, args);
	va_end(args);
	json_decref(ask_as_admin(s, "POST", path, body));
}

void sim_merge(struct sim *s, const char *path, const char *json, ...)
{
	va_list args;
	va_start(args, json);
	auto_json json_t *body = parse_quoted_json(json, args);
	va_end(args);
	json_decref(ask_as_admin(s, "PATCH", path, body));
}

void sim_delete(struct sim *s, const char *path)
{
	json_decref(ask_as_admin(s, "DELETE", path, NULL));
}

const json_t *sim_get(struct sim *s, const char *path)
{
	auto_sim_path struct sim_path p = { 0 };
	if (!sim_path_parse(path, &p) || !p.name)
		return NULL;
	auto_str char *key = sim_key(p.kind, p.namespace, p.name);
	return sim_store_get(&s->store, p.kind, key);
}

void sim_compact(struct sim *s)
{
	sim_store_compact(&s->store, s->store.version);
}

uint64_t sim_version(const struct sim *s)
{
	return s->store.version;
}

void sim_restore(struct sim *s, uint64_t version)
{
	sim_store_restore(&s->store, version);
	const struct sim_shelf *pods = &s->store.shelves[SIM_PODS - sim_kinds];
	for (size_t i = 0; i < pods->count; i++) // kubelets end what was ending then
		sim_kubelet(s, pods->rows[i].key);
}
