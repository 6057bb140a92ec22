// SPDX-License-Identifier: Apache-2.0
#include "base/http/http.h"

#include "base/core/date.h"
#include "tests/unit/server.h"

enum { MAX = 1 << 20, PATIENT_MS = 60000 }; // longer than any machine is busy

static struct http *client(unsigned connect_ms, unsigned stall_ms)
{
	struct http *h = NULL;
	struct err err;
	struct http_options o = { .proxy = "", .connect_ms = connect_ms, .stall_ms = stall_ms };
	assert_int_equal(http_new(&o, &h, &err), 0);
	return h;
}

static int probe(struct http *h, char *url, struct http_probe *ret, struct err *err)
{
	return http_probe_all(h, &(struct strv){ .items = &url, .count = 1 }, ret, err);
}

static void serve_pages(struct server *s, int fd, const struct request *r)
{
	(void)s;
	static const char big[9000] = { [0 ... 8999] = 'x' };
	if (request_is(r, "GET /plain "))
		send_page(fd, "200 OK", "X-One: 1\r\nX-Two: a\r\nX-Two: b\r\n", "hello");
	else if (request_is(r, "HEAD /plain "))
		send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n");
	else if (request_is(r, "GET /empty "))
		send_page(fd, "200 OK", "", "");
	else if (request_is(r, "GET /big "))
		send_reply(fd, "200 OK", "", big, sizeof(big));
	else if (request_is(r, "GET /endless ")) {
		send_text(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
		for (int i = 0; i < 300; i++)
			send_all(fd, big, sizeof(big));
	} else if (request_is(r, "GET /promise "))
		send_text(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\nx");
	else if (request_is(r, "GET /cut "))
		send_text(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100\r\n\r\nonly this");
	else if (request_is(r, "GET /gzip "))
		send_page(fd, "200 OK", "Content-Encoding: gzip\r\n", "not unpacked");
	else if (request_is(r, "GET /missing "))
		send_page(fd, "404 Not Found", "", "<html>\n no such \x01page</html>");
	else if (request_is(r, "GET /long-error "))
		send_reply(fd, "500 Broken", "", big, sizeof(big));
	else if (request_is(r, "GET /no-reply "))
		return;
	else if (request_is(r, "GET /garbage "))
		send_text(fd, "\x7f\x45LF\n\n\n");
	else if (request_is(r, "PUT /echo "))
		send_reply(fd, "201 Created", "", r->body, r->body_len);
	else if (request_is(r, "POST /echo "))
		send_reply(fd, "202 Accepted", "", r->body, r->body_len);
	else if (request_has(r, "Range: bytes=3-"))
		send_page(fd, "206 Partial Content", "Content-Range: bytes 3-4/5\r\n", "lo");
	else
		send_page(fd, "403 Forbidden", "", "who are you?");
}

static void test_replies(void **state)
{
	(void)state;
	static const struct {
		const char *path, *reply, *text;
		int code;
		long status;
	} rows[] = {
		{ "/plain", "hello", NULL, 0, 200 },
		{ "/empty", NULL, NULL, 0, 200 },
		{ "/gzip", "not unpacked", NULL, 0, 200 },
		{ "/missing", "<html>\n no such \x01page</html>", NULL, 0, 404 },
		{ "/cut", NULL, "/cut (http): ", E_NETWORK, 200 },
		{ "/no-reply", NULL, "(http): Empty reply", E_NETWORK, 0 },
		{ "/garbage", NULL, "(http): ", E_NETWORK, 0 },
	};
	auto_server struct server s;
	server_start(&s, serve_pages, NULL);
	auto_http struct http *h = client(PATIENT_MS, PATIENT_MS);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *url = server_url(&s, rows[i].path);
		auto_http_call struct http_call call = { .url = url, .max = MAX };
		expect(http_run(h, &call, &err) == (rows[i].code ? -1 : 0), rows[i].path);
		expect(err.code == rows[i].code && call.err.code == rows[i].code, err.text);
		expect(!rows[i].text || strstr(err.text, rows[i].text), err.text);
		expect(rows[i].code || call.status == rows[i].status, rows[i].path);
		expect(rows[i].code || str_eq(call.reply, rows[i].reply) || call.reply == rows[i].reply, rows[i].path);
	}
	auto_str char *head = server_head(&s, 0);
	assert_non_null(strstr(head, "User-Agent: kmodsmith/" KMODSMITH_VERSION "\r\n"));
	assert_null(strstr(head, "Accept-Encoding"));
}

static void test_headers(void **state)
{
	(void)state;
	auto_server struct server s;
	server_start(&s, serve_pages, NULL);
	auto_http struct http *h = client(PATIENT_MS, PATIENT_MS);
	auto_str char *url = server_url(&s, "/plain");
	auto_strv struct strv headers = { 0 };
	strv_add(&headers, str_dup("Accept: a/b"));
	struct err err;
	auto_http_call struct http_call call = { .url = url, .max = MAX, .headers = &headers };
	assert_int_equal(http_run(h, &call, &err), 0);
	assert_string_equal(http_header(&call, "x-one"), "1");
	assert_string_equal(http_header(&call, "X-Two"), "a");
	assert_string_equal(http_header_at(&call, "X-Two", 1), "b");
	assert_null(http_header_at(&call, "X-Two", 2));
	assert_null(http_header(&call, "X-Three"));
	auto_str char *head = server_head(&s, 0);
	assert_non_null(strstr(head, "\r\nAccept: a/b\r\n"));
	assert_null(strstr(head, "*/*"));
}

static void test_memory_is_bounded(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		size_t max;
		int code;
	} rows[] = {
		{ "/big", 9000, 0 },
		{ "/big", 8999, E_TOO_LARGE },
		{ "/endless", 50000, E_TOO_LARGE },
		{ "/promise", MAX, E_TOO_LARGE },
		{ "/plain", 0, E_TOO_LARGE },
		{ "/empty", 0, 0 },
		{ "/long-error", 10, 0 },
	};
	auto_server struct server s;
	server_start(&s, serve_pages, NULL);
	auto_http struct http *h = client(PATIENT_MS, PATIENT_MS);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *url = server_url(&s, rows[i].path);
		auto_http_call struct http_call call = { .url = url, .max = rows[i].max };
		expect(http_run(h, &call, &err) == (rows[i].code ? -1 : 0), rows[i].path);
		expect(err.code == rows[i].code, err.text);
		expect(call.reply_len == 4096 || call.reply_len <= rows[i].max, rows[i].path);
	}
}

