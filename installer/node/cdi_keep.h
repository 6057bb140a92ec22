// SPDX-License-Identifier: Apache-2.0
// The CDI specification on the machine, in step with the driver: withdrawn before a module goes or comes, and written
// when all was measured, so that a runtime never gives a container what is not there. RUN/cdi.json tells where it is,
// so that a change by anybody keeps it (R-G6: a file that says all of it already is not touched).
#pragma once
#include "node/cdi.h"

// E_USAGE: no runtime would read such a file. "none" is right, too.
int cdi_keep_check(const char *file, struct err *err);
// Where one is kept in this boot. 1 = *ret (caller frees), 0 = nowhere.
int cdi_keep_file(const struct root *host, char **ret, struct err *err);

// 1 = written, 0 = nothing changed. A failure leaves none. file: absolute, on the machine.
int cdi_keep_write(const struct cdi_where *w, const char *file, struct err *err);
// 1 = it was there. It is written again at the end of the run.
int cdi_keep_withdraw(const struct root *host, struct err *err);
int cdi_keep_forget(const struct root *host, struct err *err); // withdrawn for good

// Another specification of the same kind that runtimes read beside file: where two have devices of the same names, they
// may refuse both (pkg/cdi/cache.go). 1 = *ret is its path (caller frees).
int cdi_keep_rival(const struct root *host, const char *file, char **ret, struct err *err);
