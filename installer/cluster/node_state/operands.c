// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/operands.h"

#define PAUSED "paused-for-driver-upgrade"
const struct borrowed operands[] = {
#define OPERAND(name, is_last) { "nvidia.com/gpu.deploy." name, PAUSED, "true", is_last },
#include "cluster/node_state/nvidia.def"
	{ 0 },
};
_Static_assert(ARRAY_SIZE(operands) - 1 <= 16, "a node's record has a bit for each");

char *operand_pause(const char *value)
{
	if (!value || !*value || str_eq(value, "false") || strstr(value, PAUSED))
		return NULL;
	return str_eq(value, "true") ? str_dup(PAUSED) : str_fmt("%s_%s", value, PAUSED);
}

char *operand_resume(const char *value)
{
	const char *word = value ? strstr(value, PAUSED) : NULL;
	if (!word)
		return NULL;
	const char *end = word + strlen(PAUSED);
	while (word > value && word[-1] == '_')
		word--;
	auto_str char *rest = str_fmt("%.*s%s", (int)(word - value), value, word > value ? end : end + (*end == '_'));
	return *rest ? TAKE(rest) : str_dup("true");
}
