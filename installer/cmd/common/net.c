// SPDX-License-Identifier: Apache-2.0
// net check: each source, layer by layer, so that "it does not work here" becomes the name of a layer (R-L1).
#include "cmd/common/remote.h"

struct values {
	struct remote_values remote;
	struct strv from;
};

static const struct opt opts[] = {
	{ "from", 0, "NAME,...", "KMODSMITH_FROM", OPT_LIST, offsetof(struct values, from),
	  "repositories to look at when none is named as an argument" },
	{ 0 },
};

// A server that answers may not be a repository: ask for a manifest, which need not exist.
static void probe_repository(const char *name, const struct repository_options *options, struct http_probe *p)
{
	auto_repository struct repository *r = NULL;
	auto_str char *data = NULL;
	char digest[DIGEST_HEX + 1];
	size_t len;
	struct err err = { 0 };
	if (repository_open(name, options, &r, &err) == 0 &&
	    repository_manifest(r, "latest", &data, &len, digest, &err) >= 0)
		return;
	const char *layer = err.code == E_AUTH ? "auth" : err.code == E_OFFLINE ? "offline" : "content";
	p->layer = repository_is_remote(name) ? layer : "file";
	p->reason = str_dup(err.text);
}

static int probe_sources(const struct strv *names, const struct remote_access *remote, struct http_probe *ret,
			 struct err *err)
{
	auto_strv struct strv urls = { 0 };
	struct http_probe *probes = mem_alloc((names->count + 1) * sizeof(*probes));
	int r = 0;
	for (size_t i = 0; remote->http && i < names->count; i++)
		if (repository_is_remote(names->items[i]))
			strv_add(&urls, repository_probe_url(names->items[i]));
	if (urls.count)
		r = http_probe_all(remote->http, &urls, probes, err);
	for (size_t i = 0, at = 0; r == 0 && i < names->count; i++) {
		if (remote->http && repository_is_remote(names->items[i]))
			ret[i] = probes[at++];
		if (!ret[i].layer)
			probe_repository(names->items[i], &remote->options, &ret[i]);
	}
	free(probes);
	return r;
}

static void show_probe_table(const struct strv *names, const struct http_probe *probes)
{
	auto_strv struct strv rows = { 0 };
	strv_add(&rows, str_dup("SOURCE\tPROXY\tADDRESS\tAUTHORITY\tSTATUS\tMS\tRESULT"));
	for (size_t i = 0; i < names->count; i++) {
		const struct http_probe *p = &probes[i];
		auto_str char *name = http_url_shown(names->items[i]);
		auto_str char *status = p->status ? str_fmt("%ld", p->status) : str_dup("-");
		strv_add(&rows,
			 str_fmt("%s\t%s\t%s\t%s\t%s\t%u\t%s%s%s", name, p->proxy ? p->proxy : "-",
				 p->address ? p->address : "-", p->ca_subject ? p->ca_subject : "-", status, p->ms,
				 p->layer ? p->layer : "ok", p->layer ? ": " : "", p->layer ? p->reason : ""));
	}
	show_table(&rows);
}

static void show_probe_json(const struct strv *names, const struct http_probe *probes)
{
	auto_json json_t *list = json_array();
	for (size_t i = 0; i < names->count; i++) {
		const struct http_probe *p = &probes[i];
		auto_str char *name = http_url_shown(names->items[i]);
		json_array_append_new(
			list, json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:i, s:o, s:o}", "source", json_text(name),
					"ok", !p->layer, "proxy", json_text(p->proxy), "address", json_text(p->address),
					"authority", json_text(p->ca_subject), "status",
					p->status ? json_integer(p->status) : json_null(), "ms", (int)p->ms, "layer",
					json_text(p->layer), "reason", json_text(p->reason)));
	}
	auto_json json_t *whole = json_pack("{s:O}", "sources", list);
	show_json(whole);
}

static int run_net_check(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_remote_access struct remote_access remote = { 0 };
	struct strv given = { .items = args, .count = count };
	const struct strv *names = count ? &given : &v->from;
	bool is_well = true;
	if (names->count == 0)
		return err_set(err, E_USAGE, "no source is named, neither as an argument nor with --from");
	if (remote_access_open(&v->remote, &remote, err) < 0)
		return -1;
	struct http_probe *probes = mem_alloc(names->count * sizeof(*probes));
	int r = probe_sources(names, &remote, probes, err);
	if (r == 0 && v->remote.common.is_json)
		show_probe_json(names, probes);
	else if (r == 0)
		show_probe_table(names, probes);
	for (size_t i = 0; i < names->count; i++) {
		is_well = is_well && !probes[i].layer;
		http_probe_done(&probes[i]);
	}
	free(probes);
	return r < 0 ? -1 : is_well ? 0 : 1;
}

const struct cmd cmd_net_check = {
	.name = "net check",
	.args = "[NAME...]",
	.args_max = SIZE_MAX,
	.help = "can each source be reached, and which layer fails",
	.about = "Asks every source, side by side, and prints the proxy used, the address reached, the authority of\n"
		 "its certificate, its status, and the layer that fails: dns, proxy, tcp, tls, http, auth or content.\n"
		 "Exit status 0: all are well; 1: at least one is not.\n\n"
		 "  kmodsmith net check docker://registry.example/drivers\n",
	.opts = { opts, remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_net_check,
};
