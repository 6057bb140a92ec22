// SPDX-License-Identifier: Apache-2.0
// What the files of the plan share; nobody else includes it.
#pragma once
#include "host/module_set.h"
#include "plan/plan.h"

struct plan_context {
	const struct facts *facts;
	const struct request *request;
	const struct at_hand *at_hand;
	const struct holders *holders;
	struct plan *plan;
};

// plan_target.c: what the kernel is to have in the end
void plan_target_modules(const struct plan_context *m);
int plan_target_driver(const struct plan_context *m,
		       struct err *err); // the version: as requested, else of what is at hand
int plan_target_flavour(const struct plan_context *m, struct err *err);
int plan_no_package_code(const struct plan_context *m); // the code of "no package"
// Why the modules in the kernel are not the requested ones; NULL = they are (missing ones are reported through
// ret_missing). Caller frees.
char *plan_target_differs(const struct plan_context *m, struct strv *ret_missing);
