// SPDX-License-Identifier: Apache-2.0
// All nodes of the cluster from LIST and WATCH, reduced to a node_state and what the coordinator keeps with it: less
// than 2 KiB a node (S2). The result of the last look at its pods survives a change of the Node, but not another Node
// of the same name (T71).
#pragma once
#include "cluster/policy/policy.h"

struct cache_entry { // with a node_state
	char *name, *version;
	char *loaded, *holders; // annotations of the agent, NULL = none
	long retry_ms;          // no write before that; 0 = at any time
	struct stay looked;     // during which its pods were last listed
	long look_ms;           // they are not listed again before that, in the same stay
	uint8_t failures;       // failed writes in a row
	uint8_t blocked;        // looks in a row during that stay at which a budget blocked
	bool is_listed;
};
struct node_cache {
	struct node_state *nodes;
	struct cache_entry *entries; // of the same index
	size_t count, room;
	uint32_t *index;     // by name; 0 = free, else the index of a node + 1
	size_t slots;        // of the index, a power of two
	bool is_listing;     // between node_cache_list_begin() and node_cache_list_end()
	unsigned long moves; // counts added, removed and replaced nodes: indices are not valid after that
};
#define NODE_CACHE_NONE ((struct node_cache){ 0 })
void node_cache_done(struct node_cache *f);

// Rows of kube_list.record, or of kube_watch.record, for this policy: only the labels that are used, as far as there is
// room for rows (a GPU node has fifty). Added to ret.
void node_cache_record(const struct policy *policy, bool is_event, struct strv *ret);

// Watches go on during a request, so neither an index nor a pointer outlives one: name and uid are copied before it and
// looked up after it. Returns the index; count = it is gone, or another one has its name.
size_t node_cache_find(const struct node_cache *f, const char *name, const char *uid);

// The current Node; an invalid object is dropped and logged (T73). True if something that is kept changed, which the
// kubelet's regular status updates do not (S6).
bool node_cache_put(struct node_cache *f, const json_t *node, const struct policy *policy);
// From the answer to a request: a node that was deleted meanwhile is not added again.
void node_cache_renew(struct node_cache *f, const json_t *node, const struct policy *policy);
void node_cache_remove(struct node_cache *f, const json_t *node); // exactly this object, not a later one of its name
void node_cache_forget(struct node_cache *f, size_t at);          // the last one takes its place
// Around a LIST, during which no watch runs: nodes that were not put in between are removed. A list is the truth, also
// where its objects are older than what is known: etcd was restored from a backup.
void node_cache_list_begin(struct node_cache *f);
void node_cache_list_end(struct node_cache *f);
