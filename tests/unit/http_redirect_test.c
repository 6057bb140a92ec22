// SPDX-License-Identifier: Apache-2.0
#include "base/http/http.h"

#include "tests/unit/server.h"

enum { MAX = 1 << 20 };

static struct http *client(unsigned connect_ms, unsigned stall_ms)
{
	struct http *h = NULL;
	struct err err;
	struct http_options o = { .proxy = "", .connect_ms = connect_ms, .stall_ms = stall_ms };
	assert_int_equal(http_new(&o, &h, &err), 0);
	return h;
}

static void serve_redirects(struct server *s, int fd, const struct request *r)
{
	struct server *other = s->ctx;
	auto_str char *elsewhere = other ? str_fmt("Location: http://127.0.0.1:%u/there\r\n", other->port) : NULL;
	auto_str char *further = other ? str_fmt("Location: http://127.0.0.1:%u/here\r\n", other->port) : NULL;
	if (request_is(r, "GET /away "))
		send_page(fd, "307 Temporary Redirect", elsewhere, "body of the redirect");
	else if (request_is(r, "GET /twice "))
		send_page(fd, "307 Temporary Redirect", further, "");
	else if (request_is(r, "GET /here "))
		send_page(fd, "302 Found", "Location: there?q=1\r\n", "");
	else if (request_is(r, "GET /loop "))
		send_page(fd, "301 Moved", "Location: /loop\r\n", "");
	else if (request_is(r, "GET /file "))
		send_page(fd, "301 Moved", "Location: file:///etc/passwd\r\n", "");
	else if (request_is(r, "GET /nowhere "))
		send_page(fd, "302 Found", "", "no Location");
	else if (request_is(r, "PUT /away "))
		send_page(fd, "307 Temporary Redirect", elsewhere, "");
	else if (request_is(r, "PUT /found "))
		send_page(fd, "302 Found", elsewhere, "");
	else
		send_reply(fd, "200 OK", "", r->body_len ? r->body : "there", r->body_len ? r->body_len : 5);
}

static void test_redirects_and_credentials(void **state)
{
	(void)state;
	static const struct {
		const char *path, *user, *bearer;
		bool is_kept; // the last request has the credentials
	} rows[] = {
		{ "/here", "u", NULL, true },
		{ "/here", NULL, "secret", true },
		{ "/away", "u", NULL, false },
		{ "/away", NULL, "secret", false },
	};
	auto_server struct server s, other;
	server_start(&other, serve_redirects, NULL);
	server_start(&s, serve_redirects, &other);
	auto_http struct http *h = client(60000, 60000);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *url = server_url(&s, rows[i].path);
		size_t here = server_count(&s), there = server_count(&other);
		auto_http_call struct http_call call = {
			.url = url,
			.max = MAX,
			.user = rows[i].user,
			.password = "p",
			.bearer = rows[i].bearer,
			.range_from = 7,
		};
		expect(http_run(h, &call, &err) == 0 && call.status == 200, rows[i].path);
		expect(str_eq(call.reply, "there"), call.reply);
		auto_str char *first = server_head(&s, here);
		auto_str char *last = rows[i].is_kept ? server_head(&s, here + 1) : server_head(&other, there);
		expect(strstr(first, "\r\nAuthorization: "), first);
		expect(!strstr(last, "Authorization") == !rows[i].is_kept, last);
		expect(strstr(last, "Range: bytes=7-"), last);
	}
}

// From the second host to another page of its own: that is the host of the request before, but not the one that the
// credentials are for.
static void test_redirects_within_another_host(void **state)
{
	(void)state;
	static const char *const rows[][2] = { { "u", NULL }, { NULL, "secret" } };
	auto_server struct server s, other;
	server_start(&other, serve_redirects, NULL);
	server_start(&s, serve_redirects, &other);
	auto_http struct http *h = client(60000, 60000);
	auto_str char *url = server_url(&s, "/twice");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_http_call struct http_call call = {
			.url = url, .max = MAX, .user = rows[i][0], .password = "p", .bearer = rows[i][1]
		};
		expect(http_run(h, &call, &err) == 0 && str_eq(call.reply, "there"), err.text);
		auto_str char *home = server_head(&s, i), *first = server_head(&other, 2 * i),
			      *second = server_head(&other, 2 * i + 1);
		expect(strstr(home, "\r\nAuthorization: "), home);
		expect(str_starts(first, "GET /here ") && !strstr(first, "Authorization"), first);
		expect(str_starts(second, "GET /there") && !strstr(second, "Authorization"), second);
	}
}