static int count(struct http_call *call, const void *data, size_t len, struct err *err)
{
	(void)data;
	assert_true(call->status == 200 || call->status == 206);
	size_t *left = call->ctx;
	if (len > *left)
		return err_set(err, E_STORE_FULL, "no room");
	*left -= len;
	return 0;
}

static void test_sink(void **state)
{
	(void)state;
	auto_server struct server s;
	server_start(&s, serve_pages, NULL);
	auto_http struct http *h = client(PATIENT_MS, PATIENT_MS);
	struct err err = { 0 };
	size_t left = 10000;
	auto_str char *url = server_url(&s, "/big"), *missing = server_url(&s, "/missing");
	struct http_call call = { .url = url, .sink = count, .ctx = &left };
	assert_int_equal(http_run(h, &call, &err), 0);
	assert_int_equal(left, 1000);
	assert_null(call.reply);
	http_end(&call);
	assert_int_equal(http_run(h, &call, &err), -1); // what the sink says is what is wrong
	assert_int_equal(err.code, E_STORE_FULL);
	assert_string_equal(err.text, "no room");
	http_end(&call);
	call.url = missing; // an error's text is no content
	assert_int_equal(http_run(h, &call, &err), 0);
	assert_int_equal(left, 1000);
	assert_true(str_starts(call.reply, "<html>"));
	http_end(&call);
}

