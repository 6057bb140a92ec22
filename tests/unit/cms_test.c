// SPDX-License-Identifier: Apache-2.0
// Certificates: alone, and as one more kind of signature of a package.
#include "base/crypto/cms.h"
#include "tests/unit/vouch.h"

static char *cert_pem(const struct signer *s)
{
	size_t len;
	return signer_cert(s, true, &len);
}

static void test_certificates(void **state)
{
	(void)state;
	auto_signer struct signer ca = signer_make("Site CA", NULL), leaf = signer_make("Build farm", &ca),
				  foreign = signer_make("Other CA", NULL);
	time_t then = time(NULL) - 129600; // sign.h's certificates ended a day ago
	auto_vouch struct vouch v;
	auto_str char *chain = cert_pem(&leaf), *pem = cert_pem(&ca), *foreign_pem = cert_pem(&foreign),
		      *private = signer_key(leaf.key), *path = NULL, *why = NULL;
	auto_anchor struct anchor *anchor = NULL, *other = NULL;
	auto_key struct key *key = NULL;
	struct err err;
	vouch_make(&v);
	path = str_fmt("%s/leaf.pem", v.folder.path);
	folder_file(&v.folder, "leaf.pem", private);
	assert_int_equal(key_open(path, NULL, &key, &err), 0);
	assert_int_equal(cms_anchor_parse(pem, "ca.pem", &anchor, &err), 0);
	assert_int_equal(cms_anchor_parse(foreign_pem, "other.pem", &other, &err), 0);
	struct signature_maker maker = {
		.key = key, .reference = "x", .chain = chain, .chain_name = "leaf", .now = then
	};
	assert_int_equal(signature_make(&v.l, &v.package, &maker, &err), 1);
	assert_int_equal(signature_make(&v.l, &v.package, &maker, &err), 0);
	struct trust_rule rule = vouch_rule(&v, 0, 1);
	rule.anchor = anchor;
	rule.now = then;
	assert_int_equal(vouch_check(&v, &rule, NULL), 0);
	rule.threshold = 2; // the key counts once, whatever it signed as
	assert_int_equal(vouch_check(&v, &rule, NULL), E_UNTRUSTED);
	rule.threshold = 1;
	rule.now = time(NULL);
	assert_int_equal(vouch_check(&v, &rule, &why), E_UNTRUSTED);
	assert_non_null(strstr(why, "expired"));
	assert_non_null(strstr(why, "CN=Build farm"));
	rule.now = then;
	rule.anchor = other;
	assert_int_equal(vouch_check(&v, &rule, NULL), E_UNTRUSTED);
	rule.anchor = NULL;
	rule.count = 1;
	assert_int_equal(vouch_check(&v, &rule, NULL), E_UNTRUSTED);
	maker.key = v.keys[0].key; // not the certificate's
	assert_int_equal(signature_make(&v.l, &v.other, &maker, &err), -1);
	assert_int_equal(err.code, E_KEY);
}

static void test_certificate_for_another_content(void **state)
{
	(void)state;
	auto_signer struct signer ca = signer_make("Site CA", NULL), leaf = signer_make("Build farm", &ca);
	auto_vouch struct vouch v;
	auto_str char *pem = cert_pem(&ca), *chain = cert_pem(&leaf), *private = signer_key(leaf.key), *path = NULL,
		      *der = NULL;
	auto_anchor struct anchor *anchor = NULL;
	auto_key struct key *key = NULL;
	auto_cms_verdict struct cms_verdict verdict = { 0 }, garbage = { 0 };
	struct err err;
	size_t len = 0;
	vouch_make(&v);
	path = str_fmt("%s/leaf.pem", v.folder.path);
	folder_file(&v.folder, "leaf.pem", private);
	assert_int_equal(key_open(path, NULL, &key, &err), 0);
	assert_int_equal(cms_anchor_parse(pem, "ca.pem", &anchor, &err), 0);
	assert_int_equal(cms_anchor_parse("nothing", "ca.pem", &anchor, &err), -1);
	assert_int_equal(err.code, E_KEY);
	assert_int_equal(cms_sign(key, chain, "chain", "content", 7, &der, &len, &err), 0);
	assert_int_equal(cms_verify(anchor, time(NULL) - 129600, false, der, len, "Content", 7, &verdict), 0);
	assert_true(verdict.is_wrong);
	assert_int_equal(cms_verify(anchor, time(NULL) - 129600, false, der, len / 2, "content", 7, &garbage), 0);
	assert_false(garbage.is_wrong);
	assert_non_null(strstr(garbage.why, "not a CMS signature"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_certificates),
		cmocka_unit_test(test_certificate_for_another_content),
	};
	return cmocka_run_group_tests_name("cms", tests, NULL, NULL);
}
