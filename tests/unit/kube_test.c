// SPDX-License-Identifier: Apache-2.0
// The client against an API server that lies, stalls, truncates, refuses and closes. What a real one does is in
// tests/cluster.
#include "cluster/kube/api.h"

#include "base/core/date.h"
#include "tests/unit/server.h"
#include "tests/unit/tempdir.h"

#include <time.h>

struct site {
	struct server server;
	struct folder folder;
	struct kube *kube;
	unsigned fails; // that come before an answer
	bool is_gone;   // the list's continue token has expired, once
	int ahead_s;    // of its clock
};

static void serve_dated(const struct site *site, int fd)
{
	char head[64];
	struct tm tm;
	time_t t = time(NULL) + site->ahead_s;
	strftime(head, sizeof(head), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", gmtime_r(&t, &tm));
	send_page(fd, "200 OK", head, "{}");
}

static void serve_list(struct site *site, int fd, const struct request *r)
{
	const char *at = request_has(r, "continue=a%2Fb%3D") ? "2" : request_has(r, "continue=c") ? "3" : "1";
	auto_str char *text =
		str_fmt("{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"%s\",\"continue\":\"%s\"},"
			"\"items\":[{\"metadata\":{\"name\":\"n%s\"},\"status\":{\"images\":[1,2]}}]}",
			at,
			*at == '1' ? "a/b=" :
			*at == '2' ? "c" :
				     "",
			at);
	if (*at == '3' && site->is_gone) {
		site->is_gone = false;
		send_page(fd, "410 Gone", "",
			  "{\"kind\":\"Status\",\"reason\":\"Expired\",\"message\":\"too old\",\"code\":410}");
	} else {
		send_page(fd, "200 OK", "", text);
	}
}

#define EVENT(type, name, version)                                                                  \
	"{\"type\":\"" type "\",\"object\":{\"kind\":\"Node\",\"metadata\":{\"name\":\"" name "\"," \
	"\"resourceVersion\":\"" version "\"},\"status\":{\"images\":[{\"names\":[\"x\"]}]}}}\n"

static void serve_watch(struct server *s, int fd, const struct request *r)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
	static const char promise[] = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 99999\r\n\r\n";
	if (request_has(r, "/gone?")) {
		send_page(fd, "410 Gone", "", "{\"kind\":\"Status\",\"message\":\"too old\",\"code\":410}");
		return;
	}
	send_text(fd, request_has(r, "/cut?") ? promise : head);
	if (request_has(r, "/mute?")) {
		server_hang(s);
		return;
	}
	send_text(fd, EVENT("ADDED", "a", "5") EVENT("BOOKMARK", "", "7"));
	usleep(20000);
	if (request_has(r, "/error?"))
		send_text(
			fd,
			"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too old\"}}\n");
	else if (request_has(r, "/broken?"))
		send_text(fd,
			  "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"message\":\"etcd\"}}\n");
	else if (request_has(r, "/half?"))
		send_text(fd, "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":");
	else if (request_has(r, "/lie?"))
		send_text(fd, "{\"type\":\"MODIFIED\",\"object\":{}}\n");
	else if (request_has(r, "/html?"))
		send_text(fd, "<html>");
	else
		send_text(fd, EVENT("DELETED", "a", "9"));
}

static const struct {
	const char *path, *status, *headers, *body;
} pages[] = {
	{ "/ok", "200 OK", "", "{\"kind\":\"Node\"}" },
	{ "/html", "200 OK", "", "<html>captive portal</html>" },
	{ "/array", "200 OK", "", "[]" },
	{ "/empty", "200 OK", "", "" },
	{ "/401", "401 Unauthorized", "", "{\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\"}" },
	{ "/403", "403 Forbidden", "", "{\"message\":\"nodes is forbidden\",\"reason\":\"Forbidden\"}" },
	{ "/404", "404 Not Found", "", "{\"message\":\"nodes \\\"x\\\" not found\",\"reason\":\"NotFound\"}" },
	{ "/409", "409 Conflict", "", "{\"message\":\"the object has been modified\",\"reason\":\"Conflict\"}" },
	{ "/exists", "409 Conflict", "", "{\"message\":\"already exists\",\"reason\":\"AlreadyExists\"}" },
	{ "/422", "422 Unprocessable Entity", "", "{\"message\":\"a test did not hold\",\"reason\":\"Invalid\"}" },
	{ "/uid", "422 Unprocessable Entity", "",
	  "{\"message\":\"Node is invalid\",\"details\":{\"causes\":[{\"field\":\"spec.taints\"},"
	  "{\"field\":\"metadata.uid\"}]}}" },
	{ "/field", "422 Unprocessable Entity", "",
	  "{\"message\":\"Node is invalid\",\"details\":{\"causes\":[{\"field\":\"spec.taints\"}]}}" },
	{ "/page404", "404 Not Found", "", "no such page" },
	{ "/eviction", "429 Too Many Requests", "Retry-After: 10\r\n",
	  "{\"message\":\"Cannot evict.\",\"details\":{\"causes\":[{\"reason\":\"Other\",\"message\":\"no\"},"
	  "{\"reason\":\"DisruptionBudget\",\"message\":\"The disruption budget web needs 1.\"}]}}" },
	{ "/later", "429 Too Many Requests", "Retry-After: 3600\r\n", "{\"message\":\"later\"}" },
	{ "/redirect", "302 Found", "Location: http://127.0.0.1:1/\r\n", "" },
};

static void serve(struct server *s, int fd, const struct request *r)
{
	struct site *site = s->ctx;
	if (site->fails) {
		site->fails--;
		send_page(fd, request_has(r, "busy") ? "429 Too Many Requests" : "503 Unavailable",
			  request_has(r, "busy") ? "Retry-After: 1\r\n" : "", "{\"message\":\"not now\"}");
		return;
	}
	if (request_has(r, "watch=1"))
		return serve_watch(s, fd, r);
	if (request_is(r, "GET /list?"))
		return serve_list(site, fd, r);
	if (request_is(r, "GET /html?"))
		return send_page(fd, "200 OK", "", "<html>captive portal</html>");
	if (request_is(r, "GET /bare?"))
		return send_page(fd, "200 OK", "", "{\"metadata\":{},\"items\":[]}");
	if (request_has(r, " /dated"))
		return serve_dated(site, fd);
	if (request_has(r, " /mute"))
		return server_hang(s);
	if (request_has(r, " /close"))
		return;
	if (request_has(r, " /token") && !request_has(r, "Authorization: Bearer second\r\n"))
		return send_page(fd, "401 Unauthorized", "", "{\"message\":\"Unauthorized\"}");
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		auto_str char *path = str_fmt("%s ", pages[i].path);
		if (strstr(r->head, path))
			return send_page(fd, pages[i].status, pages[i].headers, pages[i].body);
	}
	send_page(fd, "200 OK", "", "{}");
}

