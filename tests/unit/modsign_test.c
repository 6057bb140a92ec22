// SPDX-License-Identifier: Apache-2.0
// Signing a module: the bytes that scripts/sign-file makes, and every key and certificate that a kernel has no use for.
#include "kmod/module/modsign.h"
#include "tests/unit/sign.h"
#include "tests/unit/test.h"

static const char CONTENT[] = "pretend that this is an ELF file";
static struct signer ca, leaf;

static int make_keys(void **state)
{
	(void)state;
	ca = signer_make("Test CA", NULL);
	leaf = signer_make("Test leaf", &ca);
	return 0;
}

static int drop_keys(void **state)
{
	(void)state;
	signer_done(&ca);
	signer_done(&leaf);
	return 0;
}

static char *file_of(const struct folder *dir, const char *name, const char *text, size_t len)
{
	struct err err = { 0 };
	expect(root_write(&dir->root, name, text, len, 0600, &err) == 0, err.text);
	return str_fmt("%s/%s", dir->path, name);
}

// Opens the key of one and the certificate of another.
static int open_pair(const struct folder *dir, EVP_PKEY *key, const struct signer *cert, bool is_pem,
		     struct module_signer **ret, struct err *err)
{
	size_t len = 0;
	auto_str char *key_text = signer_key(key), *cert_text = signer_cert(cert, is_pem, &len);
	auto_str char *key_file = file_of(dir, "key", key_text, strlen(key_text));
	auto_str char *cert_file = file_of(dir, "cert", cert_text, len);
	const struct module_key from = { .key = key_file, .cert = cert_file };
	return module_signer_open(&from, ret, err);
}

static struct module_signer *open_signer(const struct folder *dir, const struct signer *s)
{
	struct err err = { 0 };
	struct module_signer *signer = NULL;
	expect(open_pair(dir, s->key, s, true, &signer, &err) == 0, err.text);
	return signer;
}

// RSA signatures of the same bytes are the same bytes. What signer_sign() calls is what sign-file calls.
static void test_bytes(void **state) // R-C1
{
	(void)state;
	static const char *const hashes[] = { "sha1", "sha224", "sha256", "sha384", "sha512" };
	auto_folder struct folder dir;
	folder_make(&dir);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(hashes); i++) {
		const char *hash = hashes[i / 2];
		const struct signer *by = i % 2 ? &leaf : &ca;
		struct err err = { 0 };
		size_t len = 0, want_len = 0;
		auto_module_signer struct module_signer *signer = open_signer(&dir, by);
		auto_str char *made = NULL;
		unsigned flags = by == &leaf ? SIGN_PLAIN & ~(unsigned)CMS_NOCERTS : SIGN_PLAIN;
		auto_str char *want = signer_sign(by, CONTENT, sizeof(CONTENT), hash, flags, &want_len);
		expect(module_sign(signer, hash, CONTENT, sizeof(CONTENT), &made, &len, &err) == 0, err.text);
		expect(len == want_len && memcmp(made, want, len) == 0, hash);
	}
}

static void test_again(void **state) // what was signed once, or twice, has one signature then
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder dir;
	folder_make(&dir);
	auto_module_signer struct module_signer *a = open_signer(&dir, &ca), *b = open_signer(&dir, &leaf);
	size_t once_len = 0, twice_len = 0, len = 0, doubled_len = 0;
	auto_str char *once = NULL, *twice = NULL, *again = NULL;
	auto_str char *doubled = NULL;
	assert_int_equal(module_sign(a, "sha256", CONTENT, sizeof(CONTENT), &once, &once_len, &err), 0);
	assert_int_equal(module_sign(b, "sha512", once, once_len, &twice, &twice_len, &err), 0);
	assert_int_equal(module_sign(a, "sha256", twice, twice_len, &again, &len, &err), 0);
	assert_true(len == once_len && memcmp(again, once, len) == 0);
	doubled = signer_sign(&ca, once, once_len, "sha256", SIGN_PLAIN, &doubled_len);
	free(TAKE(again));
	assert_int_equal(module_sign(a, "sha256", doubled, doubled_len, &again, &len, &err), 0);
	assert_true(len == once_len && memcmp(again, once, len) == 0);
}

