// SPDX-License-Identifier: Apache-2.0
// A registry that a test configures, with a token server and a server to redirect to, and a repository opened on it.
#pragma once
#include "precompiled/repository/repository.h"
#include "tests/unit/server.h"

enum wants { NOTHING, BASIC, BEARER, UNKNOWN };

struct hub { // what the registry is like, and what it was given
	enum wants wants;
	struct server *tokens, *elsewhere;
	const char *token_reply;  // NULL = a good one
	const char *token_status; // NULL = 200
	unsigned token_fails;     // replies 503 first
	const char *realm;        // NULL = the token server
	const char *challenges;   // fields of a 401 in place of those for wants; NULL = these
	bool is_greedy;           // elsewhere demands a token, of the same token server
	const char *location;     // of uploads; %s = the registry
	const char *tags;         // NULL = none
	const char *referrers, *referrers_type;
	const char *first_scope; // a token for it is refused; NULL = none
	unsigned put_fails;
	bool has_subject_api, has_blob, forgets;
	char *fallback; // what lies under the fallback tag
	char *manifest; // what was put last
	char *blob;
	size_t blob_len;
	unsigned posts;
};

static const char DOCUMENT[] = "{\"schemaVersion\":2}";
static const char SUBJECT[] = "1111111111111111111111111111111111111111111111111111111111111111";

static inline bool is_allowed(const struct hub *h, const struct request *r)
{
	switch (h->wants) {
	case NOTHING:
		return !request_has(r, "Authorization: ");
	case BASIC:
		return request_has(r, "Authorization: Basic dTpw\r\n");
	case BEARER:
		return request_has(r, "Authorization: Bearer good\r\n");
	default:
		return false;
	}
}

static inline void challenge(const struct hub *h, int fd, const struct request *r)
{
	const char *scope = request_has(r, "Bearer first") ? "repository:a/b:pull,all" :
			    h->first_scope                 ? h->first_scope :
			    request_is(r, "GET")           ? "repository:a/b:pull" :
							     "repository:a/b:pull,push";
	auto_str char *realm = h->realm  ? str_dup(h->realm) :
			       h->tokens ? server_url(h->tokens, "/token?account=x") :
					   NULL;
	auto_str char *bearer = str_fmt("WWW-Authenticate: Basic realm=\"hub\"\r\nWWW-Authenticate: bearer "
					"realm=\"%s\",service=\"the \\\"hub\\\" & co\",scope=\"%s\",error=\"x\"\r\n",
					realm ? realm : "", scope);
	send_page(fd, "401 Unauthorized",
		  h->challenges      ? h->challenges :
		  h->wants == BEARER ? bearer :
		  h->wants == BASIC  ? "WWW-Authenticate: Basic realm=\"hub\"\r\n" :
				       "WWW-Authenticate: Digest x=y\r\n",
		  "{\"errors\":[{\"code\":\"UNAUTHORIZED\"}]}");
}

static inline void serve_upload(struct server *s, int fd, const struct request *r)
{
	struct hub *h = s->ctx;
	if (request_is(r, "POST ")) {
		auto_str char *self = server_url(s, "");
		auto_str char *place = NULL;
		h->posts++;
		if (h->location)
			str_add(&place, "Location: %s%s\r\n", str_starts(h->location, "/") || !*h->location ? "" : self,
				h->location);
		send_page(fd, "202 Accepted", place ? place : "", "");
	} else if (h->put_fails) {
		h->put_fails--;
		send_page(fd, "500 Broken", "", "");
	} else {
		free(h->blob);
		h->blob = str_ndup(r->body, r->body_len);
		h->blob_len = r->body_len;
		send_page(fd, "201 Created", "", "");
	}
}

static inline void serve_manifest(struct server *s, int fd, const struct request *r)
{
	struct hub *h = s->ctx;
	bool is_fallback = request_has(r, "/manifests/sha256-1111");
	if (request_is(r, "PUT ")) {
		char **at = is_fallback ? &h->fallback : &h->manifest;
		if (!is_fallback || !h->forgets) {
			free(*at);
			*at = str_ndup(r->body, r->body_len);
		}
		send_page(fd, "201 Created", h->has_subject_api ? "OCI-Subject: sha256:1\r\n" : "", "");
	} else if (!request_has(r, "Accept: " OCI_MANIFEST ", " OCI_INDEX "\r\n")) {
		send_page(fd, "404 Not Found", "", "");
	} else if (is_fallback && h->fallback) {
		send_page(fd, "200 OK", "", h->fallback);
	} else if (request_has(r, "/manifests/one ") || request_has(r, "/manifests/sha256:")) {
		send_page(fd, "200 OK", "", DOCUMENT);
	} else {
		send_page(fd, "404 Not Found", "", "{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\"}]}");
	}
}

