// SPDX-License-Identifier: Apache-2.0
// The refusals of a slot as a table, for those who grant and for those who explain.
#pragma once
#include "cluster/rollout/scheduler_internal.h"

struct refusal_row {
	const char *text; // what has to hold; NULL ends the table
	enum reason_code (*test)(const struct round *r, size_t at);
};
extern const struct refusal_row refusals[];
bool scheduler_has_zero_limit(const struct round *r, size_t at); // nothing is begun in its pool
bool scheduler_is_recovery(const struct round *r, size_t at);
enum reason_code scheduler_refuse_paused(const struct round *r, size_t at);