static void test_trust(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder dir;
	folder_make(&dir);
	auto_module_signer struct module_signer *signer = open_signer(&dir, &leaf);
	auto_certs struct certs *certs = modsig_certs_new();
	auto_modsig struct modsig sig = { 0 };
	size_t len = 0;
	auto_str char *made = NULL;
	assert_int_equal(module_sign(signer, "sha256", CONTENT, sizeof(CONTENT), &made, &len, &err), 0);
	modsig_read(made, len, &sig);
	assert_string_equal(sig.issuer, "CN=Test CA");
	assert_string_equal(sig.hash, "sha256");
	assert_int_equal(modsig_verify(&sig, made, certs, &err), 0);
	size_t ca_len = 0;
	auto_str char *ca_cert = signer_cert(&ca, false, &ca_len);
	assert_int_equal(modsig_certs_add(certs, ca_cert, ca_len, "ca", &err), 1);
	assert_int_equal(modsig_verify(&sig, made, certs, &err), 1); // the leaf is inside
}

static struct signer with_extension(int nid, const char *value)
{
	struct signer s = signer_make("Test use", NULL);
	X509V3_CTX ctx;
	X509V3_set_ctx(&ctx, s.cert, s.cert, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	X509_add_ext(s.cert, e, -1);
	X509_EXTENSION_free(e);
	if (X509_sign(s.cert, s.key, EVP_sha256()) <= 0)
		abort();
	return s;
}

static void test_use(void **state)
{
	(void)state;
	static const struct {
		int nid;
		const char *value, *why; // NULL = it may sign
	} rows[] = {
		{ NID_key_usage, "digitalSignature", NULL },
		{ NID_key_usage, "digitalSignature,keyCertSign", NULL },
		{ NID_key_usage, "keyCertSign", "its keyUsage lacks digitalSignature" },
		{ NID_ext_key_usage, "codeSigning", NULL },
		{ NID_ext_key_usage, "serverAuth,anyExtendedKeyUsage", NULL },
		{ NID_ext_key_usage, "serverAuth", "its extendedKeyUsage lacks codeSigning" },
	};
	auto_folder struct folder dir;
	folder_make(&dir);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_signer struct signer s = with_extension(rows[i].nid, rows[i].value);
		auto_module_signer struct module_signer *signer = NULL;
		struct err err = { 0 };
		int r = open_pair(&dir, s.key, &s, i % 2 == 0, &signer, &err);
		expect(rows[i].why ? r < 0 && err.code == E_KEY && strstr(err.text, rows[i].why) : r == 0, err.text);
		if (rows[i].why)
			continue;
		size_t len = 0, want_len = 0;
		auto_str char *made = NULL;
		auto_str char *want = signer_sign(&s, CONTENT, sizeof(CONTENT), "sha256", SIGN_PLAIN, &want_len);
		expect(module_sign(signer, "sha256", CONTENT, sizeof(CONTENT), &made, &len, &err) == 0, err.text);
		expect(len == want_len && memcmp(made, want, len) == 0, rows[i].value); // no certificate is inside
	}
}

static void test_pairs(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder dir;
	folder_make(&dir);
	auto_module_signer struct module_signer *signer = NULL;
	EVP_PKEY *ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	assert_int_equal(open_pair(&dir, leaf.key, &ca, true, &signer, &err), -1);
	expect(err.code == E_KEY && strstr(err.text, "(CN=Test CA) is the certificate of another key"), err.text);
	assert_int_equal(open_pair(&dir, ed, &ca, true, &signer, &err), -1);
	expect(err.code == E_KEY && strstr(err.text, "kernels verify RSA and ECDSA"), err.text);
	EVP_PKEY_free(ed);
	auto_str char *key = signer_key(ca.key);
	auto_str char *key_file = file_of(&dir, "key", key, strlen(key));
	auto_str char *none = file_of(&dir, "none", "nonsense", 8);
	const struct module_key bad[] = { { .key = key_file, .cert = none }, { .key = key_file, .cert = "/nowhere" } };
	static const char *const why[] = { "is not a certificate, neither PEM nor DER", "/nowhere" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(module_signer_open(&bad[i], &signer, &err), -1);
		expect(err.code == E_KEY && strstr(err.text, why[i]), err.text);
	}
}

