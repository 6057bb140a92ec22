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
	auto_facts struct facts now = { 0 };
	if (facts_read(a->host, a->kern, &now, err) < 0 ||
	    status_read(&now, a->host, a->kern, a->dev_root, a->sys, r->status, err) < 0 ||
	    status_error(r->status, err) < 0)
		return -1;
	watch_end(a->watch, "verify", "%s, every post-condition holds", step->subject);
	return 0;
}