static void site_start(struct site *site)
{
	struct err err = { 0 };
	*site = (struct site){ 0 };
	folder_make(&site->folder);
	server_start(&site->server, serve, site);
	tempdir_write(&site->folder, "token", "first\n");
	auto_str char *config =
		str_fmt("{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: "
			"c, cluster: "
			"{server: 'http://127.0.0.1:%u'}}], users: [{name: u, user: {tokenFile: token}}]}",
			site->server.port);
	tempdir_write(&site->folder, "config", config);
	auto_str char *path = str_fmt("%s/config", site->folder.path);
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	setenv("no_proxy", "127.0.0.1", 1);
	expect(kube_config_file(path, NULL, &c, &err) == 0 && kube_open(&c, &site->kube, &err) == 0, err.text);
}

static void site_stop(struct site *site)
{
	kube_free(site->kube);
	server_stop(&site->server);
	folder_done(&site->folder);
}
#define auto_site __attribute__((cleanup(site_stop)))

static void test_answers(void **state)
{
	(void)state;
	static const struct {
		const char *path, *type, *text;
		int code;
	} rows[] = {
		{ "/ok", NULL, NULL, 0 },
		{ "/html", NULL, "the answer is not a JSON object", E_KUBE },
		{ "/array", NULL, "the answer is not a JSON object", E_KUBE },
		{ "/empty", NULL, "the answer is not a JSON object", E_KUBE },
		{ "/401", NULL, "/401: status 401: Unauthorized", E_AUTH },
		{ "/403", NULL, "status 403: nodes is forbidden", E_AUTH },
		{ "/404", NULL, "status 404: nodes \"x\" not found", E_NOT_FOUND },
		{ "/page404", NULL, "status 404: no such page", E_NOT_FOUND },
		{ "/409", NULL, "modified", E_CONFLICT },
		{ "/422", NULL, "a test did not hold", E_KUBE },
		{ "/422", "application/json-patch+json", "a test did not hold", E_CONFLICT },
		{ "/uid", "application/merge-patch+json", "Node is invalid", E_CONFLICT }, // another node has its name
		{ "/field", "application/merge-patch+json", "Node is invalid", E_KUBE },
		{ "/later", NULL, "status 429: later", E_KUBE }, // an hour is beyond the deadline: not waited for
		{ "/redirect", NULL, "redirected", E_NETWORK },
	};
	auto_site struct site site;
	site_start(&site);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_json json_t *body = json_object();
		auto_kube_call struct kube_call call = { .method = rows[i].type ? "PATCH" : NULL,
							 .path = rows[i].path,
							 .type = rows[i].type,
							 .body = body,
							 .deadline_ms = 2000 };
		expect(kube_run(site.kube, &call, &err) == (rows[i].code ? -1 : 0), rows[i].path);
		expect(err.code == rows[i].code && (!rows[i].text || strstr(err.text, rows[i].text)), err.text);
		expect(rows[i].code || json_is_object(call.reply), rows[i].path);
	}
}

