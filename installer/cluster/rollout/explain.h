// SPDX-License-Identifier: Apache-2.0
// Why a node is in its state: the rules that decide, each with its result.
#pragma once
#include "cluster/rollout/scheduler.h"

enum { EXPLAIN_MOST = 48 };
struct explain_row {
	const char *text;
	bool holds;
	enum reason_code reason; // of a refusal
};
// What happens at the deadline of its state; "" = it has none.
const char *explain_deadline(const struct view *v);
const char *explain_cordon(const struct node_state *m); // "ours", "somebody else's", "none"
// Why its last drain ended, while it waits for the next one; REASON_NONE = unknown, or it does not wait.
struct reason explain_last_drain(const struct node_state *m);
size_t explain_rules(const struct view *v,
		     struct explain_row ret[EXPLAIN_MOST]); // of its state, up to the one that is taken
// What has to hold for a slot; if all rows hold and it has none, see its node_plan.
size_t explain_slot(const struct cluster *c, const struct slots *s, size_t at, struct explain_row ret[EXPLAIN_MOST]);
