// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the coordinator.
#pragma once
#include "cluster/coordinator/coordinator.h"

// Of a ConfigMap; NULL = absent.
static inline const char *coordinator_configmap_value(const json_t *map, const char *key)
{
	return json_string_value(json_object_get(json_object_get(map, "data"), key));
}
static inline void coordinator_report_trouble(const struct coordinator *c, const char *what, const struct err *err)
{
	if (c->o.callbacks.trouble)
		c->o.callbacks.trouble(c->o.callbacks.ctx, what, err);
}

// cache.c: policy, status, nodes; read again, or updated by watches.
void cache_init(struct coordinator *c); // it must not move in memory from then on
int cache_load(struct coordinator *c, struct err *err);
int cache_load_once(struct coordinator *c, struct err *err); // without watches
int cache_update(struct coordinator *c, int wait_ms, struct err *err);
int cache_load_status(struct coordinator *c, struct err *err);
// The DriverRollout as it is by now: false = users have written to it since, and everything is read again.
bool cache_put_driver_rollout(struct coordinator *c, const json_t *object);
void cache_check_other_leaders(struct coordinator *c); // who else leads nodes here
void cache_forget_other_leaders(struct other_leaders *o);

// policy_in_force.c: which policy is in force, of the ConfigMaps as they were read.
void policy_in_force_choose(struct coordinator *c);
void policy_in_force_event(struct coordinator *c, const json_t *object, const char *reason,
			   const char *message);    // NULL: none
void policy_in_force_report(struct coordinator *c); // what came of it, as an Event on the object, once

// driver_rollout.c: its status, where there is one; slots: as they were planned, NULL = nothing is known.
void driver_rollout_write_status(struct coordinator *c, const struct slots *slots);
