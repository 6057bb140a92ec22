// SPDX-License-Identifier: Apache-2.0
// A cluster of GPU nodes on the simulated API server: Node objects with agents that do what a script says, pods, a
// policy, and coordinators that can be killed and started again. Agents look once a second and write as a real one
// does: their own keys, and only what differs.
#pragma once
#include "cluster/coordinator/coordinator.h"
#include "tests/sim/sim.h"

enum { FARM_TEXT = 256 };

struct farm_node {
	char name[16];
	struct target_hash loaded, store[2];
	int holders;
	char held_by[80];   // " UID..." of pods, behind the number of holders
	long busy_until_ms; // what it was told takes until then
	char go[FARM_TEXT]; // that it works on or did
	bool is_silent;     // says nothing
	bool is_told;       // its Node is as it was when it looked at it last
	struct {
		struct target_hash loaded, store[2];
		int holders;
	} then; // when it looked last
	char *said;
	struct life {
		unsigned cordons, drains; // by coordinators, so far; and of this cause, since
		uint64_t cause, what;     // why it is drained; what is watched
		long first_ms, waits_ms;  // of the drains; since when jobs are waited for
		long led_ms, most_ms;     // so long it has been so under a leader, and may be
		const char *law;          // that most_ms is of; NULL = it may last
	} life;
};
struct farm {
	struct sim *sim;
	struct farm_node *nodes;
	json_t **objects; // of the nodes, as they are now; NULL = absent
	unsigned count;
	struct target_hash old, bad; // loaded at the beginning; cannot be loaded or is not healthy
	bool is_sick;                // of bad: it loads, and is not healthy
	struct strv *laws;           // that were broken
	long renewed_ms;             // when a coordinator renewed the Lease last
	bool is_unseen;              // what is recorded of the rollout was written late, and nobody has read it since
	bool is_over;
};
// policy: of sim.h, ' for "; its first pool's target is the one that nodes go to. Nodes n00, n01, ... with old loaded.
void farm_begin(struct farm *f, unsigned nodes, const char *policy);
void farm_begin_by(struct farm *f, unsigned nodes, const char *policy, unsigned seed); // of the dice
void farm_end(struct farm *f);
struct target_hash farm_target(const char *policy); // of its first pool; ends the program where it is none
void farm_old(struct target *ret);                  // what hands find in the kernel; caller releases it
void farm_store(struct farm_node *n, const struct target_hash *target_hash); // onto its disk
void farm_policy(struct farm *f, const char *policy);                        // another one
void farm_pod(struct farm *f, unsigned node, const char *name);              // that asks for a GPU, of a ReplicaSet
void farm_pod_that_stays(struct farm *f, unsigned node, const char *name);   // a finalizer keeps it
const char *farm_state(const struct farm *f, unsigned node);                 // label; "" = none
const char *farm_note(const struct farm *f, unsigned node, const char *key); // annotation; "" = none
bool farm_is_cordoned(const struct farm *f, unsigned node);
unsigned farm_in(const struct farm *f, const char *state); // nodes that are in it

struct farm_coordinator { // a coordinator of its own
	struct kube *kube, *lease_kube;
	struct coordinator c;
	struct farm *farm;
	bool is_dead;
};
void farm_coordinator_begin(struct farm *f, struct farm_coordinator *b, const char *name);
void farm_coordinator_begin_in(struct farm *f, struct farm_coordinator *b, const char *name, const char *namespace);
void farm_coordinator_kill(struct farm_coordinator *b); // as kill -9 does
// It takes its turns beside whoever else runs, also while a call of another one is under way or sleeps.
void farm_coordinator_run_beside(struct farm_coordinator *b);
void farm_run(struct farm_coordinator *coordinators, size_t count, long ms); // those that live take turns, for so long
// Until that many nodes are in the state; false: not in time.
bool farm_until(struct farm *f, struct farm_coordinator *coordinators, size_t count, const char *state, unsigned nodes,
		long ms);

// laws.c: I1 to I9 of upgrade-design 4.4, on every request; what was broken is in f->laws.
void laws_look(void *farm, const struct sim_request *r);
// liveness.c: of a request that changed this node; of any; and so much time has passed.
void liveness_look(struct farm *f, const struct sim_request *r, struct farm_node *n);
void liveness_hear(struct farm *f, const struct sim_request *r);
void liveness_pass(struct farm *f, long ms);
