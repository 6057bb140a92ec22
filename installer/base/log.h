// SPDX-License-Identifier: Apache-2.0
// One line an event on standard error, as text or as JSON (ts, level, msg, step, code, reason).
// Commands log; library code only at debug level.
#pragma once
#include "base/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_setup(enum log_level most, bool is_json);
const char *log_step(const char *step); // the phase that following lines belong to; NULL = none. Returns the last one
void log_line(enum log_level level, const char *fmt, ...) PRINTF(2, 3);
void log_err(const struct err *err); // code, reason, text and next step

#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