static inline void serve_tags(struct server *s, int fd, const struct request *r)
{
	struct hub *h = s->ctx;
	auto_str char *evil = str_fmt("Link: <http://127.0.0.1:%u/v2/a/b/tags/list?n=1>; rel=\"next\"\r\n",
				      h->elsewhere ? h->elsewhere->port : 1);
	if (h->tags)
		send_page(fd, "200 OK", h->elsewhere ? evil : "", h->tags);
	else if (request_has(r, "last=two"))
		send_page(fd, "200 OK", "", "{\"name\":\"a/b\",\"tags\":[\"three\"]}");
	else
		send_page(fd, "200 OK", "Link: </v2/a/b/tags/list?last=two&n=2>; rel=\"next\"\r\n",
			  "{\"name\":\"a/b\",\"tags\":[\"one\",\"two\"]}");
}

static inline void serve(struct server *s, int fd, const struct request *r)
{
	struct hub *h = s->ctx;
	if (!is_allowed(h, r)) {
		challenge(h, fd, r);
	} else if (request_has(r, "/blobs/uploads/") || request_has(r, "/upload-here")) {
		serve_upload(s, fd, r);
	} else if (request_has(r, "/manifests/")) {
		serve_manifest(s, fd, r);
	} else if (request_has(r, "/tags/list")) {
		serve_tags(s, fd, r);
	} else if (request_has(r, "/referrers/") && h->referrers) {
		auto_str char *type = str_fmt("Content-Type: %s\r\n", h->referrers_type);
		send_page(fd, "200 OK", type, h->referrers);
	} else if (request_is(r, "HEAD /v2/a/b/blobs/")) {
		send_text(fd, h->has_blob ? "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n" :
					    "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n");
	} else if (request_is(r, "GET /v2/a/b/blobs/") && h->elsewhere) {
		auto_str char *to = str_fmt("Location: http://127.0.0.1:%u/data\r\n", h->elsewhere->port);
		send_page(fd, "307 Temporary Redirect", to, "");
	} else if (request_is(r, "GET /v2/a/b/blobs/")) {
		send_page(fd, "200 OK", "", "hello");
	} else {
		send_page(fd, "404 Not Found", "", "{}");
	}
}

static inline void serve_token(struct server *s, int fd, const struct request *r)
{
	struct hub *h = s->ctx;
	bool is_first = h->first_scope && (request_has(r, "%3Apull&") || request_has(r, "%3Apull "));
	if (h->token_fails) {
		h->token_fails--;
		send_page(fd, "503 Busy", "", "");
	} else if (h->token_status) {
		send_page(fd, h->token_status, "", "{\"details\":\"no\"}");
	} else {
		send_page(fd, "200 OK", "",
			  is_first       ? "{\"token\":\"first\"}" :
			  h->token_reply ? h->token_reply :
					   "{\"token\":\"good\",\"expires_in\":300}");
	}
}

static inline void serve_data(struct server *s, int fd, const struct request *r)
{
	struct hub *h = s->ctx;
	if (h->is_greedy)
		challenge(h, fd, r);
	else
		send_page(fd, "200 OK", "", "hello");
}

struct setup {
	struct hub hub;
	struct server server, tokens, elsewhere;
	struct folder folder;
	struct layout layout;
	struct http *http;
	struct repository *repository;
};

static inline void setup_start(struct setup *s, struct hub hub, const char *auths)
{
	struct err err = { 0 };
	struct http_options o = { .proxy = "", .connect_ms = 60000, .stall_ms = 60000 };
	*s = (struct setup){ .hub = hub, .layout = LAYOUT_NONE };
	folder_make(&s->folder);
	folder_dir(&s->folder, "layout");
	auto_root struct root dir = ROOT_NONE;
	assert_int_equal(root_sub(&s->folder.root, "layout", &dir, &err), 0);
	assert_int_equal(layout_make(&dir, &s->layout, &err), 0);
	server_start(&s->tokens, serve_token, &s->hub);
	server_start(&s->elsewhere, serve_data, &s->hub);
	server_start(&s->server, serve, &s->hub);
	s->hub.tokens = &s->tokens;
	auto_str char *config = str_fmt("{\"auths\":{\"127.0.0.1:%u\":%s}}", s->server.port, auths ? auths : "{}");
	folder_file(&s->folder, "config.json", config);
	auto_str char *path = str_fmt("%s/config.json", s->folder.path);
	auto_str char *name = str_fmt("docker+http://127.0.0.1:%u/a/b", s->server.port);
	assert_int_equal(http_new(&o, &s->http, &err), 0);
	struct repository_options options = { .http = s->http, .credentials = path };
	assert_int_equal(repository_open(name, &options, &s->repository, &err), 0);
	assert_string_equal(s->repository->name, name);
}

static inline void setup_done(struct setup *s)
{
	repository_free(s->repository);
	http_free(s->http);
	server_stop(&s->server);
	server_stop(&s->tokens);
	server_stop(&s->elsewhere);
	layout_done(&s->layout);
	folder_done(&s->folder);
	free(s->hub.fallback);
	free(s->hub.manifest);
	free(s->hub.blob);
}
#define auto_setup __attribute__((cleanup(setup_done)))

#define ENTRY(digit)                     \
	"{\"mediaType\":\"" OCI_MANIFEST \
	"\",\"size\":1,\"digest\":\"sha256:" digit digit digit digit digit digit digit digit "\"}"
#define INDEX(items) "{\"schemaVersion\":2,\"mediaType\":\"" OCI_INDEX "\",\"manifests\":[" items "]}"
