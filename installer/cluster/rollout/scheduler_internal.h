// SPDX-License-Identifier: Apache-2.0
// Inside scheduler_plan: one round of it.
#pragma once
#include "cluster/rollout/scheduler.h"

struct round {
	const struct cluster *c;
	struct slots *s;
};
static inline const struct pool *round_pool(const struct round *r, size_t at)
{
	return r->s->node_plans[at].pool < 0 ? NULL : &r->c->policy->pools[r->s->node_plans[at].pool];
}
static inline struct rollout *round_rollout(const struct round *r, size_t at)
{
	return r->s->node_plans[at].pool < 0 ? NULL : &r->s->rollouts[r->s->node_plans[at].pool];
}
// Of a node that has a pool.
static inline const struct pool *round_own_pool(const struct round *r, size_t at)
{
	return &r->c->policy->pools[r->s->node_plans[at].pool];
}
static inline struct rollout *round_own_rollout(const struct round *r, size_t at)
{
	return &r->s->rollouts[r->s->node_plans[at].pool];
}
// The scheduler leaves alone a node that the coordinator of another namespace leads.
static inline bool round_is_led_elsewhere(const struct cluster *c, const struct node_state *m)
{
	return c->leader && *m->record.leader && !str_eq(m->record.leader, c->leader) &&
	       !(c->gone && strv_has(c->gone, m->record.leader));
}
struct view scheduler_round_view(const struct round *r, size_t at);

void halt_begin_rollouts(const struct round *r); // a new target starts over; a lost record starts halted
void waves_assign(const struct round *r);
void halt_count_failures(const struct round *r); // and the breaker
void waves_advance(const struct round *r);

// The refusals of a slot as a table, for those who grant and for those who explain.
struct refusal_row {
	const char *text; // what has to hold; NULL ends the table
	enum reason_code (*test)(const struct round *r, size_t at);
};
extern const struct refusal_row refusals[];
bool scheduler_has_zero_limit(const struct round *r, size_t at); // nothing is begun in its pool
bool scheduler_is_recovery(const struct round *r, size_t at);
enum reason_code scheduler_refuse_paused(const struct round *r, size_t at);
// Why a node must not get a slot, whatever room there is.
enum reason_code scheduler_refusal(const struct round *r, size_t at);
