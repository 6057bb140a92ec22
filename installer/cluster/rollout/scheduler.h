// SPDX-License-Identifier: Apache-2.0
// Which nodes may be disrupted now: a pure function of all nodes, the ledger, the policy, the rollouts and the time.
// The ledger is an annotation of the coordinator's Lease: a grant counts once the Lease was written. An entry is added
// first and removed last, so the ledger never counts too few. upgrade-design 5.5, 5.8.
#pragma once
#include "cluster/rollout/transition.h"

enum { LEDGER_MOST = 1000 };

struct ledger_entry {
	char uid[UID_TEXT];
	enum slot slot;
};
struct slot_ledger {
	struct ledger_entry *items;
	size_t count;
};
void scheduler_ledger_done(struct slot_ledger *l);
// The text in the Lease: "work UID[,UID...];wait UID[,UID...]", either part absent if empty. At most LEDGER_MOST
// entries, 40 KiB, below the 256 KiB of all annotations.
char *scheduler_ledger_text(const struct slot_ledger *l);
// false: not valid, and treated as empty: the nodes' states tell which ones are being disrupted (T60).
bool scheduler_ledger_parse(const char *text, struct slot_ledger *ret); // NULL = empty

struct cluster {
	const struct policy *policy;
	const struct rollout *rollouts; // of each pool, in the policy's order; without a target: not recorded
	const struct node_state *nodes;
	size_t count;
	const struct slot_ledger *ledger;
	uint32_t epoch;
	int64_t now;
	const char *leader;                // namespace of this coordinator, which is written on nodes; NULL = none
	const struct strv *gone;           // namespaces whose coordinator is gone; NULL with it
	bool has_status;                   // some pool is recorded: one that is not is new, its record was not lost
	int64_t led;                       // when this leader began to lead, or read everything anew
	const struct validation_job *jobs; // what is known of validations
	size_t job_count;
};

struct node_plan {   // of a node, in the order of cluster.nodes
	int pool;    // index; -1 = none has it
	int home;    // the pool whose limits it counts against without a pool; -1 = only those of the cluster
	size_t mate; // the next of its group in its pool, in a circle; itself: it is alone
	unsigned wave;
	enum slot had, has;       // in the ledger before, and after
	enum reason_code refused; // why it gets no slot, or may not stage; REASON_NONE = it may
	enum reason_code unfit;   // why its group as a whole gets none; found once for all of them
	bool is_revoked;
	bool is_failed;  // counts as a failure of the pool's target
	bool is_held_up; // its group waits for one that is settled without the target
};

struct sum {                  // of a pool
	unsigned total;       // nodes that count: T, frozen
	unsigned unavailable; // U
	unsigned others;      // of them, not because of us
	unsigned used, waiting, failed, done;
	unsigned parallel_limit, unavailable_limit;
	struct reason blocked; // why nothing is granted although nodes wait; REASON_NONE = something is, or none waits
	bool is_wave_complete;
	unsigned proven; // nodes that are done, in the waves that are open
	enum reason_code
		shut;  // the wave is complete, and why the next one does not open; REASON_NONE = it does, or soaks
	uint64_t zone; // of its nodes with a slot
	enum { ZONES_NONE, ZONES_ONE, ZONES_MORE } zones;
};

struct slots {
	struct node_plan *node_plans;
	struct sum *sums;          // of each pool
	struct rollout *rollouts;  // of each pool, as they are to be recorded
	struct slot_ledger ledger; // as it is to be written
	struct sum strays;         // in progress, without a pool and a home pool
	size_t granted, freed;     // of nodes; 0 and 0: the ledger is unchanged
	unsigned staging;
};
#define SLOTS_NONE ((struct slots){ 0 })
void scheduler_plan(const struct cluster *c, struct slots *ret);
void scheduler_slots_done(struct slots *s);
#define auto_slots __attribute__((cleanup(scheduler_slots_done)))

// Input of transition() for a node; with the old ledger, since grants are not written yet.
struct view scheduler_view(const struct cluster *c, const struct slots *s, size_t at);
