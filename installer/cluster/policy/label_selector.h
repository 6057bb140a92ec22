// SPDX-License-Identifier: Apache-2.0
// A label selector as kubectl takes it: "app in (train, eval), tier!=batch, team, !debug". It means what it means to
// the API server (k8s.io/apimachinery/pkg/labels/selector.go), but for ">" and "<", which are refused.
#pragma once
#include "base/formats/json.h"

int label_selector_check(const char *text, struct err *err); // E_CONFIG
// labels: an object of texts, or NULL. False where it means nothing, which label_selector_check() has refused.
bool label_selector_matches(const char *text, const json_t *labels);
