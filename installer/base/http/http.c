// SPDX-License-Identifier: Apache-2.0
// A call is a chain of requests: redirects are followed here and not by libcurl, because the proxy, and whether the
// credentials may go along, must be decided again for each address that a call is sent to. Then: errors with the layer
// that failed, the bytes of a call, its life, probes.
#include "base/http/http_internal.h"

#include "base/core/date.h"
#include "base/http/proxy.h"
#include "base/process/log.h"

#include <errno.h>
#include <strings.h>

// The layer that failed (name, proxy, connection, certificate or HTTP) is the first question when a node cannot reach
// its source.
static const struct {
	CURLcode curl;
	int code;
	const char *layer; // NULL = by how far it got
} curl_errors[] = {
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

// Leaves out the path where no server was reached: it may be the one of many tags that was tried last.
static char *shown_place(const struct transfer *t, const char *url)
{
	char *shown = http_url_shown(url), *host = strstr(shown, "://");
	if (host && !str_eq(t->layer, "http"))
		host[3 + strcspn(host + 3, "/")] = '\0';
	return shown;
}

static void fail_call(struct transfer *t, int code, const char *why)
{
	auto_str char *url = shown_place(t, t->call->url), *now = shown_place(t, t->url), *more = str_dup("");
	if (!str_eq(url, now))
		str_add(&more, ", redirected to %s", now);
	if (t->proxy) {
		auto_str char *proxy = http_url_shown(t->proxy);
		str_add(&more, ", through the proxy %s", proxy);
	}
	if (code == E_TLS && t->issuer)
		str_add(&more, "; the certificate was issued by '%s' (--ca FILE adds an authority)", t->issuer);
	err_set(&t->call->err, code, "%s (%s): %s%s", url, t->layer, why, more);
}

// libcurl says how long it tried, another number each time. The text must not change, because what lasts is told once.
static void remove_duration(char *text)
{
	static const char after[] = " after ";
	static const char *const units[] = { " milliseconds", " ms" };
	char *from = strstr(text, after);
	size_t digits = from ? strspn(from + strlen(after), "0123456789") : 0;
	char *to = digits ? from + strlen(after) + digits : NULL;
	for (size_t i = 0; to && i < ARRAY_SIZE(units); i++) {
		if (str_starts(to, units[i])) {
			to += strlen(units[i]);
			memmove(from, to, strlen(to) + 1);
			return;
		}
	}
}

static void fail_by_curl(struct transfer *t, CURLcode code)
{
	static const struct {
		CURLINFO info;
		const char *layer;
	} marks[] = {
		{ CURLINFO_NAMELOOKUP_TIME_T, "dns" },
		{ CURLINFO_CONNECT_TIME_T, "tcp" },
		{ CURLINFO_PRETRANSFER_TIME_T, "tls" },
	};
	int ours = E_NETWORK;
	long connected = 0;
	t->layer = "http";
	for (size_t i = 0; i < ARRAY_SIZE(curl_errors); i++) {
		if (curl_errors[i].curl == code) {
			ours = curl_errors[i].code;
			t->layer = curl_errors[i].layer;
		}
	}
	for (size_t i = 0; !t->layer && i < ARRAY_SIZE(marks); i++) { // the first one that was not reached
		curl_off_t at = 0;
		curl.easy_getinfo(t->easy, marks[i].info, &at);
		t->layer = at == 0 ? marks[i].layer : NULL;
	}
	t->layer = t->layer ? t->layer : "http";
	// With a proxy, failed lookups and connections are those of the proxy.
	curl.easy_getinfo(t->easy, CURLINFO_HTTP_CONNECTCODE, &connected);
	if (t->proxy && (connected >= 300 || str_eq(t->layer, "dns") || str_eq(t->layer, "tcp")))
		t->layer = "proxy";
	remove_duration(t->problem);
	fail_call(t, ours, t->problem[0] ? t->problem : curl.easy_strerror(code));
}

// The bytes of a call, in both directions. Memory is bounded whatever a server sends: a reply up to the caller's
// limit, of an error only its first words.

enum { ERROR_KEPT = 4096, ERROR_DROPPED = 1 << 20, RECEIVE = 256 << 10 };

static size_t on_reply_data(char *data, size_t size, size_t count, void *ctx)
{
	struct transfer *t = ctx;
	struct http_call *c = t->call;
	size_t len = size * count, kept = 0;
	bool is_good = true;
	curl.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &c->status);
	if (c->status / 100 != 2) {
		// Reading an error's text to its end keeps the connection usable, so a longer one is read too, up to a
		// limit.
		size_t room = ERROR_KEPT - c->reply_len;
		kept = len < room ? len : room;
		t->dropped += len - kept;
		t->is_enough = t->dropped > ERROR_DROPPED;
		is_good = !t->is_enough;
	} else if (c->sink) {
		is_good = c->sink(c, data, len, &c->err) >= 0;
	} else {
		curl_off_t announced = -1;
		curl.easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
		is_good = len <= c->max - c->reply_len && (announced < 0 || (uint64_t)announced <= c->max);
		kept = is_good ? len : 0;
		auto_str char *url = is_good ? NULL : http_url_shown(c->url);
		if (!is_good && announced >= 0)
			err_set(&c->err, E_TOO_LARGE, "%s: the reply has %lld bytes, at most %zu are allowed", url,
				(long long)announced, c->max);
		else if (!is_good)
			err_set(&c->err, E_TOO_LARGE, "%s: the reply is larger than the %zu bytes allowed", url,
				c->max);
	}
	if (kept) {
		c->reply = mem_grow(c->reply, c->reply_len + kept + 1, 1);
		memcpy(c->reply + c->reply_len, data, kept);
		c->reply_len += kept;
		c->reply[c->reply_len] = '\0';
	}
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

// libcurl sends a body again when the connection that it reused turned out to be dead.
static int on_seek(void *ctx, curl_off_t offset, int origin)
{
	struct transfer *t = ctx;
	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > t->call->body_size)
		return CURL_SEEKFUNC_FAIL;
	t->body_at = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

enum { CONNECT_MS = 3000, STALL_MS = 15000, RATE_MS = 60000, REDIRECTS = 5 };

int http_new(const struct http_options *options, struct http **ret, struct err *err)
{
	struct http_tls *tls = NULL;
	if ((options->authorities && http_tls_only(options->authorities, &tls, err) < 0) ||
	    (options->ca && http_tls_add(options->ca, &tls, err) < 0)) {
		http_tls_free(tls);
		return -1;
	}
	struct http *h = mem_alloc(sizeof(*h));
	*h = (struct http){ .proxy = str_dup(options->proxy),
			    .no_proxy = str_dup(options->no_proxy),
			    .connect_ms = options->connect_ms ? options->connect_ms : CONNECT_MS,
			    .stall_ms = options->stall_ms ? options->stall_ms : STALL_MS,
			    .least_rate = options->least_rate,
			    .rate_ms = options->rate_ms ? options->rate_ms : RATE_MS,
			    .tls = tls,
			    .certificate = str_dup(options->certificate),
			    .key = str_dup(options->key),
			    .is_http1 = options->is_http1 };
	*ret = h;
	return 0;
}

int http_trust(struct http *h, const char *path, struct err *err)
{
	return http_tls_add(path, &h->tls, err);
}

void http_free(struct http *h)
{
	if (!h)
		return;
	while (h->transfers)
		http_end(h->transfers->call);
	if (h->multi) {
		curl.multi_cleanup(h->multi);
		curl.global_cleanup();
	}
	http_tls_free(h->tls);
	free(h->proxy);
	free(h->no_proxy);
	free(h->certificate);
	free(h->key);
	free(h);
}

// Method, range, headers and credentials.
static void set_request(struct transfer *t)
{
	const struct http_call *c = t->call;
	const char *method = c->method ? c->method : "GET";
	t->body_at = 0;
	if (str_eq(method, "HEAD")) {
		curl.easy_setopt(t->easy, CURLOPT_NOBODY, 1L);
	} else if (!str_eq(method, "GET")) {
		curl.easy_setopt(t->easy, CURLOPT_UPLOAD, 1L);
		curl.easy_setopt(t->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->body_size);
		curl.easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, method);
	}
	if (c->range_from) {
		auto_str char *range = str_fmt("%llu-", (unsigned long long)c->range_from);
		curl.easy_setopt(t->easy, CURLOPT_RANGE, range);
	}
	curl.slist_free_all(t->headers);
	// Expect costs a second where a server ignores it, and curl only guesses the Content-Type.
	t->headers = curl.slist_append(NULL, "Expect:");
	bool has_type = false;
	for (size_t i = 0; c->headers && i < c->headers->count; i++) {
		has_type = has_type || strncasecmp(c->headers->items[i], "Content-Type:", 13) == 0;
		t->headers = curl.slist_append(t->headers, c->headers->items[i]);
	}
	if (!has_type)
		t->headers = curl.slist_append(t->headers, "Content-Type:");
	curl.easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
	if (t->bearer && !t->is_elsewhere) {
		curl.easy_setopt(t->easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
		curl.easy_setopt(t->easy, CURLOPT_XOAUTH2_BEARER, t->bearer);
	} else if (t->user && !t->is_elsewhere) {
		curl.easy_setopt(t->easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		curl.easy_setopt(t->easy, CURLOPT_USERNAME, t->user);
		curl.easy_setopt(t->easy, CURLOPT_PASSWORD, t->password ? t->password : "");
	}
}

static void detach_transfer(struct transfer *t)
{
	if (t->is_added)
		curl.multi_remove_handle(t->http->multi, t->easy);
	t->is_added = false;
}

static void restart_window(struct transfer *t, long now)
{
	t->window_ms = now;
	t->moved = 0;
}

// Begins the request to t->url.
static void launch_transfer(struct transfer *t)
{
	detach_transfer(t);
	curl.easy_cleanup(t->easy);
	t->easy = curl.easy_init();
	if (!t->easy)
		abort();
	t->problem[0] = '\0';
	t->last_ms = clock_ms();
	restart_window(t, t->last_ms);
	free(t->proxy);
	t->proxy = proxy_choose(t->http->proxy, t->http->no_proxy, t->origin.scheme, t->origin.host, t->origin.port);
	curl.easy_setopt(t->easy, CURLOPT_PROXY, t->proxy ? t->proxy : "");
	curl.easy_setopt(t->easy, CURLOPT_NOPROXY, "");
	curl.easy_setopt(t->easy, CURLOPT_URL, t->url);
	curl.easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl.easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)t->http->connect_ms);
	// A peer that vanishes silently ends the calls that wait for it, watches above all, within two minutes.
	curl.easy_setopt(t->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl.easy_setopt(t->easy, CURLOPT_TCP_KEEPIDLE, 30L);
	curl.easy_setopt(t->easy, CURLOPT_TCP_KEEPINTVL, 10L);
	// A thread waits for a name server that does not answer; ending the call must not wait for it too.
	curl.easy_setopt(t->easy, CURLOPT_QUICK_EXIT, 1L);
	if (t->http->is_http1)
		curl.easy_setopt(t->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	if (t->call->is_fresh) {
		curl.easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, 1L);
		curl.easy_setopt(t->easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	}
	set_request(t);
	http_tls_attach(t);
	curl.easy_setopt(t->easy, CURLOPT_BUFFERSIZE, (long)RECEIVE);
	curl.easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_reply_data);
	curl.easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
	curl.easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_reply_header);
	curl.easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
	curl.easy_setopt(t->easy, CURLOPT_READFUNCTION, on_body);
	curl.easy_setopt(t->easy, CURLOPT_READDATA, t);
	curl.easy_setopt(t->easy, CURLOPT_SEEKFUNCTION, on_seek);
	curl.easy_setopt(t->easy, CURLOPT_SEEKDATA, t);
	curl.easy_setopt(t->easy, CURLOPT_USERAGENT, "kmodsmith/" KMODSMITH_VERSION);
	curl.easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->problem);
	curl.easy_setopt(t->easy, CURLOPT_PRIVATE, t);
	if (curl.multi_add_handle(t->http->multi, t->easy) != CURLM_OK)
		abort();
	t->is_added = true;
}

