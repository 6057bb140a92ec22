// SPDX-License-Identifier: Apache-2.0
// Inside scheduler_plan().
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
// Of a node that has a pool.
static inline const struct pool *round_own_pool(const struct round *r, size_t at)
{
	return &r->c->policy->pools[r->s->node_plans[at].pool];
}
static inline struct rollout *round_own_rollout(const struct round *r, size_t at)
{
	return &r->s->rollouts[r->s->node_plans[at].pool];
}
// New targets start over, failures halt, and the next wave opens. Fills pools' total, failed and done.
void waves_plan(const struct round *r);

// Why a slot is refused, for granting and for explaining.
struct refusal_row {
	const char *text; // what has to hold; NULL ends the table
	enum reason_code (*test)(const struct round *r, size_t at);
};
extern const struct refusal_row refusals[];
// Why a node must not get a slot, limits aside.
enum reason_code scheduler_refusal(const struct round *r, size_t at);
