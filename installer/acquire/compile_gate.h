// SPDX-License-Identifier: Apache-2.0
// Nodes that need the same compile agree on one of them (R-A9).
#pragma once
#include "acquire/compile.h"

struct compile_gate {
	// 1 = another one has made it, and can be had now; 0 = compile, and leave. Negative: it failed there, and
	// would here.
	int (*enter)(void *ctx, struct err *err);
	void (*tick)(void *ctx);                             // now and then, while it compiles
	void (*leave)(void *ctx, const struct package *made, // NULL = it failed,
		      const struct err *why);                // because of this
	void *ctx;
};

// compile_package(), if it is up to us. 1 = another one has made it, ret is as it was. gate: NULL = it always is.
int compile_gate_run(const struct compile_gate *gate, const struct compile_request *request, struct progress *progress,
		     struct package *ret, struct compile_report *report, struct err *err);
