// SPDX-License-Identifier: Apache-2.0
#include "base/http/http_server.h"

#include "base/core/date.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <microhttpd.h>
#include <pthread.h>
#include <sys/socket.h>

#define SERVER_LIB(X)                  \
	X(add_response_header)         \
	X(create_response_from_buffer) \
	X(destroy_response)            \
	X(get_connection_info)         \
	X(is_feature_supported)        \
	X(queue_response)              \
	X(quiesce_daemon)              \
	X(start_daemon)                \
	X(stop_daemon)

static struct server_lib { // mhd.stop_daemon is MHD_stop_daemon, and so on
#define X(name) __typeof__(MHD_##name) *(name);
	SERVER_LIB(X)
#undef X
} mhd;
static void *mhd_file; // dlsym() finds in it what its own libraries have, too

// Room for a Prometheus server or two, a kubelet and curious people. Long before there is none the oldest connection
// ends: whoever asks has its answer within moments, and only who asks nothing grows old.
enum { CONNECTIONS = 64, CROWD = 48, OF_ONE_ADDRESS = 8, WHOLE = 4 /* times as long for all of it */ };

struct client {              // a connection
	struct client *next; // a younger one
	int fd;
	char address[INET6_ADDRSTRLEN];
	long since_ms;
	bool has_asked; // the head of its request is whole
	bool is_over;   // it gets no answer any more
};

struct http_server {
	struct http_server_options o;
	struct MHD_Daemon *daemon;
	struct MHD_Daemon *former; // accepts nobody any more, and ends at this time
	long former_until_ms;
	pthread_mutex_t answering; // while there are two, so are their threads
	pthread_mutex_t listing;   // of what follows
	struct client *clients;
	int socket; // each daemon has a duplicate of it
	char *url;
};

static int load_library(struct err *err)
{
	static const char FILE_NAME[] = "libmicrohttpd.so.12";
	struct server_lib lib;
	if (mhd.stop_daemon)
		return 0;
	void *file = dlopen(FILE_NAME, RTLD_LAZY | RTLD_LOCAL);
	if (!file)
		return err_set(err, E_NOT_FOUND, "to serve HTTP needs %s, of libmicrohttpd", FILE_NAME);
#define X(name)                                          \
	*(void **)&lib.name = dlsym(file, "MHD_" #name); \
	if (!lib.name)                                   \
		return err_set(err, E_NOT_FOUND, "%s is too old: it lacks MHD_%s", FILE_NAME, #name);
	SERVER_LIB(X)
#undef X
	mhd = lib;
	mhd_file = file;
	return 0;
}

// The stand-in for GnuTLS in images (images/runtime.sh) has every function, and no version.
static bool has_tls(void)
{
	const char *(*version)(const char *least);
	*(void **)&version = dlsym(mhd_file, "gnutls_check_version");
	return mhd.is_feature_supported(MHD_FEATURE_TLS) == MHD_YES && version && version(NULL);
}

int http_server_parse(const char *listen, char **ret_address, unsigned *ret_port, struct err *err)
{
	const char *colon = strrchr(listen, ':'), *port = colon ? colon + 1 : listen;
	auto_str char *address = !colon          ? str_dup("127.0.0.1") :
				 colon == listen ? NULL :
						   str_ndup(listen, (size_t)(colon - listen));
	size_t len = address ? strlen(address) : 0;
	struct in6_addr binary;
	char *end;
	unsigned long number = strtoul(port, &end, 10);
	bool is_bracketed = len > 2 && address[0] == '[' && address[len - 1] == ']';
	if (is_bracketed) {
		memmove(address, address + 1, len);
		address[len - 2] = '\0';
	}
	if (*port < '0' || *port > '9' || *end || number > USHRT_MAX ||
	    (address && inet_pton(is_bracketed ? AF_INET6 : AF_INET, address, &binary) != 1))
		return err_set(err, E_USAGE,
			       "--listen '%s' is no PORT, :PORT (every address), ADDRESS:PORT or [ADDRESS]:PORT",
			       listen);
	*ret_address = TAKE(address);
	*ret_port = (unsigned)number;
	return 0;
}

// Every address is both families' where the machine has both.
static int open_socket(const char *address, unsigned port, struct err *err)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	bool is_v4 = address && inet_pton(AF_INET, address, &v4.sin_addr) == 1;
	int yes = 1, no = 0;
	if (address && !is_v4)
		inet_pton(AF_INET6, address, &v6.sin6_addr);
	auto_fd int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 && !address && errno == EAFNOSUPPORT) {
		is_v4 = true;
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	}
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (fd >= 0 && !is_v4)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, address ? &yes : &no, sizeof(no));
	if (fd < 0 ||
	    (is_v4 ? bind(fd, (struct sockaddr *)&v4, sizeof(v4)) : bind(fd, (struct sockaddr *)&v6, sizeof(v6))) < 0 ||
	    listen(fd, SOMAXCONN) < 0) {
		bool is_taken = errno == EADDRINUSE;
		err_set(err, errno, "listen on port %u%s%s", port, address ? " of " : "", address ? address : "");
		return is_taken ? err_next(err,
					   "choose another port with --listen; `ss -ltnp 'sport = :%u'` shows who has "
					   "this one",
					   port) :
				  -1;
	}
	return TAKE_FD(fd);
}

