// SPDX-License-Identifier: Apache-2.0
#include "precompiled/repository/kind.h"

#include "base/core/str.h"

static const struct {
	const char *prefix, *scheme, *probe;
} kinds[] = {
#define X(kind, prefix, shown, scheme, probe, open) { prefix, scheme, probe },
	REPOSITORY_KINDS(X)
#undef X
		[REPOSITORY_UNKNOWN] = { "", NULL, NULL }
};

enum repository_kind repository_kind(const char *name)
{
	enum repository_kind kind = 0;
	while (!str_starts(name, kinds[kind].prefix))
		kind++;
	return kind;
}

bool repository_is_remote(const char *name)
{
	return kinds[repository_kind(name)].scheme;
}

char *repository_probe_url(const char *name)
{
	enum repository_kind kind = repository_kind(name);
	const char *rest = name + strlen(kinds[kind].prefix), *probe = kinds[kind].probe;
	if (!probe)
		return NULL;
	size_t len = *probe == '/' ? strcspn(rest, "/") : strlen(rest);
	return str_fmt("%s://%.*s%s%s", kinds[kind].scheme, (int)len, rest,
		       *probe == '/' || str_ends(rest, "/") ? "" : "/", probe);
}

const char *repository_path(const char *name, enum repository_kind kind)
{
	return repository_kind(name) == kind ? name + strlen(kinds[kind].prefix) : NULL;
}

char *repository_name(enum repository_kind kind, const char *path)
{
	return str_fmt("%s%s", kinds[kind].prefix, path);
}
