// SPDX-License-Identifier: Apache-2.0
// The client's end of its watches: what comes, when, and what of it is broken on purpose.
#include "tests/sim/own.h"

#include <limits.h>

enum { SWAP_MS = 1000 }; // an event that is to come after the next one does not wait longer for it

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
	if (x->held && str_eq(x->held_key, x->watch->key)) // of one object the order is kept
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

// True = something has come.
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

bool sim_pump(struct http *h)
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
