// SPDX-License-Identifier: Apache-2.0
// What watches tell, of the simulated server and of a real one.
#pragma once
#include "tests/cluster/conform.h"

static inline int conform_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	(void)err;
	char **text = ctx;
	const char *note = json_string_value(conform_at(object, "metadata annotations kmodsmith.io/x"));
	str_add(text, "%s %s %s\n", type, json_string_value(conform_at(object, "metadata name")), note ? note : "-");
	return 0;
}

static const char *const CONFORM_EVENT[] = { KUBE_EVENT, "object metadata name",
					     "object metadata annotations kmodsmith.io/*", NULL };

// Until that many lines have come, or it ends. 1 = it goes on.
static inline int conform_wait(struct conform *c, struct kube_watch *w, unsigned lines)
{
	enum { LONGEST_MS = 20000 };
	struct err err = { 0 };
	long end = kube_now_ms() + LONGEST_MS;
	int r = 1;
	for (;;) {
		unsigned have = 0;
		for (const char *p = *(char **)w->ctx; p && *p; p++)
			have += *p == '\n';
		if (r <= 0 || have >= lines || kube_now_ms() > end)
			break;
		expect(kube_step(c->kube, 200, &err) == 0, err.text);
		r = kube_watch_look(w, &err);
	}
	expect(r >= 0, err.text);
	return r;
}

static inline void conform_do(struct conform *c, const char *method, const char *path, const char *body)
{
	conform_ask(c, &(struct conform_row){ .what = path, method, path, body, str_eq(method, "POST") ? 201 : 200 });
}

#define W1 NODES "/w1"

// Changes with a version after it, once each, in order; what comes into a selection, and what leaves it.
static inline void conform_changes(struct conform *c)
{
	struct err err = { 0 };
	auto_str char *text = NULL;
	conform_ask(c, &(struct conform_row){ .what = "w1",
					      "POST",
					      NODES,
					      "{'metadata': {'name': 'w1', 'labels': {'watch': 'yes'}}}",
					      201,
					      .keep = "w1" });
	auto_kube_watch struct kube_watch w = { .path = NODES,
						.query = "labelSelector=watch%3Dyes",
						.record = CONFORM_EVENT,
						.event = conform_event,
						.ctx = &text };
	w.version = conform_fill(c, "$w1.version", false);
	conform_do(c, "MERGE", W1, "{'metadata': {'annotations': {'kmodsmith.io/x': '1'}}}");
	conform_do(c, "MERGE", W1, "{'metadata': {'annotations': {'kmodsmith.io/x': '1'}}}"); // no change, no event
	expect(kube_watch_begin(c->kube, &w, 30, &err) == 0, err.text);
	assert_int_equal(conform_wait(c, &w, 1), 1);
	conform_do(c, "MERGE", W1, "{'metadata': {'labels': {'watch': 'no'}, 'annotations': {'kmodsmith.io/x': '2'}}}");
	conform_do(c, "MERGE", W1, "{'metadata': {'annotations': {'kmodsmith.io/x': '3'}}}");
	conform_do(c, "MERGE", W1, "{'metadata': {'labels': {'watch': 'yes'}}}");
	conform_do(c, "DELETE", W1, NULL);
	conform_wait(c, &w, 4);
	assert_string_equal(text, "MODIFIED w1 1\nDELETED w1 1\nADDED w1 3\nDELETED w1 3\n");
	auto_str char *first = conform_fill(c, "$w1.version", false);
	assert_true(strtoull(w.version, NULL, 10) > strtoull(first, NULL, 10));
}

// One object by its name, until the server ends it in good order, with a bookmark before.
static inline void conform_first(struct conform *c)
{
	struct err err = { 0 };
	auto_str char *text = NULL;
	conform_ask(c, &(struct conform_row){ .what = "a list",
					      "GET",
					      NODES "?limit=1",
					      NULL,
					      200,
					      .facts = "metadata resourceVersion=*",
					      .keep = "list" });
	conform_do(c, "POST", NODES, "{'metadata': {'name': 'w1', 'annotations': {'kmodsmith.io/x': '1'}}}");
	auto_kube_watch struct kube_watch w = { .path = NODES,
						.query = "fieldSelector=metadata.name%3Dw1",
						.record = CONFORM_EVENT,
						.event = conform_event,
						.ctx = &text };
	w.version = conform_fill(c, "$list.version", false);
	expect(kube_watch_begin(c->kube, &w, 6, &err) == 0, err.text);
	assert_int_equal(conform_wait(c, &w, 1), 1);
	auto_str char *version = str_dup(w.version);
	conform_do(c, "POST", NODES, "{'metadata': {'name': 'w2'}}");
	assert_int_equal(conform_wait(c, &w, 2), 0);
	assert_string_equal(text, "ADDED w1 1\n");
	auto_str char *said = str_fmt("%u bookmarks, from %s to %s", w.bookmarks, version, w.version);
	expect(w.bookmarks && !w.is_gone && strtoull(w.version, NULL, 10) > strtoull(version, NULL, 10), said);
}

// What is too old is told as such, once; and what cannot be chosen is refused.
static inline void conform_old(struct conform *c)
{
	struct err err = { 0 };
	auto_str char *text = NULL;
	auto_kube_watch struct kube_watch old = {
		.path = EVENTS, .record = CONFORM_EVENT, .event = conform_event, .ctx = &text
	};
	old.version = str_dup("1");
	expect(kube_watch_begin(c->kube, &old, 5, &err) == 0, err.text);
	conform_wait(c, &old, 1);
	assert_true(old.is_gone);
	assert_null(text);
	auto_kube_watch struct kube_watch bad = { .path = NODES,
						  .query = "fieldSelector=spec.color%3Dred",
						  .record = CONFORM_EVENT,
						  .event = conform_event,
						  .ctx = &text };
	expect(kube_watch_begin(c->kube, &bad, 5, &err) == 0, err.text);
	while (kube_watch_look(&bad, &err) == 1)
		expect(kube_step(c->kube, 200, &err) == 0, err.text);
	expect(err.code == E_KUBE && strstr(err.text, "field label not supported"), err.text);
	conform_end(c);
}
