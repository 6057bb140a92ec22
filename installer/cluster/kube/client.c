// SPDX-License-Identifier: Apache-2.0
#include "cluster/kube/client.h"
#include "base/core/date.h"

#include <stdio.h>

enum {
	DEADLINE_MS = 30000,
	TRY_MS = 10000,      // an answer takes milliseconds; a try that hangs must leave time for the next
	TRY_LEAST_MS = 1000, // a repetition that cannot wait even so long for its answer is not made
	REPLY_MAX = 1 << 20,
	TOKEN_MS =
		60000, // bound tokens are renewed by the kubelet at 80 % of an hour; client-go reads at this pace, too
	WAIT_MS = 250,
	WAIT_MAX_MS = 8000,
	RETRY_MAX_S = 3600,
	SAME_S = 2, // a Date has whole seconds
};

struct kube {
	struct kube_config config;
	struct http *http;
	char *token; // NULL = none
	long token_ms;
	int (*before)(void *ctx, struct err *err); // NULL = nothing
	void *before_ctx;
	int64_t then_ms; // the API server's clock at
	long base_ms;    // that moment of the one that does not jump; 0 = it was not heard yet
	long heard_ms;   // when it was heard last
	struct kube_count counts[KUBE_COUNTS];
	size_t count_used;
};

int kube_open(struct kube_config *take, struct kube **ret, struct err *err)
{
	struct http_options o = {
		.authorities = take->authorities, .certificate = take->certificate, .key = take->key, .is_http1 = true
	};
	struct http *http = NULL;
	if (http_new(&o, &http, err) < 0)
		return err_wrap(err, "%s", take->server);
	struct kube *k = mem_alloc(sizeof(*k));
	*k = (struct kube){ .config = *take, .http = http, .token = str_dup(take->token) };
	*take = KUBE_CONFIG_NONE;
	*ret = k;
	return 0;
}

void kube_free(struct kube *k)
{
	if (!k)
		return;
	http_free(k->http);
	free(k->token);
	kube_config_done(&k->config);
	free(k);
}

const char *kube_namespace(const struct kube *k)
{
	return k->config.namespace;
}

int64_t kube_time(const struct kube *k)
{
	return k->base_ms ? (k->then_ms + kube_now_ms() - k->base_ms) / 1000 : kube_wall_s();
}

// The answer was dated at some moment since begin. One that agrees with the current estimate changes nothing: no
// jitter. The first one is taken as it is; later ones move the clock by a tenth of the time that has passed, so that
// neither a step of a server's clock nor one of several servers with a wrong clock ends a deadline early.
static void learn_time(struct kube *k, const struct http_call *http, long begin_ms)
{
	time_t there;
	enum { PART = 10, APART_MS = 60 * 1000 };
	if (!date_http_parse(http_header(http, "Date"), &there))
		return;
	long now_ms = kube_now_ms(), passed = now_ms - k->heard_ms;
	int64_t dated_ms = (int64_t)there * 1000, took_ms = now_ms - begin_ms;
	k->heard_ms = now_ms;
	if (!k->base_ms) {
		int64_t ahead_s = there - kube_wall_s();
		bool is_same = ahead_s > -SAME_S && ahead_s - took_ms / 1000 < SAME_S;
		k->base_ms = now_ms;
		k->then_ms = is_same ? kube_wall_s() * 1000 : dated_ms + took_ms / 2;
		return;
	}
	int64_t believed_ms = k->then_ms + now_ms - k->base_ms;
	int64_t error = dated_ms - believed_ms, most = (passed < APART_MS ? passed : APART_MS) / PART;
	if (error > SAME_S * 1000)
		k->then_ms += error < most ? error : most;
	else if (error < -SAME_S * 1000 - took_ms)
		k->then_ms -= -error < most ? -error : most;
}

static int kube_token(struct kube *k, bool is_refused, struct err *err)
{
	auto_str char *text = NULL;
	if (!k->config.token_file || (!is_refused && k->token_ms && kube_now_ms() - k->token_ms < TOKEN_MS))
		return 0;
	int r = root_line(&k->config.token_root, k->config.token_file, &text, err);
	if (r < 0 || (r == 0 && !k->token))
		return r < 0 ? err_wrap(err, "token") :
			       err_set(err, E_AUTH, "the token file '%s' is gone", k->config.token_file);
	k->token_ms = kube_now_ms();
	if (r == 0 || !*text || str_eq(text, k->token)) // the old one is used while the file is being replaced
		return 0;
	free(k->token);
	k->token = TAKE(text);
	return 1;
}