static void test_unknown_hash(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder dir;
	folder_make(&dir);
	auto_module_signer struct module_signer *signer = open_signer(&dir, &ca);
	size_t len = 0;
	auto_str char *made = NULL;
	assert_int_equal(module_sign(signer, "sha9", CONTENT, sizeof(CONTENT), &made, &len, &err), -1);
	expect(err.code == E_SIGNATURE_BAD && strstr(err.text, "no hash 'sha9'"), err.text);
	assert_null(made);
}

static void test_dates(void **state) // certificates of sign.h have run out
{
	(void)state;
	enum { DAY = 86400 };
	time_t now = time(NULL);
	auto_folder struct folder dir;
	folder_make(&dir);
	auto_module_signer struct module_signer *signer = open_signer(&dir, &ca);
	auto_str char *late = module_signer_dates(signer, now), *in = module_signer_dates(signer, now - DAY - DAY / 2),
		      *early = module_signer_dates(signer, now - 9 * DAY);
	expect(late && str_starts(late, "CN=Test CA is valid until "), late);
	assert_null(in);
	expect(early && str_starts(early, "CN=Test CA is valid from "), early);
}

static void test_key_ids(void **state)
{
	(void)state;
	auto_folder struct folder dir;
	folder_make(&dir);
	auto_module_signer struct module_signer *signer = open_signer(&dir, &ca);
	auto_strv struct strv ids = { 0 };
	module_signer_key_ids(signer, &ids);
	const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(ca.cert);
	auto_str char *want = str_dup("");
	for (int i = 0; i < ASN1_STRING_length(id); i++)
		str_add(&want, "%02x", ASN1_STRING_get0_data(id)[i]);
	assert_int_equal(ids.count, 1);
	assert_string_equal(ids.items[0], want);
}

// Of a name that is too long for a subject, too.
static void test_new_key(void **state)
{
	(void)state;
	static const char *const hosts[] = { "node7",
					     "a-host-with-a-name-of-sixty-four-letters-which-is-the-most-it-has" };
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		struct folder dir;
		struct err err = { 0 };
		size_t len = 0;
		auto_str char *key = NULL, *cert = NULL, *file = NULL;
		auto_module_signer struct module_signer *signer = NULL;
		auto_module_cert struct module_cert read = { 0 };
		folder_make(&dir);
		expect(module_key_make(hosts[i], &key, &cert, &err) == 0, err.text);
		auto_str char *key_file = file_of(&dir, "key", key, strlen(key)),
			      *cert_file = file_of(&dir, "cert", cert, strlen(cert));
		const struct module_key from = { .key = key_file, .cert = cert_file };
		expect(module_signer_open(&from, &signer, &err) == 0, err.text);
		assert_int_equal(module_sign(signer, "sha256", CONTENT, sizeof(CONTENT), &file, &len, &err), 0);
		assert_null(module_signer_dates(signer, time(NULL) + 9 * 365 * 86400L));
		assert_int_equal(module_cert_read(cert_file, &read, &err), 0);
		auto_str char *name = str_fmt("CN=%.40s kernel modules", hosts[i]);
		assert_string_equal(read.name, name);
		auto_modsig struct modsig sig;
		auto_str char *id = modsig_cert_id(read.der, read.len);
		modsig_read(file, len, &sig);
		assert_int_equal(sig.signers.count, 1); // no certificate inside: it is its own issuer
		assert_string_equal(sig.signers.items[0], id);
		folder_done(&dir);
	}
	assert_null(modsig_cert_id("none", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),        cmocka_unit_test(test_again),   cmocka_unit_test(test_trust),
		cmocka_unit_test(test_use),          cmocka_unit_test(test_pairs),   cmocka_unit_test(test_dates),
		cmocka_unit_test(test_unknown_hash), cmocka_unit_test(test_key_ids), cmocka_unit_test(test_new_key),
	};
	return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