static void finish_transfer(struct transfer *t)
{
	const struct http_call *call = t->call;
	detach_transfer(t);
	t->call->is_done = true;
	if (!log_is_on(LOG_LEVEL_DEBUG))
		return;
	auto_str char *url = http_url_shown(t->url);
	log_debug("%s %s: status %ld, %ld ms%s%s%s%s", call->method ? call->method : "GET", url, call->status,
		  clock_ms() - t->start_ms, t->proxy ? ", through a proxy" : "", t->redirects ? ", redirected" : "",
		  call->err.code ? ": " : "", call->err.text);
}

static int refuse_redirect(struct transfer *t, const char *to, const char *why)
{
	struct http_call *c = t->call;
	auto_str char *from = http_url_shown(c->url), *shown = http_url_shown(to);
	return err_set(&c->err, E_NETWORK, "%s: redirected to %s: %s", from, shown, why);
}

// Prepares the request to the new address. 1 = may go there, 0 = the reply is not a redirect.
static int follow_redirect(struct transfer *t)
{
	const char *method = t->call->method;
	char *place = NULL;
	long status = t->call->status;
	bool is_reading = !method || str_eq(method, "GET") || str_eq(method, "HEAD");
	if (status != 307 && status != 308 && !(is_reading && status >= 301 && status <= 303))
		return 0;
	if (curl.easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &place) != CURLE_OK || !place)
		return 0;
	struct http_origin to = { 0 };
	if (t->redirects++ == REDIRECTS)
		return refuse_redirect(t, place, "too many redirects");
	if (!http_origin_of(place, &to))
		return refuse_redirect(t, place, "not an http or https address");
	bool is_weaker = str_eq(t->origin.scheme, "https") && str_eq(to.scheme, "http");
	t->is_elsewhere = t->is_elsewhere || !http_is_same_origin(t->url, place);
	http_origin_done(&t->origin);
	t->origin = to;
	if (is_weaker)
		return refuse_redirect(t, place, "redirects from https to plain http are not followed");
	free(t->url);
	t->url = str_dup(place);
	return 1;
}

