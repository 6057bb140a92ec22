// SPDX-License-Identifier: Apache-2.0
// Implements http.h with the simulated server at the other end of every connection. A call takes time to get there, is
// served, and takes as long to return; others run meanwhile.
#include "tests/sim/sim_internal.h"

#include <limits.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

// The client's end of its watches: events, their delay, and injected faults.

enum { SWAP_MS = 1000 }; // a swapped event does not wait longer for the next one

// A call, or a watch, of a client.
struct exchange {
	struct http *http;
	struct http_call *call;
	struct exchange *next;
	char *client;
	char date[64], retry[16]; // headers; "" = none
	struct sim_watch *watch;  // NULL = a call, whose answer is complete
	long begin_ms, held_ms;
	char *held, *held_key; // an event that is delivered after the next one
	bool was_parted;
};
struct http {
	struct sim *sim;
	struct exchange *first;
};

static int sim_fail(struct http_call *call, int code, const char *what)
{
	err_set(&call->err, code, "%s: %s", call->url, what);
	call->is_done = true;
	call->status = 0;
	return -1;
}

static int sim_feed(struct http_call *call, const char *text, size_t len)
{
	enum { PIECE = 509 }; // chunks, as from a network
	for (size_t at = 0; at < len; at += PIECE) {
		if (call->sink(call, text + at, len - at < PIECE ? len - at : PIECE, &call->err) == 0)
			continue;
		call->is_done = true;
		return -1;
	}
	return 0;
}

static void put_event(struct exchange *x, const char *text)
{
	if (!x->call->is_done)
		sim_feed(x->call, text, strlen(text));
}

static void put_held_event(struct exchange *x)
{
	auto_str char *text = TAKE(x->held);
	free(TAKE(x->held_key));
	if (text)
		put_event(x, text);
}

static void hold_event(struct exchange *x, char *take)
{
	x->held = take;
	x->held_key = str_dup(x->watch->key);
	x->held_ms = sim_now_ms();
}

static void deliver_event(struct exchange *x, char *take)
{
	auto_str char *text = take;
	const struct sim_fault *f = sim_fault_hit(x->http->sim, x->client, NULL, x->watch->path.kind->resource, NULL);
	if (x->held && str_eq(x->held_key, x->watch->key)) // events of one object stay in order
		put_held_event(x);
	switch (f ? f->what : SIM_NOTHING) {
	case SIM_WATCH_SWAP:
		if (!x->held)
			return hold_event(x, TAKE(text));
		break;
	case SIM_WATCH_DROP:
		if (sim_feed(x->call, text, strlen(text) / 2) == 0)
			sim_fail(x->call, E_NETWORK, "the connection ended");
		return;
	case SIM_WATCH_GONE:
		free(TAKE(text));
		text = sim_watch_too_old(x->watch);
		break;
	case SIM_WATCH_TWICE:
		put_event(x, text);
		break;
	default:
		break;
	}
	put_event(x, text);
	put_held_event(x);
}

// True = there is new data.
static bool pump_stream(struct exchange *x)
{
	char *text;
	bool has_come = false;
	struct http_call *call = x->call;
	if (!x->watch || call->is_done)
		return false;
	if (call->total_ms && sim_now_ms() - x->begin_ms >= (long)call->total_ms) {
		sim_fail(call, E_TIMEOUT, "it lasts too long");
		return true;
	}
	x->was_parted = x->was_parted || sim_parted(x->http->sim, x->client, NULL);
	if (x->was_parted && sim_parted(x->http->sim, x->client, NULL))
		return false;
	if (x->was_parted) {
		sim_fail(call, E_NETWORK, "the connection was lost");
		return true;
	}
	while (!call->is_done && (text = sim_watch_next(x->watch))) {
		deliver_event(x, text);
		has_come = true;
	}
	if (x->held && (x->watch->is_over || sim_now_ms() >= x->held_ms + SWAP_MS)) {
		put_held_event(x);
		has_come = true;
	}
	call->is_done = call->is_done || x->watch->is_over;
	return has_come || call->is_done;
}

static long stream_due(const struct exchange *x)
{
	long due = LONG_MAX;
	if (!x->watch || x->call->is_done || sim_parted(x->http->sim, x->client, &due))
		return due;
	due = sim_watch_due(x->watch);
	if (x->held && x->held_ms + SWAP_MS < due)
		due = x->held_ms + SWAP_MS;
	if (x->call->total_ms && x->begin_ms + (long)x->call->total_ms < due)
		due = x->begin_ms + (long)x->call->total_ms;
	return due;
}

static bool sim_pump(struct http *h)
{
	bool has_come = false;
	for (struct exchange *x = h->first; x; x = x->next)
		has_come = pump_stream(x) || has_come;
	return has_come;
}

int http_step(struct http *h, int wait_ms, struct err *err)
{
	(void)err;
	long until = sim_now_ms() + wait_ms;
	for (;;) {
		long next = until;
		if (sim_pump(h) || sim_now_ms() >= until)
			return 0;
		for (const struct exchange *x = h->first; x; x = x->next)
			next = stream_due(x) < next ? stream_due(x) : next;
		sim_clock_step(next > sim_now_ms() ? next : sim_now_ms() + 1);
	}
}

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

// Request and answer, unless the caller's timeout is earlier.
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
	// The caller does not wait for the beginning of a stream.
	long took = is_stream ? 0 : a.took_ms == LONG_MAX ? LONG_MAX : a.took_ms + s->o.call_ms - s->o.call_ms / 2;
	sim_pass(took < limit ? took : limit);
	if (!is_stream) // one loop serves all connections of a client: events arrive while it waits for an answer
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
