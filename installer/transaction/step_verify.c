// SPDX-License-Identifier: Apache-2.0
// What comes after the modules: nodes, the measured end, and the word about it.
#include "transaction/apply_internal.h"

#include "devices/cdi_spec_file.h"
#include "status/status_file.h"

int step_nodes(struct transaction *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	auto_devices struct devices d = { 0 };
	if (devices_want(a->kern, a->imex_channels, &d, err) < 0 ||
	    devices_apply(a->dev_root, a->sys, false, &d, err) < 0)
		return -1;
	progress_end(a->progress, "nodes", "%zu nodes, %zu changes", d.count, d.changes);
	return 0;
}

static int measure_node(const struct apply *a, struct facts *now, struct status *ret, struct err *err)
{
	return facts_read(a->host, a->kern, now, err) < 0 ||
			       status_read(now, a->host, a->kern, a->dev_root, a->sys, ret, err) < 0 ?
		       -1 :
		       0;
}

// The rest may fail, see optional_modules.h.
static void demanded_modules(const struct plan *plan, struct strv *ret)
{
	for (size_t i = 0; i < plan->modules.count; i++)
		if (!strv_has(&plan->optional, plan->modules.items[i]))
			strv_add(ret, str_dup(plan->modules.items[i]));
}

int transaction_verify(struct transaction *r, const struct plan *plan, struct err *err)
{
	auto_strv struct strv modules = { 0 };
	optional_step_record(r);
	if (measure_node(r->a, &r->now, r->status, err) < 0)
		return -1;
	if (plan) {
		demanded_modules(plan, &modules);
		status_check_request(r->status, &r->now.loaded, plan->driver, plan->flavour, &modules);
	}
	return status_error(r->status, err);
}

int step_verify(struct transaction *r, const struct step *step, struct err *err)
{
	if (transaction_verify(r, r->a->plan, err) < 0)
		return -1;
	progress_end(r->a->progress, "verify", "%s, every post-condition holds", step->subject);
	return 0;
}

int transaction_publish(const struct transaction *r, const char *step, const char *subject, bool is_touch,
			struct err *err)
{
	struct err why;
	const struct apply *a = r->a;
	if (status_file_step(a->host, &a->facts->host, step, subject, is_touch, &why) == 0)
		return 0;
	if (is_touch && !r->is_touched) {
		*err = why;
		return err_wrap(err, "withdraw what is published of this node");
	}
	progress_note(a->progress, "the state of this node is not published: %s", why.text);
	return 0;
}

// A node that works is not failed for it.
static void update_cdi_spec(const struct apply *a, const struct status *status)
{
	struct err why;
	const struct cdi_request w = {
		.host = a->host, .kern = a->kern, .dev_root = a->dev_root, .sys = a->sys, .boot = a->facts->host.boot_id
	};
	int r = cdi_spec_file_update(&w, a->cdi, status->has_gpu && status->is_ready, &why);
	if (r < 0)
		progress_note(a->progress, "container runtimes are told of no GPU: %s", why.text);
	else if (r > 0)
		progress_note(a->progress, "container runtimes are told of the GPUs anew");
}

static void publish_result(const struct apply *a, const struct facts *now, const struct status *status,
			   const char *outcome, const struct err *failure)
{
	struct err why;
	const struct status_file_end e = { .outcome = outcome, .progress = a->progress, .failure = failure };
	update_cdi_spec(a, status);
	if (status_file_end(a->host, now, status, &e, &why) < 0)
		progress_note(a->progress, "the state of this node is not published: %s", why.text);
}

void transaction_publish_end(const struct transaction *r, const char *outcome)
{
	publish_result(r->a, &r->now, r->status, outcome, r->a->failure);
}

void transaction_publish_failure(const struct apply *a, const char *outcome, const struct err *failure)
{
	auto_facts struct facts now = { 0 };
	auto_status struct status status = { 0 };
	struct err why;
	if (measure_node(a, &now, &status, &why) < 0)
		progress_note(a->progress, "the state of this node is not published: %s", why.text);
	else
		publish_result(a, &now, &status, outcome, failure);
}
