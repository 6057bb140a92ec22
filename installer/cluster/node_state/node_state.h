// SPDX-License-Identifier: Apache-2.0
// A node of the cluster as the rollout sees it: what we wrote on it, what its agent reports, and facts. Less than 1.5
// KiB, with no pointer but the name. Filled label by label and annotation by annotation, so that a streaming
// parser never holds a whole Node. Keys and formats: upgrade-design 5.2.
#pragma once
#include "cluster/node_state/annotations.h"
#include "cluster/node_state/gpu_report.h"

enum holder_count { HOLDERS_UNPUBLISHED = -2, HOLDERS_UNKNOWN = -1 };

struct report { // written by the node's agent alone
	struct {
		struct seq seq;
		enum verb verb;
		enum result result;
		enum failing failing;
		char code[WORD_TEXT];
	} ack;
	bool has_loaded;           // false: not reported
	bool is_foreign;           // the loaded driver is not ours
	struct target_hash loaded; // in the kernel; none and not foreign: no driver is loaded
	char version[WORD_TEXT];
	struct target_hash store[3]; // complete on the disk, for the running kernel
	int holders;                 // how many; negative: enum holder_count, treated as busy
	uint64_t boot;               // hash of the boot id
	struct {
		struct target_hash target_hash;
		enum result result; // RESULT_DONE: it works; RESULT_FAILED: it does not; RESULT_NONE: not reported
	} health;
	struct gpu_report gpus;
};

enum { PODS_UNSEEN = -1, DEVICES_UNKNOWN = -1 };

struct stay { // of a node in a state; if it returns to the state, that is another stay
	enum node_phase phase;
	int64_t since;
};
struct pods_seen {                      // at the last look at its pods
	struct stay stay;               // that it was during; see node_state_pods()
	int pods, jobs;                 // that have to go; that are waited for; PODS_UNSEEN
	int64_t blocked_since;          // budgets block every eviction since; 0 = the last one went through
	struct reason blocker;          // the worst blocker; REASON_NONE = none
	int64_t blocker_since;          // that has been so since
	int devices;                    // of DRA, in ResourceSlices; DEVICES_UNKNOWN, also where nobody counts
	bool has_plugin, has_validator; // NVIDIA's device plugin, and its validator: a pod that is Ready
};

// MIG manager's label; pending: it works, or will. NVIDIA/mig-parted deployments/container/reconfigure-mig.sh.
enum mig_state { MIG_NONE, MIG_PENDING, MIG_SUCCESS, MIG_FAILED };

struct node_facts { // of the object, from users, and of its pods
	bool is_unschedulable, is_ready, is_deleting;
	bool is_skipped, is_paused, keeps_cordon, is_foreign;
	bool has_skip, has_upgrade_skip, has_upgrade_hold; // of is_skipped: our label, NVIDIA's, a receipt for that
	bool is_pinned; // to pin; none: to what is loaded, since the value is invalid
	bool is_ours;   // the coordinator runs here
	struct target_hash pin;
	uint64_t retry;                        // hash of the nonce; 0 = none
	char pool[WORD_TEXT], wave[WORD_TEXT]; // labels
	uint64_t terms;                        // terms of the policy's selectors that its labels meet
	uint64_t group, zone;                  // hashes of the labels that the policy names; 0 = none
	uint16_t operands, paused;             // of the table: deployed here; with our value in its place
	uint8_t hints;                         // of the table: set, by us or others
	struct pods_seen seen;
	char allocatable[RESOURCES_TEXT]; // see baseline_read_resources()
	bool has_mig_config;              // nvidia.com/mig.config: how MIG manager has to partition the GPUs
	enum mig_state mig;
	char driver_set[OBJECT_TEXT]; // DaemonSet of NVIDIA's operator that serves it; "" = none
	enum upgrade upgrade;         // NVIDIA's label
	bool has_enabled;             // the annotation of NVIDIA's operator exists, whatever its value
	bool has_initial_cordon;      // NVIDIA's controller found it cordoned, and will leave it cordoned
};

struct node_state {
	const char *name; // borrowed
	char uid[UID_TEXT];
	struct record record;
	struct report report;
	struct node_facts facts;
};

// Begin with node_state_init, then each label and annotation once. A value that cannot be parsed is never an error: in
// one of our own keys it makes the state unknown, in one of the agent's it is ignored.
void node_state_init(struct node_state *m, const char *name, const char *uid);
void node_state_label(struct node_state *m, const char *key, const char *value);
void node_state_annotation(struct node_state *m, const char *key, const char *value);

static inline struct stay node_state_stay(const struct node_state *m)
{
	return (struct stay){ m->record.phase, m->record.since };
}
static inline bool stay_eq(struct stay a, struct stay b)
{
	return a.phase == b.phase && a.since == b.since;
}
// What was seen of its pods during this stay; earlier observations do not count.
const struct pods_seen *node_state_pods(const struct node_state *m);

bool node_state_is_staged(const struct node_state *m, const struct target_hash *target_hash);
static inline bool node_state_is_foreign(const struct node_state *m) // NVIDIA's operator drives it
{
	return m->facts.is_foreign || *m->facts.driver_set;
}
static inline bool node_state_is_empty(const struct node_state *m) // no driver is loaded
{
	return m->report.has_loaded && !m->report.is_foreign && !target_hash_is_set(&m->report.loaded);
}
