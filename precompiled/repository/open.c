// SPDX-License-Identifier: Apache-2.0
// Opens a repository of any kind. A file of its own, so that code that uses an open repository does not link all kinds.
#include "precompiled/repository/repository.h"

// Guesses the scheme of a name without one by its shape; NULL = none.
static char *scheme_hint(const char *name)
{
	const char *slash = strchr(name, '/'), *dot = strpbrk(name, ".:");
	auto_str char *likely = NULL;
	if (strstr(name, "://"))
		return NULL;
	if (*name == '/' || str_starts(name, "./") || str_starts(name, "../"))
		likely = repository_name(str_ends(name, ".tar") ? REPOSITORY_BUNDLE : REPOSITORY_LAYOUT, name);
	else if (slash && dot && dot < slash)
		likely = repository_name(REPOSITORY_REGISTRY, name);
	return likely ? str_fmt("; did you mean '%s'?", likely) : NULL;
}

int repository_open(const char *name, const struct repository_options *options, struct repository **ret,
		    struct err *err)
{
	static typeof(repository_open) *const open[] = {
#define X(kind, prefix, shown, scheme, probe, open) open,
		REPOSITORY_KINDS(X)
#undef X
	};
	enum repository_kind kind = repository_kind(name);
	bool is_remote = repository_is_remote(name);
	if (is_remote && !options->http) {
		auto_str char *shown = http_url_shown(name);
		return err_set(err, E_OFFLINE, "'%s' is a remote repository", shown);
	}
	if (kind != REPOSITORY_UNKNOWN)
		return open[kind](is_remote ? name : repository_path(name, kind), options, ret, err);
	auto_str char *hint = scheme_hint(name);
	return err_set(err, E_USAGE, "'%s' is not a repository%s", name, hint ? hint : ": use " REPOSITORY_NAMES);
}