static void test_redirects_that_are_not_followed(void **state)
{
	(void)state;
	auto_server struct server s, other;
	server_start(&other, serve_redirects, NULL);
	server_start(&s, serve_redirects, &other);
	auto_http struct http *h = client(60000, 60000);
	struct err err = { 0 };
	auto_str char *loop = server_url(&s, "/loop"), *file = server_url(&s, "/file"),
		      *found = server_url(&s, "/found"), *away = server_url(&s, "/away"),
		      *nowhere = server_url(&s, "/nowhere");
	struct http_call call = { .url = loop, .max = MAX };
	assert_int_equal(http_run(h, &call, &err), -1);
	assert_int_equal(err.code, E_NETWORK);
	assert_int_equal(server_count(&s), 6);
	http_end(&call);
	call.url = file;
	assert_int_equal(http_run(h, &call, &err), -1);
	expect(strstr(err.text, "not an http or https address"), err.text);
	http_end(&call);
	call.url = nowhere;
	assert_int_equal(http_run(h, &call, &err), 0);
	assert_int_equal(call.status, 302);
	http_end(&call);
	call = (struct http_call){ .url = found, .max = MAX, .method = "PUT", .body = "b", .body_size = 1 };
	assert_int_equal(http_run(h, &call, &err), 0);
	assert_int_equal(call.status, 302); // what was sent is not sent as something else
	http_end(&call);
	call.url = away;
	assert_int_equal(http_run(h, &call, &err), 0);
	assert_string_equal(call.reply, "b");
	http_end(&call);
}

static void serve_proxy(struct server *s, int fd, const struct request *r)
{
	(void)s;
	if (request_is(r, "CONNECT "))
		send_page(fd, "403 Forbidden", "", "");
	else
		send_page(fd, "200 OK", "", "from the proxy");
}

static void test_proxy(void **state)
{
	(void)state;
	auto_server struct server proxy, s;
	server_start(&proxy, serve_proxy, NULL);
	server_start(&s, serve_redirects, NULL);
	auto_str char *name = str_fmt("user:secret@127.0.0.1:%u", proxy.port),
		      *direct = str_fmt("127.0.0.1:%u", s.port);
	auto_str char *url = server_url(&s, "/there");
	struct http_options o = { .proxy = name, .no_proxy = direct, .connect_ms = 60000, .stall_ms = 60000 };
	struct err err = { 0 };
	auto_http struct http *h = NULL;
	assert_int_equal(http_new(&o, &h, &err), 0);
	auto_http_call struct http_call far = { .url = "http://example.invalid/x", .max = MAX };
	assert_int_equal(http_run(h, &far, &err), 0);
	assert_string_equal(far.reply, "from the proxy");
	auto_str char *head = server_head(&proxy, 0);
	assert_true(str_starts(head, "GET http://example.invalid/x HTTP/1.1\r\n"));
	auto_http_call struct http_call near = { .url = url, .max = MAX };
	assert_int_equal(http_run(h, &near, &err), 0);
	assert_string_equal(near.reply, "there");
	auto_http_call struct http_call tunnel = { .url = "https://example.invalid/x", .max = MAX };
	assert_int_equal(http_run(h, &tunnel, &err), -1);
	assert_int_equal(err.code, E_NETWORK);
	expect(strstr(err.text, "(proxy)") && strstr(err.text, "403") && !strstr(err.text, "secret"), err.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_redirects_and_credentials),
		cmocka_unit_test(test_redirects_within_another_host),
		cmocka_unit_test(test_redirects_that_are_not_followed),
		cmocka_unit_test(test_proxy),
	};
	return cmocka_run_group_tests_name("http_redirect", tests, NULL, NULL);
}
