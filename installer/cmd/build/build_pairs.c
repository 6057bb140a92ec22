// SPDX-License-Identifier: Apache-2.0
// What became of the pairs of a matrix, told.
#include "cmd/build/build.h"

#include <stdio.h>

static const char *const names[BUILD_RESULTS] = { "built", "there", "fetched", "skipped", "refused", "failed" };

void build_pairs_done(struct build_pairs *pairs)
{
	for (size_t i = 0; i < pairs->count; i++) {
		free(pairs->items[i].driver);
		free(pairs->items[i].tag);
		free(pairs->items[i].digest);
	}
	free(pairs->items);
	*pairs = (struct build_pairs){ 0 };
}

static const char *failure_text(const struct build_pair *p)
{
	return p->err.code ? p->err.text : p->why ? p->why : p->digest;
}

static json_t *pair_json(const struct build_pair *p)
{
	json_t *json = json_pack("{s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:f}", "source", json_text(p->source),
				 "driver", json_text(p->driver), "flavour", flavour_name(p->flavour), "kernel",
				 p->release, "result", names[p->result], "tag", json_text(p->tag), "digest",
				 json_text(p->digest), "why", json_text(p->why), "seconds", p->seconds);
	auto_json json_t *failure = p->err.code ? show_failure_json(&p->err) : NULL;
	if (failure)
		json_object_update(json, failure);
	return json;
}

static void show_pairs_json(const struct build_pairs *pairs, const char *output)
{
	json_t *list = json_array();
	for (size_t i = 0; i < pairs->count; i++)
		json_array_append_new(list, pair_json(&pairs->items[i]));
	auto_json json_t *json = json_pack("{s:o, s:o}", "output", json_text(output), "pairs", list);
	for (size_t i = 0; i < BUILD_RESULTS; i++)
		json_object_set_new(json, names[i], json_integer((json_int_t)pairs->counts[i]));
	show_json(json);
}

void build_pairs_show(const struct build_pairs *pairs, const char *output, bool is_json)
{
	auto_strv struct strv rows = { 0 };
	if (is_json) {
		show_pairs_json(pairs, output);
		return;
	}
	for (size_t i = 0; i < pairs->count; i++) {
		const struct build_pair *p = &pairs->items[i];
		strv_add(&rows, str_fmt("%s\t%s\t%s\t%s%s%s\t%.1f s\t%s", p->driver ? p->driver : p->source,
					flavour_name(p->flavour), p->release, names[p->result], p->err.code ? " " : "",
					p->err.code ? err_info(p->err.code)->name : "", p->seconds, failure_text(p)));
	}
	show_table(&rows);
	for (size_t i = 0; i < BUILD_RESULTS; i++)
		printf("%zu %s%s", pairs->counts[i], names[i], i + 1 < BUILD_RESULTS ? ", " : "\n");
}
