// SPDX-License-Identifier: Apache-2.0
// What comes after the modules: nodes, and the measured end.
#include "node/run.h"

int step_nodes(struct run *r, const struct step *step, struct err *err)
{
	(void)step;
	const struct apply *a = r->a;
	auto_devices struct devices d = { 0 };
	if (devices_want(a->kern, a->imex_channels, &d, err) < 0 ||
	    devices_apply(a->dev_root, a->sys, false, &d, err) < 0)
		return -1;
	watch_end(a->watch, "nodes", "%zu nodes, %zu changes", d.count, d.changes);
	return 0;
}

int step_verify(struct run *r, const struct step *step, struct err *err)
{
	const struct apply *a = r->a;
	const struct plan *plan = a->plan;
	if (facts_read(a->host, a->kern, &r->now, err) < 0 ||
	    status_read(&r->now, a->kern, a->dev_root, a->sys, r->status, err) < 0)
		return -1;
	status_wish(r->status, &r->now.loaded, plan->driver, plan->flavour, &plan->modules);
	if (status_error(r->status, err) < 0)
		return -1;
	if (r->package.count && store_set_last_good(&a->obtain->store, r->package.manifest.digest, err) < 0)
		return -1;
	watch_end(a->watch, "verify", "%s, every post-condition holds", step->subject);
	return 0;
}
