// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for a few texts, such as metrics: GET and HEAD, through libmicrohttpd, which is loaded when a
// server is opened. Nothing is read from a request but its method, path and whence it comes. A connection carries one
// request, and no client keeps others from being answered, however slow it is.
#pragma once
#include "base/core/err.h"

struct http_server_request {
	const char *path;    // without the query
	const char *address; // of the client, without its port; of IPv6 the network, /64
};
struct http_server_answer {
	unsigned status;  // 200, 404, ...
	const char *type; // NULL = text/plain
	char *text;       // is freed
};

struct http_server_options {
	const char *listen;            // as http_server_parse() takes it
	const char *certificate, *key; // PEM texts; NULL = no TLS
	void (*answer)(void *ctx, const struct http_server_request *request, struct http_server_answer *ret);
	void *ctx;
	unsigned head_ms; // in which the head of a request is whole
};

struct http_server;
// "PORT" listens on the loopback address, ":PORT" on all, "ADDRESS:PORT" and "[ADDRESS]:PORT" on that one, which
// is no name. ret_address: NULL = every address; caller frees. E_USAGE.
int http_server_parse(const char *listen, char **ret_address, unsigned *ret_port, struct err *err);
// It listens from here on, and answers once it is started: in between its owner can give up rights. E_NOT_FOUND: there
// is no libmicrohttpd, or it has no TLS.
int http_server_open(const struct http_server_options *options, struct http_server **ret, struct err *err);
// options.answer is called in a thread, one at a time, with the signals blocked that are blocked now.
int http_server_start(struct http_server *s, struct err *err); // E_USAGE: certificate and key are none
// From now on new connections get this certificate; those that there are go on with theirs for HTTP_SERVER_DRAIN_MS.
// E_USAGE as above: nothing has changed.
int http_server_renew(struct http_server *s, const char *certificate, const char *key, struct err *err);
enum { HTTP_SERVER_DRAIN_MS = 20000 };
void http_server_tidy(struct http_server *s);       // ends connections whose time is over; to be called now and then
char *http_server_url(const struct http_server *s); // "http://127.0.0.1:9477": with the port that it got; caller frees
void http_server_close(struct http_server *s);
static inline void http_server_closep(struct http_server **s)
{
	http_server_close(*s);
}
#define auto_http_server __attribute__((cleanup(http_server_closep)))
