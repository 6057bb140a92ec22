// SPDX-License-Identifier: Apache-2.0
// Which pool a node is in, and when it may be drained.
#include "cluster/policy/policy.h"

void policy_label(const struct policy *p, const char *key, const char *value, struct node_facts *facts)
{
	size_t len = strlen(key);
	for (size_t i = 0; i < p->terms.count; i++)
		if (!strncmp(p->terms.items[i], key, len) && p->terms.items[i][len] == '=' &&
		    str_eq(p->terms.items[i] + len + 1, value))
			facts->terms |= UINT64_C(1) << i;
	if (str_eq(p->group_by, key))
		facts->group = target_hash_of_text(value);
	if (str_eq(p->zone, key))
		facts->zone = target_hash_of_text(value);
}

static void add_key(struct strv *keys, const char *key, size_t len)
{
	auto_str char *copy = str_ndup(key, len);
	if (!strv_has(keys, copy))
		strv_add(keys, TAKE(copy));
}

void policy_keys(const struct policy *p, struct strv *ret)
{
	for (size_t i = 0; i < p->terms.count; i++)
		add_key(ret, p->terms.items[i], strcspn(p->terms.items[i], "="));
	if (p->group_by)
		add_key(ret, p->group_by, strlen(p->group_by));
	if (p->zone)
		add_key(ret, p->zone, strlen(p->zone));
}

static const struct pool *find_pool_by_name(const struct policy *p, const char *name)
{
	for (size_t i = 0; i < p->pool_count; i++)
		if (str_eq(p->pools[i].name, name))
			return &p->pools[i];
	return NULL;
}

const struct pool *policy_pool(const struct policy *p, const struct node_state *m)
{
	if (node_phase_info(m->record.phase)->is_disruptive && *m->record.pool)
		return find_pool_by_name(p, m->record.pool);
	return policy_home(p, m);
}

const struct pool *policy_home(const struct policy *p, const struct node_state *m)
{
	if (*m->facts.pool)
		return find_pool_by_name(p, m->facts.pool);
	for (size_t i = 0; i < p->pool_count; i++)
		if ((m->facts.terms & p->pools[i].terms) == p->pools[i].terms)
			return &p->pools[i];
	return NULL;
}

enum { MINUTES_OF_DAY = 24 * 60 };

// Minutes until a window that began on this day ends; 0 = it is not open then.
static unsigned window_time_left(const struct window *w, unsigned day, unsigned minute, bool is_yesterday)
{
	unsigned length = w->to > w->from ? w->to - w->from : w->to + MINUTES_OF_DAY - w->from;
	unsigned into = minute + (is_yesterday ? MINUTES_OF_DAY : 0);
	if (!(w->days & 1U << day) || into < w->from || into - w->from >= length)
		return 0;
	return length - (into - w->from);
}

static bool is_window_open(const struct pool *pool, int64_t minute, unsigned margin)
{
	unsigned day = (unsigned)((minute / MINUTES_OF_DAY + 3) % 7); // 1970 began on a Thursday
	unsigned of_day = (unsigned)(minute % MINUTES_OF_DAY);
	for (size_t i = 0; i < pool->window_count; i++) {
		const struct window *w = &pool->windows[i];
		unsigned today = window_time_left(w, day, of_day, false),
			 before = window_time_left(w, (day + 6) % 7, of_day, true);
		if ((today && today * 60 >= margin) || (before && before * 60 >= margin))
			return true;
	}
	return false;
}

bool policy_window_is_open(const struct pool *pool, int64_t now, unsigned margin)
{
	return !pool->window_count || is_window_open(pool, now / 60, margin);
}

int64_t policy_window_next(const struct pool *pool, int64_t now, unsigned margin)
{
	int64_t minute = now / 60;
	if (policy_window_is_open(pool, now, margin))
		return 0;
	for (int64_t at = minute + 1; at <= minute + 8 * MINUTES_OF_DAY; at++)
		if (is_window_open(pool, at, margin))
			return at * 60;
	return 0;
}

unsigned policy_window_rest(const struct pool *pool)
{
	unsigned rest = pool->spans[SPAN_REPLACE] + pool->spans[SPAN_VALIDATE] + policy_job_span(pool) +
			pool->spans[SPAN_RESTORE];
	return rest < pool->spans[SPAN_MARGIN] ? rest : pool->spans[SPAN_MARGIN];
}
