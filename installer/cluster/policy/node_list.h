// SPDX-License-Identifier: Apache-2.0
// All nodes of a cluster from one JSON text: a NodeList of the API, or what `kubectl get nodes -o json` prints.
#pragma once
#include "cluster/policy/policy.h"

enum { NODE_LIST_MOST = 20000 };

struct node_list {
	struct node_state *nodes;
	size_t count;
	struct strv names;
};
// One Node, or the fields that are kept of it. name: the Node's, borrowed by *ret.
int node_list_read_node(const json_t *node, const char *name, const struct policy *policy, struct node_state *ret,
			struct err *err);
// What is read of a Node, as rows of a json_stream_table, each after the prefix `of`: no label that nobody asks for.
// policy: NULL = it is not known yet, so all labels.
void node_list_record(const struct policy *policy, const char *of, struct strv *ret);
// One node at a time is in memory as JSON. E_CONFIG: not a list of nodes; nothing is read of half a one.
int node_list_read(int fd, const char *name, const struct policy *policy, struct node_list *ret, struct err *err);
void node_list_done(struct node_list *r);
#define auto_node_list __attribute__((cleanup(node_list_done)))
