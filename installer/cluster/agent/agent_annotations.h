// SPDX-License-Identifier: Apache-2.0
// What an agent writes on its Node, key by key: what node_state_annotation() reads. Values of at most 256 bytes,
// nothing secret: of those who hold the driver only the uids of their pods.
#pragma once
#include "cluster/agent/decide.h"

enum agent_key {
	AGENT_ACK,
	AGENT_LOADED,
	AGENT_STORE,
	AGENT_HOLDERS,
	AGENT_HEALTH,
	AGENT_BOOT,
	AGENT_TROUBLE, // why it begins nothing, for people: no coordinator reads it
	AGENT_KEYS
};
extern const char *const agent_key_names[AGENT_KEYS];

enum { AGENT_SCHEMA = 1, AGENT_VALUE = KEY_VALUE_MOST + 1 };
struct agent_annotations {
	char value[AGENT_KEYS][AGENT_VALUE]; // "" = nothing is said
};
void agent_annotations(const struct agent_journal *j, const struct agent_facts *f, const struct agent_holders *h,
		       const char *boot, struct agent_annotations *ret);
