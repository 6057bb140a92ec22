// SPDX-License-Identifier: Apache-2.0
// The one error idiom.
//
// A function that can fail returns int: negative = failure, 0 = done, 1 = yes / found / changed; its last parameter is
// a struct err in the caller's frame, never NULL, nothing to free. Results stay untouched on failure. What is not an
// error (no GPU, a module that is not loaded, a file that may be absent) is a value, not an err.
//
// Codes below 1024 are errno values; ours are above and are declared once, in errors.def.
#pragma once
#include "base/core/str.h"

enum {
	E_FIRST_ = 1023,
#define X(code, ...) code,
#include "base/core/errors.def"
#undef X
	E_LAST_
};

enum { ERR_NEXT_MOST = 200 };

struct err {
	int code;
	char text[512];
	char next[ERR_NEXT_MOST]; // "" = the code's own next step
};

int err_set(struct err *err, int code, const char *fmt, ...) PRINTF(3, 4); // always -1
int err_wrap(struct err *err, const char *fmt, ...) PRINTF(2, 3);          // "what we did: what went wrong"; always -1
// Keep the text, replace the code: for a caller that knows what an errno means here. Always -1.
int err_code(struct err *err, int code);
// What to do about this very error, where more is known than of its code: after err_set(), with what there is to type.
// Always -1.
int err_next(struct err *err, const char *fmt, ...) PRINTF(2, 3);
// Returns the next step: err_next()'s, else the code's.
const char *err_next_step(const struct err *err);

struct err_info {
	int code;
	const char *name;   // "E_ABI"
	int exit_status;    // of a command that fails with it
	bool retryable;     // the same call may succeed later without any change
	const char *reason; // Kubernetes condition reason, metric label
	const char *text;   // one line: what it means
	const char *next;   // one line: what to do
};
// Finds the entry of one of our codes (E_SYSTEM to E_LAST_ - 1) or the one that fits an errno best, else that of
// E_SYSTEM. Never NULL.
const struct err_info *err_info(int code);
const struct err_info *err_info_by_name(const char *name);

// Why an error happens, and what to type: of causes.def.
struct err_cause {
	int code;
	const char *cause, *command;
};
// Returns the causes of one of our codes, the most likely first; every code has some.
const struct err_cause *err_causes(int code, size_t *ret_count);
