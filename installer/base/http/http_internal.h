// SPDX-License-Identifier: Apache-2.0
// What the files of the HTTP client share.
#pragma once
#include "base/http/http.h"
#include "base/http/http_lib.h"

struct http {
	CURLM *multi;
	char *proxy, *no_proxy;
	unsigned connect_ms, stall_ms, least_rate, rate_ms;
	struct http_tls *tls; // NULL = the system's authorities only
	char *certificate, *key;
	bool is_http1;
	struct transfer *transfers;
};

struct http_origin {
	char *scheme, *host;
	unsigned port;
};

struct transfer { // a call on its way: one request, and one more for each redirect
	struct http *http;
	struct http_call *call;
	struct transfer *next;
	CURL *easy;
	struct curl_slist *headers;
	char *url, *proxy;              // of this request; proxy NULL = direct
	struct http_origin origin;      // of url
	char *user, *password, *bearer; // the call's
	char problem[CURL_ERROR_SIZE];
	char *issuer;           // of the server's certificate
	const char *layer;      // that failed; NULL = none
	long start_ms, last_ms; // last_ms: when a byte moved last
	long window_ms;         // when the bytes in moved began to be counted
	uint64_t moved;
	uint64_t body_at;
	size_t dropped; // bytes of an error's text that are not kept
	unsigned redirects;
	bool is_enough;    // the rest of the reply was refused on purpose
	bool is_elsewhere; // redirected away from where the credentials belong
	bool is_added;
};

// http.c
enum { HTTP_WAIT_MS = 1000 }; // of one http_step() in a call that is waited for

// http_url.c
bool http_origin_of(const char *url, struct http_origin *ret); // false = not an http or https address
void http_origin_done(struct http_origin *o);

// http_tls.c
int http_tls_add(const char *path, struct http_tls **tls, struct err *err); // *tls: NULL at first; made
int http_tls_only(const char *pem, struct http_tls **tls, struct err *err); // only these
void http_tls_free(struct http_tls *tls);
void http_tls_attach(struct transfer *t);
