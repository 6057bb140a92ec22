// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/gpu_check.h"

static const char *const levels[] = { "none", "start", "answer", "compute" };
static const char *const fabrics[] = { "none", "not started", "in progress", "completed" };
static const char *const outcomes[] = { "untested", "works", "broken", "pending", "excluded" };

void gpu_result_done(struct gpu_result *gpu)
{
	free(gpu->address);
	free(gpu->reason);
	free(gpu->uuid);
	free(gpu->name);
	free(gpu->note);
	*gpu = (struct gpu_result){ .minor = -1 };
}

void gpu_results_done(struct gpu_results *r)
{
	for (size_t i = 0; i < r->count; i++)
		gpu_result_done(&r->items[i]);
	free(r->items);
	*r = (struct gpu_results){ 0 };
}

const struct gpu_result *gpu_results_find(const struct gpu_results *r, const char *address)
{
	for (size_t i = 0; i < r->count; i++)
		if (str_eq(r->items[i].address, address))
			return &r->items[i];
	return NULL;
}

bool gpu_result_is_off_fabric(const struct gpu_result *gpu)
{
	return gpu->fabric == GPU_FABRIC_NOT_STARTED || gpu->fabric == GPU_FABRIC_IN_PROGRESS;
}

size_t gpu_results_count(const struct gpu_results *r, enum gpu_outcome outcome)
{
	size_t count = 0;
	for (size_t i = 0; i < r->count; i++)
		count += r->items[i].outcome == outcome;
	return count;
}

// The deepest level that all GPUs reach which work.
static enum gpu_level common_level(const struct gpu_results *r)
{
	enum gpu_level least = GPU_COMPUTE;
	for (size_t i = 0; i < r->count; i++)
		if (r->items[i].outcome == GPU_WORKS && r->items[i].level < least)
			least = r->items[i].level;
	return least;
}

char *gpu_results_text(const struct gpu_results *r)
{
	static const char *const verbs[] = { "are there", "start", "start and answer", "start, answer and compute" };
	size_t works = gpu_results_count(r, GPU_WORKS);
	size_t all = r->count - gpu_results_count(r, GPU_EXCLUDED);
	auto_str char *text =
		str_fmt("%zu of %zu %s (%.1f s)", works, all, verbs[works ? common_level(r) : GPU_START], r->seconds);
	for (size_t i = 0; i < r->count; i++)
		if (r->items[i].outcome != GPU_WORKS)
			str_add(&text, "; %s: %s", r->items[i].address,
				r->items[i].reason ? r->items[i].reason : outcomes[r->items[i].outcome]);
	return TAKE(text);
}

const char *gpu_level_name(enum gpu_level level)
{
	return levels[level];
}

json_t *gpu_results_json(const struct gpu_results *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->count; i++) {
		const struct gpu_result *g = &r->items[i];
		json_array_append_new(list,
				      json_pack("{s:s, s:i, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:s, s:i}", "address",
						g->address, "minor", g->minor, "level", levels[g->level], "outcome",
						outcomes[g->outcome], "reset_due", g->is_reset_due, "reason",
						json_text(g->reason), "uuid", json_text(g->uuid), "name",
						json_text(g->name), "note", json_text(g->note), "fabric",
						fabrics[g->fabric], "recovery", g->recovery));
	}
	return json_pack("{s:f, s:o}", "seconds", r->seconds, "gpus", list);
}

static bool parse_word(const json_t *json, const char *key, const char *const *words, size_t count, size_t *ret)
{
	for (*ret = 0; *ret < count; ++*ret)
		if (str_eq(json_string_value(json_object_get(json, key)), words[*ret]))
			return true;
	return false;
}

void gpu_results_parse(const json_t *json, struct gpu_results *ret)
{
	size_t i, level, outcome, fabric;
	json_t *one;
	ret->seconds = json_number_value(json_object_get(json, "seconds"));
	json_array_foreach(json_object_get(json, "gpus"), i, one)
	{
		if (!json_is_string(json_object_get(one, "address")) ||
		    !parse_word(one, "level", levels, ARRAY_SIZE(levels), &level) ||
		    !parse_word(one, "outcome", outcomes, ARRAY_SIZE(outcomes), &outcome))
			continue;
		bool has_fabric = parse_word(one, "fabric", fabrics, ARRAY_SIZE(fabrics), &fabric);
		ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
		ret->items[ret->count++] =
			(struct gpu_result){ .address = json_text_dup(one, "address"),
					     .minor = (int)json_integer_value(json_object_get(one, "minor")),
					     .level = (enum gpu_level)level,
					     .outcome = (enum gpu_outcome)outcome,
					     .is_reset_due = json_is_true(json_object_get(one, "reset_due")),
					     .reason = json_text_dup(one, "reason"),
					     .uuid = json_text_dup(one, "uuid"),
					     .name = json_text_dup(one, "name"),
					     .note = json_text_dup(one, "note"),
					     .fabric = has_fabric ? (enum gpu_fabric)fabric : GPU_FABRIC_NONE,
					     .recovery = (int)json_integer_value(json_object_get(one, "recovery")) };
	}
}
