// SPDX-License-Identifier: Apache-2.0
// All nodes of a cluster from one JSON text: a NodeList of the API, or what `kubectl get nodes -o json` prints.
#pragma once
#include "cluster/policy/policy.h"

enum { ROSTER_MOST = 20000 };

struct roster {
	struct member *members;
	size_t count;
	struct strv names;
};
// One Node, or what is kept of it. name: borrowed by *ret for as long as it lives, and equal to the Node's.
int roster_node(const json_t *node, const char *name, const struct policy *policy, struct member *ret, struct err *err);
int roster_parse(const char *text, size_t len, const struct policy *policy, struct roster *ret, struct err *err);
void roster_done(struct roster *r);
#define auto_roster __attribute__((cleanup(roster_done)))