static void test_range(void **state)
{
	(void)state;
	auto_server struct server s;
	server_start(&s, serve_pages, NULL);
	auto_http struct http *h = client(PATIENT_MS, PATIENT_MS);
	struct err err = { 0 };
	auto_str char *url = server_url(&s, "/any"), *plain = server_url(&s, "/plain");
	auto_http_call struct http_call call = { .url = url, .max = MAX, .range_from = 3 };
	assert_int_equal(http_run(h, &call, &err), 0);
	assert_int_equal(call.status, 206);
	assert_string_equal(call.reply, "lo");
	auto_http_call struct http_call ignored = { .url = plain, .max = MAX, .range_from = 3 };
	assert_int_equal(http_run(h, &ignored, &err), 0); // a server that ignores it is no error here
	assert_int_equal(ignored.status, 200);
	assert_string_equal(ignored.reply, "hello");
}

static void test_bodies(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_server struct server s;
	folder_make(&folder);
	folder_file(&folder, "f", "from a file");
	server_start(&s, serve_pages, NULL);
	auto_http struct http *h = client(PATIENT_MS, PATIENT_MS);
	struct err err = { 0 };
	auto_fd int fd = root_open(&folder.root, "f", O_RDONLY, &err);
	auto_str char *url = server_url(&s, "/echo");
	const struct http_call rows[] = {
		{ .url = url, .max = MAX, .method = "PUT", .body = "memory", .body_size = 6 },
		{ .url = url, .max = MAX, .method = "PUT", .body_fd = fd, .body_size = 11 },
		{ .url = url, .max = MAX, .method = "POST" },
		{ .url = url, .max = MAX, .method = "PUT", .body_fd = fd, .body_size = 12 }, // shorter than promised
	};
	static const char *const want[] = { "memory", "from a file", NULL, NULL };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_http_call struct http_call call = rows[i];
		assert_int_equal(http_run(h, &call, &err), i == 3 ? -1 : 0);
		assert_true(i == 3 || str_eq(call.reply, want[i]) || call.reply == want[i]);
	}
	assert_int_equal(err.code, E_STORE_CORRUPT);
	auto_str char *post = server_head(&s, 2);
	assert_non_null(strstr(post, "Content-Length: 0\r\n"));
	assert_null(strstr(post, "Content-Type"));
	assert_null(strstr(post, "Expect"));
}

static void test_head(void **state)
{
	(void)state;
	auto_server struct server s;
	server_start(&s, serve_pages, NULL);
	auto_http struct http *h = client(PATIENT_MS, PATIENT_MS);
	struct err err = { 0 };
	auto_str char *url = server_url(&s, "/plain");
	auto_http_call struct http_call call = { .url = url, .method = "HEAD" };
	assert_int_equal(http_run(h, &call, &err), 0);
	assert_int_equal(call.status, 200);
	assert_string_equal(http_header(&call, "Content-Length"), "5");
}

static void serve_slowly(struct server *s, int fd, const struct request *r)
{
	if (request_is(r, "GET /trickle ")) {
		send_text(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 12\r\n\r\n");
		for (int i = 0; i < 12; i++) {
			send_text(fd, "x");
			usleep(250000);
		}
		return;
	}
	if (request_is(r, "GET /stall "))
		send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nsome");
	server_hang(s);
}

static void test_deadlines(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		unsigned stall_ms;
		int code;
	} rows[] = { { "/trickle", 2000, 0 }, { "/stall", 300, E_TIMEOUT }, { "/silent", 300, E_TIMEOUT } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_server struct server s;
		server_start(&s, serve_slowly, NULL);
		auto_http struct http *h = client(PATIENT_MS, rows[i].stall_ms);
		struct err err = { 0 };
		auto_str char *url = server_url(&s, rows[i].path);
		long start = clock_ms();
		auto_http_call struct http_call call = { .url = url, .max = MAX };
		expect(http_run(h, &call, &err) == (rows[i].code ? -1 : 0), rows[i].path);
		expect(err.code == rows[i].code, err.text);
		expect(!rows[i].code || strstr(err.text, "no data for 300 ms"), err.text);
		expect(clock_ms() - start < PATIENT_MS / 2, rows[i].path);
		expect(rows[i].code || clock_ms() - start > (long)rows[i].stall_ms, rows[i].path);
	}
}

