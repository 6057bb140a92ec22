// SPDX-License-Identifier: Apache-2.0
// Why a node is where it is: the very rows that decide, each with its answer.
#pragma once
#include "cluster/slots.h"

enum { WHY_MOST = 48 };
struct why_row {
	const char *text;
	bool holds;
	enum reason_code reason; // of a refusal
};
size_t why_rules(const struct view *v, struct why_row ret[WHY_MOST]); // of its state, up to the one that is taken
// What has to hold for a slot; all rows hold and it has none: see its seat.
size_t why_slot(const struct cluster *c, const struct slots *s, size_t at, struct why_row ret[WHY_MOST]);
