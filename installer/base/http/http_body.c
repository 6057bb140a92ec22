// SPDX-License-Identifier: Apache-2.0
// The bytes of a call, in both directions. Memory is bounded whatever a server sends: a reply up to the caller's
// limit, of an error only its first words.
#include "base/http/http_internal.h"

#include "base/core/date.h"

#include <errno.h>

enum { ERROR_KEPT = 4096, ERROR_DROPPED = 1 << 20, RECEIVE = 256 << 10 };

static void append_reply(struct http_call *c, const char *data, size_t len)
{
	c->reply = mem_grow(c->reply, c->reply_len + len + 1, 1);
	memcpy(c->reply + c->reply_len, data, len);
	c->reply_len += len;
	c->reply[c->reply_len] = '\0';
}

// The connection stays usable when an error's text is read to its end, so a longer one is read too, up to a bound.
static bool keep_error(struct transfer *t, const char *data, size_t len)
{
	size_t room = ERROR_KEPT - t->call->reply_len, kept = len < room ? len : room;
	append_reply(t->call, data, kept);
	t->dropped += len - kept;
	t->is_enough = t->dropped > ERROR_DROPPED;
	return !t->is_enough;
}

static bool keep_reply(struct transfer *t, const char *data, size_t len)
{
	struct http_call *c = t->call;
	curl_off_t promised = -1;
	curl.easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &promised);
	if (len <= c->max - c->reply_len && (promised < 0 || (uint64_t)promised <= c->max)) {
		append_reply(c, data, len);
		return true;
	}
	auto_str char *url = http_url_shown(c->url);
	if (promised >= 0)
		err_set(&c->err, E_TOO_LARGE, "%s: the reply has %lld bytes, at most %zu are right", url,
			(long long)promised, c->max);
	else
		err_set(&c->err, E_TOO_LARGE, "%s: the reply is larger than the %zu bytes that are right", url, c->max);
	return false;
}

static size_t on_reply_data(char *data, size_t size, size_t count, void *ctx)
{
	struct transfer *t = ctx;
	struct http_call *c = t->call;
	size_t len = size * count;
	bool is_good;
	curl.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &c->status);
	if (c->status / 100 != 2)
		is_good = keep_error(t, data, len);
	else if (c->sink)
		is_good = c->sink(c, data, len, &c->err) >= 0;
	else
		is_good = keep_reply(t, data, len);
	t->last_ms = clock_ms();
	t->moved += len;
	return is_good ? len : CURL_WRITEFUNC_ERROR;
}

static size_t on_reply_header(char *data, size_t size, size_t count, void *ctx)
{
	struct transfer *t = ctx;
	(void)data;
	t->last_ms = clock_ms();
	t->moved += size * count;
	return size * count;
}

static size_t on_body(char *buf, size_t size, size_t count, void *ctx)
{
	struct transfer *t = ctx;
	struct http_call *c = t->call;
	uint64_t left = c->body_size - t->body_at;
	size_t want = left < size * count ? (size_t)left : size * count;
	ssize_t n = (ssize_t)want;
	if (c->body)
		memcpy(buf, (const char *)c->body + t->body_at, want);
	else if (want)
		do
			n = pread(c->body_fd, buf, want, (off_t)t->body_at);
		while (n < 0 && errno == EINTR);
	if (n < 0 || (n == 0 && want)) {
		err_set(&c->err, n < 0 ? errno : E_STORE_CORRUPT, "%s: read byte %llu of the %llu to be sent", c->url,
			(unsigned long long)t->body_at, (unsigned long long)c->body_size);
		return CURL_READFUNC_ABORT;
	}
	t->body_at += (uint64_t)n;
	t->last_ms = clock_ms();
	t->moved += (uint64_t)n;
	return (size_t)n;
}

// libcurl sends a body once more when the connection that it reused turned out to be dead.
static int on_seek(void *ctx, curl_off_t offset, int origin)
{
	struct transfer *t = ctx;
	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > t->call->body_size)
		return CURL_SEEKFUNC_FAIL;
	t->body_at = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

void http_body_attach(struct transfer *t)
{
	curl.easy_setopt(t->easy, CURLOPT_BUFFERSIZE, (long)RECEIVE);
	curl.easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_reply_data);
	curl.easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
	curl.easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_reply_header);
	curl.easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
	curl.easy_setopt(t->easy, CURLOPT_READFUNCTION, on_body);
	curl.easy_setopt(t->easy, CURLOPT_READDATA, t);
	curl.easy_setopt(t->easy, CURLOPT_SEEKFUNCTION, on_seek);
	curl.easy_setopt(t->easy, CURLOPT_SEEKDATA, t);
}
