// SPDX-License-Identifier: Apache-2.0
// Who must not get a slot, as a table of refusals, which `rollout why` shows row by row.
#include "cluster/rollout/scheduler_internal.h"
#include "cluster/rollout/transition_internal.h"

struct view scheduler_round_view(const struct round *r, size_t at)
{
	const struct pool *pool = round_pool(r, at);
	return (struct view){
		.m = &r->c->nodes[at],
		.pool = pool,
		.rollout = round_rollout(r, at),
		.slot = r->s->node_plans[at].had,
		.refused = r->s->node_plans[at].refused,
		.is_revoked = r->s->node_plans[at].is_revoked,
		.wave = pool ? policy_wave_name(pool, r->s->node_plans[at].wave) : "",
		.epoch = r->c->epoch,
		.now = r->c->now,
		.leader = r->c->leader,
		.is_led_elsewhere = round_is_led_elsewhere(r->c, &r->c->nodes[at]),
	};
}

static enum reason_code refuse_no_pool(const struct round *r, size_t at)
{
	struct view v = scheduler_round_view(r, at);
	return rule_stand_down_reason(&v);
}

// It keeps a cordon of ours with a driver that works: whatever is paused or closed, its release is no new disruption.
bool scheduler_is_recovery(const struct round *r, size_t at)
{
	struct view v = scheduler_round_view(r, at);
	return v.m->record.phase == PHASE_QUEUED && v.m->record.receipt.is_there && transition_recovers(&v);
}

bool scheduler_has_zero_limit(const struct round *r, size_t at)
{
	const struct pool *pool = round_pool(r, at);
	return !pool->parallel.value || !pool->unavailable.value || !r->c->policy->parallel.value ||
	       !r->c->policy->unavailable.value;
}

enum reason_code scheduler_refuse_paused(const struct round *r, size_t at)
{
	bool is_paused = r->c->policy->is_paused || scheduler_has_zero_limit(r, at);
	return is_paused && !scheduler_is_recovery(r, at) ? REASON_PAUSED : REASON_NONE;
}

static enum reason_code refuse_node_paused(const struct round *r, size_t at)
{
	return r->c->nodes[at].facts.is_paused && !scheduler_is_recovery(r, at) ? REASON_NODE_PAUSED : REASON_NONE;
}

static enum reason_code refuse_halted(const struct round *r, size_t at)
{
	struct view v = scheduler_round_view(r, at);
	return v.rollout->is_halted && rule_is_moving(&v) ? REASON_HALTED : REASON_NONE;
}

static enum reason_code refuse_not_ready(const struct round *r, size_t at)
{
	return r->c->nodes[at].facts.is_ready ? REASON_NONE : REASON_NOT_READY;
}

static enum reason_code foreign_cordon(const struct round *r, size_t at)
{
	const struct node_state *m = &r->c->nodes[at];
	bool is_foreign = m->facts.is_unschedulable && !m->record.receipt.is_there;
	return is_foreign && round_own_pool(r, at)->foreign_cordon == CORDON_IGNORE ? REASON_FOREIGN_CORDON :
										      REASON_NONE;
}

static enum reason_code refuse_wave_closed(const struct round *r, size_t at)
{
	struct view v = scheduler_round_view(r, at);
	if (!v.rollout || r->s->node_plans[at].wave <= v.rollout->wave || transition_recovers(&v))
		return REASON_NONE;
	return r->s->sums[r->s->node_plans[at].pool].is_untested ? REASON_WAVE_UNTESTED : REASON_WAVE_CLOSED;
}

static enum reason_code refuse_window_closed(const struct round *r, size_t at)
{
	const struct pool *pool = round_pool(r, at);
	if (scheduler_is_recovery(r, at) || policy_window_is_open(pool, r->c->now, pool->spans[SPAN_MARGIN]))
		return REASON_NONE;
	return REASON_WINDOW_CLOSED;
}

const struct refusal_row refusals[] = {
	{ "it is in a pool, and not excluded", refuse_no_pool },
	{ "the policy is not paused, and no limit is 0", scheduler_refuse_paused },
	{ "the node is not paused", refuse_node_paused },
	{ "the rollout is not halted", refuse_halted },
	{ "the node is ready", refuse_not_ready },
	{ "it was not cordoned by others", foreign_cordon },
	{ "its wave is open", refuse_wave_closed },
	{ "a maintenance window is open", refuse_window_closed },
	{ 0 },
};

enum reason_code scheduler_refusal(const struct round *r, size_t at)
{
	for (const struct refusal_row *row = refusals; row->text; row++) {
		enum reason_code why = row->test(r, at);
		if (why != REASON_NONE)
			return why;
	}
	return REASON_NONE;
}
