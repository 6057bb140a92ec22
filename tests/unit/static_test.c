// SPDX-License-Identifier: Apache-2.0
#include "precompiled/repository/repository.h"
#include "precompiled/repository/retry.h"

#include "tests/unit/server.h"

#define HUGE_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\nx"
enum { BLOB = 300000, PATIENT_MS = 60000 };
static char blob[BLOB];

struct site {              // what the server is like
	const char *index; // NULL = a good one
	const char *index_status;
	struct oci_descriptor layer, manifest;
	char *oci_manifest_text;
	size_t cut;     // a reply ends after so many bytes; 0 = it does not
	unsigned cuts;  // how many replies are cut
	unsigned fails; // how many replies are fail_status
	const char *fail_status, *fail_headers;
	const char *range; // Content-Range in place of the right one
	size_t extra;      // bytes more than stated
	unsigned stall_ms; // that the client waits for a byte; 0 = longer than any machine is busy
	bool ignores_range, is_wrong, hangs;
};

static void serve_blob(struct server *s, int fd, const struct request *r)
{
	struct site *site = s->ctx;
	size_t from = site->ignores_range ? 0 : (size_t)request_number(r, "Range: bytes=");
	if (site->fails) {
		site->fails--;
		send_page(fd, site->fail_status, site->fail_headers, "");
		return;
	}
	if (from >= BLOB) {
		send_page(fd, "416 Range Not Satisfiable", "", "");
		return;
	}
	size_t len = BLOB - from, sent = len;
	if (site->cuts) {
		site->cuts--;
		sent = site->cut < len ? site->cut : len;
	}
	auto_str char *range = site->range ? str_fmt("Content-Range: %s\r\n", site->range) :
			       from        ? str_fmt("Content-Range: bytes %zu-%d/%d\r\n", from, BLOB - 1, BLOB) :
					     str_dup("");
	auto_str char *head = str_fmt("HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n",
				      from ? "206 Partial Content" : "200 OK", len + site->extra, range);
	send_text(fd, head);
	send_all(fd, blob + from, sent);
	send_all(fd, blob, site->extra);
	if (site->hangs)
		server_hang(s);
}

static void serve(struct server *s, int fd, const struct request *r)
{
	struct site *site = s->ctx;
	if (request_is(r, "GET /repo/index.json ") && str_eq(site->index_status, HUGE_REPLY)) {
		send_text(fd, HUGE_REPLY);
		return;
	}
	if (request_is(r, "GET /repo/index.json ")) {
		send_page(fd, site->index_status ? site->index_status : "200 OK", "", site->index);
		return;
	}
	auto_str char *layer = str_fmt("GET /repo/blobs/sha256/%s ", site->layer.digest);
	auto_str char *manifest = str_fmt("GET /repo/blobs/sha256/%s ", site->manifest.digest);
	if (request_is(r, layer))
		serve_blob(s, fd, r);
	else if (request_is(r, manifest))
		send_page(fd, "200 OK", "", site->is_wrong ? "something else" : site->oci_manifest_text);
	else
		send_page(fd, "404 Not Found", "", "<html>no</html>");
}

struct setup {
	struct site site;
	struct server server;
	struct folder folder;
	struct layout layout;
	struct http *http;
	struct repository *repository;
	char *index;
};

static void setup_start(struct setup *s, struct site site)
{
	struct err err = { 0 };
	struct http_options o = { .proxy = "",
				  .connect_ms = PATIENT_MS,
				  .stall_ms = site.stall_ms ? site.stall_ms : PATIENT_MS };
	auto_oci_index struct oci_index x = { 0 };
	*s = (struct setup){ .site = site, .layout = LAYOUT_NONE };
	for (size_t i = 0; i < BLOB; i++)
		blob[i] = (char)(i * 7 + i / 251);
	digest_data(blob, BLOB, s->site.layer.digest);
	s->site.layer.size = BLOB;
	s->site.layer.media_type = str_dup(OCI_LAYER);
	struct oci_manifest m = { .config = { .media_type = s->site.layer.media_type, .size = 2 },
				  .layers = &s->site.layer,
				  .count = 1 };
	digest_data("{}", 2, m.config.digest);
	s->site.oci_manifest_text = oci_manifest_text(&m);
	s->site.manifest.size = strlen(s->site.oci_manifest_text);
	s->site.manifest.media_type = str_dup(OCI_MANIFEST);
	digest_data(s->site.oci_manifest_text, s->site.manifest.size, s->site.manifest.digest);
	oci_index_put(&x, &s->site.manifest, "one");
	struct oci_descriptor absent = { .media_type = s->site.manifest.media_type, .size = 1 };
	digest_data("x", 1, absent.digest);
	oci_index_put(&x, &absent, "two");
	s->index = oci_index_text(&x);
	if (!s->site.index)
		s->site.index = s->index;
	folder_make(&s->folder);
	assert_int_equal(layout_make(&s->folder.root, &s->layout, &err), 0);
	server_start(&s->server, serve, &s->site);
	assert_int_equal(http_new(&o, &s->http, &err), 0);
	auto_str char *url = server_url(&s->server, "/repo/");
	struct repository_options options = { .http = s->http };
	assert_int_equal(repository_open(url, &options, &s->repository, &err), 0);
}

