// SPDX-License-Identifier: Apache-2.0
// A small HTTP server on the loopback interface that plays whatever a test wants, good or bad, and keeps what it was
// asked. One connection at a time, one request each.
#pragma once
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

struct request {
	char head[16384]; // request line and headers, CRLF as sent
	char *body;
	size_t body_len;
};

struct server {
	int fd;
	unsigned port;
	pthread_t thread;
	pthread_mutex_t mutex;
	bool is_stopping;
	struct strv heads; // of every request, in order
	void (*serve)(struct server *s, int fd, const struct request *r);
	void *ctx;
};

static inline bool request_is(const struct request *r, const char *line) // "GET /path "
{
	return str_starts(r->head, line);
}

static inline bool request_has(const struct request *r, const char *text)
{
	return strstr(r->head, text) != NULL;
}

static inline void send_all(int fd, const void *data, size_t len)
{
	for (const char *p = data; len;) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n <= 0)
			return;
		p += n;
		len -= (size_t)n;
	}
}

static inline void send_text(int fd, const char *text)
{
	send_all(fd, text, strlen(text));
}

// status: "200 OK"; headers: "A: b\r\n..." or ""
static inline void send_reply(int fd, const char *status, const char *headers, const void *body, size_t len)
{
	auto_str char *head =
		str_fmt("HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n", status, len, headers);
	send_text(fd, head);
	send_all(fd, body, len);
}

static inline void send_page(int fd, const char *status, const char *headers, const char *body)
{
	send_reply(fd, status, headers, body, strlen(body));
}

static inline bool server_is_stopping(struct server *s)
{
	pthread_mutex_lock(&s->mutex);
	bool is_stopping = s->is_stopping;
	pthread_mutex_unlock(&s->mutex);
	return is_stopping;
}

static inline void server_hang(struct server *s) // keeps the connection open, and says nothing
{
	while (!server_is_stopping(s))
		usleep(5000);
}

static inline uint64_t request_number(const struct request *r, const char *name) // 0 = absent
{
	const char *at = strstr(r->head, name);
	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static inline bool read_request_(int fd, struct request *r)
{
	size_t len = 0;
	char *end = NULL;
	while (!end && len < sizeof(r->head) - 1) {
		ssize_t n = recv(fd, r->head + len, sizeof(r->head) - 1 - len, 0);
		if (n <= 0)
			return false;
		len += (size_t)n;
		r->head[len] = '\0';
		end = strstr(r->head, "\r\n\r\n");
	}
	if (!end)
		return false;
	size_t have = len - (size_t)(end + 4 - r->head);
	r->body_len = request_number(r, "Content-Length: ");
	r->body = mem_alloc(r->body_len + have + 1);
	memcpy(r->body, end + 4, have);
	end[4] = '\0';
	while (have < r->body_len) {
		ssize_t n = recv(fd, r->body + have, r->body_len - have, 0);
		if (n <= 0)
			return false;
		have += (size_t)n;
	}
	return true;
}

static inline void serve_one_(struct server *s, int fd)
{
	struct request *r = mem_alloc(sizeof(*r));
	if (read_request_(fd, r)) {
		pthread_mutex_lock(&s->mutex);
		strv_add(&s->heads, str_dup(r->head));
		pthread_mutex_unlock(&s->mutex);
		s->serve(s, fd, r);
	}
	free(r->body);
	free(r);
	close(fd);
}

static inline void *server_main_(void *ctx)
{
	struct server *s = ctx;
	while (!server_is_stopping(s)) {
		struct pollfd p = { .fd = s->fd, .events = POLLIN };
		int fd = poll(&p, 1, 20) > 0 ? accept(s->fd, NULL, NULL) : -1;
		if (fd >= 0)
			serve_one_(s, fd);
	}
	return NULL;
}

// With a thread of the test's own: run(arg).
static inline void server_run(struct server *s, void *(*run)(void *), void *arg)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pthread_mutex_init(&s->mutex, NULL);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(s->fd, 16), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &len), 0);
	s->port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, run, arg), 0);
}

static inline void server_start(struct server *s, void (*serve)(struct server *, int, const struct request *),
				void *ctx)
{
	*s = (struct server){ .serve = serve, .ctx = ctx };
	server_run(s, server_main_, s);
}

static inline void server_stop(struct server *s)
{
	if (!s->port)
		return;
	pthread_mutex_lock(&s->mutex);
	s->is_stopping = true;
	pthread_mutex_unlock(&s->mutex);
	pthread_join(s->thread, NULL);
	close(s->fd);
	strv_done(&s->heads);
	pthread_mutex_destroy(&s->mutex);
	s->port = 0;
}
#define auto_server __attribute__((cleanup(server_stop)))

static inline char *server_url(const struct server *s, const char *path)
{
	return str_fmt("http://127.0.0.1:%u%s", s->port, path);
}

static inline size_t server_count(struct server *s)
{
	pthread_mutex_lock(&s->mutex);
	size_t count = s->heads.count;
	pthread_mutex_unlock(&s->mutex);
	return count;
}

static inline char *server_head(struct server *s, size_t i) // a copy; "" when there was no such request
{
	pthread_mutex_lock(&s->mutex);
	char *head = str_dup(i < s->heads.count ? s->heads.items[i] : "");
	pthread_mutex_unlock(&s->mutex);
	return head;
}
