// SPDX-License-Identifier: Apache-2.0
#include "precompiled/bundle/bundle.h"
#include "tests/unit/vouch.h"

enum { DAY = 24 * 60 * 60 };
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DATE "2027-01-15T08:00:00Z"

static void add(struct bundle_manifest *p, const char *tag, const char *digest)
{
	struct bundle_entry *item = bundle_manifest_add(p);
	*item = (struct bundle_entry){
		.kind = str_dup("payload"), .driver = str_dup("1.0"), .arch = str_dup("x86_64"), .tag = str_dup(tag)
	};
	memcpy(item->digest, digest, sizeof(item->digest));
}

static void fill(const struct vouch *v, struct bundle_manifest *p)
{
	*p = (struct bundle_manifest){ .created = VOUCH_NOW, .expires = VOUCH_NOW + DAY };
	add(p, "package", v->package.digest);
	add(p, "other", v->other.digest);
	strv_add(&p->images, str_dup("gcc@sha256:" HEX64));
}

static void publish(const struct vouch *v, const struct bundle_manifest *p, size_t key)
{
	struct err err = { 0 };
	struct signature_maker maker = vouch_maker(v, key);
	int r = bundle_manifest_publish(&v->l, p, &maker, 1, &err);
	expect(r == 0, err.text);
}

