// SPDX-License-Identifier: Apache-2.0
// The rollouts in Prometheus' text format (upgrade-design 5.11).
#pragma once
#include "cluster/coordinator/coordinator.h"

// What one coordinator has counted since its start, for its metrics: how long nodes were in each state, what was undone
// and why, and how many nodes were unavailable for how long. Counters restart with another leader, as Prometheus
// expects it.
enum { METRICS_BOUNDS = 9 };
extern const unsigned metrics_bounds[METRICS_BOUNDS]; // seconds, upwards; behind them comes the rest

struct counters {
	struct counters_phase {
		unsigned long within[METRICS_BOUNDS + 1], count; // in each bound alone
		double seconds;
	} phases[PHASE_COUNT];
	unsigned long rollbacks[FAILING_COUNT]; // FAILING_NONE: nothing was said in time, or another driver was there
	struct counters_pool {
		char name[WORD_TEXT];
		unsigned unavailable; // now
		double seconds;       // of nodes, until last_ms
	} pools[POOLS_MOST];
	long last_ms; // 0 = nothing was seen yet
};
void metrics_count_phase(struct counters *t, const struct phase_change *moved);
// What is so now has been so until then. A pool that the policy names no more is forgotten.
void metrics_count_pools(struct counters *t, const struct policy *policy, const struct sum *sums, long now_ms);

// s: as it was planned last; NULL = another one leads. Caller frees.
char *metrics_text(const struct coordinator *c, const struct slots *s, const struct counters *t);
