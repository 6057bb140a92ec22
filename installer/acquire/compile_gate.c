// SPDX-License-Identifier: Apache-2.0
#include "acquire/compile_gate.h"

int compile_gate_run(const struct compile_gate *gate, const struct compile_request *request, struct progress *progress,
		     struct package *ret, struct compile_report *report, struct err *err)
{
	if (!gate)
		return compile_package(request, progress, ret, report, err);
	int made = gate->enter(gate->ctx, err);
	if (made != 0)
		return made;
	progress->tick = gate->tick;
	progress->tick_ctx = gate->ctx;
	int r = compile_package(request, progress, ret, report, err);
	progress->tick = NULL;
	gate->leave(gate->ctx, r < 0 ? NULL : ret, err);
	return r;
}
