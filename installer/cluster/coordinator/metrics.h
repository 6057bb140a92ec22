// SPDX-License-Identifier: Apache-2.0
// The roll-outs in Prometheus' text format (upgrade-design 5.11).
#pragma once
#include "cluster/coordinator/tally.h"

// s: as it was planned last; NULL = another one leads. Caller frees.
char *metrics_text(const struct coordinator *c, const struct slots *s, const struct counters *t);
