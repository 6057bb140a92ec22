// SPDX-License-Identifier: Apache-2.0
#include "cluster/why.h"

#include "cluster/admit.h"

size_t why_rules(const struct view *v, struct why_row ret[WHY_MOST])
{
	size_t count = 0;
	bool is_taken = false;
	// As transition() does, up to the first that applies: what comes after it may rely on its not applying.
	for (const struct rule *r = NULL; !is_taken && (r = rule_next(r, v->m->record.phase)) && count < WHY_MOST;) {
		is_taken = rule_applies(r, v);
		ret[count++] = (struct why_row){ rule_text(r), is_taken, REASON_NONE };
	}
	return count;
}

size_t why_slot(const struct cluster *c, const struct slots *s, size_t at, struct why_row ret[WHY_MOST])
{
	struct slots copy = *s;
	const struct round round = { c, &copy };
	size_t count = 0;
	for (const struct refusal_row *row = refusals; row->text && count < WHY_MOST; row++) {
		// Without a pool there is no policy that the others could be asked of.
		enum reason_code why = s->seats[at].pool < 0 ? refusals[0].test(&round, at) : row->test(&round, at);
		ret[count++] = (struct why_row){ row->text, why == REASON_NONE, why };
	}
	return count;
}
