// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/target.h"

void target_name(struct target *t)
{
	auto_str char *payload = str_fmt("%s\n%s\n%s", t->driver, t->flavour, t->package ? t->package : "");
	t->target_hash = target_hash_make(payload, t->parameters);
}

void target_copy(const struct target *from, struct target *to)
{
	*to = *from;
	to->package = str_dup(from->package);
	to->parameters = str_dup(from->parameters);
}

void target_done(struct target *t)
{
	free(t->package);
	free(t->parameters);
	*t = (struct target){ 0 };
}

void target_params(const struct target *t, struct strv *ret)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, t->parameters ? t->parameters : "", "\n");
	for (size_t i = 0; i < lines.count; i++) {
		const char *line = lines.items[i];
		bool has_module = strcspn(line, ":") < strcspn(line, "=");
		strv_add(ret, str_fmt("%s%s", has_module ? "" : "nvidia:", line));
	}
}
