// SPDX-License-Identifier: Apache-2.0
#include "precompiled/repository.h"

#include "tests/unit/server.h"

enum wants { NOTHING, BASIC, BEARER, UNKNOWN };

struct hub { // what the registry is like, and what it was given
	enum wants wants;
	struct server *tokens, *elsewhere;
	const char *token_reply;  // NULL = a good one
	const char *token_status; // NULL = 200
	unsigned token_fails;     // replies 503 first
	const char *realm;        // NULL = the token server
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

static bool is_allowed(const struct hub *h, const struct request *r)
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

static void challenge(const struct hub *h, int fd, const struct request *r)
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
		  h->wants == BEARER ? bearer :
		  h->wants == BASIC  ? "WWW-Authenticate: Basic realm=\"hub\"\r\n" :
				       "WWW-Authenticate: Digest x=y\r\n",
		  "{\"errors\":[{\"code\":\"UNAUTHORIZED\"}]}");
}

static void serve_upload(struct server *s, int fd, const struct request *r)
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

static void serve_manifest(struct server *s, int fd, const struct request *r)
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

static void serve_tags(struct server *s, int fd, const struct request *r)
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

static void serve(struct server *s, int fd, const struct request *r)
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

static void serve_token(struct server *s, int fd, const struct request *r)
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

