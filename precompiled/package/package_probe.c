// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/package_probe.h"

void package_probe(const struct strv *names, size_t first, const struct repository_options *options, struct err *ret)
{
	auto_strv struct strv urls = { 0 };
	struct err ignored; // an address that is none: whoever opens it says so
	for (size_t i = first; i < names->count; i++) {
		ret[i - first] = (struct err){ 0 };
		if (repository_is_remote(names->items[i]))
			strv_add(&urls, repository_probe_url(names->items[i]));
	}
	if (urls.count < 2 || !options->http)
		return;
	struct http_probe *probes = mem_alloc(urls.count * sizeof(*probes));
	bool is_known = http_probe_all(options->http, &urls, probes, &ignored) == 0;
	for (size_t i = first, at = 0; is_known && i < names->count; i++) {
		if (!repository_is_remote(names->items[i]))
			continue;
		struct err *e = &ret[i - first];
		if (probes[at].code)
			err_set(e, probes[at].code, "%s", probes[at].reason);
		http_probe_done(&probes[at++]);
	}
	free(probes);
}