void kube_before(struct kube *k, int (*run)(void *ctx, struct err *err), void *ctx)
{
	k->before = run;
	k->before_ctx = ctx;
}

void kube_call_done(struct kube_call *call)
{
	json_decref(TAKE(call->reply));
	free(TAKE(call->reason));
	free(TAKE(call->message));
	json_decref(TAKE(call->causes));
}

static const char PATCH_TYPE[] = "application/json-patch+json";

const json_t *kube_cause(const struct kube_call *call, const char *key, const char *value)
{
	size_t i;
	const json_t *cause;
	json_array_foreach(call->causes, i, cause)
	{
		if (str_eq(json_string_value(json_object_get(cause, key)), value))
			return cause;
	}
	return NULL;
}

static int status_error_code(const struct kube_call *call)
{
	switch (call->status) {
	case 401:
	case 403:
		return E_AUTH;
	case 404:
		return E_NOT_FOUND;
	case 409:
		return E_CONFLICT;
	case 422: // a uid in a merge patch that is not the object's is refused as a change of an immutable field
		return str_eq(call->type, PATCH_TYPE) || kube_cause(call, "field", "metadata.uid") ? E_CONFLICT :
												     E_KUBE;
	default:
		return E_KUBE;
	}
}

static int kube_judge(const struct http_call *http, struct kube_call *call, struct err *err)
{
	json_error_t problem;
	uint64_t after_s;
	auto_str char *url = http_url_shown(http->url);
	const char *after = http_header(http, "Retry-After"); // API servers send seconds, never the other form, a date
	bool is_timed = after && str_u64(after, 10, &after_s);
	call->status = http->status;
	call->retry_ms = is_timed ? (unsigned)(after_s < RETRY_MAX_S ? after_s : RETRY_MAX_S) * 1000 : 0;
	auto_json json_t *reply = http->reply ? json_loadb(http->reply, http->reply_len, 0, &problem) : NULL;
	if (http->status / 100 == 2 && !call->table && !json_is_object(reply))
		return err_set(err, E_KUBE, "%s: the answer is not a JSON object", url);
	if (http->status / 100 == 2) {
		call->reply = TAKE(reply);
		return 0;
	}
	call->reason = str_dup(json_string_value(json_object_get(reply, "reason")));
	call->message = str_dup(json_string_value(json_object_get(reply, "message")));
	call->causes = json_incref(json_object_get(json_object_get(reply, "details"), "causes"));
	if (!call->message) {
		http_status_error(http, err);
		return err_code(err, status_error_code(call));
	}
	// The budget that blocks an eviction is named beside the message (pkg/registry/core/pod/storage/eviction.go).
	const json_t *cause = kube_cause(call, "reason", "DisruptionBudget");
	const char *budget = json_string_value(json_object_get(cause, "message"));
	return err_set(err, status_error_code(call), "%s %s: status %ld: %s%s%s", http->method ? http->method : "GET",
		       url, http->status, call->message, budget ? " " : "", budget ? budget : "");
}

// More kinds of answers than there is room for are counted with the last one.
static void kube_count(struct kube *k, const char *verb, long status)
{
	size_t at = 0;
	while (at < k->count_used && (!str_eq(k->counts[at].verb, verb) || k->counts[at].status != status))
		at++;
	at = at < KUBE_COUNTS ? at : KUBE_COUNTS - 1;
	if (at == k->count_used) {
		k->counts[at].status = status;
		snprintf(k->counts[at].verb, sizeof(k->counts[at].verb), "%s", verb);
		k->count_used++;
	}
	k->counts[at].count++;
}

const struct kube_count *kube_counts(const struct kube *k, size_t *ret_count)
{
	*ret_count = k->count_used;
	return k->counts;
}

static int feed_json_stream(struct http_call *http, const void *data, size_t len, struct err *err)
{
	return json_stream_feed(http->ctx, data, len, err);
}

