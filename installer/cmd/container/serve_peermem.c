// SPDX-License-Identifier: Apache-2.0
#include "cmd/container/serve_peermem.h"

enum { WAITING_MS = 2000, LOADED_MS = 30000, FAILED_MS = 60000, WAIT_S = 1200 };

int peermem_state(const struct machine *m, const char *state_dir, struct root *ret, struct err *err)
{
	if (state_dir)
		return root_init(ret, state_dir, err);
	return root_exists(&m->host, JOB_STATE) ? root_sub(&m->host, JOB_STATE, ret, err) : 0;
}

// What may pass by itself is tried again; the rest is the peermem container's to tell, or the next start's.
static int64_t peermem_tick(void *ctx, int64_t now_ms)
{
	struct serve_peermem *p = ctx;
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

int serve_peermem_open(const struct common *common, const struct job_values *job, const struct peermem_values *values,
		       struct serve_peermem *ret, struct serve_part *ret_part, struct err *err)
{
	if (!values->is_requested)
		return 0;
	if (machine_open(common, &ret->machine, err) < 0 ||
	    peermem_state(&ret->machine, job->state_dir, &ret->state, err) < 0)
		return -1;
	ret->progress = show_progress_log();
	ret->peermem =
		(struct peermem){ .host = &ret->machine.host,
				  .kern = &ret->machine.kern,
				  .state = ret->state.fd < 0 ? NULL : &ret->state,
				  .trust_dir = job->origin.trust_dir,
				  .sys = &ret->machine.sys,
				  .is_host_mofed = values->is_host_mofed,
				  .timeout_ms = job_unload_timeout_ms(values->timeout_s ? values->timeout_s : WAIT_S),
				  .unload_timeout_ms = job_unload_timeout_ms(0),
				  .progress = &ret->progress };
	*ret_part = (struct serve_part){ .ctx = ret, .tick = peermem_tick };
	return 1;
}

void serve_peermem_done(struct serve_peermem *p)
{
	progress_done(&p->progress);
	root_done(&p->state);
	machine_done(&p->machine);
}
