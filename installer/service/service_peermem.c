// SPDX-License-Identifier: Apache-2.0
#include "service/service_peermem.h"

#include "base/process/log.h"

enum { WAITING_MS = 2000, LOADED_MS = 30000, FAILED_MS = 60000 };

// What may pass by itself is tried again; the rest is the peermem container's to tell, or the next start's.
static int64_t peermem_tick(void *ctx, int64_t now_ms)
{
	struct service_peermem *p = ctx;
	struct err why;
	if (p->is_over)
		return INT64_MAX;
	int r = peermem_step(&p->peermem, &why);
	if (r >= 0)
		return p->peermem.now == PEERMEM_NONE ? INT64_MAX : now_ms + (r > 0 ? LOADED_MS : WAITING_MS);
	log_warn("the GPUs are ready without nvidia-peermem: %s: %s", err_info(why.code)->name, why.text);
	p->is_over = !err_info(why.code)->retryable;
	return now_ms + FAILED_MS;
}

struct service_part service_peermem_part(struct service_peermem *p)
{
	return (struct service_part){ .ctx = p, .tick = peermem_tick };
}
