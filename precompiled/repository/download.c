// SPDX-License-Identifier: Apache-2.0
// Downloads a blob into its part, starting where the part ends. A server that ignores the range sends all of it again:
// bytes that the part has are skipped and not overwritten, because they may be in use already; the digest decides in
// the end. An interrupted download is resumed: always after much progress, a few times after little, never after none.
#include "precompiled/repository/retry.h"

enum { CUTS = 5, MUCH = 64 << 10, STEP_MS = 500 };

struct download {
	struct download *next;
	struct remote_repository *remote;
	struct blob_transfer *transfer;
	char *url;
	struct http_call call;
	struct attempt attempt;
	bool is_running, is_first; // no byte of this attempt has arrived yet
	uint64_t from;             // part->have when this attempt began
	uint64_t skip;             // bytes to skip that the part already has
	bool is_whole;             // the server rejects valid ranges: request the whole blob
	unsigned cuts;
};

// "bytes 100-199/200". A range that starts earlier than requested does no harm.
static int range_begin(const struct http_call *call, uint64_t *ret, struct err *err)
{
	static const char UNIT[] = "bytes ";
	const char *text = http_header(call, "Content-Range");
	auto_str char *number = NULL;
	if (text && str_starts(text, UNIT))
		number = str_ndup(text + strlen(UNIT), strcspn(text + strlen(UNIT), "-"));
	if (number && str_u64(number, 10, ret) && *ret <= call->range_from)
		return 0;
	auto_str char *shown = http_url_shown(call->url);
	return err_set(err, E_NETWORK, "%s: requested bytes from %llu, got Content-Range '%s'", shown,
		       (unsigned long long)call->range_from, text ? text : "");
}

static int on_download_data(struct http_call *call, const void *data, size_t len, struct err *err)
{
	struct download *p = call->ctx;
	struct partial_blob *part = p->transfer->part;
	if (p->is_first) {
		uint64_t begin = 0;
		if (call->status == 206 && range_begin(call, &begin, err) < 0)
			return -1;
		p->skip = part->have - begin;
		p->is_first = false;
	}
	size_t passed = p->skip < len ? (size_t)p->skip : len;
	p->skip -= passed;
	return len > passed ? partial_blob_append(part, (const char *)data + passed, len - passed, err) : 0;
}

static void finish_download(struct download *p, const struct err *why)
{
	if (why)
		p->transfer->err = *why;
	p->transfer->is_done = true;
	p->is_running = false;
	http_end(&p->call);
}

static void start_download(struct download *p)
{
	struct err err;
	const struct partial_blob *part = p->transfer->part;
	http_end(&p->call);
	p->from = part->have;
	p->is_first = true;
	p->call = (struct http_call){
		.url = p->url, .range_from = p->is_whole ? 0 : part->have, .sink = on_download_data, .ctx = p
	};
	if (p->remote->prepare)
		p->remote->prepare(p->remote, &p->call);
	p->is_running = true;
	if (http_begin(p->remote->http, &p->call, &err) < 0)
		finish_download(p, &err);
}

// A reply that ended without error before the last byte is interrupted as well.
static bool is_short(const struct download *p)
{
	return p->call.err.code == 0 && p->call.status / 100 == 2 && p->transfer->part->have < p->transfer->part->size;
}

static void handle_reply(struct download *p)
{
	struct http_call *c = &p->call;
	const struct partial_blob *part = p->transfer->part;
	struct err err = c->err;
	unsigned ms = 0;
	uint64_t gain = part->have - p->from;
	bool is_cut = c->err.code == E_NETWORK || c->err.code == E_TIMEOUT;
	if ((is_cut || is_short(p)) && gain && (gain >= MUCH || p->cuts++ < CUTS)) {
		start_download(p);
		return;
	}
	if (c->err.code == 0 && c->status == 416 && part->have < part->size && !p->is_whole) {
		p->is_whole = true;
		start_download(p);
		return;
	}
	// The server has nothing after the last byte of the part: its digest tells whether that is right.
	bool is_end = c->status == 416 || part->have == part->size || (p->is_whole && !gain);
	if (c->err.code == 0 && (c->status == 416 || c->status / 100 == 2) && is_end) {
		finish_download(p, NULL);
		return;
	}
	int r = c->err.code ? 0 : retry_is_due(p->remote, c, &p->attempt, &ms, &err);
	if (r > 0) {
		http_end(c);
		if (retry_wait(p->remote, ms, &err) < 0)
			finish_download(p, &err);
		else
			start_download(p);
		return;
	}
	if (r == 0 && is_short(p))
		err_set(&err, E_NETWORK, "%s: received %llu of %llu bytes", p->url, (unsigned long long)part->have,
			(unsigned long long)part->size);
	else if (r == 0 && err.code == 0)
		http_status_error(c, &err);
	finish_download(p, &err);
}

int download_begin(struct remote_repository *r, struct blob_transfer *t, const char *url, struct err *err)
{
	(void)err;
	struct download *p = mem_alloc(sizeof(*p));
	*p = (struct download){ .next = r->downloads, .remote = r, .transfer = t, .url = str_dup(url) };
	r->downloads = p;
	t->own = p;
	if (t->part->is_committed || t->part->have == t->part->size)
		t->is_done = true;
	else
		start_download(p);
	return 0;
}

int download_step(struct repository *repository, struct err *err)
{
	struct remote_repository *r = (struct remote_repository *)repository;
	if (http_step(r->http, STEP_MS, err) < 0)
		return -1;
	for (struct download *p = r->downloads; p; p = p->next)
		if (p->is_running && p->call.is_done)
			handle_reply(p);
	return 0;
}

void download_end(struct repository *repository, struct blob_transfer *t)
{
	struct remote_repository *r = (struct remote_repository *)repository;
	struct download *p = t->own;
	struct download **at = &r->downloads;
	if (!p)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	http_end(&p->call);
	free(p->url);
	free(p);
	t->own = NULL;
}
