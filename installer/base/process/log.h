// SPDX-License-Identifier: Apache-2.0
// One line an event on standard error, as text or as JSON: ts, level, msg, step; of an error code, reason, retryable
// and next; of some events fields of their own. In the journal a line of text has its priority (sd-daemon(3)); a
// line of JSON has its level and stays JSON wherever it is read. Commands log; library code only at debug
// level, or of damaged state.
#pragma once
#include "base/formats/json.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_setup(enum log_level most, bool is_json);
bool log_is_on(enum log_level level); // ask before composing an expensive text
bool log_is_json(void);
const char *log_step(const char *step); // the phase that following lines belong to; NULL = none. Returns the last one
// fields: more of them in JSON, borrowed; NULL = none.
void log_line(enum log_level level, json_t *fields, const char *fmt, ...) PRINTF(3, 4);
void log_err(const struct err *err); // code, reason, text and next step
// A line that rewrites itself on a terminal; false = not a terminal. The next log line ends it.
bool log_rewrite(const char *text, bool is_last);
void log_end_line(void); // before anything else is printed

#define log_warn(...) log_line(LOG_LEVEL_WARN, NULL, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, NULL, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, NULL, __VA_ARGS__)
