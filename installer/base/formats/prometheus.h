// SPDX-License-Identifier: Apache-2.0
// Prometheus' text format: what its documentation calls "text-based exposition format".
#pragma once
#include "base/core/str.h"

// The two lines before the samples of a metric. type: "gauge", "counter".
void prometheus_head(char **text, const char *name, const char *type, const char *help);
// NAME="VALUE" and after, which is "," or "}"; quotes, backslashes and newlines escaped. value NULL = "".
void prometheus_label(char **text, const char *name, const char *value, const char *after);
