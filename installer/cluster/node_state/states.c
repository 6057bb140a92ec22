// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/states.h"

static const struct node_phase_info phases[PHASE_COUNT] = {
#define X(name, text, span, is_disruptive, mirrored) { text, span, is_disruptive, mirrored },
#include "cluster/node_state/states.def"
#undef X
	{ "unknown", SPAN_NONE, true, UPGRADE_NONE },
};

const char *const upgrade_words[UPGRADE_OTHER] = {
	[UPGRADE_NONE] = "",
#define STATE(ours, word) [ours] = (word),
#include "cluster/node_state/nvidia.def"
};
const char *const verb_names[VERB_COUNT] = { "none", "stage", "replace", "restore", "validate", "load" };
const char *const result_names[RESULT_COUNT] = { "none", "accepted", "done", "failed" };
const char *const failing_names[FAILING_COUNT] = { "none", "transient", "busy", "permanent" };

static const struct node_reason_info reasons[REASON_COUNT] = {
#define X(name, code, text, next) { code, text, next },
#include "cluster/node_state/reasons.def"
#undef X
};

const struct node_phase_info *node_phase_info(enum node_phase phase)
{
	return &phases[phase];
}

enum node_phase node_phase_parse(const char *text)
{
	for (enum node_phase p = 0; p < PHASE_UNKNOWN; p++)
		if (str_eq(phases[p].name, text))
			return p;
	return PHASE_UNKNOWN;
}

int node_name_index(const char *const *names, int count, const char *text, size_t len)
{
	for (int i = 0; i < count; i++)
		if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0)
			return i;
	return -1;
}

const struct node_reason_info *node_reason_info(enum reason_code code)
{
	return &reasons[code];
}

enum reason_code node_reason_parse(const char *code, size_t len)
{
	for (enum reason_code r = 0; r < REASON_COUNT; r++)
		if (strlen(reasons[r].code) == len && memcmp(reasons[r].code, code, len) == 0)
			return r;
	return REASON_COUNT;
}
