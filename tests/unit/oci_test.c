// SPDX-License-Identifier: Apache-2.0
#include "precompiled/oci/oci.h"
#include "tests/unit/test.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define DESCRIPTOR(hex, more) "{\"digest\":\"sha256:" hex "\"," more "\"mediaType\":\"x/y\",\"size\":3}"
#define HEAD "{\"schemaVersion\":2,"
#define CONFIG "\"config\":" DESCRIPTOR(A64, "")

static void manifests_are_parsed_and_written(void **state)
{
	(void)state;
	static const char text[] = "{\"annotations\":{\"a\":\"1\"},\"artifactType\":\"t/t\",\"config\":" DESCRIPTOR(
		A64, "") ",\"layers\":["
			 "{\"annotations\":{\"org.opencontainers.image.title\":\"m\"},\"digest\":\"sha256:" B64
			 "\",\"mediaType\":\"l/l\",\"size\":9007199254740993}],\"mediaType\":\"" OCI_MANIFEST
			 "\",\"schemaVersion\":2,\"subject\":" DESCRIPTOR(B64, "") "}";
	auto_oci_manifest struct oci_manifest m = { 0 };
	struct err err;
	assert_int_equal(oci_manifest_parse(text, strlen(text), "m", &m, &err), 0);
	assert_string_equal(m.artifact_type, "t/t");
	assert_string_equal(m.config.digest, A64);
	assert_int_equal(m.count, 1);
	assert_true(m.layers[0].size == 9007199254740993);
	assert_string_equal(oci_descriptor_annotation(&m.layers[0], OCI_TITLE), "m");
	assert_null(oci_descriptor_annotation(&m.config, OCI_TITLE));
	assert_string_equal(oci_descriptor_annotation(&(struct oci_descriptor){ .annotations = m.annotations }, "a"),
			    "1");
	assert_string_equal(m.subject.digest, B64);
	auto_str char *back = oci_manifest_text(&m);
	assert_string_equal(back, text);
}

// What other writers leave out or put in.
static void tolerated_manifests(void **state)
{
	(void)state;
	static const char *const rows[] = {
		HEAD CONFIG ",\"layers\":[]}",
		HEAD CONFIG ",\"layers\":[],\"annotations\":null,\"subject\":null}",
		HEAD CONFIG ",\"layers\":[],\"annotations\":{},\"artifactType\":\"\",\"unknown\":[1]}",
		" " HEAD CONFIG ",\"layers\":[{\"size\":0,\"mediaType\":\"a\",\"digest\":\"sha256:" B64
		"\",\"urls\":[]}]}\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_oci_manifest struct oci_manifest m = { 0 };
		struct err err;
		expect(oci_manifest_parse(rows[i], strlen(rows[i]), "m", &m, &err) == 0, rows[i]);
		expect(!m.artifact_type && !m.subject.media_type, rows[i]);
	}
}

static void refused_manifests(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"",
		"<html>",
		"[]",
		"null",
		"{}",
		HEAD CONFIG ",\"layers\":[]} x",
		HEAD CONFIG ",\"layers\":[],\"layers\":[]}",
		"{\"schemaVersion\":1," CONFIG ",\"layers\":[]}",
		"{\"schemaVersion\":\"2\"," CONFIG ",\"layers\":[]}",
		HEAD "\"mediaType\":\"" OCI_INDEX "\"," CONFIG ",\"layers\":[]}",
		HEAD "\"mediaType\":7," CONFIG ",\"layers\":[]}",
		HEAD CONFIG "}",
		HEAD "\"layers\":[]}",
		HEAD CONFIG ",\"layers\":{}}",
		HEAD CONFIG ",\"layers\":[3]}",
		HEAD CONFIG ",\"layers\":[{}]}",
		HEAD CONFIG ",\"layers\":[],\"subject\":{}}",
		HEAD CONFIG ",\"layers\":[],\"annotations\":[]}",
		HEAD CONFIG ",\"layers\":[],\"annotations\":{\"a\":1}}",
		HEAD CONFIG ",\"layers\":[" DESCRIPTOR(B64, "\"annotations\":{\"a\":null},") "]}",
		HEAD CONFIG ",\"layers\":[{\"size\":-1,\"mediaType\":\"a\",\"digest\":\"sha256:" B64 "\"}]}",
		HEAD CONFIG ",\"layers\":[{\"size\":1.5,\"mediaType\":\"a\",\"digest\":\"sha256:" B64 "\"}]}",
		HEAD CONFIG ",\"layers\":[{\"mediaType\":\"a\",\"digest\":\"sha256:" B64 "\"}]}",
		HEAD CONFIG ",\"layers\":[{\"size\":1,\"digest\":\"sha256:" B64 "\"}]}",
		HEAD CONFIG ",\"layers\":[{\"size\":1,\"mediaType\":\"a\",\"digest\":\"sha512:" B64 "\"}]}",
		HEAD CONFIG ",\"layers\":[{\"size\":1,\"mediaType\":\"a\",\"digest\":\"" B64 "\"}]}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct oci_manifest m = { 0 };
		struct err err = { 0 };
		expect(oci_manifest_parse(rows[i], strlen(rows[i]), "a.example/x", &m, &err) == -1, rows[i]);
		expect(err.code == E_MANIFEST && strstr(err.text, "a.example/x"), rows[i]);
		expect(!m.layers && !m.config.media_type, rows[i]);
	}
}

