// SPDX-License-Identifier: Apache-2.0
// What the files of the coordinator share; nobody else includes it.
#pragma once
#include "cluster/coordinator/coordinator.h"

enum {
	COORDINATOR_DUE_MS = 5000,
	COORDINATOR_RESYNC_MS = 30 * 60 * 1000,
	COORDINATOR_WATCH_S = 300,
	COORDINATOR_KIND_MS = 60 * 1000
};

const char *coordinator_datum(const json_t *map, const char *key); // of a ConfigMap; NULL = absent
void coordinator_say(const struct coordinator *c, const char *what, const struct err *err);

// cache.c: policy, status, nodes; all of it anew, or what the watches tell.
void know_init(struct coordinator *c); // it must not move in memory from then on
int know_all(struct coordinator *c, struct err *err);
int know_once(struct coordinator *c, struct err *err); // without watches
int know_more(struct coordinator *c, int wait_ms, struct err *err);
int know_status(struct coordinator *c, struct err *err);
// The DriverRollout as it is by now: false = people have written there since it was read, and all is read anew.
bool know_object(struct coordinator *c, const json_t *object);

// policy_in_force.c: which policy is in force, of the ConfigMaps as they were read.
void policy_choose(struct coordinator *c);
void policy_event(struct coordinator *c, const json_t *object, const char *reason, const char *message); // NULL: none
void policy_tell(struct coordinator *c); // what came of it, as an Event on the object, once

// operator_nodes.c: who else loads drivers; between the policy and the nodes.
int know_drivers(struct coordinator *c, struct err *err);
int watch_drivers(struct coordinator *c, struct err *err);
void tell_drivers(struct coordinator *c);
// driver_rollout.c: its status, where there is one; slots: as they were planned, NULL = nothing is known.
void driverrollout_tell(struct coordinator *c, const struct slots *slots);

// other_leaders.c: who else leads nodes here.
void others_look(struct coordinator *c);
void others_done(struct others *o);

// reconcile.c: until nothing more is to be done now. E_CONFLICT: the lead was lost.
int act(struct coordinator *c, struct err *err);
