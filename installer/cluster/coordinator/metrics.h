// SPDX-License-Identifier: Apache-2.0
// The rollouts in Prometheus' text format (upgrade-design 5.11).
#pragma once
#include "cluster/coordinator/coordinator.h"

// Counters of one coordinator since its start: how long nodes were in each state, rollbacks by cause, and how long
// nodes were unavailable. They restart with another leader, as Prometheus expects.
enum { METRICS_BOUNDS = 9 };
extern const unsigned metrics_bounds[METRICS_BOUNDS]; // seconds, ascending; the rest comes after them

struct counters {
	struct counters_phase {
		unsigned long within[METRICS_BOUNDS + 1], count; // in each bucket alone
		double seconds;
	} phases[PHASE_COUNT];
	unsigned long rollbacks[FAILING_COUNT]; // FAILING_NONE: no answer in time, or another driver was loaded
	struct counters_pool {
		char name[WORD_TEXT];
		unsigned unavailable; // now
		double seconds;       // of nodes, until last_ms
	} pools[POOLS_MOST];
	long last_ms; // 0 = no plan yet
};
void metrics_count_phase(struct counters *t, const struct phase_change *moved);
// The previous sums count until now_ms. A pool that is no longer in the policy is forgotten.
void metrics_count_pools(struct counters *t, const struct policy *policy, const struct sum *sums, long now_ms);

// s: the last plan; NULL = another one leads. Caller frees.
char *metrics_text(const struct coordinator *c, const struct slots *s, const struct counters *t);