static int ask_server(struct kube *k, struct kube_call *call, const char *body, unsigned left_ms, struct err *err)
{
	auto_str char *url = str_fmt("%s%s", k->config.server, call->path);
	auto_strv struct strv headers = { 0 };
	auto_json_stream struct json_stream *json_stream =
		call->table ? json_stream_new(call->table, call->take, call->ctx) : NULL;
	unsigned try_ms = call->try_ms ? call->try_ms : TRY_MS;
	strv_add(&headers, str_dup("Accept: application/json"));
	if (body)
		strv_add(&headers, str_fmt("Content-Type: %s", call->type ? call->type : "application/json"));
	struct http_call http = { .method = call->method,
				  .url = url,
				  .headers = &headers,
				  .bearer = k->token,
				  .body = body ? body : "",
				  .body_size = body ? strlen(body) : 0,
				  .max = REPLY_MAX,
				  .total_ms = json_stream || left_ms < try_ms ? left_ms : try_ms,
				  .stall_ms = try_ms,
				  .sink = json_stream ? feed_json_stream : NULL,
				  .ctx = json_stream };
	long begin_ms = kube_now_ms();
	int r = http_run(k->http, &http, err);
	kube_count(k, call->method ? call->method : "GET", r == 0 ? http.status : 0);
	if (r == 0)
		learn_time(k, &http, begin_ms);
	if (r == 0)
		r = kube_judge(&http, call, err);
	if (r == 0 && json_stream)
		r = json_stream_end(json_stream, &call->reply, err);
	http_end(&http);
	return r;
}

static bool is_retryable(const struct kube_call *call, const struct err *err)
{
	bool is_safe = !call->method || call->is_repeatable;
	if (call->status == 429)
		return !call->is_busy_final;
	if (call->status >= 500)
		return is_safe || call->retry_ms;
	return call->status == 0 && is_safe && (err->code == E_NETWORK || err->code == E_TIMEOUT);
}

// Doubled each time, with jitter in its upper half: nodes that fail together do not retry together.
static unsigned backoff_ms(unsigned turn)
{
	unsigned most = turn < 5 ? (unsigned)WAIT_MS << turn : WAIT_MAX_MS;
	return most / 2 + (unsigned)((uint64_t)kube_random() * (most / 2) / UINT32_MAX);
}

int kube_run(struct kube *k, struct kube_call *call, struct err *err)
{
	unsigned most = k->config.deadline_ms, whole = call->deadline_ms ? call->deadline_ms : DEADLINE_MS;
	long end = kube_now_ms() + (most && most < whole ? most : whole);
	auto_str char *body = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
	struct err said = { 0 };
	bool is_refused = false;
	for (unsigned turn = 0;; turn++) {
		kube_call_done(call);
		call->status = 0;
		call->retry_ms = 0;
		long begin = kube_now_ms();
		if ((turn == 0 && kube_token(k, false, err) < 0) || (k->before && k->before(k->before_ctx, err) < 0))
			return -1;
		end += kube_now_ms() - begin; // that time was not this call's
		long left = end - kube_now_ms();
		if (ask_server(k, call, body, left > 1 ? (unsigned)left : 1, err) == 0)
			return 0;
		struct err ignored;
		bool is_late = end - kube_now_ms() < TRY_LEAST_MS;
		if (call->status == 401 && !is_refused && !is_late && kube_token(k, true, &ignored) > 0) {
			is_refused = true;
			continue;
		}
		long wait = call->retry_ms ? call->retry_ms : backoff_ms(turn);
		bool is_tried_again = is_retryable(call, err) && end - kube_now_ms() >= wait + TRY_LEAST_MS;
		if (is_tried_again)
			kube_sleep(wait);
		if (!is_tried_again || end - kube_now_ms() < TRY_LEAST_MS / 2) { // a busy machine sleeps longer
			// A retry without an answer says less than the answer before it.
			if (said.code && err->code == E_TIMEOUT)
				err_set(err, said.code, "%s; after a retry: %s", said.text, err->text);
			return -1;
		}
		if (call->status)
			said = *err;
	}
}

// Collections: LIST in pages, WATCH as a stream.

enum { PAGE = 500, LIST_MS = 60000, ANEW = 3 };

static const char *const LIST_REST[] = { "metadata continue", "metadata resourceVersion", NULL };