static void serve_data(struct server *s, int fd, const struct request *r)
{
	(void)s, (void)r;
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

static void setup_start(struct setup *s, struct hub hub, const char *auths)
{
	struct err err = { 0 };
	struct http_options o = { .proxy = "", .connect_ms = 2000, .stall_ms = 2000 };
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
	assert_string_equal(repository_name(s->repository), name);
}

static void setup_done(struct setup *s)
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

static int get(struct setup *s, const char *ref, struct err *err)
{
	auto_str char *data = NULL;
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	int r = repository_manifest(s->repository, ref, &data, &len, hex, err);
	assert_true(r <= 0 || str_eq(data, DOCUMENT));
	return r;
}

static void test_manifests(void **state)
{
	(void)state;
	static const char *const unthinkable[] = { "",      "a/b", "..",        ".x",  "-x", "a b",
						   "a?n=1", "a#",  "sha256:12", "a+b", "%2e" };
	auto_setup struct setup s;
	struct err err = { 0 };
	setup_start(&s, (struct hub){ 0 }, NULL);
	assert_int_equal(get(&s, "one", &err), 1);
	assert_int_equal(get(&s, "two", &err), 0);
	char hex[DIGEST_HEX + 1];
	digest_data(DOCUMENT, strlen(DOCUMENT), hex);
	auto_str char *right = oci_digest_text(hex), *wrong = oci_digest_text(SUBJECT);
	assert_int_equal(get(&s, right, &err), 1);
	assert_int_equal(get(&s, wrong, &err), -1);
	assert_int_equal(err.code, E_DIGEST);
	size_t asked = server_count(&s.server);
	for (size_t i = 0; i < ARRAY_SIZE(unthinkable); i++)
		expect(get(&s, unthinkable[i], &err) == 0, unthinkable[i]);
	assert_int_equal(server_count(&s.server), asked);
}

static void test_who_we_are(void **state)
{
	(void)state;
	static const struct {
		const char *name, *auths;
		struct hub hub;
		int code; // 0 = let in
		const char *text;
		size_t tokens; // requests for one
	} rows[] = {
		{ "anonymous", NULL, { .wants = BEARER }, 0, NULL, 1 },
		{ "with a password", "{\"auth\":\"dTpw\"}", { .wants = BEARER }, 0, NULL, 1 },
		{ "access_token", NULL, { .wants = BEARER, .token_reply = "{\"access_token\":\"good\"}" }, 0, NULL, 1 },
		{ "both",
		  NULL,
		  { .wants = BEARER, .token_reply = "{\"token\":\"\",\"access_token\":\"good\"}" },
		  0,
		  NULL,
		  1 },
		{ "token server busy", NULL, { .wants = BEARER, .token_fails = 1 }, 0, NULL, 2 },
		{ "more rights", NULL, { .wants = BEARER, .first_scope = "repository:a/b:pull" }, 0, NULL, 2 },
		{ "basic", "{\"auth\":\"dTpw\"}", { .wants = BASIC }, 0, NULL, 0 },
		{ "identity", "{\"auth\":\"dTo=\",\"identitytoken\":\"re fresh\"}", { .wants = BEARER }, 0, NULL, 1 },
		{ "wrong token",
		  NULL,
		  { .wants = BEARER, .token_reply = "{\"token\":\"bad\"}" },
		  E_AUTH,
		  "status 401",
		  2 },
		{ "wrong password",
		  "{\"auth\":\"eDp5\"}",
		  { .wants = BASIC },
		  E_AUTH,
		  "config.json', entry '127.0.0.1:",
		  0 },
		{ "no password", NULL, { .wants = BASIC }, E_AUTH, "has no entry for '127.0.0.1:", 0 },
		{ "broken password", "{\"auth\":\"?\"}", { .wants = BASIC }, E_CONFIG, "base64", 0 },
		{ "no token", NULL, { .wants = BEARER, .token_reply = "{}" }, E_AUTH, "neither token nor", 1 },
		{ "html token", NULL, { .wants = BEARER, .token_reply = "<html>" }, E_AUTH, "not JSON", 1 },
		{ "split token",
		  NULL,
		  { .wants = BEARER, .token_reply = "{\"token\":\"a\\r\\nX: y\"}" },
		  E_AUTH,
		  "",
		  1 },
		{ "refused token", NULL, { .wants = BEARER, .token_status = "403 No" }, E_AUTH, "403", 1 },
		{ "broken token server", NULL, { .wants = BEARER, .token_status = "500 No" }, E_SERVER, "/token", 4 },
		{ "no realm", NULL, { .wants = BEARER, .realm = "" }, E_AUTH, "not asked", 0 },
		{ "odd realm", NULL, { .wants = BEARER, .realm = "file:///etc/passwd" }, E_AUTH, "not asked", 0 },
		{ "unknown way", NULL, { .wants = UNKNOWN }, E_AUTH, "status 401", 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		struct err err = { 0 };
		setup_start(&s, rows[i].hub, rows[i].auths);
		int r = get(&s, "one", &err);
		auto_str char *row =
			str_fmt("%s: %d '%s' tokens %zu", rows[i].name, err.code, err.text, server_count(&s.tokens));
		expect(r == (rows[i].code ? -1 : 1) && (r > 0 || err.code == rows[i].code), row);
		expect(server_count(&s.tokens) == rows[i].tokens, row);
		expect(r > 0 || strstr(err.text, rows[i].text), row);
		expect(r < 0 || get(&s, "one", &err) == 1, row); // what was learnt is kept
		expect(server_count(&s.tokens) == rows[i].tokens, row);
	}
}

static void test_token_requests(void **state)
{
	(void)state;
	static const struct {
		const char *auths, *line, *authorization;
	} rows[] = {
		{ NULL, "GET /token?account=x&service=the%20%22hub%22%20%26%20co&scope=repository%3Aa%2Fb%3Apull HTTP",
		  NULL },
		{ "{\"auth\":\"dTpw\"}", "GET /token?account=x&service=", "Authorization: Basic dTpw\r\n" },
		{ "{\"auth\":\"dTo=\",\"identitytoken\":\"t\"}", "POST /token?account=x HTTP", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		struct err err = { 0 };
		setup_start(&s, (struct hub){ .wants = BEARER }, rows[i].auths);
		assert_int_equal(get(&s, "one", &err), 1);
		auto_str char *head = server_head(&s.tokens, 0), *first = server_head(&s.server, 0);
		expect(str_starts(head, rows[i].line), head);
		expect(rows[i].authorization ? !!strstr(head, rows[i].authorization) : !strstr(head, "Authorization"),
		       head);
		assert_null(strstr(first, "Authorization")); // nothing is told before it is asked for
	}
}

static void test_tokens_run_out(void **state)
{
	(void)state;
	auto_setup struct setup s;
	struct err err = { 0 };
	setup_start(&s, (struct hub){ .wants = BEARER, .token_reply = "{\"token\":\"good\",\"expires_in\":1}" }, NULL);
	assert_int_equal(get(&s, "one", &err), 1);
	usleep(1100000);
	assert_int_equal(get(&s, "one", &err), 1);
	assert_int_equal(server_count(&s.tokens), 2);
	auto_str char *again = server_head(&s.server, 2);
	assert_null(strstr(again, "Authorization"));
}

static int fill(struct setup *s, struct descriptor *ret)
{
	struct err err;
	*ret = (struct descriptor){ .size = 5 };
	return layout_blob_put(&s->layout, "hello", 5, ret->digest, &err);
}

static void test_blobs_and_redirects(void **state)
{
	(void)state;
	auto_setup struct setup s;
	struct err err = { 0 };
	struct descriptor d = { .size = 5 };
	setup_start(&s, (struct hub){ .wants = BEARER }, "{\"auth\":\"dTpw\"}");
	s.hub.elsewhere = &s.elsewhere;
	digest_data("hello", 5, d.digest);
	auto_part struct part part = PART_NONE;
	assert_int_equal(part_open(&s.layout, &d, &part, &err), 0);
	struct transfer t = { .part = &part };
	assert_int_equal(repository_begin(s.repository, &t, &err), 0);
	for (int i = 0; i < 50 && !t.is_done; i++)
		assert_int_equal(repository_step(s.repository, &err), 0);
	repository_end(s.repository, &t);
	expect(t.is_done && t.err.code == 0, t.err.text);
	assert_int_equal(part_commit(&part, &err), 0);
	auto_str char *head = server_head(&s.elsewhere, 0), *asked = server_head(&s.server, 1);
	assert_true(str_starts(head, "GET /data "));
	assert_null(strstr(head, "Authorization"));
	assert_non_null(strstr(asked, "Authorization: Bearer good"));
	auto_str char *data = NULL;
	size_t len = 0;
	assert_int_equal(repository_document(s.repository, &d, &data, &len, &err), 1);
	assert_string_equal(data, "hello");
}

static void test_tags(void **state)
{
	(void)state;
	static const struct {
		const char *reply, *want;
		bool is_evil;
		int code;
	} rows[] = {
		{ NULL, "one,two,three", false, 0 },
		{ "{\"name\":\"a/b\",\"tags\":null}", "", false, 0 },
		{ "{\"tags\":[\"x\",7,\"y\"]}", "x,y", false, 0 },
		{ "{\"tags\":[\"x\"]}", "x", true, 0 }, // another server is not asked
		{ "<html>", NULL, false, E_MANIFEST },
		{ "[]", NULL, false, E_MANIFEST },
		{ "{\"tags\":3}", NULL, false, E_MANIFEST },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		auto_strv struct strv tags = { 0 };
		struct err err = { 0 };
		setup_start(&s, (struct hub){ .tags = rows[i].reply }, NULL);
		s.hub.elsewhere = rows[i].is_evil ? &s.elsewhere : NULL;
		expect(repository_tags(s.repository, &tags, &err) == (rows[i].code ? -1 : 0), rows[i].reply);
		auto_str char *joined = strv_join(&tags, ",");
		expect(rows[i].code ? err.code == rows[i].code : str_eq(joined, rows[i].want), joined);
		assert_int_equal(server_count(&s.elsewhere), 0);
	}
}

#define ENTRY(digit)                     \
	"{\"mediaType\":\"" OCI_MANIFEST \
	"\",\"size\":1,\"digest\":\"sha256:" digit digit digit digit digit digit digit digit "\"}"
#define INDEX(items) "{\"schemaVersion\":2,\"mediaType\":\"" OCI_INDEX "\",\"manifests\":[" items "]}"

static void test_referrers(void **state)
{
	(void)state;
	static const struct {
		const char *name, *api, *type, *fallback;
		size_t count;
		int code;
	} rows[] = {
		{ "none", NULL, NULL, NULL, 0, 0 },
		{ "fallback", NULL, NULL, INDEX(ENTRY("22222222")), 1, 0 },
		{ "api", INDEX(ENTRY("33333333")), OCI_INDEX, NULL, 1, 0 },
		{ "both", INDEX(ENTRY("33333333") "," ENTRY("22222222")), OCI_INDEX, INDEX(ENTRY("22222222")), 2, 0 },
		{ "a page", "<html>", "text/html", INDEX(ENTRY("22222222")), 1, 0 },
		{ "a bad index", "<html>", OCI_INDEX, NULL, 0, E_MANIFEST },
		{ "a bad fallback", NULL, NULL, "<html>", 0, E_MANIFEST },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		auto_index struct index x = { 0 };
		struct err err = { 0 };
		setup_start(&s, (struct hub){ .referrers = rows[i].api, .referrers_type = rows[i].type }, NULL);
		s.hub.fallback = str_dup(rows[i].fallback);
		expect(repository_referrers(s.repository, SUBJECT, &x, &err) == (rows[i].code ? -1 : 0), rows[i].name);
		expect(x.count == rows[i].count && (!rows[i].code || err.code == rows[i].code), rows[i].name);
	}
}

static void test_uploads(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		struct hub hub;
		const char *line; // of the PUT
		int code;
		unsigned posts;
	} rows[] = {
		{ "relative, with a query",
		  { .location = "/upload-here?state=1" },
		  "PUT /upload-here?state=1&digest=sha256%3A",
		  0,
		  1 },
		{ "relative, without", { .location = "/upload-here" }, "PUT /upload-here?digest=sha256%3A", 0, 1 },
		{ "absolute", { .location = "/upload-here?x" }, "PUT /upload-here?x&digest=", 0, 1 },
		{ "there already", { .has_blob = true }, NULL, 0, 0 },
		{ "fails once", { .location = "/upload-here", .put_fails = 1 }, "PUT /upload-here?digest=", 0, 2 },
		{ "fails for ever", { .location = "/upload-here", .put_fails = 99 }, NULL, E_SERVER, 4 },
		{ "no place", { 0 }, NULL, E_NETWORK, 1 },
		{ "with a token", { .wants = BEARER, .location = "/upload-here" }, "PUT /upload-here?digest=", 0, 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		struct err err = { 0 };
		struct descriptor d;
		setup_start(&s, rows[i].hub, NULL);
		assert_int_equal(fill(&s, &d), 0);
		int r = repository_put_blob(s.repository, &s.layout, &d, &err);
		auto_str char *row = str_fmt("%s: %d '%s'", rows[i].name, err.code, err.text);
		expect(r == (rows[i].code ? -1 : 0) && (r == 0 || err.code == rows[i].code), row);
		expect(s.hub.posts == rows[i].posts, row);
		auto_str char *last = server_head(&s.server, server_count(&s.server) - 1);
		expect(!rows[i].line || str_starts(last, rows[i].line), last);
		expect(!rows[i].line || (s.hub.blob_len == 5 && str_eq(s.hub.blob, "hello")), row);
		expect(!rows[i].line || strstr(last, "Content-Type: application/octet-stream\r\n"), last);
	}
}

static char *referrer(void) // of SUBJECT
{
	struct manifest m = { .artifact_type = (char *)(uintptr_t) "a/b",
			      .config = { .media_type = (char *)(uintptr_t)OCI_EMPTY, .size = 2 },
			      .subject = { .media_type = (char *)(uintptr_t)OCI_MANIFEST, .size = 1 } };
	digest_data("{}", 2, m.config.digest);
	memcpy(m.subject.digest, SUBJECT, sizeof(SUBJECT));
	return manifest_text(&m);
}

static void test_manifests_that_refer(void **state)
{
	(void)state;
	static const struct {
		const char *name, *before;
		struct hub hub;
		size_t count; // in the fallback index; 0 = there is none
		int code;
	} rows[] = {
		{ "first", NULL, { 0 }, 1, 0 },
		{ "second", INDEX(ENTRY("22222222")), { 0 }, 2, 0 },
		{ "the registry does it", NULL, { .has_subject_api = true }, 0, 0 },
		{ "a broken index", "<html>", { 0 }, 0, E_MANIFEST },
		{ "others overwrite it", NULL, { .forgets = true }, 0, E_CONFLICT },
	};
	auto_str char *text = referrer();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		auto_index struct index x = { 0 };
		struct err err = { 0 };
		setup_start(&s, rows[i].hub, NULL);
		s.hub.fallback = str_dup(rows[i].before);
		int r = repository_put_manifest(s.repository, text, strlen(text), OCI_MANIFEST, NULL, &err);
		expect(r == (rows[i].code ? -1 : 0) && (r == 0 || err.code == rows[i].code), rows[i].name);
		expect(str_eq(s.hub.manifest, text), rows[i].name);
		if (!rows[i].count)
			continue;
		size_t count = server_count(&s.server);
		expect(repository_put_manifest(s.repository, text, strlen(text), OCI_MANIFEST, "tag", &err) == 0,
		       rows[i].name); // once more changes nothing
		assert_int_equal(server_count(&s.server), count + 2);
		assert_int_equal(index_parse(s.hub.fallback, strlen(s.hub.fallback), "x", &x, &err), 0);
		expect(x.count == rows[i].count, rows[i].name);
		expect(str_eq(x.items[x.count - 1].artifact_type, "a/b"), rows[i].name);
	}
}

static void test_names(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool is_good;
	} rows[] = {
		{ "docker://h/a", true },           { "docker://h:5000/a/b-c/d__e.f", true },
		{ "docker://[::1]:5000/a", true },  { "docker+http://h/a", true },
		{ "docker://h/a--b", true },        { "docker://h", false },
		{ "docker://h/", false },           { "docker:///a", false },
		{ "docker://h/A", false },          { "docker://h/a:tag", false },
		{ "docker://h/a@sha256:0", false }, { "docker://h/a//b", false },
		{ "docker://h/a/", false },         { "docker://h/-a", false },
		{ "docker://h/a..b", false },       { "docker://h/a___b", false },
		{ "docker://u:p@h/a", false },      { "docker://h/../a", false },
		{ "docker://h/a?x", false },        { "docker+http://", false },
		{ "docker://h/a b", false },
	};
	struct http *h = NULL;
	struct err err = { 0 };
	assert_int_equal(http_new(&(struct http_options){ 0 }, &h, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_repository struct repository *r = NULL;
		struct repository_options o = { .http = h };
		expect(repository_open(rows[i].name, &o, &r, &err) == (rows[i].is_good ? 0 : -1), rows[i].name);
		expect(rows[i].is_good || err.code == E_USAGE, rows[i].name);
	}
	http_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_manifests),
		cmocka_unit_test(test_who_we_are),
		cmocka_unit_test(test_token_requests),
		cmocka_unit_test(test_tokens_run_out),
		cmocka_unit_test(test_blobs_and_redirects),
		cmocka_unit_test(test_tags),
		cmocka_unit_test(test_referrers),
		cmocka_unit_test(test_uploads),
		cmocka_unit_test(test_manifests_that_refer),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
