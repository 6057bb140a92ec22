// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/nvidia.h"

const struct nvidia_source nvidia_sources[] = {
#define SOURCE(repository, version, commit, date) { repository, version, commit, date },
#include "cluster/node_state/nvidia.def"
	{ 0 },
};

const struct nvidia_input nvidia_inputs[] = {
#define INPUT(kind, name, is_used, text) { INPUT_##kind, name, text, is_used },
#include "cluster/node_state/nvidia.def"
	{ 0 },
};

char *nvidia_sources_text(void)
{
	char *text = NULL;
	for (const struct nvidia_source *s = nvidia_sources; s->repository; s++)
		str_add(&text, "%s%s %s (%s, %s)", text ? ", " : "", s->repository, s->version, s->commit, s->date);
	return text;
}
