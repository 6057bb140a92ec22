// SPDX-License-Identifier: Apache-2.0
// What the files of the plan share; nobody else includes it.
#pragma once
#include "host/module_set.h"
#include "plan/plan.h"

struct making {
	const struct facts *facts;
	const struct wish *wish;
	const struct at_hand *at_hand;
	const struct holders *holders;
	struct plan *plan;
};

// plan_target.c: what the kernel is to have in the end
void goal_modules(const struct making *m);
int goal_driver(const struct making *m, struct err *err); // the version: as wished, else of what is at hand
int goal_flavour(const struct making *m, struct err *err);
int goal_no_package(const struct making *m); // the code of "no package"
// Why the modules in the kernel are not the wished ones; NULL = they are (missing ones are reported through
// ret_missing). Caller frees.
char *goal_differs(const struct making *m, struct strv *ret_missing);