static long stall_limit(const struct transfer *t)
{
	return t->call->stall_ms ? t->call->stall_ms : t->http->stall_ms;
}

// Connecting has its own deadline; after that each byte extends it, and all together must come fast enough.
static bool fail_if_stalled(struct transfer *t, long now)
{
	const struct http *h = t->http;
	unsigned total_ms = t->call->total_ms;
	auto_str char *why = NULL;
	curl_off_t begun = 0;
	curl.easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &begun);
	if (begun == 0) {
		t->last_ms = now;
		restart_window(t, now);
	}
	if (h->least_rate && now - t->window_ms >= (long)h->rate_ms) {
		if (t->moved < (uint64_t)h->least_rate * h->rate_ms / 1000)
			why = str_fmt("only %llu bytes in %u ms, less than %u bytes a second",
				      (unsigned long long)t->moved, h->rate_ms, h->least_rate);
		else
			restart_window(t, now);
	}
	if (!why && total_ms && now - t->start_ms >= (long)total_ms)
		why = str_fmt("not finished after %u ms", total_ms);
	if (!why && now - t->last_ms > stall_limit(t))
		why = str_fmt("no data for %ld ms", stall_limit(t));
	if (!why)
		return false;
	t->layer = "http";
	fail_call(t, E_TIMEOUT, why);
	return true;
}

