// SPDX-License-Identifier: Apache-2.0
// Keeps the CDI specification on the machine, and that of IMEX channels beside it, in step with the driver: removed
// before a module is loaded or unloaded, and written after all nodes were checked, so that a runtime never names a
// device that is not there. RUN/cdi.json records where it is, so that every later command updates it (R-G6: a file that
// is right already is not touched).
#pragma once
#include "devices/cdi.h"

// E_USAGE: no runtime would read such a file. "none" is allowed, too.
int cdi_spec_file_check(const char *file, struct err *err);
// At the end of a run. file: absolute, on the machine; "none": removed for good; NULL: the recorded one.
// 1 = written, 0 = nothing changed. After a failure there is none.
int cdi_spec_file_update(const struct node *node, const char *file, bool is_ready, struct err *err);
// 1 = it was there. It is written again at the end of the run.
int cdi_spec_file_withdraw(const struct root *host, struct err *err);

// Another specification of this kind that runtimes read besides file: if two have devices of the same names, they may
// refuse both (pkg/cdi/cache.go). 1 = *ret is its path (caller frees).
int cdi_spec_file_conflict(const struct root *host, const char *file, const char *kind, char **ret, struct err *err);