// Each byte comes in time for the stall, and the whole would take for ever.
static void test_least_rate(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		unsigned rate;
		int code;
	} rows[] = { { "as quick as it must be", 1, 0 }, { "slower", 100, E_TIMEOUT } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_server struct server s;
		server_start(&s, serve_slowly, NULL);
		struct http_options o = { .proxy = "",
					  .connect_ms = PATIENT_MS,
					  .stall_ms = PATIENT_MS,
					  .least_rate = rows[i].rate,
					  .rate_ms = 1200 };
		auto_http struct http *h = NULL;
		struct err err = { 0 };
		assert_int_equal(http_new(&o, &h, &err), 0);
		auto_str char *url = server_url(&s, "/trickle");
		auto_http_call struct http_call call = { .url = url, .max = MAX };
		long start = clock_ms();
		expect(http_run(h, &call, &err) == (rows[i].code ? -1 : 0), rows[i].what);
		expect(err.code == rows[i].code, err.text);
		expect(!rows[i].code || strstr(err.text, "in 1200 ms, less than 100 bytes a second"), err.text);
		expect(clock_ms() - start >= 1200, rows[i].what); // not before its time
	}
}

// A socket that listens and whose queue is full: to who connects, a black hole.
static void test_black_hole(void **state)
{
	(void)state;
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	auto_fd int fd = socket(AF_INET, SOCK_STREAM, 0);
	auto_fd int fill = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(fill, (struct sockaddr *)&at, len), 0);
	auto_http struct http *h = client(300, PATIENT_MS);
	struct err err = { 0 };
	auto_str char *url = str_fmt("http://127.0.0.1:%u/", ntohs(at.sin_port));
	long start = clock_ms();
	auto_http_call struct http_call call = { .url = url, .max = MAX };
	assert_int_equal(http_run(h, &call, &err), -1);
	assert_int_equal(err.code, E_TIMEOUT);
	expect(strstr(err.text, "(tcp)") && !strstr(err.text, " after "), err.text);
	assert_true(clock_ms() - start < PATIENT_MS / 2); // not the stall limit
}

static void test_unreachable(void **state)
{
	(void)state;
	static const struct {
		const char *url, *text;
		int code;
	} rows[] = {
		// without how long it took, so that what lasts is told once
		{ "http://127.0.0.1:1/x",
		  "http://127.0.0.1:1 (tcp): Failed to connect to 127.0.0.1 port 1: ", E_NETWORK },
		{ "http://u:secret@127.0.0.1:1/x?token=secret", "http://127.0.0.1:1 (tcp): ", E_NETWORK },
		{ "http://no-such-host.invalid/", "(dns): ", E_NETWORK }, // or E_TIMEOUT where no name server answers
		{ "ftp://127.0.0.1/", "ftp://127.0.0.1/", E_USAGE },
		{ "file:///etc/passwd", "", E_USAGE },
		{ "http://", "", E_USAGE },
		{ "", "", E_USAGE },
		{ "no url", "", E_USAGE },
	};
	auto_http struct http *h = client(PATIENT_MS, PATIENT_MS);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_http_call struct http_call call = { .url = rows[i].url, .max = MAX };
		expect(http_run(h, &call, &err) == -1, rows[i].url);
		expect(err.code == rows[i].code || (err.code == E_TIMEOUT && strstr(err.text, "(dns)")), err.text);
		expect(strstr(err.text, rows[i].text) && !strstr(err.text, "secret"), err.text);
	}
}

static void test_side_by_side(void **state)
{
	(void)state;
	auto_server struct server s, slow;
	server_start(&s, serve_pages, NULL);
	server_start(&slow, serve_slowly, NULL);
	auto_http struct http *h = client(PATIENT_MS, PATIENT_MS);
	struct err err;
	auto_str char *fast_url = server_url(&s, "/plain"), *slow_url = server_url(&slow, "/silent");
	struct http_call fast = { .url = fast_url, .max = MAX }, hung = { .url = slow_url, .max = MAX };
	assert_int_equal(http_begin(h, &hung, &err), 0);
	assert_int_equal(http_begin(h, &fast, &err), 0);
	while (!fast.is_done && !hung.is_done)
		assert_int_equal(http_step(h, 50, &err), 0);
	assert_true(fast.is_done && !hung.is_done);
	assert_string_equal(fast.reply, "hello");
	http_end(&hung); // given up while it is on its way
	http_end(&fast);
	http_end(&fast);
}

