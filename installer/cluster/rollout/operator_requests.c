// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/operator_requests.h"

#include "base/core/date.h"
#include "cluster/node_state/annotations.h"

const char *const gate_keys[GATE_COUNT] = { KEY_PREFIX "pause", KEY_PREFIX "resume", KEY_PREFIX "approve",
					    KEY_PREFIX "abort" };

struct word { // POOL[:WAVE]@VALUE
	char pool[WORD_TEXT], wave[WORD_TEXT], value[TARGET_HASH_TEXT];
};

static bool split_request(const char *text, size_t len, struct word *ret)
{
	const char *at = memchr(text, '@', len), *end = text + len;
	const char *colon = memchr(text, ':', len);
	if (!at || (size_t)(end - at) > TARGET_HASH_TEXT)
		return false;
	*ret = (struct word){ 0 };
	memcpy(ret->value, at + 1, (size_t)(end - at - 1));
	if (colon && colon < at)
		return node_word_copy(ret->pool, sizeof(ret->pool), text, (size_t)(colon - text)) &&
		       node_word_copy(ret->wave, sizeof(ret->wave), colon + 1, (size_t)(at - colon - 1));
	return node_word_copy(ret->pool, sizeof(ret->pool), text, (size_t)(at - text));
}

static void resume_pool(const struct word *w, const struct pool *pool, struct rollout *r)
{
	time_t t;
	(void)pool;
	if (*w->wave || !r->is_halted || !date_parse(w->value, &t) || t < r->halted_since)
		return;
	r->is_halted = false;
	r->halt = (struct reason){ 0 };
	r->resumed = t;
}

static bool is_request_for(const struct word *w, const struct rollout *r)
{
	struct target_hash target_hash;
	return target_hash_parse(w->value, &target_hash) && target_hash_is_set(&target_hash) &&
	       target_hash_eq(&target_hash, &r->target);
}

static void approve_wave(const struct word *w, const struct pool *pool, struct rollout *r)
{
	for (unsigned i = 0; i <= pool->wave_count && is_request_for(w, r); i++)
		if (str_eq(policy_wave_name(pool, i), w->wave) && r->approved < i)
			r->approved = i;
}

static void abort_rollout(const struct word *w, const struct pool *pool, struct rollout *r)
{
	(void)pool;
	r->is_aborted = r->is_aborted || (!*w->wave && is_request_for(w, r));
}

static void apply_each_request(const char *text,
			       void (*take)(const struct word *, const struct pool *, struct rollout *),
			       const struct policy *p, struct rollout *rollouts)
{
	size_t len;
	for (const char *at = text, *part; (part = node_word_cut(&at, ',', &len));) {
		struct word w;
		if (!split_request(part, len, &w))
			continue;
		for (size_t i = 0; i < p->pool_count; i++)
			if (str_eq(p->pools[i].name, w.pool))
				take(&w, &p->pools[i], &rollouts[i]);
	}
}

void operator_requests_apply(const char *const values[GATE_COUNT], const struct policy *p, struct rollout *rollouts)
{
	for (size_t i = 0; i < p->pool_count; i++)
		rollouts[i].is_aborted = false;
	apply_each_request(values[GATE_RESUME], resume_pool, p, rollouts);
	apply_each_request(values[GATE_APPROVE], approve_wave, p, rollouts);
	apply_each_request(values[GATE_ABORT], abort_rollout, p, rollouts);
}