int kube_list(struct kube *k, struct kube_list *list, char **ret_version, struct err *err)
{
	const struct json_stream_table table = { .list = "items", .record = list->record, .rest = LIST_REST };
	auto_str char *next = NULL, *version = NULL;
	list->pages = 0;
	for (unsigned anew = 0;;) {
		auto_str char *at = next ? http_escape(next) : str_dup("");
		auto_str char *path =
			str_fmt("%s?limit=%u%s%s%s%s", list->path, list->limit ? list->limit : PAGE,
				*at ? "&continue=" : "", at, list->query ? "&" : "", list->query ? list->query : "");
		auto_kube_call struct kube_call call = {
			.path = path, .deadline_ms = LIST_MS, .table = &table, .take = list->take, .ctx = list->ctx
		};
		if (kube_run(k, &call, err) < 0) {
			if (call.status != 410 || !next || ++anew >= ANEW)
				return -1;
			free(TAKE(next));
			continue;
		}
		const json_t *metadata = json_object_get(call.reply, "metadata");
		const char *more = json_string_value(json_object_get(metadata, "continue"));
		const char *listed = json_string_value(json_object_get(metadata, "resourceVersion"));
		if (!listed)
			return err_set(err, E_KUBE, "%s: the list has no resourceVersion", path);
		list->pages++;
		free(TAKE(version));
		version = str_dup(listed);
		free(TAKE(next));
		if (!more || !*more)
			break;
		next = str_dup(more);
	}
	*ret_version = TAKE(version);
	return 0;
}

struct kube_stream {
	struct json_stream_table table;
	struct json_stream *json_stream;
	struct http_call http;
	struct strv headers;
	char *url;
};

static int on_watch_event(void *ctx, json_t *event, struct err *err)
{
	struct kube_watch *w = ctx;
	const char *type = json_string_value(json_object_get(event, "type"));
	json_t *object = json_object_get(event, "object");
	const char *version =
		json_string_value(json_object_get(json_object_get(object, "metadata"), "resourceVersion"));
	if (str_eq(type, "ERROR")) {
		const char *message = json_string_value(json_object_get(object, "message"));
		json_int_t code = json_integer_value(json_object_get(object, "code"));
		w->is_gone = code == 410;
		return err_set(err, E_KUBE, "watch of %s: status %lld: %s", w->path, (long long)code,
			       message ? message : "");
	}
	if (!type || !version)
		return err_set(err, E_KUBE, "watch of %s: an event without type or resourceVersion", w->path);
	if (str_eq(type, "BOOKMARK"))
		w->bookmarks++;
	else if (w->event(w->ctx, type, object, err) < 0)
		return -1;
	free(w->version);
	w->version = str_dup(version);
	return 0;
}

int kube_watch_begin(struct kube *k, struct kube_watch *w, unsigned seconds, struct err *err)
{
	enum { GRACE_S = 10 };
	if (kube_token(k, false, err) < 0)
		return -1;
	kube_watch_end(w);
	w->is_gone = false;
	struct kube_stream *s = w->own = mem_alloc(sizeof(*s));
	s->table.record = w->record;
	s->json_stream = json_stream_new(&s->table, on_watch_event, w);
	strv_add(&s->headers, str_dup("Accept: application/json"));
	s->url = str_fmt("%s%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=%s%s%s",
			 k->config.server, w->path, seconds, w->version ? w->version : "0", w->query ? "&" : "",
			 w->query ? w->query : "");
	unsigned whole_ms = (seconds + GRACE_S) * 1000; // a watch may be silent to its end
	s->http = (struct http_call){ .url = s->url,
				      .headers = &s->headers,
				      .bearer = k->token,
				      .stall_ms = whole_ms,
				      .total_ms = whole_ms,
				      .sink = feed_json_stream,
				      .ctx = s->json_stream };
	kube_count(k, "WATCH", 0);
	return http_begin(k->http, &s->http, err);
}

int kube_step(struct kube *k, int wait_ms, struct err *err)
{
	return http_step(k->http, wait_ms, err);
}

int kube_watch_look(struct kube_watch *w, struct err *err)
{
	struct kube_stream *s = w->own;
	auto_kube_call struct kube_call call = { .table = &s->table };
	if (!s->http.is_done)
		return 1;
	if (w->is_gone)
		return 0;
	*err = s->http.err;
	if (s->http.err.code)
		return -1;
	if (kube_judge(&s->http, &call, err) < 0) {
		w->is_gone = call.status == 410;
		return w->is_gone ? 0 : -1;
	}
	return json_stream_end(s->json_stream, NULL, err);
}

void kube_watch_end(struct kube_watch *w)
{
	struct kube_stream *s = TAKE(w->own);
	if (!s)
		return;
	http_end(&s->http);
	json_stream_free(s->json_stream);
	strv_done(&s->headers);
	free(s->url);
	free(s);
}

void kube_watch_done(struct kube_watch *w)
{
	kube_watch_end(w);
	free(TAKE(w->version));
}