static void test_status_errors(void **state)
{
	(void)state;
	static const struct {
		long status;
		int code;
	} rows[] = {
		{ 301, E_NETWORK },   { 400, E_NETWORK }, { 401, E_AUTH },   { 403, E_AUTH },
		{ 404, E_NOT_FOUND }, { 405, E_NETWORK }, { 407, E_AUTH },   { 410, E_NOT_FOUND },
		{ 429, E_SERVER },    { 500, E_SERVER },  { 503, E_SERVER },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		char reply[] = "<html>\nsorry";
		struct http_call call = { .url = "https://u:p@h/x?t=1",
					  .status = rows[i].status,
					  .reply = reply,
					  .reply_len = strlen(reply) };
		assert_int_equal(http_status_error(&call, &err), -1);
		auto_str char *want = str_fmt("GET https://h/x: status %ld: <html> sorry", rows[i].status);
		assert_int_equal(err.code, rows[i].code);
		assert_string_equal(err.text, want);
	}
}

static void test_probe(void **state)
{
	(void)state;
	static const struct {
		const char *path, *layer;
		long status;
	} rows[] = { { "/plain", NULL, 200 },
		     { "/endless", NULL, 200 },
		     { "/missing", "http", 404 },
		     { "/no-reply", "http", 0 } };
	auto_server struct server s;
	server_start(&s, serve_pages, NULL);
	auto_http struct http *h = client(PATIENT_MS, PATIENT_MS);
	auto_str char *address = str_fmt("127.0.0.1:%u", s.port);
	struct err err;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct http_probe p = { 0 };
		auto_str char *url = server_url(&s, rows[i].path);
		expect(probe(h, url, &p, &err) == 0, rows[i].path);
		expect(p.status == rows[i].status, rows[i].path);
		expect(str_eq(p.layer, rows[i].layer) || p.layer == rows[i].layer, rows[i].path);
		expect(!p.layer == !p.reason && !p.proxy && !p.ca_subject && str_eq(p.address, address), rows[i].path);
		http_probe_done(&p);
	}
	struct http_probe p = { 0 };
	assert_int_equal(probe(h, (char[]){ "http://127.0.0.1:1/" }, &p, &err), 0);
	assert_string_equal(p.layer, "tcp");
	assert_null(p.address);
	http_probe_done(&p);
	assert_int_equal(probe(h, (char[]){ "nonsense" }, &p, &err), -1);
}

static void test_escape(void **state)
{
	(void)state;
	auto_str char *got = http_escape("repository:a/b:pull,push ~");
	assert_string_equal(got, "repository%3Aa%2Fb%3Apull%2Cpush%20~");
}

static void test_join(void **state)
{
	(void)state;
	static const char base[] = "https://u:p@h:8443/v2/a/blobs/uploads/";
	static const struct {
		const char *reference, *want;
		bool is_same;
	} rows[] = {
		{ "/v2/x?_state=1", "https://u:p@h:8443/v2/x?_state=1", true },
		{ "y?a=b", "https://u:p@h:8443/v2/a/blobs/uploads/y?a=b", true },
		{ "https://H:8443/z", "https://H:8443/z", true },
		{ "https://h/z", "https://h/z", false },
		{ "http://h:8443/z", "http://h:8443/z", false },
		{ "https://evil:8443/z", "https://evil:8443/z", false },
		{ "//evil/z", "https://evil/z", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *got = http_join(base, rows[i].reference);
		expect(str_eq(got, rows[i].want), got);
		expect(http_is_same_origin(base, got) == rows[i].is_same, got);
	}
	assert_null(http_join(base, "https://"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_sink),
		cmocka_unit_test(test_range),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_deadlines),
		cmocka_unit_test(test_least_rate),
		cmocka_unit_test(test_black_hole),
		cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_side_by_side),
		cmocka_unit_test(test_status_errors),
		cmocka_unit_test(test_probe),
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_join),
	};
	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
