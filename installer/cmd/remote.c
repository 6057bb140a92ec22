// SPDX-License-Identifier: Apache-2.0
#include "cmd/remote.h"

#define OPT(name, arg, env, type, member, help)                                       \
	{                                                                             \
		name, 0, arg, env, type, offsetof(struct remote_values, member), help \
	}

const struct opt remote_opts[] = {
	OPT("proxy", "URL", "KMODSMITH_PROXY", OPT_STR, proxy,
	    "proxy for remote sources; default: http_proxy, https_proxy, all_proxy; empty = none"),
	OPT("no-proxy", "LIST", "KMODSMITH_NO_PROXY", OPT_STR, no_proxy,
	    "hosts reached without proxy: names, addresses, CIDR ranges, each also with :PORT; default: no_proxy"),
	OPT("ca", "PATH", "KMODSMITH_CA", OPT_STR, ca,
	    "certificate authorities besides the system's: a PEM file or a directory of them"),
	OPT("auth-file", "FILE", "KMODSMITH_AUTH_FILE", OPT_STR, auth_file,
	    "credentials for registries, as docker's config.json; default ~/.docker/config.json"),
	OPT("connect-timeout", "SECONDS", NULL, OPT_UINT, connect_timeout_s, "to reach a remote source; default 3"),
	OPT("stall-timeout", "SECONDS", NULL, OPT_UINT, stall_timeout_s,
	    "without a byte of a remote source; default 15"),
	OPT("offline", NULL, "KMODSMITH_OFFLINE", OPT_FLAG, is_offline, "refuse remote sources; look up no name"),
	{ 0 },
};

static unsigned milliseconds(unsigned seconds)
{
	enum { DAY_S = 24 * 60 * 60 };
	return (seconds < DAY_S ? seconds : DAY_S) * 1000;
}

int remote_open(const struct remote_values *values, struct remote *ret, struct err *err)
{
	struct http_options options = { .proxy = values->proxy,
					.no_proxy = values->no_proxy,
					.ca = values->ca,
					.connect_ms = milliseconds(values->connect_timeout_s),
					.stall_ms = milliseconds(values->stall_timeout_s) };
	struct remote r = { .options = { .credentials = values->auth_file } };
	if (!values->is_offline && http_new(&options, &r.http, err) < 0)
		return -1;
	r.options.http = r.http;
	*ret = r;
	return 0;
}

void remote_done(struct remote *r)
{
	http_free(r->http);
	*r = (struct remote){ 0 };
}
