// SPDX-License-Identifier: Apache-2.0
// What the files of the coordinator share; nobody else includes it.
#pragma once
#include "cluster/coordinator.h"

enum { COORDINATOR_DUE_MS = 5000, COORDINATOR_RESYNC_MS = 30 * 60 * 1000, COORDINATOR_WATCH_S = 300 };

void coordinator_say(const struct coordinator *c, const char *what, const struct err *err);

// coordinator_know.c: policy, status, nodes; all of it anew, or what the watches tell.
void know_init(struct coordinator *c); // it must not move in memory from then on
int know_all(struct coordinator *c, struct err *err);
int know_once(struct coordinator *c, struct err *err); // without watches
int know_more(struct coordinator *c, int wait_ms, struct err *err);
int know_status(struct coordinator *c, struct err *err);

// coordinator_act.c: until nothing more is to be done now. E_CONFLICT: the lead was lost.
int act(struct coordinator *c, struct err *err);
