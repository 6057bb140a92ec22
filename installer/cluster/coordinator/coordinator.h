// SPDX-License-Identifier: Apache-2.0
// The coordinator of rollouts: leader, what it knows, and what it does about it. Everything that it decides is
// decided by scheduler_plan() and transition(); everything that it does can be done twice. Order of every change:
// status -> ledger -> node -> action -> proof -> next (upgrade-design 5.6). One thread, one thing at a time (T53).
#pragma once
#include "cluster/coordinator/drain.h"
#include "cluster/coordinator/driver_daemonsets.h"
#include "cluster/coordinator/leader_election.h"
#include "cluster/rollout/rollout_status.h"

#define POLICY_NAME "kmodsmith-policy"
#define POLICY_KEY "policy.json"
#define POLICY_KEY_YAML "policy.yaml"

struct phase_change { // a state that was left for another one
	const char *node, *rule;
	enum node_phase from, to;
	struct seq seq;
	const struct reason *reason;
	int64_t seconds;      // that it lasted; -1 = unknown
	enum failing failing; // how the agent's last order had failed; FAILING_NONE = it had not
};
struct coordinator_callbacks { // for logs and metrics; each may be NULL
	void (*moved)(void *ctx, const struct phase_change *t);
	void (*trouble)(void *ctx, const char *what, const struct err *err); // that is tried again
	void (*leads)(void *ctx);                                            // from now on
	void (*turns)(void *ctx);                        // it is not stuck: in each turn, and before each call
	void (*rests)(void *ctx, const struct slots *s); // nothing more is to be done now; NULL = nothing is known
	void *ctx;
};
struct coordinator_options { // all borrowed
	struct kube *kube;
	struct kube *lease_kube; // a connection of its own, that no other call keeps waiting (T56)
	const char *namespace;
	const char *holder;   // who we are, for people
	const char *own_node; // that we run on; NULL = none of them
	const char *own_uid;  // of our pod; NULL = none
	struct coordinator_callbacks callbacks;
};

enum { OTHER_LEADERS_MOST = 8 };
struct other_leaders { // coordinators of other namespaces that lead nodes of this cluster
	struct other_leader {
		char *namespace, *version; // of its Lease
		long seen_ms, asked_ms;    // since when it is that one; 0 = never
		bool is_gone;
	} items[OTHER_LEADERS_MOST];
	size_t count;
	struct strv gone; // namespaces whose nodes may be taken over
};

struct coordinator {
	struct coordinator_options o;
	struct leader leader;
	struct slot_ledger ledger;
	struct node_cache node_cache;
	struct other_leaders others;
	struct evictor drain;
	struct policy policy;  // in force: the last one that was accepted
	char *policy_text;     // its document as JSON, which agents read beside the status; NULL = there is none
	bool has_policy;       // one was accepted, or there was none, since the start
	bool pauses;           // the policy in force says so, whatever annotations say
	struct strv undone;    // of its pools, in words: one line for each whose target `rollout undo` replaces
	json_t *replaced;      // by it: {"POOL": target}; NULL = nothing is
	struct err refused;    // why what stands there now is not in force; code 0 = it is
	bool has_told_double;  // that a ConfigMap is ignored beside a DriverRollout
	char *told;            // the refusal that the last Event was about; NULL = none
	json_t *policy_map;    // the ConfigMap as it was read; NULL = there is none
	json_t *policy_object; // the DriverRollout, likewise; it comes before the ConfigMap
	json_t *object_said;   // its status as it was written last; NULL = not since all was read
	bool has_kind;         // of it: the CustomResourceDefinition is installed, and we may read
	long kind_ms;          // it is looked for again then
	long object_ms;        // its status is not written before that
	json_t *status_map;    // likewise
	const json_t *status;  // the document in it, borrowed; NULL = none
	json_t *status_doc;    // owns it
	struct rollout rollouts[POOLS_MOST];
	struct err blind; // why nothing is done: no policy was ever accepted, or the status means nothing (T83)
	bool has_led, is_loaded, is_dirty;
	long due_ms, listed_ms, retry_ms;
	struct kube_watch nodes, maps, objects, drivers;
	struct driver_daemonsets driver_daemonsets; // of NVIDIA's operator
	struct strv driver_record;                  // of the watch
	bool sees_drivers;
	size_t told_foreign;     // nodes that NVIDIA's operator manages, as reported last
	struct strv node_record; // of the one of nodes
	char *maps_path, *objects_path;
	unsigned long writes, conflicts; // on nodes, since the start
};
void coordinator_init(const struct coordinator_options *o, struct coordinator *ret); // stays where it is
void coordinator_done(struct coordinator *c);
#define auto_coordinator __attribute__((cleanup(coordinator_done)))
enum { COORDINATOR_CALL_MS = 12000 }; // most for one call of either connection, so that the Lease is renewed in time

// Waits for events at most so long, and does what is due. 1 = leading, 0 = another one leads. E_CONFLICT: the lead was
// lost, and the process has to end: what it knows may be old. Other errors are reported and retried.
int coordinator_turn(struct coordinator *c, int wait_ms, struct err *err);
// Reads everything once without leading, for commands that show it.
int coordinator_look(struct coordinator *c, struct err *err);
// A clean end: the next one takes over at once (T78).
int coordinator_leave(struct coordinator *c, struct err *err);
// Where the policy stands that is in force or refused, with its annotations: a DriverRollout, else a ConfigMap, else
// NULL. *ret_path: of its API, caller frees; NULL = is not asked for.
const json_t *coordinator_source(const struct coordinator *c, char **ret_path);
// What is decided from now.
struct cluster coordinator_cluster(const struct coordinator *c);
