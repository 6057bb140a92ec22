// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/hub.h"

static int fill(struct setup *s, struct oci_descriptor *ret)
{
	struct err err;
	*ret = (struct oci_descriptor){ .size = 5 };
	return layout_blob_put(&s->layout, "hello", 5, ret->digest, &err);
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
		struct oci_descriptor d;
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
	struct oci_manifest m = { .artifact_type = (char *)(uintptr_t) "a/b",
				  .config = { .media_type = (char *)(uintptr_t)OCI_EMPTY, .size = 2 },
				  .subject = { .media_type = (char *)(uintptr_t)OCI_MANIFEST, .size = 1 } };
	digest_data("{}", 2, m.config.digest);
	memcpy(m.subject.digest, SUBJECT, sizeof(SUBJECT));
	return oci_manifest_text(&m);
}

static void test_manifests_with_a_subject(void **state)
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
		auto_oci_index struct oci_index x = { 0 };
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
		assert_int_equal(oci_index_parse(s.hub.fallback, strlen(s.hub.fallback), "x", &x, &err), 0);
		expect(x.count == rows[i].count, rows[i].name);
		expect(str_eq(x.items[x.count - 1].artifact_type, "a/b"), rows[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uploads),
		cmocka_unit_test(test_manifests_with_a_subject),
	};
	return cmocka_run_group_tests_name("registry_push", tests, NULL, NULL);
}
