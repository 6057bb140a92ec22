// SPDX-License-Identifier: Apache-2.0
// What is known about a node, as JSON: for `status --json`, for the results of other commands and for the file that
// stays behind a run (status_file.h). Members that are not known are null.
#pragma once
#include "base/formats/json.h"
#include "base/process/progress.h"
#include "host/facts.h"
#include "status/status.h"

json_t *status_json_error(const struct err *err);     // code, reason, retryable, text, next
json_t *status_json_phases(const struct progress *w); // [{phase, seconds, note}]
json_t *status_json_compatible(const char *made_for); // {made_for}: of another kernel; else null
json_t *status_json_status(const struct status *s);   // state, ready, compatible, checks, nodes, optional
json_t *status_json_all(const struct facts *facts, const struct status *s); // that, and what was read of the machine
