// SPDX-License-Identifier: Apache-2.0
// What an agent writes on its Node, key by key: what node_state_annotation() reads. Values of at most 256 bytes and
// nothing secret: holders of the driver appear only as the uids of their pods.
#pragma once
#include "cluster/agent/decide.h"

enum agent_key {
	AGENT_ACK,
	AGENT_LOADED,
	AGENT_STORE,
	AGENT_GPUS,
	AGENT_HOLDERS,
	AGENT_HEALTH,
	AGENT_BOOT,
	AGENT_TROUBLE, // why it starts nothing, for users: no coordinator reads it
	AGENT_KEYS
};
extern const char *const agent_key_names[AGENT_KEYS];

enum { AGENT_SCHEMA = 1, AGENT_VALUE = KEY_VALUE_MOST + 1 };
struct agent_annotations {
	char value[AGENT_KEYS][AGENT_VALUE]; // "" = absent
};
void agent_annotations(const struct agent_journal *j, const struct agent_facts *f, const struct agent_holders *h,
		       const char *boot, struct agent_annotations *ret);
