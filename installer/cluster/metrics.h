// SPDX-License-Identifier: Apache-2.0
// The roll-outs in Prometheus' text format (upgrade-design 5.11).
#pragma once
#include "cluster/coordinator.h"

char *metrics_text(const struct coordinator *c, const struct slots *s); // caller frees
