// SPDX-License-Identifier: Apache-2.0
// The server of metrics and health: what it listens on, and what it says to clients, good and bad.
#include "base/http/http_server.h"

#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

static void what_it_listens_on(void **state)
{
	(void)state;
	static const struct {
		const char *listen, *address;
		int port; // -1 = refused
	} rows[] = {
		{ "9477", "127.0.0.1", 9477 },
		{ ":9477", NULL, 9477 },
		{ "10.1.2.3:1", "10.1.2.3", 1 },
		{ "[::1]:65535", "::1", 65535 },
		{ "[fd00::2]:0", "fd00::2", 0 },
		{ "", NULL, -1 },
		{ ":", NULL, -1 },
		{ "65536", NULL, -1 },
		{ "-1", NULL, -1 },
		{ "+1", NULL, -1 },
		{ " 1", NULL, -1 },
		{ "1 ", NULL, -1 },
		{ "99999999999999999999", NULL, -1 },
		{ "localhost:1", NULL, -1 }, // a name would be looked up, and may be several addresses
		{ "::1", NULL, -1 },
		{ "::1:80", NULL, -1 },
		{ "[::1]", NULL, -1 },
		{ "[10.1.2.3]:1", NULL, -1 },
		{ "[]:1", NULL, -1 },
		{ "[:1", NULL, -1 },
		{ "10.1.2.3.4:1", NULL, -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *address = NULL;
		unsigned port = 0;
		struct err err = { 0 };
		int r = http_server_parse(rows[i].listen, &address, &port, &err);
		expect(r == (rows[i].port < 0 ? -1 : 0), rows[i].listen);
		expect(r == 0 || err.code == E_USAGE, rows[i].listen);
		expect(r < 0 || (str_eq(address ? address : "", rows[i].address ? rows[i].address : "") &&
				 port == (unsigned)rows[i].port),
		       rows[i].listen);
	}
}

static void page(void *ctx, const struct http_server_request *request, struct http_server_answer *ret)
{
	unsigned *asked = ctx;
	const char *path = request->path;
	++*asked;
	ret->status = str_eq(path, "/gone") ? 503 : 200;
	ret->type = str_eq(path, "/typed") ? "text/x-test" : NULL;
	ret->text = str_eq(path, "/empty")  ? NULL :
		    str_eq(path, "/whence") ? str_dup(request->address) :
					      str_fmt("at %s\n", path);
}

enum { LONG_MS = 600000 }; // nothing ends by time

static struct http_server *server_open_patient(unsigned *asked, unsigned head_ms)
{
	struct http_server *s;
	struct err err = { 0 };
	const struct http_server_options o = { .listen = "0", .answer = page, .ctx = asked, .head_ms = head_ms };
	expect(http_server_open(&o, &s, &err) == 0 && http_server_start(s, &err) == 0, err.text);
	return s;
}

static struct http_server *server_open(unsigned *asked)
{
	return server_open_patient(asked, LONG_MS);
}

static int client_open_from(const struct http_server *s, unsigned address)
{
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK + address) } };
	auto_str char *url = http_server_url(s);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	to.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
	assert_memory_equal(url, "http://127.0.0.1:", 17);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static int client_open(const struct http_server *s)
{
	return client_open_from(s, 0);
}

