// SPDX-License-Identifier: Apache-2.0
// The tables of the policy, for a test that compares them with deploy/crd.yaml.
#pragma once
#include "cluster/policy/json_fields.h"
#include "cluster/policy/policy.h"

// All fields of the policy: policy_read() reads no others, and deploy/crd.yaml has all of them.
extern const struct field policy_fields[], pool_fields[], target_fields[], drain_fields[], breaker_fields[],
	validation_fields[];
extern const struct field wave_fields[], window_fields[];
void policy_span_fields(struct field ret[SPAN_COUNT + 1]); // of deadlines
extern const struct policy policy_defaults;                // of the cluster
extern const struct wave wave_defaults;
extern const struct pool pool_defaults; // besides the deadlines: span_defaults
