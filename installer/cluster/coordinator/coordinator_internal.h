// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the coordinator.
#pragma once
#include "cluster/coordinator/coordinator.h"

// A value of a ConfigMap; NULL = absent.
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
void cache_init(struct coordinator *c); // which must not move from then on
void cache_done(struct coordinator *c);
int cache_load(struct coordinator *c, bool is_watched, struct err *err);
int cache_update(struct coordinator *c, int wait_ms, struct err *err);
int cache_load_status(struct coordinator *c, struct err *err);
// The current DriverRollout; false = users have changed it, and everything is read again.
bool cache_put_driver_rollout(struct coordinator *c, const json_t *object);

// policy_in_force.c: which policy is in force.
void policy_in_force_choose(struct coordinator *c);
void policy_in_force_report(struct coordinator *c); // as Events on its object, each once

// validation.c: makes, reads and deletes pods, if it is time. True: something is known that was not when s was made.
bool validation_check(struct coordinator *c, const struct cluster *cl, const struct slots *s);

// driver_rollout.c: its status, if there is one; slots: of the last plan, NULL = none.
void driver_rollout_write_status(struct coordinator *c, const struct slots *slots);
