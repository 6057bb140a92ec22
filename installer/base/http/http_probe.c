// SPDX-License-Identifier: Apache-2.0
// Can a server be reached, and which layer fails?
#include "base/http/http_internal.h"

static void fill_probe(const struct http_call *call, struct http_probe *ret)
{
	const struct transfer *t = call->own;
	char *ip = NULL;
	long port = 0;
	*ret = (struct http_probe){ .status = call->status,
				    .layer = t->layer,
				    .ca_subject = str_dup(t->issuer),
				    .proxy = t->proxy ? http_url_shown(t->proxy) : NULL };
	curl.easy_getinfo(t->easy, CURLINFO_PRIMARY_IP, &ip);
	curl.easy_getinfo(t->easy, CURLINFO_PRIMARY_PORT, &port);
	if (ip && *ip)
		ret->address = strchr(ip, ':') ? str_fmt("[%s]:%ld", ip, port) : str_fmt("%s:%ld", ip, port);
	ret->ms = (unsigned)(t->last_ms - t->start_ms);
	if (call->err.code) {
		ret->code = call->err.code;
		ret->reason = str_dup(call->err.text);
	} else if (call->status >= 400 && call->status != 401) { // a registry that wants a token is one that answers
		struct err err;
		http_status_error(call, &err);
		ret->layer = "http";
		ret->reason = str_dup(err.text);
	}
}

// One byte is enough to know that a server answers.
static int stop_at_body(struct http_call *call, const void *data, size_t len, struct err *err)
{
	struct transfer *t = call->own;
	(void)data, (void)len, (void)err;
	t->is_enough = true;
	return -1;
}

int http_probe_all(struct http *h, const struct strv *urls, struct http_probe *ret, struct err *err)
{
	struct http_call *calls = mem_alloc((urls->count + 1) * sizeof(*calls));
	size_t begun = 0;
	int r = 0;
	for (; r == 0 && begun < urls->count; begun++) {
		calls[begun] = (struct http_call){ .url = urls->items[begun], .sink = stop_at_body, .is_fresh = true };
		r = http_begin(h, &calls[begun], err);
	}
	for (size_t i = 0; r == 0 && i < begun; i++)
		while (r == 0 && !calls[i].is_done)
			r = http_step(h, HTTP_WAIT_MS, err);
	for (size_t i = 0; i < begun; i++) {
		if (r == 0)
			fill_probe(&calls[i], &ret[i]);
		http_end(&calls[i]);
	}
	free(calls);
	return r;
}

void http_probe_done(struct http_probe *p)
{
	free(p->proxy);
	free(p->address);
	free(p->ca_subject);
	free(p->reason);
	*p = (struct http_probe){ 0 };
}
