// SPDX-License-Identifier: Apache-2.0
// Dates as documents write them (the one form "2027-01-15T08:00:00Z" of RFC 3339) and as HTTP writes them (the one form
// "Fri, 15 Jan 2027 08:00:00 GMT" of RFC 9110 5.6.7), and the clock for durations.
#pragma once
#include "base/core/str.h"

#include <time.h>

char *date_text(time_t t);
bool date_parse(const char *text, time_t *ret); // false on every other form, and on days that do not exist
// Says how long before now a date of date_text() is: " (3 min ago)"; "" = in the future, or no such date. Caller frees.
char *date_ago(const char *text, time_t now);
bool date_http_parse(const char *text, time_t *ret);

long clock_ms(void); // monotonic, for durations and deadlines: the time of day may be set meanwhile
