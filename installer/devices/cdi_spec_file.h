// SPDX-License-Identifier: Apache-2.0
// The CDI specification on the machine, in step with the driver: withdrawn before a module goes or comes, and written
// when all was measured, so that a runtime never gives a container what is not there. RUN/cdi.json tells where it is,
// so that a change by anybody keeps it (R-G6: a file that says all of it already is not touched).
#pragma once
#include "devices/cdi.h"

// E_USAGE: no runtime would read such a file. "none" is right, too.
int cdi_spec_file_check(const char *file, struct err *err);
// At the end of a run. file: absolute, on the machine; "none": withdrawn for good; NULL: where one is kept already.
// 1 = written, 0 = nothing changed. A failure leaves none.
int cdi_spec_file_update(const struct cdi_request *w, const char *file, bool is_ready, struct err *err);
// 1 = it was there. It is written again at the end of the run.
int cdi_spec_file_withdraw(const struct root *host, struct err *err);

// Another specification of the same kind that runtimes read beside file: where two have devices of the same names, they
// may refuse both (pkg/cdi/cache.go). 1 = *ret is its path (caller frees).
int cdi_spec_file_conflict(const struct root *host, const char *file, char **ret, struct err *err);