// What comes before the server closes.
static char *rest_of(int fd)
{
	enum { WAIT_MS = 60000 };
	char buffer[8192];
	size_t have = 0;
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	while (poll(&wait, 1, WAIT_MS) > 0) {
		ssize_t n = recv(fd, buffer + have, sizeof(buffer) - have - 1, MSG_DONTWAIT);
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return str_ndup(buffer, have);
}

// The reply to these bytes, as far as it comes before the server closes or has nothing left to do.
static char *ask(struct http_server *s, const char *request)
{
	auto_fd int fd = client_open(s);
	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	return rest_of(fd);
}

static void what_it_answers(void **state)
{
	(void)state;
	static const struct {
		const char *request, *begins, *has; // has: NULL = nothing after the head
	} rows[] = {
		{ "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 ", "\r\n\r\nat /x\n" },
		{ "GET /x?y=z HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 ", "\r\n\r\nat /x\n" },
		{ "GET /gone HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 503 ", "at /gone\n" },
		{ "GET /typed HTTP/1.0\r\n\r\n", "HTTP/1", "Content-Type: text/x-test\r\n" },
		{ "GET /plain HTTP/1.0\r\n\r\n", "HTTP/1", "Content-Type: text/plain; charset=utf-8\r\n" },
		{ "GET /empty HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 ", NULL },
		{ "HEAD /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 ", NULL },
		{ "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab", "HTTP/1.1 405 ",
		  "Allow: GET, HEAD\r\n" },
		{ "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", "HTTP/1.1 405 ", "GET and HEAD" },
		{ "GET /whence HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 ", "\r\n\r\n127.0.0.1" },
		{ "GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 ",
		  "\r\nConnection: close\r\n" }, // one request a connection
		{ "GET /x HTTP/9\r\n\r\n", "HTTP/1", "" },
	};
	unsigned asked = 0;
	auto_http_server struct http_server *s = server_open(&asked);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *reply = ask(s, rows[i].request);
		const char *end = strstr(reply, "\r\n\r\n");
		expect(str_starts(reply, rows[i].begins) && end, rows[i].request);
		expect(rows[i].has ? strstr(reply, rows[i].has) != NULL : !end[4], rows[i].request);
	}
	assert_int_equal(asked, 9); // GET and HEAD
}

static bool is_open(int fd)
{
	char byte;
	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

// More than it serves at a time, of one address or of several, which begin a request and go on with it now and then:
// whoever asks is answered, and the youngest of them stay.
static void slow_clients(void **state)
{
	(void)state;
	enum { SLOW = 200 };
	static const char ASKS[] = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
	static const unsigned rows[] = { 1, 10, SLOW }; // addresses
	for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
		unsigned asked = 0, open = 0;
		int fds[SLOW];
		auto_http_server struct http_server *s = server_open(&asked);
		for (unsigned i = 0; i < SLOW; i++) {
			fds[i] = client_open_from(s, i % rows[row]);
			assert_int_equal(send(fds[i], ASKS, 10, MSG_NOSIGNAL), 10);
		}
		auto_str char *reply = ask(s, ASKS);
		assert_non_null(strstr(reply, "at /x\n"));
		assert_true(is_open(fds[SLOW - 1]));
		assert_int_equal(asked, 1);
		assert_int_equal(send(fds[SLOW - 1], ASKS + 10, sizeof(ASKS) - 11, MSG_NOSIGNAL), sizeof(ASKS) - 11);
		auto_str char *last = rest_of(fds[SLOW - 1]);
		assert_non_null(strstr(last, "at /x\n"));
		for (unsigned i = 0; i < SLOW - 1; i++)
			open += is_open(fds[i]);
		assert_true(open <= (row == 0 ? 8 : 64) && (row == 0 || open >= 8));
		for (unsigned i = 0; i < SLOW; i++)
			close(fds[i]);
	}
}

// A byte now and then does not keep a connection for ever.
static void a_head_that_is_never_whole(void **state)
{
	(void)state;
	enum { TRIES = 3000 };
	unsigned asked = 0, i = 0;
	auto_http_server struct http_server *s = server_open_patient(&asked, 1);
	auto_fd int fd = client_open(s);
	for (; i < TRIES && send(fd, "G", 1, MSG_NOSIGNAL) == 1 && is_open(fd); i++) {
		http_server_tidy(s);
		usleep(10000);
	}
	assert_true(i < TRIES);
	assert_int_equal(asked, 0);
}