static void test_repetition(void **state)
{
	(void)state;
	static const struct {
		const char *method, *path;
		unsigned fails, requests, deadline_ms;
		bool is_repeatable;
		int code;
	} rows[] = {
		{ NULL, "/ok", 2, 3, 5000, false, 0 },        // a read
		{ "POST", "/ok", 2, 1, 5000, false, E_KUBE }, // it may have been done
		{ "PATCH", "/ok", 1, 2, 5000, true, 0 },      // with a precondition
		{ "POST", "/busy", 1, 2, 5000, false, 0 },    // it has not been done
		{ NULL, "/busy", 9, 1, 1000, false, E_KUBE }, // its Retry-After is later than the deadline
		{ NULL, "/ok", 99, 0, 3000, false, E_KUBE },  // bounded in time
		{ NULL, "/close", 0, 0, 3000, false, E_NETWORK },
		{ "POST", "/close", 0, 1, 5000, false, E_NETWORK },
		{ NULL, "/mute", 0, 1, 3000, false, E_TIMEOUT },
	};
	auto_site struct site site;
	site_start(&site);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_kube_call struct kube_call call = { .method = rows[i].method,
							 .path = rows[i].path,
							 .deadline_ms = rows[i].deadline_ms,
							 .is_repeatable = rows[i].is_repeatable };
		size_t before = server_count(&site.server);
		long start = clock_ms();
		site.fails = rows[i].fails;
		expect(kube_run(site.kube, &call, &err) == (rows[i].code ? -1 : 0), err.text);
		auto_str char *row =
			str_fmt("row %zu: %zu requests: %s", i, server_count(&site.server) - before, err.text);
		expect(!rows[i].code || err.code == rows[i].code, row);
		expect(!rows[i].requests || server_count(&site.server) - before == rows[i].requests, row);
		expect(clock_ms() - start < (long)rows[i].deadline_ms + 20000, row); // it does not hang
		site.fails = 0;
		if (i + 1 == ARRAY_SIZE(rows)) // the server hangs until it is stopped
			return;
	}
}

static void test_token_is_read_again(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_site struct site site;
	site_start(&site);
	auto_kube_call struct kube_call call = { .path = "/token" }, again = { .path = "/token" };
	assert_int_equal(kube_run(site.kube, &call, &err), -1);
	assert_int_equal(err.code, E_AUTH);
	assert_int_equal(server_count(&site.server), 1); // the same token is not shown twice
	tempdir_write(&site.folder, "token", "second\n");
	expect(kube_run(site.kube, &again, &err) == 0, err.text);
	auto_str char *head = server_head(&site.server, 1);
	assert_non_null(strstr(head, "Authorization: Bearer first\r\n"));
}

// What was asked, and who said what of it: the words end up in Events and logs.
static void test_message_of_a_refusal(void **state)
{
	(void)state;
	static const struct {
		const char *method, *path, *type, *words, *head;
	} rows[] = {
		{ NULL, "/403", NULL, "GET %s/403: status 403: nodes is forbidden", NULL },
		{ "PATCH", "/409", "application/merge-patch+json",
		  "PATCH %s/409: status 409: the object has been modified",
		  "\r\nContent-Type: application/merge-patch+json\r\n" },
		{ "POST", "/eviction", NULL,
		  "POST %s/eviction: status 429: Cannot evict. The disruption budget web needs 1.",
		  "\r\nContent-Type: application/json\r\n" },
	};
	auto_site struct site site;
	site_start(&site);
	auto_str char *url = str_fmt("http://127.0.0.1:%u", site.server.port);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_json json_t *body = rows[i].method ? json_object() : NULL;
		auto_kube_call struct kube_call call = { .method = rows[i].method,
							 .path = rows[i].path,
							 .type = rows[i].type,
							 .body = body,
							 .is_busy_final = true };
		assert_int_equal(kube_run(site.kube, &call, &err), -1);
		const char *at = strstr(rows[i].words, "%s");
		auto_str char *want = str_fmt("%.*s%s%s", (int)(at - rows[i].words), rows[i].words, url, at + 2);
		assert_string_equal(err.text, want);
		auto_str char *head = server_head(&site.server, i);
		expect(strstr(head, "\r\nAccept: application/json\r\n"), head);
		expect(rows[i].head ? strstr(head, rows[i].head) != NULL : !strstr(head, "Content-Type:"), head);
	}
}

