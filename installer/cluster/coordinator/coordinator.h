// SPDX-License-Identifier: Apache-2.0
// The coordinator of rollouts: a controller with leader election, a cache and a reconcile loop. All decisions are made
// by scheduler_plan() and transition(); every action can be repeated. Order of every change: status -> ledger -> node
// -> action -> proof -> next (upgrade-design 5.6). One thread, one thing at a time (T53).
#pragma once
#include "cluster/coordinator/drain.h"
#include "cluster/coordinator/leader_election.h"
#include "cluster/coordinator/policy_source.h"

#define DRIVER_DAEMONSETS_PATH "/apis/apps/v1/daemonsets"
#define DRIVER_DAEMONSETS_QUERY "labelSelector=app.kubernetes.io%2Fcomponent%3Dnvidia-driver"

struct phase_change { // from one state to another
	const char *node, *rule;
	enum node_phase from, to;
	struct seq seq;
	const struct reason *reason;
	int64_t seconds;      // duration of the old state; -1 = unknown
	enum failing failing; // how the agent's last order failed; FAILING_NONE = it did not
	bool warns;           // people have to look at it, whatever state it is in
};
struct coordinator_callbacks { // for logs and metrics; each may be NULL
	void (*moved)(void *ctx, const struct phase_change *t);
	void (*trouble)(void *ctx, const char *what, const struct err *err); // it is retried
	void (*leads)(void *ctx);                                            // from now on
	void (*turns)(void *ctx);                        // liveness: in each turn, and before each request
	void (*rests)(void *ctx, const struct slots *s); // nothing to do for now; NULL = no plan
	void *ctx;
};
struct coordinator_options { // all borrowed
	struct kube *kube;
	struct kube *lease_kube; // its own connection, so that no other call delays it (T56)
	const char *namespace;
	const char *holder;   // our identity in the Lease
	const char *own_node; // that we run on; NULL = none
	const char *own_uid;  // of our pod; NULL = none
	struct coordinator_callbacks callbacks;
};

enum { OTHER_LEADERS_MOST = 8 };
struct other_leaders { // coordinators of other namespaces that manage nodes of this cluster
	struct other_leader {
		char *namespace, *version; // of its Lease
		long seen_ms, asked_ms;    // when the version was first seen, and last asked for; 0 = never
		bool is_gone;
	} items[OTHER_LEADERS_MOST];
	size_t count;
	struct strv gone; // namespaces whose nodes may be taken over
};

struct driver_daemonsets { // of NVIDIA's operator
	struct {
		char *name;           // "namespace/name"
		struct strv selector; // "key=value", all of which the nodes have that it serves
	} * items;
	size_t count;
};

struct validations {
	char *namespace;             // of their pods and templates
	struct validation_job *jobs; // of the nodes that wait for one
	size_t count;
	long due_ms;
	bool has_pods; // one of them may be there
};

struct coordinator {
	struct coordinator_options o;
	struct leader leader;
	struct slot_ledger ledger;
	struct node_cache node_cache;
	struct other_leaders others;
	struct validations validations;
	struct evictor drain;
	struct policy_source source;
	json_t *status_map;   // the ConfigMap with the status; NULL = there is none
	const json_t *status; // the document in it, borrowed; NULL = none
	json_t *status_doc;   // owns it
	struct rollout rollouts[POOLS_MOST];
	struct err blind; // why nothing is done: no policy was ever accepted, or the status is not valid (T83)
	bool has_led, is_loaded, is_dirty;
	unsigned resets; // of the Lease, when everything was last read
	int64_t led;     // since when we lead, or since the last of these resets
	long due_ms, listed_ms, retry_ms;
	struct kube_watch nodes, drivers;
	struct driver_daemonsets driver_daemonsets;
	struct strv driver_record; // of the watch
	bool sees_drivers;
	struct strv node_record;         // of the watch of nodes
	unsigned long writes, conflicts; // on nodes, since the start
};
void coordinator_init(const struct coordinator_options *o, struct coordinator *ret); // which must not move
void coordinator_done(struct coordinator *c);
#define auto_coordinator __attribute__((cleanup(coordinator_done)))
enum { COORDINATOR_CALL_MS = 12000 }; // per request, so that the Lease is renewed in time

// Waits for events, at most so long, and does what is due. 1 = leading, 0 = another one leads. E_CONFLICT: the lead was
// lost, and the process has to end, since its cache may be stale. Other errors are reported and retried.
int coordinator_turn(struct coordinator *c, int wait_ms, struct err *err);
// Reads everything once without leading, for commands.
int coordinator_look(struct coordinator *c, struct err *err);
// Releases the Lease: the next one takes over at once (T78).
int coordinator_leave(struct coordinator *c, struct err *err);
// Input of the next plan.
struct cluster coordinator_cluster(const struct coordinator *c);
