// SPDX-License-Identifier: Apache-2.0
// All nodes of a cluster from one JSON text: a NodeList of the API, or what `kubectl get nodes -o json` prints.
#pragma once
#include "cluster/policy.h"

enum { ROSTER_MOST = 20000 };

struct roster {
	struct member *members;
	size_t count;
	struct strv names;
};
int roster_parse(const char *text, size_t len, const struct policy *policy, struct roster *ret, struct err *err);
void roster_done(struct roster *r);
#define auto_roster __attribute__((cleanup(roster_done)))