// A client that could trust nobody is none, and says whose configuration that is.
static void test_an_invalid_configuration(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct kube *kube = NULL;
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	c.server = str_dup("https://[::1]:6443");
	c.authorities = str_dup("no certificate");
	assert_int_equal(kube_open(&c, &kube, &err), -1);
	assert_null(kube);
	expect(err.code && str_starts(err.text, "https://[::1]:6443: "), err.text);
	assert_string_equal(c.authorities, "no certificate"); // it is still the caller's
}

static int add_name(void *ctx, json_t *object, struct err *err)
{
	(void)err;
	char **names = ctx;
	auto_str char *text = json_dumps(object, JSON_COMPACT);
	assert_null(strstr(text, "images"));
	str_add(names, "%s ", json_string_value(json_object_get(json_object_get(object, "metadata"), "name")));
	return 0;
}

static void test_list(void **state)
{
	(void)state;
	static const char *const record[] = { "metadata name", NULL };
	static const struct {
		bool is_gone;
		const char *names;
		unsigned pages;
	} rows[] = { { false, "n1 n2 n3 ", 3 }, { true, "n1 n2 n1 n2 n3 ", 5 } };
	auto_site struct site site;
	site_start(&site);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *names = NULL, *version = NULL;
		struct kube_list list = { .path = "/list",
					  .query = "labelSelector=a",
					  .record = record,
					  .take = add_name,
					  .ctx = &names,
					  .limit = 1 };
		site.is_gone = rows[i].is_gone;
		expect(kube_list(site.kube, &list, &version, &err) == 0, err.text);
		assert_string_equal(names, rows[i].names);
		assert_string_equal(version, "3");
		assert_int_equal(list.pages, rows[i].pages);
	}
	auto_str char *head = server_head(&site.server, 1);
	expect(str_starts(head, "GET /list?limit=1&continue=a%2Fb%3D&labelSelector=a "), head);
	struct err err = { 0 };
	auto_str char *names = NULL, *version = NULL;
	struct kube_list list = { .path = "/html", .record = record, .take = add_name, .ctx = &names };
	assert_int_equal(kube_list(site.kube, &list, &version, &err), -1);
	assert_int_equal(err.code, E_SERVER);
	list.path = "/bare"; // nobody could watch from there
	assert_int_equal(kube_list(site.kube, &list, &version, &err), -1);
	expect(err.code == E_KUBE && strstr(err.text, "/bare?limit=500: the list has no resourceVersion"), err.text);
}

static int add_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	char **events = ctx;
	str_add(events, "%s ", type);
	return add_name(ctx, object, err);
}