static void large_documents_are_refused(void **state)
{
	(void)state;
	auto_str char *huge = mem_alloc(OCI_DOCUMENT_MAX + 2);
	memset(huge, ' ', OCI_DOCUMENT_MAX + 1);
	struct err err;
	json_t *json = NULL;
	assert_int_equal(oci_json(huge, OCI_DOCUMENT_MAX + 1, "huge", &json, &err), -1);
	assert_int_equal(err.code, E_TOO_LARGE);
	memset(huge, '[', OCI_DOCUMENT_MAX);
	assert_int_equal(oci_json(huge, OCI_DOCUMENT_MAX, "deep", &json, &err), -1);
	assert_int_equal(err.code, E_MANIFEST);
	assert_null(json);
}

static struct oci_descriptor item(const char *hex, const char *tag)
{
	struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST), .size = 3 };
	memcpy(d.digest, hex, sizeof(d.digest));
	if (tag)
		d.annotations = json_pack("{s:s}", OCI_REF_NAME, tag);
	return d;
}

static void indexes_are_parsed_and_written(void **state)
{
	(void)state;
	// skopeo: neither mediaType nor artifactType.
	static const char text[] = HEAD "\"manifests\":[{\"digest\":\"sha256:" A64
					"\",\"size\":3,\"annotations\":{\"" OCI_REF_NAME "\":\"1+x\"}}]}";
	auto_oci_index struct oci_index x = { 0 };
	struct err err;
	assert_int_equal(oci_index_parse(text, strlen(text), "i", &x, &err), 0);
	assert_int_equal(x.count, 1);
	assert_string_equal(x.items[0].media_type, OCI_MANIFEST);
	assert_int_equal(oci_index_find(&x, "1+x"), 0);
	assert_int_equal(oci_index_find(&x, "sha256:" A64), 0);
	assert_int_equal(oci_index_find(&x, "sha256:" B64), -1);
	assert_int_equal(oci_index_find(&x, "1"), -1);
	auto_str char *first = oci_index_text(&x);
	auto_oci_index struct oci_index y = { 0 };
	assert_int_equal(oci_index_parse(first, strlen(first), "i", &y, &err), 0);
	auto_str char *second = oci_index_text(&y);
	assert_string_equal(first, second);
}

static void put_moves_tags(void **state)
{
	(void)state;
	auto_oci_index struct oci_index x = { 0 };
	auto_oci_descriptor struct oci_descriptor a = item(A64, NULL), b = item(B64, NULL), named = item(B64, "own");
	oci_index_put(&x, &a, "one");
	oci_index_put(&x, &b, NULL);
	assert_int_equal(x.count, 2);
	assert_int_equal(oci_index_find(&x, "one"), 0);
	oci_index_put(&x, &b, "one"); // moves
	assert_int_equal(x.count, 2);
	assert_int_equal(oci_index_find(&x, "one"), 1);
	assert_null(oci_descriptor_annotation(&x.items[0], OCI_REF_NAME));
	oci_index_put(&x, &b, NULL); // keeps
	assert_int_equal(oci_index_find(&x, "one"), 1);
	oci_index_put(&x, &a, "own");
	oci_index_put(&x, &named, NULL); // its own annotation moves as well
	assert_int_equal(oci_index_find(&x, "own"), 1);
	assert_int_equal(oci_index_find(&x, "one"), -1);
	assert_null(b.annotations); // what was put in was copied
	oci_index_remove(&x, 0);
	assert_int_equal(x.count, 1);
	assert_string_equal(x.items[0].digest, B64);
	oci_index_remove(&x, 0);
	assert_int_equal(x.count, 0);
}

static void refused_indexes(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"{}",
		HEAD "\"manifests\":{}}",
		HEAD "\"manifests\":[{}]}",
		HEAD "\"manifests\":[[]]}",
		HEAD "\"mediaType\":\"" OCI_MANIFEST "\",\"manifests\":[]}",
		HEAD "\"manifests\":[{\"digest\":\"sha256:../../etc\",\"size\":3}]}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct oci_index x = { 0 };
		struct err err = { 0 };
		expect(oci_index_parse(rows[i], strlen(rows[i]), "i", &x, &err) == -1, rows[i]);
		expect(err.code == E_MANIFEST && !x.items, rows[i]);
	}
}

static void digests(void **state)
{
	(void)state;
	static const char *const bad[] = { NULL, "", "sha256:", A64, "SHA256:" A64, "sha256:" A64 "a", "sha256:A" A64 };
	char hex[DIGEST_HEX + 1];
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect(!oci_digest_parse(bad[i], hex), bad[i]);
	assert_true(oci_digest_parse("sha256:" A64, hex));
	auto_str char *text = oci_digest_text(hex);
	assert_string_equal(text, "sha256:" A64);
}

static void tags(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "535.261.03-open-6.12.100+deb12-amd64-x86_64", "535.261.03-open-6.12.100_deb12-amd64-x86_64" },
		{ "a~b/c d\xc3\xa9", "a_b_c_d__" },
		{ ".x", "_x" },
		{ "-x", "_x" },
		{ "", "_" },
		{ A64 A64, A64 A64 },
		{ A64 A64 "+", A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *tag = oci_tag(rows[i][0]);
		if (strlen(rows[i][0]) <= 128)
			expect(str_eq(tag, rows[i][1]), rows[i][0]);
		else
			expect(strlen(tag) == 128 && str_starts(tag, rows[i][1]), rows[i][0]);
	}
	auto_str char *plus = oci_tag(A64 A64 "+"), *low = oci_tag(A64 A64 "_");
	assert_string_not_equal(plus, low); // the digest is of the exact name
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(manifests_are_parsed_and_written),
		cmocka_unit_test(tolerated_manifests),
		cmocka_unit_test(refused_manifests),
		cmocka_unit_test(large_documents_are_refused),
		cmocka_unit_test(indexes_are_parsed_and_written),
		cmocka_unit_test(put_moves_tags),
		cmocka_unit_test(refused_indexes),
		cmocka_unit_test(digests),
		cmocka_unit_test(tags),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
