// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/scheduler_admit.h"

#include "cluster/rollout/rules.h"

static enum reason_code no_pool(const struct round *r, size_t at)
{
	struct view v = round_view(r, at);
	return stands_down(&v);
}
// It keeps a cordon of ours with a driver that works: whatever is paused or closed, its release is no new disruption.
bool is_recovery(const struct round *r, size_t at)
{
	struct view v = round_view(r, at);
	return v.m->record.phase == PHASE_QUEUED && v.m->record.receipt.is_there && transition_recovers(&v);
}
bool has_zero_limit(const struct round *r, size_t at)
{
	const struct pool *pool = round_pool(r, at);
	return !pool->parallel.value || !pool->unavailable.value || !r->c->policy->parallel.value ||
	       !r->c->policy->unavailable.value;
}
enum reason_code refuse_paused(const struct round *r, size_t at)
{
	bool is_paused = r->c->policy->is_paused || has_zero_limit(r, at);
	return is_paused && !is_recovery(r, at) ? REASON_PAUSED : REASON_NONE;
}
static enum reason_code node_paused(const struct round *r, size_t at)
{
	return r->c->members[at].facts.is_paused && !is_recovery(r, at) ? REASON_NODE_PAUSED : REASON_NONE;
}
static enum reason_code halted(const struct round *r, size_t at)
{
	struct view v = round_view(r, at);
	return v.rollout->is_halted && is_moving(&v) ? REASON_HALTED : REASON_NONE;
}
static enum reason_code not_ready(const struct round *r, size_t at)
{
	return r->c->members[at].facts.is_ready ? REASON_NONE : REASON_NOT_READY;
}
static enum reason_code foreign_cordon(const struct round *r, size_t at)
{
	const struct member *m = &r->c->members[at];
	bool is_foreign = m->facts.is_unschedulable && !m->record.receipt.is_there;
	return is_foreign && round_own_pool(r, at)->foreign_cordon == CORDON_IGNORE ? REASON_FOREIGN_CORDON :
										      REASON_NONE;
}
static enum reason_code wave_closed(const struct round *r, size_t at)
{
	struct view v = round_view(r, at);
	if (r->s->seats[at].wave <= v.rollout->wave || transition_recovers(&v))
		return REASON_NONE;
	return r->s->sums[r->s->seats[at].pool].is_untested ? REASON_WAVE_UNTESTED : REASON_WAVE_CLOSED;
}
static enum reason_code window_closed(const struct round *r, size_t at)
{
	const struct pool *pool = round_pool(r, at);
	if (is_recovery(r, at) || window_open(pool, r->c->now, pool->spans[SPAN_MARGIN]))
		return REASON_NONE;
	return REASON_WINDOW_CLOSED;
}

const struct refusal_row refusals[] = {
	{ "a pool has it, and nothing takes it out", no_pool },
	{ "the policy is not paused, no limit is 0", refuse_paused },
	{ "the node is not paused", node_paused },
	{ "the roll-out is not halted", halted },
	{ "the node is ready", not_ready },
	{ "nobody else cordoned it", foreign_cordon },
	{ "its wave is open", wave_closed },
	{ "a maintenance window is open", window_closed },
	{ 0 },
};

enum reason_code refusal(const struct round *r, size_t at)
{
	for (const struct refusal_row *row = refusals; row->text; row++) {
		enum reason_code why = row->test(r, at);
		if (why != REASON_NONE)
			return why;
	}
	return REASON_NONE;
}
