// SPDX-License-Identifier: Apache-2.0
// Moments. As documents write them: of RFC 3339 the one form "2027-01-15T08:00:00Z". As HTTP writes them: of RFC 9110
// 5.6.7 the one form that is sent, "Fri, 15 Jan 2027 08:00:00 GMT".
#pragma once
#include "base/core/str.h"

#include <time.h>

char *date_text(time_t t);
bool date_parse(const char *text, time_t *ret); // false on every other form, and on days that there are not
bool date_http_parse(const char *text, time_t *ret);
