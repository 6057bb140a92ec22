// SPDX-License-Identifier: Apache-2.0
// The vocabulary of the rollout as tables: states, verbs of the coordinator, answers of the agent, reasons.
// Source: upgrade-design 5.2, 5.3.
#pragma once
#include "base/core/str.h"

enum span { // durations, in the order of the policy's table
	SPAN_STAGE,
	SPAN_CORDON,
	SPAN_WAIT,
	SPAN_EVICT,
	SPAN_REPLACE,
	SPAN_VALIDATE,
	SPAN_RESTORE,
	SPAN_RELEASE,
	SPAN_ACK,     // for an answer; three of them are waited for
	SPAN_BACKOFF, // the first wait before another try; doubles up to SPAN_BACKOFF_MOST
	SPAN_BACKOFF_MOST,
	SPAN_BLOCKED,  // a drain without progress gives its slot back (T82)
	SPAN_DEADLOCK, // all drains blocked: the youngest gives way (T06)
	SPAN_MARGIN,   // what a window must have left
	SPAN_COUNT,
	SPAN_NONE = SPAN_COUNT
};

// Words of the label nvidia.com/gpu-driver-upgrade-state. All but upgrade-done start something: NVIDIA's upgrade
// controller continues from the state in the label, whoever wrote it (tests/sim/nvidia.def).
#define UPGRADE_LABEL "nvidia.com/gpu-driver-upgrade-state"
#define UPGRADE_ENABLED "nvidia.com/gpu-driver-upgrade-enabled" // an annotation
#define UPGRADE_SKIP "nvidia.com/gpu-driver-upgrade.skip"       // a label: the controller begins nothing there
// The receipt of our driver container, an annotation: while it says so, that label is ours (upgrade_hold.h).
#define UPGRADE_HOLD "kmodsmith.io/driver-upgrade-hold"
#define UPGRADE_HELD "\"state\":\"held\""
enum upgrade {
	UPGRADE_NONE, // the label is absent or empty
	UPGRADE_REQUIRED,
	UPGRADE_CORDON,
	UPGRADE_WAIT_FOR_JOBS,
	UPGRADE_POD_DELETION,
	UPGRADE_POD_RESTART,
	UPGRADE_VALIDATION,
	UPGRADE_UNCORDON,
	UPGRADE_DONE,
	UPGRADE_FAILED,
	UPGRADE_OTHER, // never written by any of our versions
};
extern const char *const upgrade_words[UPGRADE_OTHER];

enum node_phase {
#define X(name, ...) PHASE_##name,
#include "cluster/node_state/states.def"
#undef X
	PHASE_UNKNOWN, // the label has a value that is none of these (T13)
	PHASE_COUNT
};
struct node_phase_info {
	const char *name;
	enum span span;
	bool is_disruptive;
	enum upgrade mirrored; // by an earlier version
};
const struct node_phase_info *node_phase_info(enum node_phase phase);
enum node_phase node_phase_parse(const char *text); // PHASE_UNKNOWN for anything else

enum verb { VERB_NONE, VERB_STAGE, VERB_REPLACE, VERB_RESTORE, VERB_VALIDATE, VERB_LOAD, VERB_COUNT };
enum result { RESULT_NONE, RESULT_ACCEPTED, RESULT_DONE, RESULT_FAILED, RESULT_COUNT };
enum failing { FAILING_NONE, FAILING_TRANSIENT, FAILING_BUSY, FAILING_PERMANENT, FAILING_COUNT };
extern const char *const verb_names[VERB_COUNT], *const result_names[RESULT_COUNT], *const failing_names[FAILING_COUNT];
int node_name_index(const char *const *names, int count, const char *text, size_t len); // -1 = not found

enum reason_code {
#define X(name, ...) REASON_##name,
#include "cluster/node_state/reasons.def"
#undef X
	REASON_COUNT
};
struct node_reason_info {
	const char *code, *text, *next;
};
const struct node_reason_info *node_reason_info(enum reason_code code);
enum reason_code node_reason_parse(const char *code, size_t len); // REASON_COUNT for anything else