static void test_written_and_read(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_bundle_manifest struct bundle_manifest p, q = { 0 }, none = { 0 };
	auto_signature_verdict struct signature_verdict verdict = { 0 };
	struct err err = { 0 };
	vouch_make(&v);
	fill(&v, &p);
	struct trust_rule alice = vouch_rule(&v, 1, 1);
	assert_int_equal(bundle_manifest_read(v.r, NULL, &none, NULL, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	publish(&v, &p, 1);
	assert_int_equal(bundle_manifest_read(v.r, &alice, &none, &verdict, &err), -1);
	assert_int_equal(err.code, E_UNTRUSTED);
	publish(&v, &p, 0);
	assert_int_equal(bundle_manifest_read(v.r, &alice, &q, &verdict, &err), 0);
	assert_int_equal(q.expires, VOUCH_NOW + DAY);
	assert_int_equal(q.count, 2);
	assert_string_equal(q.items[1].tag, "other");
	assert_string_equal(q.items[1].digest, v.other.digest);
	assert_null(q.items[1].kernel);
	assert_string_equal(q.images.items[0], "gcc@sha256:" HEX64);
	auto_str char *text = bundle_entry_text(&q.items[0]);
	assert_string_equal(text, "payload 1.0 x86_64");
}

// According to the index, with a blob missing, with another package under the tag.
static void test_present_or_missing(void **state)
{
	(void)state;
	static const struct {
		const char *what, *tag;
		bool is_other, is_blob_gone;
		int kept;
	} rows[] = {
		{ "there", "package", false, false, 1 },
		{ "no such tag", "absent", false, false, 0 },
		{ "the tag is another's", "package", true, false, 0 },
		{ "a blob is gone", "package", false, true, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_vouch struct vouch v;
		auto_bundle_manifest struct bundle_manifest p = { 0 };
		auto_str char *why = NULL, *path = NULL;
		struct err err = { 0 };
		vouch_make(&v);
		add(&p, rows[i].tag, rows[i].is_other ? v.other.digest : v.package.digest);
		if (rows[i].is_blob_gone) {
			char empty[DIGEST_HEX + 1];
			digest_data("{}", 2, empty);
			path = layout_blob_path(empty);
			assert_int_equal(root_unlink(&v.l.root, path, &err), 1);
		}
		expect(bundle_entry_is_present(v.r, &p.items[0], &why, &err) == rows[i].kept, rows[i].what);
		expect((why == NULL) == (rows[i].kept == 1), rows[i].what);
	}
}

// What bundle_verify returns for the layout as a tar: 0, 1, or the error code.
static int verify(const struct vouch *v, const struct trust *trust, time_t now)
{
	struct err err = { 0 };
	auto_str char *file = str_fmt("%s/b.tar", v->folder.path);
	auto_bundle_report struct bundle_report report = { 0 };
	assert_int_equal(bundle_write(&v->l, file, &err), 0);
	int r = bundle_verify(file, trust, now, &report, &err);
	return r < 0 ? err.code : r;
}

static void test_verified(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_bundle_manifest struct bundle_manifest p;
	vouch_make(&v);
	fill(&v, &p);
	struct trust alice = { .keys = v.keys, .count = 1 }, nobody = { 0 };
	publish(&v, &p, 0);
	assert_int_equal(verify(&v, &alice, VOUCH_NOW), E_UNSIGNED); // the packages are not
	vouch_sign(&v, &v.package, 0);
	vouch_sign(&v, &v.other, 1);
	assert_int_equal(verify(&v, &alice, VOUCH_NOW), E_UNTRUSTED);
	vouch_sign(&v, &v.other, 0);
	assert_int_equal(verify(&v, &alice, VOUCH_NOW), 0);
	assert_int_equal(verify(&v, &alice, VOUCH_NOW + DAY - 1), 0);
	assert_int_equal(verify(&v, &alice, VOUCH_NOW + DAY), E_EXPIRED);
	assert_int_equal(verify(&v, &nobody, VOUCH_NOW), E_UNTRUSTED);
	add(&p, "third", v.other.digest);
	publish(&v, &p, 0);
	assert_int_equal(verify(&v, &alice, VOUCH_NOW), 1);
}

static void test_invalid_lists(void **state)
{
	(void)state;
#define LIST(created, expires, promises, images) \
	"{\"created\":\"" created "\",\"expires\":\"" expires "\",\"promises\":" promises ",\"images\":" images "}"
#define ITEM "\"kind\":\"package\",\"arch\":\"x\",\"tag\":\"t\""
	static const char *const rows[] = {
		"",
		"{}",
		"[]",
		LIST("", DATE, "[]", "[]"),
		LIST(DATE, "2027-02-30T08:00:00Z", "[]", "[]"),
		LIST(DATE, DATE, "{}", "[]"),
		LIST(DATE, DATE, "[]", "7"),
		LIST(DATE, DATE, "[7]", "[]"),
		LIST(DATE, DATE, "[{" ITEM "}]", "[]"),
		LIST(DATE, DATE, "[{" ITEM ",\"digest\":\"" HEX64 "\"}]", "[]"),
		LIST(DATE, DATE, "[{\"kind\":\"\",\"arch\":\"x\",\"tag\":\"t\",\"digest\":\"sha256:" HEX64 "\"}]",
		     "[]"),
		LIST(DATE, DATE, "[]", "[\"gcc:12\"]"),
		LIST(DATE, DATE, "[]", "[\"gcc@sha256:12\"]"),
		LIST(DATE, DATE, "[]", "[\"@sha256:" HEX64 "\"]"),
	};
	struct err err;
	struct bundle_manifest p = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(bundle_manifest_parse(rows[i], strlen(rows[i]), "it", &p, &err) == -1 && err.code == E_MANIFEST,
		       rows[i]);
	static const char good[] = LIST(DATE, DATE, "[{" ITEM ",\"digest\":\"sha256:" HEX64 "\"}]",
					"[\"r.example/gcc@sha256:" HEX64 "\"]");
	assert_int_equal(bundle_manifest_parse(good, strlen(good), "it", &p, &err), 0);
	auto_json json_t *json = bundle_manifest_json(&p);
	assert_string_equal(json_string_value(json_object_get(json, "expires")), DATE);
	bundle_manifest_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_and_read),
		cmocka_unit_test(test_present_or_missing),
		cmocka_unit_test(test_verified),
		cmocka_unit_test(test_invalid_lists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
