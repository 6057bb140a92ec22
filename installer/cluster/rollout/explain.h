// SPDX-License-Identifier: Apache-2.0
// Why a node is where it is: the very rows that decide, each with its answer.
#pragma once
#include "cluster/rollout/scheduler.h"

enum { WHY_MOST = 48 };
struct why_row {
	const char *text;
	bool holds;
	enum reason_code reason; // of a refusal
};
// What happens when the deadline of its state is over; "" = it has none.
const char *why_deadline(const struct view *v);
const char *why_cordon(const struct member *m); // whose it is: "ours", "somebody else's", "none"
// Why its last drain ended, while it waits for another one; REASON_NONE = that is not known, or not so.
struct reason why_last(const struct member *m);
size_t why_rules(const struct view *v, struct why_row ret[WHY_MOST]); // of its state, up to the one that is taken
// What has to hold for a slot; all rows hold and it has none: see its seat.
size_t why_slot(const struct cluster *c, const struct slots *s, size_t at, struct why_row ret[WHY_MOST]);
