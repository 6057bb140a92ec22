// SPDX-License-Identifier: Apache-2.0
// HTTP and HTTPS through libcurl: the only door to it, and one client for everything remote (R-L1).
//
// Proxies come from the options or the environment (http_proxy, https_proxy, all_proxy, no_proxy in both spellings;
// CIDR and host:port in no_proxy). TLS uses the system's authorities and those of the options. Redirects are followed,
// and credentials never go to another host, port or scheme. Deadlines: connect, a stall without data, and a minimum
// rate against servers that send a byte now and then. The total time is unlimited unless a call asks for a limit,
// because a slow mirror that makes progress should go on.
// Connections are kept and used again.
#pragma once
#include "base/core/err.h"

struct http_options {
	const char *proxy;    // NULL = by the environment; "" = none
	const char *no_proxy; // NULL = by the environment
	const char *ca;       // a PEM file or a directory of them, besides the system's; NULL = none
	unsigned connect_ms;  // 0 = 3000 (R-A10)
	unsigned stall_ms;    // 0 = 15000
	unsigned least_rate;  // bytes a second that a transfer moves in each rate_ms; 0 = any, as for an event stream
	unsigned rate_ms;     // 0 = 60000
	// For a service with an authority of its own. PEM texts, borrowed until http_new() returns.
	const char *authorities;       // the only trusted ones, not the system's; NULL = the system's and ca
	const char *certificate, *key; // of the client; never sent to another origin than the call's; NULL = none
	bool is_http1;                 // one call per connection, so that one that hangs blocks no other
};

struct http;
int http_new(const struct http_options *options, struct http **ret, struct err *err); // E_TLS: an invalid CA
// More authorities, like options.ca; before the first call. E_TLS: the file has none, and nothing changes.
int http_trust(struct http *h, const char *path, struct err *err);
void http_free(struct http *h);
static inline void http_freep(struct http **h)
{
	http_free(*h);
}
#define auto_http __attribute__((cleanup(http_freep)))

struct http_call {
	// The request. All borrowed until http_end(), except the credentials, which are copied.
	const char *method; // NULL = GET
	const char *url;
	const struct strv *headers;  // "Accept: X"; NULL = none
	const char *user, *password; // Basic; NULL = none
	const char *bearer;          // token; NULL = none
	uint64_t range_from;         // 0 = all; a server may ignore it: see status
	const void *body;            // NULL = body_fd
	int body_fd;                 // read from offset 0; -1 or 0 = no body
	uint64_t body_size;
	size_t max;                  // bytes kept in reply when there is no sink; more is E_TOO_LARGE
	unsigned stall_ms, total_ms; // 0 = the client's; 0 = no limit on the whole
	bool is_fresh;               // with a connection of its own
	// Bytes of a 2xx reply as they arrive; negative with err ends the call. status is set. NULL = kept in reply.
	int (*sink)(struct http_call *call, const void *data, size_t len, struct err *err);
	void *ctx;
	// The result.
	bool is_done;
	// .code 0 = a reply came, whatever its status; E_NETWORK E_TLS E_TIMEOUT E_TOO_LARGE, or the sink's
	struct err err;
	long status;
	const char *elsewhere; // the other origin that a redirect led to and that replied; NULL = the call's own
	char *reply;           // NUL-terminated; of an error status: its first 4 KiB
	size_t reply_len;
	void *own;
};
int http_begin(struct http *h, struct http_call *call, struct err *err);
// Advances every call, waiting at most that long for events.
int http_step(struct http *h, int wait_ms, struct err *err);
// Begins and steps until it is done; fails with call->err.
int http_run(struct http *h, struct http_call *call, struct err *err);
// A header of the last reply (not of a redirect), NULL = absent; borrowed until http_end.
const char *http_header(const struct http_call *call, const char *name);
const char *http_header_at(const struct http_call *call, const char *name, size_t i); // one of several of that name
void http_end(struct http_call *call); // whether it began or not, is done or not
#define auto_http_call __attribute__((cleanup(http_end)))
// An unsuccessful status as an error: E_AUTH (401, 403, 407), E_NOT_FOUND (404, 410), E_SERVER (429, 5xx),
// E_NETWORK (others). The message has the URL without credentials, and the first words of the reply. Always -1.
int http_status_error(const struct http_call *call, struct err *err);
char *http_escape(const char *s); // percent-encoded, for a query
// Resolves a Location or Link in base's reply; NULL = it means nothing.
char *http_join(const char *base, const char *reference);
bool http_is_same_origin(const char *a, const char *b); // scheme, host and port
char *http_url_shown(const char *url);                  // without credentials, query and fragment: for messages

// For `net check`: one request to each URL, layer by layer.
struct http_probe {       // zeroed by the caller
	char *proxy;      // used; NULL = direct
	char *address;    // connected to; NULL = not reached
	char *ca_subject; // of the certificate's issuer; NULL = plain HTTP or not reached
	long status;
	int code;          // of the failure before any reply came; 0 = there was one
	const char *layer; // that failed: "dns", "proxy", "tcp", "tls", "http"; NULL = none
	char *reason;
	unsigned ms;
};
int http_probe_all(struct http *h, const struct strv *urls, struct http_probe *ret, struct err *err); // side by side
void http_probe_done(struct http_probe *p);
