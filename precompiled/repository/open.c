// SPDX-License-Identifier: Apache-2.0
// Which kind of repository a name means. A file of its own, so that code that uses an open repository does not link all
// kinds.
#include "precompiled/repository/repository.h"

static const struct {
	const char *prefix;
	bool is_remote;
} kinds[] = {
	{ "oci:", false },   { "oci-archive:", false }, { "https://", true },
	{ "http://", true }, { "docker://", true },     { "docker+http://", true },
};

bool repository_is_remote(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (str_starts(name, kinds[i].prefix))
			return kinds[i].is_remote;
	return false;
}

char *repository_probe_url(const char *name)
{
	if (!repository_is_remote(name))
		return NULL;
	if (str_starts(name, "http"))
		return str_fmt("%s%sindex.json", name, str_ends(name, "/") ? "" : "/");
	const char *host = strstr(name, "://") + strlen("://");
	return str_fmt("%s://%.*s/v2/", str_starts(name, "docker+http:") ? "http" : "https", (int)strcspn(host, "/"),
		       host);
}

// Of a name without a scheme, the one that its shape suggests; NULL = none.
static char *scheme_hint(const char *name)
{
	const char *slash = strchr(name, '/'), *dot = strpbrk(name, ".:");
	if (strstr(name, "://"))
		return NULL;
	if (*name == '/' || str_starts(name, "./") || str_starts(name, "../"))
		return str_fmt("; did you mean 'oci%s:%s'?", str_ends(name, ".tar") ? "-archive" : "", name);
	return slash && dot && dot < slash ? str_fmt("; did you mean 'docker://%s'?", name) : NULL;
}

int repository_open(const char *name, const struct repository_options *options, struct repository **ret,
		    struct err *err)
{
	if (repository_is_remote(name) && !options->http) {
		auto_str char *shown = http_url_shown(name);
		return err_set(err, E_OFFLINE, "'%s' is a remote repository", shown);
	}
	if (str_starts(name, "oci:"))
		return repository_open_layout(name + strlen("oci:"), ret, err);
	if (str_starts(name, "oci-archive:"))
		return repository_open_bundle(name + strlen("oci-archive:"), ret, err);
	if (str_starts(name, "http://") || str_starts(name, "https://"))
		return repository_open_http(name, options->http, ret, err);
	if (repository_is_remote(name))
		return repository_open_registry(name, options, ret, err);
	auto_str char *hint = scheme_hint(name);
	return err_set(err, E_USAGE, "'%s' is not a repository%s", name,
		       hint ? hint : ": use oci:DIR, oci-archive:FILE, https://HOST/PATH or docker://HOST/NAME");
}