static void setup_done(struct setup *s)
{
	repository_free(s->repository);
	http_free(s->http);
	server_stop(&s->server);
	layout_done(&s->layout);
	folder_done(&s->folder);
	oci_descriptor_done(&s->site.layer);
	oci_descriptor_done(&s->site.manifest);
	free(s->site.oci_manifest_text);
	free(s->index);
}
#define auto_setup __attribute__((cleanup(setup_done)))

static int read_one(struct setup *s, const char *ref, struct err *err)
{
	auto_str char *data = NULL;
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	int r = repository_manifest(s->repository, ref, &data, &len, hex, err);
	if (r > 0) {
		assert_string_equal(data, s->site.oci_manifest_text);
		assert_string_equal(hex, s->site.manifest.digest);
	}
	return r;
}

static void test_documents(void **state)
{
	(void)state;
	auto_setup struct setup s;
	struct err err = { 0 };
	auto_strv struct strv tags = { 0 };
	auto_oci_index struct oci_index x = { 0 };
	setup_start(&s, (struct site){ 0 });
	auto_str char *name = server_url(&s.server, "/repo"), *ref = oci_digest_text(s.site.manifest.digest);
	assert_string_equal(s.repository->name, name);
	assert_int_equal(read_one(&s, "one", &err), 1);
	assert_int_equal(read_one(&s, ref, &err), 1);
	assert_int_equal(read_one(&s, "two", &err), 0); // named, and not there
	assert_int_equal(read_one(&s, "three", &err), 0);
	assert_int_equal(repository_tags(s.repository, &tags, &err), 0);
	assert_int_equal(tags.count, 2);
	assert_int_equal(repository_referrers(s.repository, s.site.manifest.digest, &x, &err), 0);
	assert_int_equal(x.count, 0);
	auto_str char *data = NULL;
	size_t len = 0;
	assert_int_equal(repository_document(s.repository, &s.site.manifest, &data, &len, &err), 1);
	assert_int_equal(len, s.site.manifest.size);
	size_t indexes = 0;
	for (size_t i = 0; i < server_count(&s.server); i++) {
		auto_str char *head = server_head(&s.server, i);
		indexes += str_starts(head, "GET /repo/index.json ");
	}
	assert_int_equal(indexes, 1);
	assert_int_equal(repository_put_manifest(s.repository, "{}", 2, OCI_MANIFEST, "x", &err), -1);
	assert_int_equal(err.code, E_USAGE);
	assert_int_equal(repository_has_blob(s.repository, s.site.layer.digest, &err), -1);
	assert_int_equal(repository_put_blob(s.repository, &s.layout, &s.site.layer, &err), -1);
}

