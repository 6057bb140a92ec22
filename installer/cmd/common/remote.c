// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/remote.h"

#include "base/http/proxy.h"

#define OPT(name, arg, env, type, member, help)                                       \
	{                                                                             \
		name, 0, arg, env, type, offsetof(struct remote_values, member), help \
	}

const struct opt remote_opts[] = {
	OPT("proxy", "URL", "KMODSMITH_PROXY", OPT_SECRET, proxy,
	    "proxy for remote sources; default: http_proxy, https_proxy, all_proxy; empty = none"),
	OPT("no-proxy", "LIST", "KMODSMITH_NO_PROXY", OPT_STR, no_proxy,
	    "hosts reached without proxy: names, addresses, CIDR ranges, each also with :PORT; default: no_proxy"),
	OPT("ca", "PATH", "KMODSMITH_CA", OPT_STR, ca,
	    "certificate authorities besides the system's and the site's: a PEM file or a directory of them"),
	OPT("auth-file", "FILE", "KMODSMITH_AUTH_FILE", OPT_STR, auth_file,
	    "credentials for registries: a config.json of docker, or podman's auth.json; default: those that docker or "
	    "podman login has stored, and the credential helpers that they name"),
	OPT("connect-timeout", "SECONDS", NULL, OPT_UINT, connect_timeout_s, "to reach a remote source; default 3"),
	OPT("stall-timeout", "SECONDS", NULL, OPT_UINT, stall_timeout_s,
	    "without a byte of a remote source; default 15. Less than 1 KiB/s for a minute is given up, too"),
	OPT("offline", NULL, "KMODSMITH_OFFLINE", OPT_FLAG, is_offline, "refuse remote sources; look up no name"),
	{ .help = "Network" },
};

enum { LEAST_RATE = 1024 };

static unsigned milliseconds(unsigned seconds)
{
	enum { DAY_S = 24 * 60 * 60 };
	return (seconds < DAY_S ? seconds : DAY_S) * 1000;
}

// Where the GPU Operator mounts a site's own authorities (contract 1.5). No program of the
// image has added them to the system's. A file without a certificate is only a warning: a ConfigMap may hold others.
static const struct {
	const char *dir, *suffix;
} places[] = {
	{ "usr/local/share/ca-certificates", ".crt" },
	{ "etc/pki/ca-trust/extracted/pem", ".pem" },
	{ "etc/pki/trust/anchors", "" },
};

static int trust_site_cas(const struct common *common, struct http *http, struct err *err)
{
	auto_root struct root self = ROOT_NONE;
	struct err why;
	if (root_init(&self, common->root ? common->root : "/", err) < 0)
		return -1;
	for (size_t p = 0; p < ARRAY_SIZE(places); p++) {
		auto_strv struct strv names = { 0 };
		root_list(&self, places[p].dir, &names, &why);
		for (size_t i = 0; i < names.count; i++) {
			auto_str char *below = str_fmt("%s/%s", places[p].dir, names.items[i]);
			auto_str char *path = root_path(&self, below);
			if (*names.items[i] == '.' || !str_ends(below, places[p].suffix))
				continue; // ".." names begin a ConfigMap's data
			if (http_trust(http, path, &why) < 0)
				log_warn("%s", why.text);
		}
	}
	return 0;
}

// Once: some commands come here again and again.
static void warn_of_exceptions(const struct remote_values *values)
{
	static bool is_said;
	auto_strv struct strv unusable = { 0 };
	proxy_unusable_exceptions(values->proxy, values->no_proxy, &unusable);
	if (unusable.count == 0 || is_said)
		return;
	auto_str char *entries = strv_join(&unusable, "', '");
	log_warn("%s: '%s' is no name, address or range, and matches no host",
		 values->no_proxy ? "--no-proxy" : "NO_PROXY", entries);
	is_said = true;
}

int remote_access_open(const struct remote_values *values, struct remote_access *ret, struct err *err)
{
	struct http_options options = { .proxy = values->proxy,
					.no_proxy = values->no_proxy,
					.ca = values->ca,
					.connect_ms = milliseconds(values->connect_timeout_s),
					.stall_ms = milliseconds(values->stall_timeout_s),
					.least_rate = LEAST_RATE };
	struct remote_access r = { .options = { .credentials = values->auth_file } };
	if (!values->is_offline && http_new(&options, &r.http, err) < 0)
		return -1;
	if (r.http && trust_site_cas(&values->common, r.http, err) < 0) {
		http_free(r.http);
		return -1;
	}
	if (r.http)
		warn_of_exceptions(values);
	r.options.http = r.http;
	*ret = r;
	return 0;
}

void remote_access_done(struct remote_access *r)
{
	http_free(r->http);
	*r = (struct remote_access){ 0 };
}