// Advances all calls without waiting. 1 = a call is done.
static int advance_transfers(struct http *h, struct err *err)
{
	int running = 0, left = 0, r = 0;
	CURLMcode code = curl.multi_perform(h->multi, &running);
	if (code != CURLM_OK)
		return err_set(err, E_NETWORK, "libcurl: %s", curl.multi_strerror(code));
	for (const CURLMsg *m; (m = curl.multi_info_read(h->multi, &left));) {
		struct transfer *t = NULL;
		CURLcode result = m->data.result;
		curl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
		struct http_call *c = t->call;
		curl.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &c->status);
		c->elsewhere = t->is_elsewhere ? t->url : NULL;
		if (c->err.code == 0 && result != CURLE_OK && !t->is_enough)
			fail_by_curl(t, result);
		if (c->err.code == 0 && follow_redirect(t) > 0) {
			free(TAKE(c->reply));
			c->reply_len = 0;
			launch_transfer(t);
			continue;
		}
		if (c->err.code)
			t->layer = t->layer ? t->layer : "http";
		finish_transfer(t);
		r = 1;
	}
	long now = clock_ms();
	for (struct transfer *t = h->transfers; t; t = t->next) {
		if (t->call->is_done || !fail_if_stalled(t, now))
			continue;
		finish_transfer(t);
		r = 1;
	}
	return r;
}

