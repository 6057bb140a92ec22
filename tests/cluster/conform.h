// SPDX-License-Identifier: Apache-2.0
// Sends the rows of conform_rows.h, and what one request alone does not show: watches, and what is too old. Whoever
// includes this says whom to ask (tests/unit/sim_conform_test.c the simulated server, conform.c a real one).
#pragma once
#include "cluster/kube/api.h"
#include "tests/cluster/conform_rows.h"
#include "tests/unit/test.h"

struct conform {
	struct kube *kube;
	void (*age)(void *ctx); // the server forgets all changes until now
	void *ctx;
	json_t *kept;
	char *problems; // all of them are told, at the end
};

#define conform_that(c, cond, said)                              \
	do {                                                     \
		if (!(cond))                                     \
			str_add(&(c)->problems, "%s\n", (said)); \
	} while (0)

static inline void conform_end(struct conform *c)
{
	auto_str char *problems = TAKE(c->problems);
	expect(problems == NULL, problems);
}

static inline json_t *conform_parse(const char *text)
{
	auto_str char *json = str_dup(text);
	for (char *p = json; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
	expect(value != NULL, text);
	return value;
}

// "metadata name", "items 0 metadata"; NULL = absent.
static inline json_t *conform_at(json_t *at, const char *keys)
{
	auto_strv struct strv path = { 0 };
	strv_split(&path, keys, " ");
	for (size_t i = 0; i < path.count; i++)
		at = json_is_array(at) ? json_array_get(at, strtoul(path.items[i], NULL, 10)) :
					 json_object_get(at, path.items[i]);
	return at;
}

static inline char *conform_big(void)
{
	enum { MORE_THAN_ALL = (256 << 10) + 1 };
	char *big = mem_alloc(MORE_THAN_ALL + 1);
	memset(big, 'x', MORE_THAN_ALL);
	return big;
}

// With what $ stands for.
static inline char *conform_fill(const struct conform *c, const char *text, bool is_path)
{
	char *filled = str_dup("");
	for (const char *dollar; (dollar = strchr(text, '$'));) {
		size_t len = strspn(dollar + 1, "abcdefghijklmnopqrstuvwxyz0123456789-.");
		auto_str char *word = str_ndup(dollar + 1, len);
		char *dot = strchr(word, '.');
		const char *keys = !dot                    ? "" :
				   str_eq(dot, ".uid")     ? "metadata uid" :
				   str_eq(dot, ".version") ? "metadata resourceVersion" :
							     "metadata continue";
		if (dot)
			*dot = '\0';
		json_t *kept = json_object_get(c->kept, word);
		auto_str char *value = dot ? str_dup(json_string_value(conform_at(kept, keys))) : conform_big();
		auto_str char *escaped = is_path && value ? http_escape(value) : NULL;
		expect(value != NULL, text);
		str_add(&filled, "%.*s%s", (int)(dollar - text), text, escaped ? escaped : value);
		text = dollar + 1 + len;
	}
	str_add(&filled, "%s", text);
	return filled;
}

static inline void conform_fact(struct conform *c, json_t *reply, const char *fact, const char *row)
{
	const char *is = strchr(fact, '='), *number = is && is[-1] == '#' ? is + 1 : NULL;
	expect(is != NULL, fact);
	auto_str char *keys = str_ndup(fact, (size_t)(is - fact) - (number != NULL));
	json_t *have = conform_at(reply, keys);
	auto_str char *shown = have ? json_dumps(have, JSON_ENCODE_ANY | JSON_COMPACT) : str_dup("nothing");
	auto_str char *said = str_fmt("%s: %s, and there is %s", row, fact, shown);
	if (number) {
		conform_that(c, json_array_size(have) == strtoul(number, NULL, 10), said);
	} else if (str_eq(is, "=-") || str_eq(is, "=*")) {
		conform_that(c, (have == NULL) == (is[1] == '-'), said);
	} else {
		auto_json json_t *want = conform_parse(is + 1);
		conform_that(c, json_equal(have, want), said);
	}
}

static inline void conform_ask(struct conform *c, const struct conform_row *row)
{
	static const char *const patches[][2] = { { "JSON", "application/json-patch+json" },
						  { "MERGE", "application/merge-patch+json" },
						  { "PATCH", "text/plain" } };
	struct err err = { 0 };
	auto_str char *path = conform_fill(c, row->path, true),
		      *text = row->body ? conform_fill(c, row->body, false) : NULL;
	auto_json json_t *body = text ? conform_parse(text) : NULL;
	auto_kube_call struct kube_call call = {
		.method = row->method, .path = path, .body = body, .is_busy_final = true
	};
	call.deadline_ms = call.try_ms = 30000; // an eviction may be tried for ten seconds by the server itself
	for (size_t i = 0; i < ARRAY_SIZE(patches); i++) {
		if (!str_eq(row->method, patches[i][0]))
			continue;
		call.method = "PATCH";
		call.type = patches[i][1];
	}
	int r = kube_run(c->kube, &call, &err);
	auto_str char *said = str_fmt("%s: %ld %s, %d, after %u ms: %s", row->what, call.status,
				      call.reason ? call.reason : "-", r < 0 ? err.code : 0, call.retry_ms, err.text);
	conform_that(c, call.status == row->status, said);
	conform_that(c, row->reason ? str_eq(call.reason, row->reason) : !call.reason, said);
	conform_that(c, !row->cause || kube_cause(&call, "reason", row->cause), said);
	conform_that(c, (r < 0 ? err.code : 0) == row->code && call.retry_ms == row->retry_ms, said);
	auto_strv struct strv facts = { 0 };
	auto_str char *filled = row->facts ? conform_fill(c, row->facts, false) : str_dup("");
	strv_split(&facts, filled, ";");
	for (size_t i = 0; i < facts.count; i++)
		conform_fact(c, call.reply, facts.items[i], row->what);
	if (row->keep)
		json_object_set(c->kept, row->keep, call.reply);
}

static inline void conform_requests(struct conform *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(conform_rows); i++)
		conform_ask(c, &conform_rows[i]);
	c->age(c->ctx);
	for (size_t i = 0; i < ARRAY_SIZE(conform_aged); i++)
		conform_ask(c, &conform_aged[i]);
	conform_end(c);
}
