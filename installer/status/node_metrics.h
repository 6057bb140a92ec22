// SPDX-License-Identifier: Apache-2.0
// What the status file of a node says, for a collector of text files: run/kmodsmith/metrics/node.prom.
#pragma once
#include "base/formats/json.h"

// file: as status_file.h writes it. What it does not say has no sample. Caller frees.
char *node_metrics_text(const json_t *file);