// Of IPv6 the network: a client has as many addresses there as it likes.
static void whence_they_ask(void **state)
{
	(void)state;
	static const char ASKS[] = "GET /whence HTTP/1.0\r\n\r\n";
	unsigned asked = 0;
	struct err err = { 0 };
	auto_http_server struct http_server *s = NULL;
	const struct http_server_options o = { .listen = ":0", .answer = page, .ctx = &asked, .head_ms = LONG_MS };
	expect(http_server_open(&o, &s, &err) == 0 && http_server_start(s, &err) == 0, err.text);
	auto_str char *url = http_server_url(s), *v4 = NULL, *v6 = NULL;
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	to.sin6_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
	auto_fd int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		skip();
	assert_int_equal(send(fd, ASKS, sizeof(ASKS) - 1, MSG_NOSIGNAL), sizeof(ASKS) - 1);
	v6 = rest_of(fd);
	expect(str_ends(v6, "\r\n\r\n::"), v6);
	struct sockaddr_in6 mapped = to;
	assert_int_equal(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr), 1);
	auto_fd int other = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(other, (struct sockaddr *)&mapped, sizeof(mapped)), 0);
	assert_int_equal(send(other, ASKS, sizeof(ASKS) - 1, MSG_NOSIGNAL), sizeof(ASKS) - 1);
	v4 = rest_of(other);
	expect(str_ends(v4, "127.0.0.1"), v4);
}

static void a_port_in_use(void **state)
{
	(void)state;
	unsigned asked = 0;
	struct err err = { 0 };
	struct http_server *other = NULL;
	auto_http_server struct http_server *s = server_open(&asked);
	auto_str char *url = http_server_url(s), *listen = str_dup(strstr(url, "127."));
	const struct http_server_options o = { .listen = listen, .answer = page };
	assert_int_equal(http_server_open(&o, &other, &err), -1);
	assert_int_equal(err.code, EADDRINUSE);
	assert_non_null(strstr(err.text, "of 127.0.0.1"));
	assert_non_null(strstr(err_next_step(&err), "--listen"));
	assert_null(other);
}

// What stands in for GnuTLS in images tells no version; here it is the real one, and what it is given is not.
static void a_certificate_that_is_none(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_http_server struct http_server *s = NULL;
	const struct http_server_options o = { .listen = "0", .answer = page, .certificate = "x", .key = "y" };
	expect(http_server_open(&o, &s, &err) == 0, err.text);
	assert_int_equal(http_server_start(s, &err), -1);
	expect(err.code == E_USAGE, err.text);
}

static size_t descriptors(void)
{
	struct stat ignored;
	size_t count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fstat(fd, &ignored) == 0;
	return count;
}

// Whoever was connected before is answered, by the next one's side; what cannot be served leaves nothing behind.
static void renewed(void **state)
{
	(void)state;
	static const char ASKS[] = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
	unsigned asked = 0;
	struct err err = { 0 };
	char buffer[4096] = "";
	auto_http_server struct http_server *s = server_open(&asked);
	auto_str char *before = ask(s, ASKS), *half = NULL, *after = NULL;
	auto_fd int early = client_open(s);
	assert_int_equal(send(early, ASKS, 10, MSG_NOSIGNAL), 10);
	half = ask(s, ASKS); // by now the first one was accepted
	size_t had = descriptors();
	for (int i = 0; i < 40; i++) {
		assert_int_equal(http_server_renew(s, "x", "y", &err), -1);
		assert_int_equal(err.code, E_USAGE);
	}
	assert_true(descriptors() <= had);
	expect(http_server_renew(s, NULL, NULL, &err) == 0, err.text);
	http_server_tidy(s); // its time is not over
	after = ask(s, ASKS);
	assert_int_equal(send(early, ASKS + 10, sizeof(ASKS) - 11, MSG_NOSIGNAL), sizeof(ASKS) - 11);
	assert_true(recv(early, buffer, sizeof(buffer) - 1, 0) > 0);
	assert_true(str_starts(buffer, "HTTP/1.1 200 "));
	expect(strstr(before, "at /x\n") && strstr(half, "at /x\n") && strstr(after, "at /x\n"), after);
	assert_int_equal(asked, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_listens_on),
		cmocka_unit_test(what_it_answers),
		cmocka_unit_test(slow_clients),
		cmocka_unit_test(a_head_that_is_never_whole),
		cmocka_unit_test(whence_they_ask),
		cmocka_unit_test(a_port_in_use),
		cmocka_unit_test(a_certificate_that_is_none),
		cmocka_unit_test(renewed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