static unsigned bound_port(int fd)
{
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);
	if (getsockname(fd, (struct sockaddr *)&name, &size) < 0)
		return 0;
	return ntohs(name.ss_family == AF_INET ? ((const struct sockaddr_in *)&name)->sin_port :
						 ((const struct sockaddr_in6 *)&name)->sin6_port);
}

// libmicrohttpd sees the end, tells (on_connection) and closes, in its thread.
static void end_client(struct client *c)
{
	c->is_over = true;
	shutdown(c->fd, SHUT_RDWR);
}

// The oldest of this address, or of all. NULL = there are fewer.
static struct client *find_surplus(const struct http_server *s, const char *address, size_t most)
{
	struct client *oldest = NULL;
	size_t count = 0;
	for (struct client *c = s->clients; c; c = c->next) {
		if (c->is_over || (address && !str_eq(c->address, address)))
			continue;
		oldest = oldest ? oldest : c;
		count++;
	}
	return count > most ? oldest : NULL;
}

static void add_client(struct http_server *s, struct client *c)
{
	struct client **last = &s->clients;
	while (*last)
		last = &(*last)->next;
	*last = c;
	struct client *surplus = find_surplus(s, c->address, OF_ONE_ADDRESS);
	if (!surplus)
		surplus = find_surplus(s, NULL, CROWD);
	if (surplus)
		end_client(surplus);
}

static void remove_client(struct http_server *s, struct client *c)
{
	struct client **at = &s->clients;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	free(c);
}

// Prints an IPv6 address as its /64: a client has 2^64 of them (RFC 4291, 2.5.1).
static void print_address(const struct sockaddr *name, char ret[INET6_ADDRSTRLEN])
{
	if (name->sa_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)name)->sin_addr, ret, INET6_ADDRSTRLEN);
		return;
	}
	struct in6_addr address = ((const struct sockaddr_in6 *)name)->sin6_addr;
	if (!IN6_IS_ADDR_V4MAPPED(&address))
		memset(address.s6_addr + 8, 0, 8);
	inet_ntop(AF_INET6, &address, ret, INET6_ADDRSTRLEN);
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **own,
			  enum MHD_ConnectionNotificationCode what)
{
	struct http_server *s = ctx;
	pthread_mutex_lock(&s->listing);
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		struct client *c = mem_alloc(sizeof(*c));
		*c = (struct client){
			.fd = mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
			.since_ms = clock_ms()
		};
		print_address(mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr,
			      c->address);
		add_client(s, c);
		*own = c;
	} else {
		remove_client(s, *own);
	}
	pthread_mutex_unlock(&s->listing);
}

static enum MHD_Result reply(struct MHD_Connection *connection, struct http_server_answer *a)
{
	struct MHD_Response *response =
		mhd.create_response_from_buffer(strlen(a->text), a->text, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		free(a->text);
		return MHD_NO;
	}
	mhd.add_response_header(response, "Content-Type", a->type ? a->type : "text/plain; charset=utf-8");
	mhd.add_response_header(response, "Cache-Control", "no-store");
	mhd.add_response_header(response, "X-Content-Type-Options", "nosniff");
	mhd.add_response_header(response, "Connection", "close");
	if (a->status == MHD_HTTP_METHOD_NOT_ALLOWED)
		mhd.add_response_header(response, "Allow", "GET, HEAD");
	enum MHD_Result r = mhd.queue_response(connection, a->status, response);
	mhd.destroy_response(response);
	return r;
}

static void ask_answer(struct http_server *s, struct client *c, const char *path, struct http_server_answer *ret)
{
	const struct http_server_request request = { .path = path, .address = c->address };
	*ret = (struct http_server_answer){ 0 };
	pthread_mutex_lock(&s->listing);
	bool is_over = c->is_over;
	c->has_asked = true;
	pthread_mutex_unlock(&s->listing);
	if (is_over) {
		ret->status = MHD_HTTP_SERVICE_UNAVAILABLE;
		return;
	}
	pthread_mutex_lock(&s->answering);
	s->o.answer(s->o.ctx, &request, ret);
	pthread_mutex_unlock(&s->answering);
}

