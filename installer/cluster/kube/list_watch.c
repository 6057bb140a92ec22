// SPDX-License-Identifier: Apache-2.0
// Collections: LIST in pages, WATCH as a stream.
#include "cluster/kube/kube_internal.h"

enum { PAGE = 500, LIST_MS = 60000, ANEW = 3 };

static const char *const LIST_REST[] = { "metadata continue", "metadata resourceVersion", NULL };

// 1 = there is another page.
static int read_list_page(struct kube *k, struct kube_list *list, char **next, char **ret_version,
			  struct kube_call *call, struct err *err)
{
	auto_str char *at = *next ? http_escape(*next) : str_dup("");
	auto_str char *path =
		str_fmt("%s?limit=%u%s%s%s%s", list->path, list->limit ? list->limit : PAGE, *at ? "&continue=" : "",
			at, list->query ? "&" : "", list->query ? list->query : "");
	struct json_stream_table table = { .list = "items", .record = list->record, .rest = LIST_REST };
	*call = (struct kube_call){
		.path = path, .deadline_ms = LIST_MS, .table = &table, .take = list->take, .ctx = list->ctx
	};
	if (kube_run(k, call, err) < 0)
		return -1;
	const json_t *metadata = json_object_get(call->reply, "metadata");
	const char *more = json_string_value(json_object_get(metadata, "continue"));
	const char *version = json_string_value(json_object_get(metadata, "resourceVersion"));
	if (!version)
		return err_set(err, E_KUBE, "%s: the list has no resourceVersion", path);
	list->pages++;
	free(TAKE(*next));
	free(TAKE(*ret_version));
	*ret_version = str_dup(version);
	*next = more && *more ? str_dup(more) : NULL;
	return *next != NULL;
}

int kube_list(struct kube *k, struct kube_list *list, char **ret_version, struct err *err)
{
	auto_str char *next = NULL, *version = NULL;
	list->pages = 0;
	for (unsigned anew = 0;;) {
		auto_kube_call struct kube_call call = { 0 };
		int r = read_list_page(k, list, &next, &version, &call, err);
		if (r < 0 && call.status == 410 && next && ++anew < ANEW)
			free(TAKE(next));
		else if (r < 0)
			return -1;
		else if (r == 0)
			break;
	}
	*ret_version = TAKE(version);
	return 0;
}

struct kube_stream {
	struct kube_watch *watch;
	struct json_stream_table table;
	struct json_stream *json_stream;
	struct http_call http;
	struct strv headers;
	char *url;
};

static int fail_watch(struct kube_watch *w, const json_t *status, struct err *err)
{
	const char *message = json_string_value(json_object_get(status, "message"));
	json_int_t code = json_integer_value(json_object_get(status, "code"));
	w->is_gone = code == 410;
	return err_set(err, E_KUBE, "watch of %s: status %lld: %s", w->path, (long long)code, message ? message : "");
}

static int on_watch_event(void *ctx, json_t *event, struct err *err)
{
	struct kube_watch *w = ctx;
	const char *type = json_string_value(json_object_get(event, "type"));
	json_t *object = json_object_get(event, "object");
	const char *version =
		json_string_value(json_object_get(json_object_get(object, "metadata"), "resourceVersion"));
	if (str_eq(type, "ERROR"))
		return fail_watch(w, object, err);
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

static int on_watch_data(struct http_call *http, const void *data, size_t len, struct err *err)
{
	struct kube_stream *s = http->ctx;
	return json_stream_feed(s->json_stream, data, len, err);
}

int kube_watch_begin(struct kube *k, struct kube_watch *w, unsigned seconds, struct err *err)
{
	enum { GRACE_S = 10 };
	if (kube_token(k, false, err) < 0)
		return -1;
	kube_watch_end(w);
	w->is_gone = false;
	struct kube_stream *s = w->own = mem_alloc(sizeof(*s));
	s->watch = w;
	s->table.record = w->record;
	s->json_stream = json_stream_new(&s->table, on_watch_event, w);
	strv_add(&s->headers, str_dup("Accept: application/json"));
	s->url = str_fmt("%s%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=%s%s%s",
			 k->config.server, w->path, seconds, w->version ? w->version : "0", w->query ? "&" : "",
			 w->query ? w->query : "");
	unsigned whole_ms = (seconds + GRACE_S) * 1000; // nothing may happen for as long as it lasts
	s->http = (struct http_call){ .url = s->url,
				      .headers = &s->headers,
				      .bearer = k->token,
				      .stall_ms = whole_ms,
				      .total_ms = whole_ms,
				      .sink = on_watch_data,
				      .ctx = s };
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
