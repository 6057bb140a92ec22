// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/explain.h"

#include "cluster/rollout/scheduler_internal.h"

const char *explain_deadline(const struct view *v)
{
	if (!v->pool)
		return "";
	switch (v->m->record.phase) {
	case PHASE_STAGING:
		return "the target is staged again, or the node is held; no workload is disturbed";
	case PHASE_CORDONED:
		return "the drain is cancelled, and the node returns to service";
	case PHASE_WAITING:
		return !v->m->record.receipt.waited && v->pool->on_wait_timeout == WAIT_EVICT ?
			       "the wait is over: the jobs are evicted, too" :
			       "the drain is cancelled, and the node returns to service";
	case PHASE_EVICTING:
		return v->pool->on_timeout == TIMEOUT_HOLD ?
			       "the node fails and stays cordoned, with the driver that it has" :
			       "the drain is cancelled, the node returns to service, and it is tried again later";
	case PHASE_LOADING:
		return "the node is held without a driver";
	case PHASE_REPLACING:
	case PHASE_VALIDATING:
		return "the previous driver is restored";
	case PHASE_RESTORING:
		return "the node fails and stays cordoned";
	case PHASE_RELEASING:
		if (!transition_waits_for_release(v->m))
			return "";
		if (v->m->facts.is_skipped)
			return "the node returns to service without it";
		return v->pool->on_release_timeout == RELEASE_HOLD ? "the node stays cordoned until all of it is back" :
		       v->pool->on_release_timeout == RELEASE_ANYWAY ? "the node returns to service without it" :
		       target_hash_eq(&v->m->record.go.target_hash, &v->m->record.target) ?
								       "the previous driver is restored" :
								       "the node fails and stays cordoned";
	default:
		return "";
	}
}

const char *explain_cordon(const struct node_state *m)
{
	bool is_ours = m->record.receipt.is_there && !m->record.receipt.prior;
	return !m->facts.is_unschedulable ? "none" : is_ours ? "ours" : "somebody else's";
}

struct reason explain_last_drain(const struct node_state *m)
{
	const struct record *r = &m->record;
	bool is_between = r->phase == PHASE_IDLE || r->phase == PHASE_STAGING || r->phase == PHASE_QUEUED;
	bool is_old = r->reason.code == REASON_STAGE_FAILED && r->phase == PHASE_STAGING;
	return is_between && !is_old && !r->receipt.is_there ? r->reason : (struct reason){ .code = REASON_NONE };
}

size_t explain_rules(const struct view *v, struct explain_row ret[EXPLAIN_MOST])
{
	size_t count = 0;
	bool is_taken = false;
	// As transition() does, up to the first that applies: what comes after it may rely on its not applying.
	for (const struct rule *r = NULL;
	     !is_taken && (r = transition_next_rule(r, v->m->record.phase)) && count < EXPLAIN_MOST;) {
		is_taken = r->when(v);
		ret[count++] = (struct explain_row){ r->text, is_taken, REASON_NONE };
	}
	return count;
}

size_t explain_slot(const struct cluster *c, const struct slots *s, size_t at, struct explain_row ret[EXPLAIN_MOST])
{
	struct slots copy = *s;
	const struct round round = { c, &copy };
	size_t count = 0;
	for (const struct refusal_row *row = refusals; row->text && count < EXPLAIN_MOST; row++) {
		// Without a pool there is no policy that the others could be asked of.
		enum reason_code why =
			s->node_plans[at].pool < 0 ? refusals[0].test(&round, at) : row->test(&round, at);
		ret[count++] = (struct explain_row){ row->text, why == REASON_NONE, why };
	}
	return count;
}