static void test_watch(void **state)
{
	(void)state;
	static const char *const record[] = { KUBE_EVENT, "object metadata name", NULL };
	static const struct {
		const char *path, *events, *version;
		int result, code;
		bool is_gone;
	} rows[] = {
		{ "/fine", "ADDED a DELETED a ", "9", 0, 0, false },
		{ "/gone", NULL, NULL, 0, 0, true },
		{ "/error", "ADDED a ", "7", 0, 0, true },
		{ "/broken", "ADDED a ", "7", -1, E_KUBE, false },
		{ "/half", "ADDED a ", "7", -1, E_SERVER, false },
		{ "/cut", "ADDED a DELETED a ", "9", -1, E_NETWORK, false },
		{ "/lie", "ADDED a ", "7", -1, E_KUBE, false },
		{ "/html", "ADDED a ", "7", -1, E_SERVER, false },
	};
	auto_site struct site site;
	site_start(&site);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *events = NULL;
		auto_kube_watch struct kube_watch w = {
			.path = rows[i].path, .record = record, .event = add_event, .ctx = &events
		};
		int r = 1;
		assert_int_equal(kube_watch_begin(site.kube, &w, 5, &err), 0);
		while (r > 0 && kube_step(site.kube, 200, &err) == 0)
			r = kube_watch_look(&w, &err);
		expect(r == rows[i].result && (!rows[i].code || err.code == rows[i].code), err.text);
		expect(str_eq(events, rows[i].events) || events == rows[i].events, events ? events : rows[i].path);
		expect(str_eq(w.version, rows[i].version) || w.version == rows[i].version, rows[i].path);
		expect(w.is_gone == rows[i].is_gone && w.bookmarks == (rows[i].version ? 1 : 0), rows[i].path);
	}
	struct err err = { 0 };
	auto_kube_watch struct kube_watch w = { .path = "/mute", .record = record, .event = add_event };
	w.version = str_dup("41");
	assert_int_equal(kube_watch_begin(site.kube, &w, 60, &err), 0);
	for (int i = 0; i < 200 && server_count(&site.server) <= ARRAY_SIZE(rows); i++)
		assert_int_equal(kube_step(site.kube, 50, &err), 0);
	assert_int_equal(kube_watch_look(&w, &err), 1); // nothing happens, and that is no failure
	auto_str char *head = server_head(&site.server, ARRAY_SIZE(rows));
	expect(strstr(head, "allowWatchBookmarks=true&timeoutSeconds=60&resourceVersion=41"), head);
	expect(strstr(head, "\r\nAccept: application/json\r\n"), head);
}

static void test_lost_races(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct api_eviction e;
	auto_site struct site site;
	site_start(&site);
	auto_json json_t *body = json_object();
	assert_int_equal(api_get(site.kube, "/404", NULL, &err), 0);
	assert_int_equal(api_get(site.kube, "/403", NULL, &err), -1);
	assert_int_equal(api_create(site.kube, "/exists", body, NULL, &err), 0);
	assert_int_equal(api_create(site.kube, "/409", body, NULL, &err), -1);
	assert_int_equal(api_change(site.kube, API_REPLACE, "/409", body, NULL, &err), 0);
	assert_int_equal(api_change(site.kube, API_REPLACE, "/404", body, NULL, &err), 0);
	assert_int_equal(api_change(site.kube, API_PATCH, "/422", body, NULL, &err), 0);
	assert_int_equal(api_change(site.kube, API_MERGE, "/422", body, NULL, &err), -1); // that is a mistake of ours
	assert_int_equal(api_change(site.kube, API_MERGE, "/ok", body, NULL, &err), 1);
	assert_int_equal(api_evict(site.kube, "n", "p", "u", &e, &err), 0);
	assert_int_equal(e.what, API_BLOCKED);
	assert_int_equal(e.retry_ms, 10000);
	assert_string_equal(e.why.text, "The disruption budget web needs 1.");
}

// Without an answer that has a date it is our own. The first one is believed; one that agrees with what is believed
// moves nothing, and a step moves it by a tenth of the time that has passed.
static void test_the_servers_clock(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		int ahead_s, want_s;
	} rows[] = {
		{ "/ok", 0, 0 },          { "/dated", 1, 0 },       { "/dated", -1, 0 },      { "/dated", 3600, 0 },
		{ "/dated", -86400, 0 },  { "/dated", 0, 0 },       { "/dated", 3600, 3600 }, { "/ok", 0, 3600 },
		{ "/dated", 3599, 3600 }, { "/dated", -900, 3600 }, { "/dated", 9000, 3600 },
	};
	auto_site struct site first, other;
	site_start(&first);
	site_start(&other);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *row = str_fmt("row %zu", i);
		struct site *site = rows[i].want_s ? &other : &first;
		site->ahead_s = rows[i].ahead_s;
		expect(api_get(site->kube, rows[i].path, NULL, &err) == 1, err.text);
		int64_t before = time(NULL), there = kube_time(site->kube), after = time(NULL);
		// A second may begin between any two of the clocks that were read.
		expect(there >= before + rows[i].want_s - 1 && there <= after + rows[i].want_s + 1, row);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_repetition),
		cmocka_unit_test(test_token_is_read_again),
		cmocka_unit_test(test_message_of_a_refusal),
		cmocka_unit_test(test_an_invalid_configuration),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_watch),
		cmocka_unit_test(test_lost_races),
		cmocka_unit_test(test_the_servers_clock),
	};
	return cmocka_run_group_tests_name("kube", tests, NULL, NULL);
}
