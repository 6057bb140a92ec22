// SPDX-License-Identifier: Apache-2.0
#include "base/formats/prometheus.h"

void prometheus_head(char **text, const char *name, const char *type, const char *help)
{
	str_add(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void prometheus_label(char **text, const char *name, const char *value, const char *after)
{
	str_add(text, "%s=\"", name);
	for (const char *c = value ? value : ""; *c; c++)
		if (*c == '\n')
			str_add(text, "\\n");
		else
			str_add(text, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	str_add(text, "\"%s", after);
}
