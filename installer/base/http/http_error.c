// SPDX-License-Identifier: Apache-2.0
// What went wrong, and in which layer: name, proxy, connection, certificate or HTTP. That is the question of everybody
// whose node cannot reach its source.
#include "base/http/http_internal.h"

#include <ctype.h>

static const struct {
	CURLcode curl;
	int code;
	const char *layer; // NULL = the time line tells
} table[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, E_NETWORK, "dns" },
	{ CURLE_COULDNT_RESOLVE_PROXY, E_NETWORK, "proxy" },
	{ CURLE_PROXY, E_NETWORK, "proxy" },
	{ CURLE_COULDNT_CONNECT, E_NETWORK, "tcp" },
	{ CURLE_OPERATION_TIMEDOUT, E_TIMEOUT, NULL },
	{ CURLE_SSL_CONNECT_ERROR, E_TLS, "tls" },
	{ CURLE_PEER_FAILED_VERIFICATION, E_TLS, "tls" },
	{ CURLE_SSL_CERTPROBLEM, E_TLS, "tls" },
	{ CURLE_SSL_CIPHER, E_TLS, "tls" },
	{ CURLE_SSL_CACERT_BADFILE, E_TLS, "tls" },
	{ CURLE_SSL_ISSUER_ERROR, E_TLS, "tls" },
	{ CURLE_SSL_INVALIDCERTSTATUS, E_TLS, "tls" },
	{ CURLE_SSL_ENGINE_NOTFOUND, E_TLS, "tls" },
};

// How far did it get?
static const char *layer_reached(CURL *easy)
{
	static const struct {
		CURLINFO info;
		const char *layer;
	} marks[] = {
		{ CURLINFO_NAMELOOKUP_TIME_T, "dns" },
		{ CURLINFO_CONNECT_TIME_T, "tcp" },
		{ CURLINFO_PRETRANSFER_TIME_T, "tls" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		curl_off_t at = 0;
		curl.easy_getinfo(easy, marks[i].info, &at);
		if (at == 0)
			return marks[i].layer;
	}
	return "http";
}

static const char *layer_of(const struct transfer *t, const char *layer)
{
	long connected = 0;
	curl.easy_getinfo(t->easy, CURLINFO_HTTP_CONNECTCODE, &connected);
	layer = layer ? layer : layer_reached(t->easy);
	// What could not be looked up or connected to is the proxy where there is one.
	if (t->proxy && (connected >= 300 || str_eq(layer, "dns") || str_eq(layer, "tcp")))
		return "proxy";
	return layer;
}

static void fail_call(struct transfer *t, int code, const char *why)
{
	auto_str char *url = http_url_shown(t->call->url), *now = http_url_shown(t->url), *more = str_dup("");
	if (!str_eq(url, now))
		str_add(&more, ", redirected to %s", now);
	if (t->proxy) {
		auto_str char *proxy = http_url_shown(t->proxy);
		str_add(&more, ", through the proxy %s", proxy);
	}
	if (code == E_TLS && t->issuer)
		str_add(&more, "; the authority that issued it is '%s' (--ca FILE adds one)", t->issuer);
	err_set(&t->call->err, code, "%s (%s): %s%s", url, t->layer, why, more);
}

void http_error_curl(struct transfer *t, CURLcode code)
{
	int ours = E_NETWORK;
	const char *layer = "http";
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].curl == code) {
			ours = table[i].code;
			layer = table[i].layer;
		}
	}
	t->layer = layer_of(t, layer);
	fail_call(t, ours, t->problem[0] ? t->problem : curl.easy_strerror(code));
}

void http_error_stall(struct transfer *t)
{
	const struct http_call *c = t->call;
	const struct http *h = t->http;
	auto_str char *why = t->is_slow ? str_fmt("only %llu bytes in %u ms, less than %u a second",
						  (unsigned long long)t->moved, h->rate_ms, h->least_rate) :
			     t->is_late ? str_fmt("not done after %u ms", c->total_ms) :
					  str_fmt("not a byte for %u ms", c->stall_ms ? c->stall_ms : h->stall_ms);
	t->layer = "http";
	fail_call(t, E_TIMEOUT, why);
}

// What a reply says, on one line; an HTML page or binary data does no harm.
static char *first_words(const struct http_call *c)
{
	enum { WORDS = 160 };
	size_t len = c->reply_len < WORDS ? c->reply_len : WORDS;
	char *text = str_ndup(c->reply ? c->reply : "", len);
	for (char *p = text; *p; p++)
		if (!isprint((unsigned char)*p))
			*p = ' ';
	return text;
}

static int code_of_status(long status)
{
	switch (status) {
	case 401:
	case 403:
	case 407:
		return E_AUTH;
	case 404:
	case 410:
		return E_NOT_FOUND;
	case 429:
		return E_SERVER;
	default:
		return status >= 500 ? E_SERVER : E_NETWORK;
	}
}

int http_status_error(const struct http_call *call, struct err *err)
{
	auto_str char *url = http_url_shown(call->url), *text = first_words(call);
	const char *words = str_trim(text), *method = call->method ? call->method : "GET";
	auto_str char *elsewhere = call->elsewhere ? http_url_shown(call->elsewhere) : NULL;
	return err_set(err, code_of_status(call->status), "%s %s: %s%s%sstatus %ld%s%s", method, url,
		       elsewhere ? "redirected to " : "", elsewhere ? elsewhere : "", elsewhere ? ": " : "",
		       call->status, *words ? ": " : "", words);
}
