// SPDX-License-Identifier: Apache-2.0
// http.h with the simulated server at the other end of every connection. A call takes its time on the way there,
// is served, and takes as long on its way back; others who wait for the same moment get their turn meanwhile.
#include "tests/sim/own.h"

#include <limits.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

enum { ERROR_MOST = 4096 };

int http_new(const struct http_options *options, struct http **ret, struct err *err)
{
	(void)options;
	if (!sim_current())
		return err_set(err, E_NETWORK, "there is no simulated server");
	*ret = mem_alloc(sizeof(**ret));
	(*ret)->sim = sim_current();
	return 0;
}

void http_free(struct http *h)
{
	while (h && h->first)
		http_end(h->first->call);
	free(h);
}

int sim_fail(struct http_call *call, int code, const char *what)
{
	err_set(&call->err, code, "%s: %s", call->url, what);
	call->is_done = true;
	call->status = 0;
	return -1;
}

int sim_feed(struct http_call *call, const char *text, size_t len)
{
	enum { PIECE = 509 }; // as a network would cut it
	for (size_t at = 0; at < len; at += PIECE) {
		if (call->sink(call, text + at, len - at < PIECE ? len - at : PIECE, &call->err) == 0)
			continue;
		call->is_done = true;
		return -1;
	}
	return 0;
}

static void give_answer(struct exchange *x, const struct sim_answer *a)
{
	struct http_call *call = x->call;
	auto_str char *text = a->reply ? json_dumps(a->reply, JSON_COMPACT) : str_dup("");
	size_t len = a->is_cut ? strlen(text) / 2 : strlen(text);
	struct tm tm;
	time_t now = (time_t)sim_time(x->http->sim);
	call->status = a->status;
	strftime(x->date, sizeof(x->date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
	if (a->retry_s)
		snprintf(x->retry, sizeof(x->retry), "%u", a->retry_s);
	bool is_good = a->status / 100 == 2;
	if (is_good && !call->sink && len > call->max) {
		sim_fail(call, E_TOO_LARGE, "more than it may be");
	} else if (is_good && call->sink) {
		sim_feed(call, text, len);
		call->is_done = true;
	} else {
		call->reply = str_ndup(text, is_good || len < ERROR_MOST ? len : ERROR_MOST);
		call->reply_len = strlen(call->reply);
		call->is_done = true;
	}
}

static const char *type_of(const struct http_call *call)
{
	static const char name[] = "Content-Type: ";
	for (size_t i = 0; call->headers && i < call->headers->count; i++) {
		if (str_starts(call->headers->items[i], name))
			return call->headers->items[i] + strlen(name);
	}
	return NULL;
}

// There, and back, as far as the caller waits.
static void wait_travel_time(struct exchange *x)
{
	struct sim *s = x->http->sim;
	struct http_call *call = x->call;
	const char *host = strstr(call->url, "://"), *path = host ? strchr(host + 3, '/') : NULL;
	auto_sim_path struct sim_path p = { 0 };
	auto_sim_answer struct sim_answer a = { 0 };
	long limit = call->total_ms ? (long)call->total_ms : LONG_MAX;
	auto_json json_t *body = call->body_size ? json_loadb(call->body, call->body_size, 0, NULL) : NULL;
	sim_pass(s->o.call_ms / 2);
	struct sim_request r = { .client = x->client,
				 .method = call->method ? call->method : "GET",
				 .path = path ? path : "/",
				 .type = type_of(call),
				 .body = body };
	sim_exchange(s, &r, &p, &a);
	bool is_stream = str_eq(r.verb, "watch") && a.status == 200;
	// Nobody waits for the beginning of a stream.
	long took = is_stream ? 0 : a.took_ms == LONG_MAX ? LONG_MAX : a.took_ms + s->o.call_ms - s->o.call_ms / 2;
	sim_pass(took < limit ? took : limit);
	if (!is_stream) // one loop serves all connections of a client: events come while it waits for an answer
		sim_pump(x->http);
	if (a.status && took < limit && is_stream) {
		call->status = 200;
		x->watch = sim_watch_new(s, &p);
		sim_fault_stream(s, x->client, x->watch);
	} else if (a.status && took < limit) {
		give_answer(x, &a);
	} else {
		sim_fail(call, a.code ? a.code : E_TIMEOUT, a.code ? "the connection ended" : "no answer in time");
	}
	sim_note(s, &r, call->status);
}

int http_begin(struct http *h, struct http_call *call, struct err *err)
{
	(void)err;
	struct exchange *x = mem_alloc(sizeof(*x));
	*x = (struct exchange){ .http = h,
				.call = call,
				.next = h->first,
				.client = str_dup(call->bearer ? call->bearer : ""),
				.begin_ms = sim_now_ms() };
	h->first = x;
	call->own = x;
	call->is_done = false;
	call->err = (struct err){ 0 };
	call->status = 0;
	call->reply = NULL;
	call->reply_len = 0;
	wait_travel_time(x);
	return 0;
}

int http_run(struct http *h, struct http_call *call, struct err *err)
{
	if (http_begin(h, call, err) < 0)
		return -1;
	while (!call->is_done && http_step(h, 1000, err) == 0)
		;
	if (call->err.code == 0)
		return 0;
	*err = call->err;
	return -1;
}

const char *http_header(const struct http_call *call, const char *name)
{
	const struct exchange *x = call->own;
	if (x && *x->date && strcasecmp(name, "Date") == 0)
		return x->date;
	return x && *x->retry && strcasecmp(name, "Retry-After") == 0 ? x->retry : NULL;
}

void http_end(struct http_call *call)
{
	struct exchange *x = call->own;
	if (x) {
		struct exchange **at = &x->http->first;
		while (*at != x)
			at = &(*at)->next;
		*at = x->next;
		sim_watch_free(x->watch);
		free(x->client);
		free(x->held);
		free(x->held_key);
		free(x);
	}
	call->own = NULL;
	free(TAKE(call->reply));
	call->reply_len = 0;
}