// Called first with the head of the request, when a body is not read yet, and at once answered.
static enum MHD_Result handle(void *ctx, struct MHD_Connection *connection, const char *path, const char *method,
			      const char *version, const char *data, size_t *size, void **ret_request)
{
	struct http_server *s = ctx;
	struct http_server_answer a = { .status = MHD_HTTP_METHOD_NOT_ALLOWED };
	struct client *c = mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	(void)version, (void)data, (void)size, (void)ret_request;
	if (str_eq(method, MHD_HTTP_METHOD_GET) || str_eq(method, MHD_HTTP_METHOD_HEAD))
		ask_answer(s, c, path, &a);
	if (!a.text)
		a.text = str_dup(a.status == MHD_HTTP_METHOD_NOT_ALLOWED ? "GET and HEAD only\n" : "");
	return reply(connection, &a);
}

static int start_daemon(struct http_server *s, const char *certificate, const char *key, struct MHD_Daemon **ret,
			struct err *err)
{
	enum { BUFFER = 16384, OPTIONS_MOST = 8 };
	int fd = fcntl(s->socket, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, errno, "serve %s", s->url);
	struct MHD_OptionItem options[OPTIONS_MOST] = {
		{ MHD_OPTION_LISTEN_SOCKET, fd, NULL },
		{ MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, NULL },
		{ MHD_OPTION_CONNECTION_TIMEOUT, (s->o.head_ms + 999) / 1000, NULL }, // without a byte
		{ MHD_OPTION_CONNECTION_MEMORY_LIMIT, BUFFER, NULL },
		{ MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, s },
	};
	size_t count = 5;
	unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC; // to be told to quiesce
	if (certificate) {
		flags |= MHD_USE_TLS;
		options[count++] =
			(struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)certificate };
		options[count++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)key };
	}
	options[count] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
	errno = 0;
	// The descriptor is the daemon's, also when it could not start.
	struct MHD_Daemon *daemon =
		mhd.start_daemon(flags, 0, NULL, NULL, handle, s, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
	if (daemon) {
		*ret = daemon;
		return 0;
	}
	if (certificate)
		return err_set(err, E_USAGE,
			       "certificate and key cannot be served: are they PEM, and do they belong together?");
	return err_set(err, errno ? errno : EIO, "serve %s", s->url);
}

int http_server_start(struct http_server *s, struct err *err)
{
	return start_daemon(s, s->o.certificate, s->o.key, &s->daemon, err);
}

static void stop_former(struct http_server *s)
{
	if (s->former)
		mhd.stop_daemon(s->former);
	s->former = NULL;
}

int http_server_renew(struct http_server *s, const char *certificate, const char *key, struct err *err)
{
	struct MHD_Daemon *next;
	if (start_daemon(s, certificate, key, &next, err) < 0)
		return -1;
	stop_former(s);
	s->former = s->daemon;
	s->former_until_ms = clock_ms() + HTTP_SERVER_DRAIN_MS;
	s->daemon = next;
	int fd = mhd.quiesce_daemon(s->former); // its duplicate; the new one accepts already
	close_fdp(&fd);
	return 0;
}

void http_server_tidy(struct http_server *s)
{
	long now = clock_ms(), head = s->o.head_ms;
	pthread_mutex_lock(&s->listing);
	for (struct client *c = s->clients; c; c = c->next)
		if (!c->is_over && now - c->since_ms >= (c->has_asked ? WHOLE * head : head))
			end_client(c);
	pthread_mutex_unlock(&s->listing);
	if (now >= s->former_until_ms)
		stop_former(s);
}

int http_server_open(const struct http_server_options *options, struct http_server **ret, struct err *err)
{
	auto_str char *address = NULL;
	unsigned port;
	if (http_server_parse(options->listen, &address, &port, err) < 0 || load_library(err) < 0)
		return -1;
	if (options->certificate && !has_tls())
		return err_set(err, E_NOT_FOUND,
			       "libmicrohttpd has no TLS here: it needs GnuTLS, which the images leave out");
	auto_fd int fd = open_socket(address, port, err);
	if (fd < 0)
		return -1;
	auto_http_server struct http_server *s = mem_alloc(sizeof(*s));
	s->o = *options;
	pthread_mutex_init(&s->answering, NULL);
	pthread_mutex_init(&s->listing, NULL);
	s->url = str_fmt("http%s://%s%s%s:%u", options->certificate ? "s" : "",
			 address && strchr(address, ':') ? "[" : "", address ? address : "*",
			 address && strchr(address, ':') ? "]" : "", bound_port(fd));
	s->socket = TAKE_FD(fd);
	*ret = TAKE(s);
	return 0;
}

char *http_server_url(const struct http_server *s)
{
	return str_dup(s->url);
}

void http_server_close(struct http_server *s)
{
	if (!s)
		return;
	stop_former(s);
	if (s->daemon)
		mhd.stop_daemon(s->daemon);
	close_fdp(&s->socket);
	pthread_mutex_destroy(&s->answering);
	pthread_mutex_destroy(&s->listing);
	free(s->url);
	free(s);
}
