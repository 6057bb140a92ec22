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
// Of a node that a pool has: whoever is counted, judged or admitted.
static inline const struct pool *round_own_pool(const struct round *r, size_t at)
{
	return &r->c->policy->pools[r->s->node_plans[at].pool];
}
static inline struct rollout *round_own_rollout(const struct round *r, size_t at)
{
	return &r->s->rollouts[r->s->node_plans[at].pool];
}
struct view scheduler_round_view(const struct round *r, size_t at);

void halt_begin_rollouts(const struct round *r); // a new target begins anew; a record that was lost begins halted
void waves_assign(const struct round *r);
void halt_count_failures(const struct round *r); // and the breaker
void waves_advance(const struct round *r);
void scheduler_admit(const struct round *r); // slots
void scheduler_admit_staging(const struct round *r);
// Why a node must not get a slot, whatever room there is.
enum reason_code scheduler_refusal(const struct round *r, size_t at);
