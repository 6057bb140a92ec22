// SPDX-License-Identifier: Apache-2.0
// The directory that both containers share (dtk.h), and what the toolkit left there for the node's store.
#pragma once
#include "acquire/acquire.h"
#include "driver_toolkit/dtk.h"

int dtk_flags_read(const struct root *shared, struct dtk_flags *ret, struct err *err);
int dtk_flag_set(const struct root *shared, enum dtk_flag flag, const char *id, struct err *err);
int dtk_flag_clear(const struct root *shared, enum dtk_flag flag, struct err *err);

struct dtk_inputs {          // what is copied, as a user typed it
	const char *program; // statically linked
	const char *source;
	const char *patches; // NULL = none
};
// Everything is complete before the flag is set: if we are killed in between, the toolkit sees no request.
int dtk_prepare(const struct root *shared, const struct dtk_inputs *inputs, const char *text, struct err *err);
// The request that is there. 1 = read, 0 = none, or not a sound one.
int dtk_request_read(const struct root *shared, struct dtk_request *ret, char ret_id[DIGEST_HEX + 1], struct err *err);

struct dtk_progress {
	char id[DIGEST_HEX + 1];
	unsigned done, total; // objects; total 0 = before the first
	unsigned beat;        // changes when there is life
};
int dtk_progress_write(const struct root *shared, const struct dtk_progress *p, struct err *err);
bool dtk_progress_read(const struct root *shared, struct dtk_progress *ret);

// Why the toolkit cannot, beside its flag: the error's name and text.
int dtk_reason_write(const struct root *shared, const struct err *why, struct err *err);
// Into an error of the code that it names; E_BUILD where it names none.
void dtk_reason_read(const struct root *shared, struct err *ret);

char *dtk_package_dir(const char *id); // below shared

// Checked and proven like any other untrusted input. as: the store and what is wanted of a package. The package must be
// of exactly what the request says, and of modules that the running kernel takes; else the store is as it was. ret_tag:
// caller frees.
int dtk_take(const struct acquire *as, const struct dtk_request *request, const struct root *shared, const char *id,
	     const struct root *host, const struct root *kern, char **ret_tag, struct err *err);
