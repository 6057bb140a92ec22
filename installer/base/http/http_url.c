// SPDX-License-Identifier: Apache-2.0
#include "base/http/http_internal.h"

#include <strings.h>

// NULL without libcurl: then nothing is an address.
static CURLU *url_handle(void)
{
	struct err ignored;
	if (http_lib_load(&ignored) < 0)
		return NULL;
	CURLU *u = curl.url();
	if (!u)
		abort();
	return u;
}

static char *url_part(CURLU *u, CURLUPart part)
{
	char *text = NULL;
	unsigned flags = part == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0;
	if (curl.url_get(u, part, &text, flags) != CURLUE_OK)
		return NULL;
	char *ours = str_dup(text);
	curl.free(text);
	return ours;
}

bool http_origin_of(const char *url, struct http_origin *ret)
{
	struct http_origin o = { 0 };
	uint64_t port = 0;
	CURLU *u = url_handle();
	if (u && curl.url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK) {
		auto_str char *number = url_part(u, CURLUPART_PORT);
		o.scheme = url_part(u, CURLUPART_SCHEME);
		o.host = url_part(u, CURLUPART_HOST);
		str_u64(number ? number : "0", 10, &port);
		o.port = (unsigned)port;
	}
	if (u)
		curl.url_cleanup(u);
	if (o.host && *o.host && (str_eq(o.scheme, "http") || str_eq(o.scheme, "https"))) {
		*ret = o;
		return true;
	}
	http_origin_done(&o);
	return false;
}

void http_origin_done(struct http_origin *o)
{
	free(o->scheme);
	free(o->host);
	*o = (struct http_origin){ 0 };
}

bool http_is_same_origin(const char *a, const char *b)
{
	struct http_origin left = { 0 }, right = { 0 };
	bool is_same = http_origin_of(a, &left) && http_origin_of(b, &right) && str_eq(left.scheme, right.scheme) &&
		       strcasecmp(left.host, right.host) == 0 && left.port == right.port;
	http_origin_done(&left);
	http_origin_done(&right);
	return is_same;
}

char *http_url_shown(const char *url)
{
	CURLU *u = strstr(url, "://") ? url_handle() : NULL;
	char *text = NULL, *ours = NULL;
	if (u && curl.url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK) {
		static const CURLUPart hidden[] = { CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY,
						    CURLUPART_FRAGMENT };
		for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
			curl.url_set(u, hidden[i], NULL, 0);
		curl.url_get(u, CURLUPART_URL, &text, 0);
		ours = str_dup(text);
		curl.free(text);
	}
	if (u)
		curl.url_cleanup(u);
	const char *at = ours ? NULL : strrchr(url, '@'); // not a URL: show nothing that may be a password
	if (!ours)
		ours = str_dup(at ? at + 1 : url);
	size_t len = strlen(ours), given = strcspn(url, "?#");
	if (len > 0 && ours[len - 1] == '/' && given > 0 && url[given - 1] != '/') // added by libcurl, not by the user
		ours[len - 1] = '\0';
	return ours;
}

char *http_join(const char *base, const char *reference)
{
	CURLU *u = url_handle();
	if (!u)
		return NULL;
	bool is_good = curl.url_set(u, CURLUPART_URL, base, 0) == CURLUE_OK &&
		       curl.url_set(u, CURLUPART_URL, reference, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK;
	char *joined = is_good ? url_part(u, CURLUPART_URL) : NULL;
	curl.url_cleanup(u);
	return joined;
}

char *http_escape(const char *s)
{
	struct err ignored;
	if (http_lib_load(&ignored) < 0) // without libcurl there are no requests either
		return str_dup(s);
	char *text = curl.easy_escape(NULL, s, 0);
	if (!text)
		abort();
	char *ours = str_dup(text);
	curl.free(text);
	return ours;
}
