// SPDX-License-Identifier: Apache-2.0
// Inside slots_plan: one round of it.
#pragma once
#include "cluster/rollout/scheduler.h"

struct round {
	const struct cluster *c;
	struct slots *s;
};
static inline const struct pool *round_pool(const struct round *r, size_t at)
{
	return r->s->seats[at].pool < 0 ? NULL : &r->c->policy->pools[r->s->seats[at].pool];
}
static inline struct rollout *round_rollout(const struct round *r, size_t at)
{
	return r->s->seats[at].pool < 0 ? NULL : &r->s->rollouts[r->s->seats[at].pool];
}
// Of a node that a pool has: whoever is counted, judged or admitted.
static inline const struct pool *round_own_pool(const struct round *r, size_t at)
{
	return &r->c->policy->pools[r->s->seats[at].pool];
}
static inline struct rollout *round_own_rollout(const struct round *r, size_t at)
{
	return &r->s->rollouts[r->s->seats[at].pool];
}
struct view round_view(const struct round *r, size_t at);

void rollouts_begin(const struct round *r); // a new target begins anew; a record that was lost begins halted
void waves_assign(const struct round *r);
void failures_count(const struct round *r); // and the breaker
void waves_advance(const struct round *r);
void admit(const struct round *r); // slots
void admit_staging(const struct round *r);
// Why a node must not get a slot, whatever room there is.
enum reason_code refusal(const struct round *r, size_t at);
