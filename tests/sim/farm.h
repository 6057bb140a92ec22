// SPDX-License-Identifier: Apache-2.0
// A cluster of GPU nodes on the simulated API server: Node objects with scripted agents, pods, a policy, and
// coordinators that can be killed and restarted. Agents run once a second and write like a real one: their own keys,
// and only changes.
#pragma once
#include "cluster/coordinator/coordinator.h"
#include "tests/sim/sim.h"

enum { FARM_TEXT = 256 };

struct farm_node {
	char name[16];
	struct target_hash loaded, store[2];
	int holders;
	char held_by[80];     // " UID..." of pods, after the number of holders
	long busy_until_ms;   // end of the order in progress
	char go[FARM_TEXT];   // the last order
	char ack[FARM_TEXT];  // and the answer to it
	bool is_silent;       // reports nothing
	bool is_unfit;        // its GPUs start with no other driver than the old one
	char gpus[FARM_TEXT]; // as its agent says; a load forgets what came since the one before
	bool is_told;         // its Node is unchanged since its last turn
	struct {
		struct target_hash loaded, store[2];
		int holders;
	} then; // at its last turn
	char *said;
	struct life {
		unsigned cordons, drains; // by coordinators, so far; and since, for this cause
		uint64_t cause, what;     // why it is drained; what is measured
		long first_ms, waits_ms;  // first drain; since when it waits for jobs
		long led_ms, most_ms;     // how long it has lasted under a leader, and may last
		const char *law;          // of most_ms; NULL = no limit
	} life;
};
struct farm {
	struct sim *sim;
	struct farm_node *nodes;
	json_t **objects; // the current Nodes; NULL = absent
	unsigned count;
	struct target_hash old, bad; // loaded at first; cannot be loaded or is unhealthy
	bool is_sick;                // bad can be loaded, but is unhealthy
	struct strv *laws;           // violations
	long renewed_ms;             // when a coordinator last renewed the Lease
	bool is_unseen;              // the rollout's status was written late, and has not been read since
	bool is_over;
};
// policy: ' stands for "; the target of its first pool is the rollout's target. Nodes n00, n01, ... with old loaded.
void farm_begin(struct farm *f, unsigned nodes, const char *policy);
void farm_begin_by(struct farm *f, unsigned nodes, const char *policy, unsigned seed); // of the random numbers
void farm_end(struct farm *f);
struct target_hash farm_target(const char *policy); // of its first pool; aborts if it is not valid
void farm_old(struct target *ret);                  // the driver that agents find loaded; caller releases it
void farm_store(struct farm_node *n, const struct target_hash *target_hash); // onto its disk
// etcd is restored from a backup of that version; the machines go on as they are.
void farm_restore(struct farm *f, uint64_t version);
void farm_policy(struct farm *f, const char *policy);                        // another one
void farm_pod(struct farm *f, unsigned node, const char *name);              // of a ReplicaSet, requests a GPU
void farm_pod_that_stays(struct farm *f, unsigned node, const char *name);   // with a finalizer
const char *farm_state(const struct farm *f, unsigned node);                 // label; "" = none
const char *farm_note(const struct farm *f, unsigned node, const char *key); // annotation; "" = none
bool farm_is_cordoned(const struct farm *f, unsigned node);
unsigned farm_in(const struct farm *f, const char *state); // number of nodes in this state

struct farm_coordinator { // a coordinator of its own
	struct kube *kube, *lease_kube;
	struct coordinator c;
	struct farm *farm;
	bool is_dead;
};
void farm_coordinator_begin(struct farm *f, struct farm_coordinator *b, const char *name);
void farm_coordinator_begin_in(struct farm *f, struct farm_coordinator *b, const char *name, const char *namespace);
void farm_coordinator_kill(struct farm_coordinator *b); // like kill -9
// It runs concurrently with the others, also while another one's call is in progress or sleeps.
void farm_coordinator_run_beside(struct farm_coordinator *b);
void farm_run(struct farm_coordinator *coordinators, size_t count, long ms); // those that are alive, for so long
// Until so many nodes are in the state; false: not in time.
bool farm_until(struct farm *f, struct farm_coordinator *coordinators, size_t count, const char *state, unsigned nodes,
		long ms);

// laws.c: checks I1 to I9 of upgrade-design 4.4 on every request; violations are added to f->laws.
void laws_look(void *farm, const struct sim_request *r);
// liveness.c: after a request that changed this node, after any request, and after so much time.
void liveness_look(struct farm *f, const struct sim_request *r, struct farm_node *n);
void liveness_hear(struct farm *f, const struct sim_request *r);
void liveness_pass(struct farm *f, long ms);
