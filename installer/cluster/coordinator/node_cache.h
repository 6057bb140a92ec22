// SPDX-License-Identifier: Apache-2.0
// All nodes of the cluster from LIST and WATCH, reduced: a node_state each, and what the coordinator keeps
// beside it. Below 2 KiB a node (S2). What pods say of a node is kept when its object changes, and forgotten when
// another object has its name (T71).
#pragma once
#include "cluster/policy/policy.h"

struct cache_entry { // beside a node_state
	char *name, *version;
	char *loaded, *holders; // annotations of the agent, NULL = none
	long retry_ms;          // nothing is written before that; 0 = at any time
	struct stay looked;     // during which its pods were asked for last
	long look_ms;           // during the same they are not asked for before that
	uint8_t failures;       // writes that failed one after the other
	uint8_t blocked;        // looks of that stay, one after the other, at which a budget blocked
	bool is_listed;
};
struct node_cache {
	struct node_state *nodes;
	struct cache_entry *entries; // of the same index
	size_t count, room;
	uint32_t *index;     // by name; 0 = free, else the index of a node + 1
	size_t slots;        // of the index, a power of two
	unsigned long moves; // counts up when a node comes, goes or is exchanged: indices mean something else then
};
#define NODE_CACHE_NONE ((struct node_cache){ 0 })
void node_cache_done(struct node_cache *f);

// Rows of kube_list.record, or of kube_watch.record, for this policy: of the labels only those that are used,
// as far as there is room for rows (a Node of a GPU has fifty). Added to ret.
void node_cache_record(const struct policy *policy, bool is_event, struct strv *ret);

// Watches go on while an answer is waited for, so neither an index nor a pointer outlives a request: name and uid are
// copied before, and looked up after it. The index; count = it is gone, or another one has its name.
size_t node_cache_find(const struct node_cache *f, const char *name, const char *uid);

// The node as it is now, whatever it was; an object that means nothing is left out and said (T73). True where something
// that is kept changed: of what kubelets tell every few minutes nothing is (S6).
bool node_cache_put(struct node_cache *f, const json_t *node, const struct policy *policy);
// From the answer to a request: a node that was deleted meanwhile does not come back by it.
void node_cache_renew(struct node_cache *f, const json_t *node, const struct policy *policy);
void node_cache_remove(struct node_cache *f, const json_t *node); // this very object, not a later one of its name
void node_cache_forget(struct node_cache *f, size_t at);          // the last one takes its place
// Around a LIST: nodes that were not put in between are gone.
void node_cache_list_begin(struct node_cache *f);
void node_cache_list_end(struct node_cache *f);