int http_step(struct http *h, int wait_ms, struct err *err)
{
	int r = advance_transfers(h, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	long now = clock_ms();
	for (const struct transfer *t = h->transfers; t; t = t->next) { // no longer than to the next deadline
		long left = t->last_ms + stall_limit(t) + 1 - now, whole = t->start_ms + (long)t->call->total_ms - now;
		long window = t->window_ms + (long)h->rate_ms - now;
		left = t->call->total_ms && whole < left ? whole : left;
		left = h->least_rate && window < left ? window : left;
		if (!t->call->is_done && left < wait_ms)
			wait_ms = left > 0 ? (int)left : 0;
	}
	CURLMcode code = curl.multi_poll(h->multi, NULL, 0, wait_ms, NULL);
	if (code != CURLM_OK)
		return err_set(err, E_NETWORK, "libcurl: %s", curl.multi_strerror(code));
	return advance_transfers(h, err) < 0 ? -1 : 0;
}

static void transfer_free(struct transfer *t)
{
	detach_transfer(t);
	curl.easy_cleanup(t->easy);
	curl.slist_free_all(t->headers);
	free(t->url);
	free(t->proxy);
	http_origin_done(&t->origin);
	free(t->user);
	free(t->password);
	free(t->bearer);
	free(t->issuer);
	free(t);
}

int http_begin(struct http *h, struct http_call *call, struct err *err)
{
	if (!h->multi) { // only now: a start that makes no request does not pay for libcurl
		if (http_lib_load(err) < 0)
			return -1;
		if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(h->multi = curl.multi_init()))
			abort();
	}
	struct transfer *t = mem_alloc(sizeof(*t));
	*t = (struct transfer){ .http = h,
				.call = call,
				.url = str_dup(call->url),
				.user = str_dup(call->user),
				.password = str_dup(call->password),
				.bearer = str_dup(call->bearer) };
	call->own = NULL;
	call->is_done = false;
	call->err = (struct err){ 0 };
	call->status = 0;
	call->reply = NULL;
	call->reply_len = 0;
	if (!http_origin_of(call->url, &t->origin)) {
		auto_str char *shown = http_url_shown(call->url);
		transfer_free(t);
		return err_set(err, E_USAGE, "'%s' is not an http or https address", shown);
	}
	t->start_ms = clock_ms();
	t->next = h->transfers;
	h->transfers = t;
	call->own = t;
	launch_transfer(t);
	return 0;
}

int http_run(struct http *h, struct http_call *call, struct err *err)
{
	if (http_begin(h, call, err) < 0)
		return -1;
	while (!call->is_done)
		if (http_step(h, HTTP_WAIT_MS, err) < 0)
			return -1;
	if (call->err.code == 0)
		return 0;
	*err = call->err;
	return -1;
}

const char *http_header_at(const struct http_call *call, const char *name, size_t i)
{
	const struct transfer *t = call->own;
	struct curl_header *header;
	if (!t || curl.easy_header(t->easy, name, i, CURLH_HEADER, -1, &header) != CURLHE_OK)
		return NULL;
	return header->value;
}

const char *http_header(const struct http_call *call, const char *name)
{
	return http_header_at(call, name, 0);
}

void http_end(struct http_call *call)
{
	struct transfer *t = call->own;
	if (t) {
		struct transfer **at = &t->http->transfers;
		while (*at != t)
			at = &(*at)->next;
		*at = t->next;
		transfer_free(t);
	}
	call->own = NULL;
	call->elsewhere = NULL;
	free(TAKE(call->reply));
	call->reply_len = 0;
}
