// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the coordinator.
#pragma once
#include "cluster/coordinator/coordinator.h"

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

// validation.c: makes, reads and deletes pods, if it is time. True: something is known that was not when s was made.
bool validation_check(struct coordinator *c, const struct cluster *cl, const struct slots *s);