static void test_not_a_repository(void **state)
{
	(void)state;
	static const struct {
		const char *index, *status;
		int code;
	} rows[] = {
		{ "<html>hello</html>", "200 OK", E_MANIFEST },
		{ "", "200 OK", E_MANIFEST },
		{ "{}", "200 OK", E_MANIFEST },
		{ "x", "404 Not Found", E_NOT_FOUND },
		{ "x", "403 Forbidden", E_AUTH },
		{ "x", "401 Unauthorized", E_AUTH },
		{ "x", "302 Found", E_NETWORK },
		{ "x", "503 Busy", E_SERVER },
		{ "x", HUGE_REPLY, E_TOO_LARGE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		struct err err = { 0 };
		setup_start(&s, (struct site){ .index = rows[i].index, .index_status = rows[i].status });
		expect(read_one(&s, "one", &err) == -1, rows[i].index);
		expect(err.code == rows[i].code && strstr(err.text, "/repo/index.json"), err.text);
	}
}

static void test_a_wrong_manifest(void **state)
{
	(void)state;
	auto_setup struct setup s;
	struct err err = { 0 };
	auto_str char *data = NULL;
	size_t len = 0;
	char hex[DIGEST_HEX + 1];
	setup_start(&s, (struct site){ .is_wrong = true });
	auto_str char *ref = oci_digest_text(s.site.manifest.digest);
	assert_int_equal(repository_manifest(s.repository, ref, &data, &len, hex, &err), -1);
	assert_int_equal(err.code, E_DIGEST);
	assert_int_equal(repository_document(s.repository, &s.site.manifest, &data, &len, &err), -1);
	assert_int_equal(err.code, E_DIGEST);
	s.site.manifest.size = (5 << 20);
	assert_int_equal(repository_document(s.repository, &s.site.manifest, &data, &len, &err), -1);
	assert_int_equal(err.code, E_TOO_LARGE);
	assert_null(data);
}

// Brings the layer; what the part has before: the first bytes of it.
static int bring(struct setup *s, size_t before, uint64_t *ret_have, struct err *err)
{
	auto_partial_blob struct partial_blob part = PARTIAL_BLOB_NONE;
	assert_int_equal(partial_blob_open(&s->layout, &s->site.layer, &part, err), 0);
	assert_true(before == 0 || partial_blob_append(&part, blob, before, err) == 0);
	struct blob_transfer t = { .part = &part };
	assert_int_equal(repository_begin(s->repository, &t, err), 0);
	for (int i = 0; i < 10000 && !t.is_done; i++)
		assert_int_equal(repository_step(s->repository, err), 0);
	assert_true(t.is_done);
	*ret_have = part.have;
	repository_end(s->repository, &t);
	repository_end(s->repository, &t);
	if (t.err.code) {
		*err = t.err;
		return -1;
	}
	return partial_blob_commit(&part, err);
}

// Credentials aside: only what passes by itself is tried again, and only so often.
static void test_retries(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		int code; // of the call; 0 = a reply came
		long status;
		unsigned waits; // that there were before
		int again;
		unsigned ms;
	} rows[] = {
		{ "a reply", 0, 200, 0, 0, 0 },
		{ "not there", 0, 404, 0, 0, 0 },
		{ "forbidden", 0, 403, 0, 0, 0 },
		{ "refused, without credentials", 0, 401, 0, 0, 0 },
		{ "too many requests", 0, 429, 0, 1, 100 },
		{ "busy", 0, 503, 0, 1, 100 },
		{ "broken", 0, 500, 1, 1, 400 },
		{ "broken, again", 0, 500, 2, 1, 1600 },
		{ "broken for ever", 0, 500, 3, 0, 0 },
		{ "never reached", E_NETWORK, 0, 0, 0, 0 },
		{ "reached, and cut off", E_NETWORK, 200, 0, 1, 100 },
		{ "cut off for ever", E_NETWORK, 206, 3, 0, 0 },
		{ "no byte in time", E_TIMEOUT, 0, 0, 0, 0 },
		{ "no further byte in time", E_TIMEOUT, 200, 0, 0, 0 },
		{ "a certificate that is wrong", E_TLS, 0, 0, 0, 0 },
		{ "too large", E_TOO_LARGE, 200, 0, 0, 0 },
		{ "other bytes than promised", E_DIGEST, 200, 0, 0, 0 },
		{ "a full disk", E_STORE_FULL, 200, 0, 0, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct remote_repository r = { 0 };
		struct http_call call = { .is_done = true, .err.code = rows[i].code, .status = rows[i].status };
		struct attempt a = { .waits = rows[i].waits };
		struct err err;
		unsigned ms = 7;
		expect(retry_is_due(&r, &call, &a, &ms, &err) == rows[i].again, rows[i].name);
		expect(ms == rows[i].ms && a.waits == rows[i].waits + (unsigned)rows[i].again, rows[i].name);
	}
}

static void test_transfers(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		struct site site;
		size_t before;
		int code;
		uint64_t have; // when it failed
		size_t requests;
	} rows[] = {
		{ "whole", { 0 }, 0, 0, BLOB, 1 },
		{ "resumed", { 0 }, 1000, 0, BLOB, 1 },
		{ "complete before", { 0 }, BLOB, 0, BLOB, 0 },
		{ "range ignored", { .ignores_range = true }, 123456, 0, BLOB, 1 },
		{ "cut once", { .cut = 1000, .cuts = 1 }, 0, 0, BLOB, 2 },
		{ "cut five times", { .cut = 1000, .cuts = 5 }, 0, 0, BLOB, 6 },
		{ "cut six times", { .cut = 1000, .cuts = 6 }, 0, E_NETWORK, 6000, 6 },
		{ "cut six times, and much came each time", { .cut = 65536, .cuts = 99 }, 0, 0, BLOB, 5 },
		{ "cut, and range ignored", { .cut = 1000, .cuts = 1, .ignores_range = true }, 0, 0, BLOB, 2 },
		{ "cut without progress", { .cut = 500, .cuts = 9, .ignores_range = true }, 1000, E_NETWORK, 1000, 1 },
		{ "stalls",
		  { .cut = 1000, .cuts = 9, .hangs = true, .ignores_range = true, .stall_ms = 1000 },
		  0,
		  E_TIMEOUT,
		  1000,
		  1 },
		{ "busy once", { .fails = 1, .fail_status = "503 Busy", .fail_headers = "" }, 0, 0, BLOB, 2 },
		{ "busy for ever", { .fails = 99, .fail_status = "500 No", .fail_headers = "" }, 10, E_SERVER, 10, 4 },
		{ "too many",
		  { .fails = 1, .fail_status = "429 Slow", .fail_headers = "Retry-After: 1\r\n" },
		  0,
		  0,
		  BLOB,
		  2 },
		{ "far too many",
		  { .fails = 9, .fail_status = "429 Slow", .fail_headers = "Retry-After: 3600\r\n" },
		  0,
		  E_SERVER,
		  0,
		  1 },
		{ "gone", { .fails = 9, .fail_status = "404 Gone", .fail_headers = "" }, 7, E_NOT_FOUND, 7, 1 },
		{ "forbidden", { .fails = 9, .fail_status = "403 No", .fail_headers = "" }, 7, E_AUTH, 7, 1 },
		{ "more than promised", { .extra = 1 }, 0, E_TOO_LARGE, BLOB, 1 },
		{ "another range", { .range = "bytes 2000-2999/300000" }, 1000, E_NETWORK, 1000, 1 },
		{ "no range", { .range = "nonsense" }, 1000, E_NETWORK, 1000, 1 },
		{ "an earlier range, and its bytes are wrong there",
		  { .range = "bytes 0-299999/300000" },
		  1000,
		  E_NETWORK,
		  BLOB - 1000,
		  3 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		struct err err = { 0 };
		uint64_t have = 0;
		setup_start(&s, rows[i].site);
		int r = bring(&s, rows[i].before, &have, &err);
		if (i == ARRAY_SIZE(rows) - 1) { // skipped bytes differ this time: the digest or the count shows it
			expect(r == -1, rows[i].name);
			continue;
		}
		auto_str char *row = str_fmt("%s: %d '%s' have %llu, requests %zu", rows[i].name, err.code, err.text,
					     (unsigned long long)have, server_count(&s.server));
		expect(r == (rows[i].code ? -1 : 0) && (r == 0 || err.code == rows[i].code), row);
		expect((have == rows[i].have || rows[i].site.extra) && server_count(&s.server) == rows[i].requests,
		       row);
		expect(layout_has(&s.layout, s.site.layer.digest) == (r == 0), row);
	}
}

// The descriptor states more bytes than the server has: there is nothing after the end, and the digest is wrong.
static void test_beyond_the_end(void **state)
{
	(void)state;
	auto_setup struct setup s;
	struct err err = { 0 };
	uint64_t have = 0;
	setup_start(&s, (struct site){ 0 });
	s.site.layer.size = BLOB + 5;
	assert_int_equal(bring(&s, 0, &have, &err), -1);
	assert_int_equal(err.code, E_DIGEST);
	assert_int_equal(have, BLOB);
	assert_false(layout_has(&s.layout, s.site.layer.digest));
}

static void test_transfer_ended_early(void **state)
{
	(void)state;
	auto_setup struct setup s;
	struct err err = { 0 };
	setup_start(&s, (struct site){ .hangs = true, .cut = 10, .cuts = 9 });
	auto_partial_blob struct partial_blob part = PARTIAL_BLOB_NONE;
	assert_int_equal(partial_blob_open(&s.layout, &s.site.layer, &part, &err), 0);
	struct blob_transfer t = { .part = &part };
	assert_int_equal(repository_begin(s.repository, &t, &err), 0);
	for (int i = 0; i < 10000 && part.have == 0; i++)
		assert_int_equal(repository_step(s.repository, &err), 0);
	assert_int_equal(part.have, 10);
	repository_end(s.repository, &t);
}

static void test_names(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool is_remote;
		int code;
	} rows[] = {
		{ "https://h/p", true, E_OFFLINE },
		{ "http://u:secret@h/p", true, E_OFFLINE },
		{ "docker://h/p", true, E_OFFLINE },
		{ "docker+http://h/p", true, E_OFFLINE },
		{ "h/p", false, E_USAGE },
		{ "ftp://h/p", false, E_USAGE },
		{ "", false, E_USAGE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		struct repository *r = NULL;
		expect(repository_is_remote(rows[i].name) == rows[i].is_remote, rows[i].name);
		expect(repository_open(rows[i].name, &(struct repository_options){ 0 }, &r, &err) == -1, rows[i].name);
		expect(err.code == rows[i].code && !strstr(err.text, "secret"), err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_documents),
		cmocka_unit_test(test_not_a_repository),
		cmocka_unit_test(test_a_wrong_manifest),
		cmocka_unit_test(test_retries),
		cmocka_unit_test(test_transfers),
		cmocka_unit_test(test_beyond_the_end),
		cmocka_unit_test(test_transfer_ended_early),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests_name("static", tests, NULL, NULL);
}
