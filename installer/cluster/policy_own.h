// SPDX-License-Identifier: Apache-2.0
// Inside policy_parse: the parts of a pool that are lists.
#pragma once
#include "cluster/fields.h"
#include "cluster/policy.h"

enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR, MONTH = 30 * DAY };

// "key=value" of a selector as bits; each text once in terms.
int policy_terms(const json_t *object, const char *path, struct strv *terms, uint64_t *ret, struct err *err);
int policy_waves(const json_t *object, const char *path, struct strv *terms, struct pool *pool, struct err *err);
int policy_windows(const json_t *object, const char *path, struct pool *pool, struct err *err);
