// SPDX-License-Identifier: Apache-2.0
// A label selector as in kubectl: "app in (train, eval), tier!=batch, team, !debug". Evaluated as by the API server
// (k8s.io/apimachinery/pkg/labels/selector.go), except that ">" and "<" are refused.
#pragma once
#include "base/formats/json.h"

int label_selector_check(const char *text, struct err *err); // E_CONFIG
// labels: an object of strings, or NULL. False if it is not valid, which label_selector_check() refuses.
bool label_selector_matches(const char *text, const json_t *labels);
