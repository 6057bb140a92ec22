// SPDX-License-Identifier: Apache-2.0
#include "acquire/compile_gate.h"

int gate_compile(const struct compile_gate *gate, const struct compile_wish *wish, struct watch *watch,
		 struct package *ret, struct compile_report *report, struct err *err)
{
	if (!gate)
		return compile_package(wish, watch, ret, report, err);
	int made = gate->enter(gate->ctx, err);
	if (made != 0)
		return made;
	watch->tick = gate->tick;
	watch->tick_ctx = gate->ctx;
	int r = compile_package(wish, watch, ret, report, err);
	watch->tick = NULL;
	gate->leave(gate->ctx, r < 0 ? NULL : ret, err);
	return r;
}
