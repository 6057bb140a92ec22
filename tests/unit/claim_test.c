// SPDX-License-Identifier: Apache-2.0
// Statements in either encoding that are none.
#include "precompiled/trust/signature_internal.h"
#include "tests/unit/test.h"

static void test_invalid_bundles(void **state)
{
	(void)state;
#define ENVELOPE(payload, type, signatures) \
	"{\"dsseEnvelope\":{\"payload\":" payload ",\"payloadType\":" type ",\"signatures\":" signatures "}}"
#define TYPE "\"application/vnd.in-toto+json\""
	static const char *const rows[] = {
		"",
		"{",
		"[]",
		"{}",
		"null",
		"{\"dsseEnvelope\":[]}",
		ENVELOPE("\"e30=\"", TYPE, "[]"),
		ENVELOPE("\"e30=\"", TYPE, "{}"),
		ENVELOPE("\"e30=\"", TYPE, "[{\"sig\":\"AAAA\"}]"),
		ENVELOPE("\"e30=\"", TYPE, "[{\"sig\":\"AAAA\"},{\"sig\":\"AAAA\"}]"),
		ENVELOPE("\"e30\"", TYPE, "[{\"sig\":\"AAAA\"}]"),
		ENVELOPE("\"e30=\"", TYPE, "[{\"sig\":\"*\"}]"),
		ENVELOPE("\"e30=\"", TYPE, "[{\"sig\":7}]"),
		ENVELOPE("\"e30=\"", TYPE, "[7]"),
		ENVELOPE("7", TYPE, "[{\"sig\":\"AAAA\"}]"),
		ENVELOPE("\"e30=\"", "\"text/plain\"", "[{\"sig\":\"AAAA\"}]"),
		ENVELOPE("\"bm90IGpzb24=\"", TYPE, "[{\"sig\":\"AAAA\"}]"),
		ENVELOPE("\"e30=\"", TYPE, "[{\"sig\":\"AAAA\"}]") "x",
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		struct signature_claim c = { 0 };
		expect(signature_bundle_claim(rows[i], strlen(rows[i]), "it", &c, &err) == -1 && err.code == E_MANIFEST,
		       rows[i]);
		expect(!c.text && !c.signature, rows[i]);
	}
}

static void test_invalid_payloads(void **state)
{
	(void)state;
#define IMAGE(digest) "\"image\":{\"docker-manifest-digest\":" digest "}"
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	static const char *const rows[] = {
		"",
		"{\"critical\":",
		"{}",
		"{\"critical\":{" IMAGE("\"sha256:" HEX64 "\"") "}}",
		"{\"critical\":{" IMAGE("\"sha256:" HEX64 "\"") ",\"type\":\"atomic container signature\"}}",
		"{\"critical\":{" IMAGE("\"" HEX64 "\"") ",\"type\":\"cosign container image signature\"}}",
		"{\"critical\":{" IMAGE("7") ",\"type\":\"cosign container image signature\"}}",
		"{\"critical\":{\"image\":7,\"type\":\"cosign container image signature\"}}",
	};
	static const char good[] =
		"{\"critical\":{" IMAGE("\"sha256:" HEX64 "\"") ",\"type\":\"cosign container image signature\"}}";
	struct err err;
	struct signature_claim c = { 0 };
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(SIGNATURE_COSIGN_TAG) };
	d.annotations = json_pack("{s:s}", "dev.cosignproject.cosign/signature", "AAAA");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(signature_cosign_claim(&d, rows[i], strlen(rows[i]), &c, &err) == -1 && err.code == E_MANIFEST,
		       rows[i]);
	assert_int_equal(signature_cosign_claim(&d, good, strlen(good), &c, &err), 0);
	assert_string_equal(c.digests.items[0], HEX64);
	signature_claim_done(&c);
	json_object_set_new(d.annotations, "dev.cosignproject.cosign/signature", json_string("no base64"));
	assert_int_equal(signature_cosign_claim(&d, good, strlen(good), &c, &err), -1);
	json_object_clear(d.annotations);
	assert_int_equal(signature_cosign_claim(&d, good, strlen(good), &c, &err), -1);
	assert_null(c.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_invalid_bundles),
		cmocka_unit_test(test_invalid_payloads),
	};
	return cmocka_run_group_tests_name("claim", tests, NULL, NULL);
}
