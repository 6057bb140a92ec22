// SPDX-License-Identifier: Apache-2.0
// Who may be disturbed now: pure, from all nodes, the ledger, the policy, the rollouts and the time. The ledger is the
// annotation of the coordinator's lease, so that what is granted here counts only once the lease was written; it is
// taken first and freed last, and so it never counts too few. upgrade-design 5.5, 5.8.
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
// The ledger of slots as the text that the coordinator's Lease carries: "work UID[,UID...];wait UID[,UID...]", either
// part absent when it is empty. At most LEDGER_MOST entries, 40 KiB, below the 256 KiB of all annotations.
char *scheduler_ledger_text(const struct slot_ledger *l);
// What means nothing is as if nothing were there: the nodes tell who is being disturbed (T60). false: it did not.
bool scheduler_ledger_parse(const char *text, struct slot_ledger *ret); // NULL = empty

struct cluster {
	const struct policy *policy;
	const struct rollout *rollouts; // of each pool, in the policy's order; target none: none is recorded
	const struct node_state *nodes;
	size_t count;
	const struct slot_ledger *ledger;
	uint32_t epoch;
	int64_t now;
	const char *leader;      // namespace of the coordinator that decides, which is written on nodes; NULL = none
	const struct strv *gone; // namespaces whose coordinator leads no more; NULL with it
	bool has_status;         // of other pools something is recorded: one that is not is new, and was not lost
};

struct node_plan {   // of a node, in the order of the members
	int pool;    // index; -1 = none has it
	int home;    // the pool whose limits it uses up while no pool has it; -1 = only those of the cluster
	size_t mate; // the next one of its group in its pool, behind the last one the first; itself: it is alone
	unsigned wave;
	enum slot had, has;       // in the ledger before, and after
	enum reason_code refused; // why it gets no slot, or may not stage; REASON_NONE = it may
	bool is_revoked;
	bool is_failed; // counts as a failure of the pool's target
};

struct sum {                  // of a pool
	unsigned total;       // nodes that count: T, frozen
	unsigned unavailable; // U
	unsigned others;      // of them, those that are not in our hands
	unsigned used, waiting, failed, done;
	unsigned parallel_limit, unavailable_limit;
	struct reason blocked; // why nothing is granted although nodes wait; REASON_NONE = something is, or none waits
	bool is_wave_complete;
	unsigned proven;  // nodes that are done, in the waves that are open
	bool is_untested; // the wave is complete, and proved too little to open the next one
};

struct slots {
	struct node_plan *node_plans;
	struct sum *sums;          // of each pool
	struct rollout *rollouts;  // of each pool, as they are to be recorded
	struct slot_ledger ledger; // as it is to be written
	struct sum strays;         // in flight, and neither a pool's nor at home in one
	size_t granted, freed;     // of nodes; 0 and 0: the ledger is as it was
	unsigned staging;
};
#define SLOTS_NONE ((struct slots){ 0 })
void scheduler_plan(const struct cluster *c, struct slots *ret);
void scheduler_slots_done(struct slots *s);
#define auto_slots __attribute__((cleanup(scheduler_slots_done)))

// What transition() needs of a node; with the ledger as it was, since what is granted here is not written yet.
struct view scheduler_view(const struct cluster *c, const struct slots *s, size_t at);
