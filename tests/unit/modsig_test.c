// SPDX-License-Identifier: Apache-2.0
#include "kmod/module/modsig.h"
#include "tests/unit/sign.h"
#include "tests/unit/test.h"

static const char CONTENT[] = "pretend that this is an ELF file";
static struct signer ca, leaf, stranger;

static int make_keys(void **state)
{
	(void)state;
	ca = signer_make("Test CA", NULL);
	leaf = signer_make("Test leaf", &ca);
	stranger = signer_make("Stranger", NULL);
	return 0;
}

static int drop_keys(void **state)
{
	(void)state;
	signer_done(&ca);
	signer_done(&leaf);
	signer_done(&stranger);
	return 0;
}

static char *sign(const struct signer *s, const char *hash, unsigned flags, size_t *len)
{
	return signer_sign(s, CONTENT, sizeof(CONTENT), hash, flags, len);
}

static struct certs *trust(const struct signer *s, bool is_pem)
{
	struct err err;
	size_t len;
	auto_str char *cert = signer_cert(s, is_pem, &len);
	struct certs *certs = modsig_certs_new();
	assert_int_equal(modsig_certs_add(certs, cert, len, "cert", &err), 1);
	return certs;
}

static void test_signer(void **state) // R-C3
{
	(void)state;
	size_t len;
	auto_str char *file = sign(&leaf, "sha256", SIGN_PLAIN, &len);
	auto_modsig struct modsig sig;
	modsig_read(file, len, &sig);
	assert_int_equal(sig.state, MODSIG_SIGNED);
	assert_int_equal(sig.payload, sizeof(CONTENT));
	assert_string_equal(sig.issuer, "CN=Test CA");
	assert_string_equal(sig.serial, "1234");
	assert_string_equal(sig.hash, "sha256");
	assert_null(sig.key_id);
	assert_null(sig.why);
}

static void test_key_id(void **state)
{
	(void)state;
	size_t len;
	auto_str char *file = sign(&ca, "sha512", SIGN_PLAIN | CMS_USE_KEYID, &len);
	auto_modsig struct modsig sig;
	modsig_read(file, len, &sig);
	assert_int_equal(sig.state, MODSIG_SIGNED);
	assert_null(sig.issuer);
	assert_int_equal(strlen(sig.key_id), 40);
	assert_string_equal(sig.hash, "sha512");
}

// Package format C.1: one byte behind the magic or a cut end is "unsigned".
static void test_no_magic(void **state)
{
	(void)state;
	size_t len;
	auto_str char *file = sign(&leaf, "sha256", SIGN_PLAIN, &len);
	for (size_t n = 0; n < len; n++) {
		auto_modsig struct modsig sig;
		auto_str char *cut = mem_grow(NULL, 1, n + 1);
		memcpy(cut, file, n);
		modsig_read(cut, n, &sig);
		assert_int_equal(sig.state, MODSIG_NONE);
		assert_int_equal(sig.payload, n);
	}
	auto_modsig struct modsig sig;
	modsig_read(file, len + 1, &sig); // the NUL behind it
	assert_int_equal(sig.state, MODSIG_NONE);
}

static void test_trailer(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		int at; // in the trailer
		unsigned char value;
		enum modsig_state want;
	} rows[] = {
		{ "algo", 0, 1, MODSIG_BAD },
		{ "hash", 1, 4, MODSIG_BAD },
		{ "id type", 2, 1, MODSIG_UNSUPPORTED },
		{ "signer length", 3, 1, MODSIG_BAD },
		{ "key id length", 4, 9, MODSIG_BAD },
		{ "padding", 7, 1, MODSIG_BAD },
		{ "length too large", 8, 1, MODSIG_BAD },
		{ "length off by one", 11, 0, MODSIG_BAD },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t len;
		auto_str char *file = sign(&leaf, "sha256", SIGN_PLAIN, &len);
		auto_modsig struct modsig sig;
		file[len - 28 - 12 + (size_t)rows[i].at] = (char)rows[i].value;
		modsig_read(file, len, &sig);
		expect(sig.state == rows[i].want, rows[i].name);
		expect(sig.why && sig.payload <= len, rows[i].name);
	}
}

// The signature may not be the whole file, much less more than it.
static void test_length(void **state)
{
	(void)state;
	for (size_t more = 0; more < 50; more++) {
		size_t len;
		auto_str char *file = sign(&leaf, "sha256", SIGN_PLAIN, &len);
		auto_modsig struct modsig sig;
		size_t claim = len - 40 + more;
		file[len - 28 - 2] = (char)(claim >> 8);
		file[len - 28 - 1] = (char)claim;
		modsig_read(file, len, &sig);
		assert_int_equal(sig.state, MODSIG_BAD);
		assert_int_equal(sig.payload, len);
	}
}

static void test_only_magic(void **state)
{
	(void)state;
	char file[12 + 28 + 1] = { 0 };
	memcpy(file + 12, "~Module signature appended~\n", 29);
	for (size_t skip = 0; skip <= 12; skip++) {
		auto_modsig struct modsig sig;
		modsig_read(file + skip, sizeof(file) - 1 - skip, &sig);
		assert_int_equal(sig.state, MODSIG_BAD);
	}
}

static void test_garbage_cms(void **state)
{
	(void)state;
	size_t len;
	auto_str char *file = sign(&leaf, "sha256", SIGN_PLAIN, &len);
	size_t cms = sizeof(CONTENT), cms_len = len - cms - 40;
	for (size_t i = 0; i < cms_len; i++) {
		auto_modsig struct modsig sig;
		file[cms + i] = (char)~file[cms + i];
		modsig_read(file, len, &sig);
		assert_true(sig.state != MODSIG_NONE);
		assert_true((sig.state == MODSIG_SIGNED) == !sig.why);
		file[cms + i] = (char)~file[cms + i];
	}
}

static void test_unsupported(void **state)
{
	(void)state;
	size_t len;
	auto_str char *md5 = sign(&leaf, "md5", SIGN_PLAIN, &len);
	auto_modsig struct modsig sig;
	modsig_read(md5, len, &sig);
	assert_int_equal(sig.state, MODSIG_UNSUPPORTED);
	assert_non_null(strstr(sig.why, "hash"));
	auto_str char *smime = sign(&leaf, "sha256", CMS_NOCERTS, &len);
	auto_modsig struct modsig caps;
	modsig_read(smime, len, &caps);
	assert_int_equal(caps.state, MODSIG_BAD);
	assert_non_null(strstr(caps.why, "S/MIME"));
}

// Linux refuses them in modules: "Invalid module sig (has authattrs)".
static void test_attributes(void **state)
{
	(void)state;
	size_t len;
	auto_str char *file = sign(&leaf, "sha256", CMS_NOCERTS | CMS_NOSMIMECAP, &len);
	auto_modsig struct modsig sig;
	modsig_read(file, len, &sig);
	assert_int_equal(sig.state, MODSIG_BAD);
	assert_non_null(strstr(sig.why, "signed attributes"));
}

static char *key_id(const struct signer *s)
{
	const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(s->cert);
	auto_str char *hex = str_dup("");
	for (int i = 0; i < ASN1_STRING_length(id); i++)
		str_add(&hex, "%02x", ASN1_STRING_get0_data(id)[i]);
	return TAKE(hex);
}

// By which the kernel may know it: what it was signed with, and if that is inside, who issued that.
static void test_signers(void **state)
{
	(void)state;
	static const char of_leaf[] = "1234"
				      "3110300e06035504030c0754657374204341"; // serial number, CN=Test CA
	auto_signer struct signer named = signer_make("Named", NULL), under = signer_issued("Under it", &named);
	auto_str char *of_named = key_id(&named);
	auto_str char *of_both = str_fmt("1234310e300c06035504030c054e616d6564 %s", of_named);
	const struct {
		const char *name;
		const struct signer *by;
		unsigned flags;
		const char *want;
	} rows[] = {
		{ "serial number and issuer", &leaf, SIGN_PLAIN, of_leaf },
		{ "key id", &named, SIGN_PLAIN | CMS_USE_KEYID, of_named },
		{ "inside, and it names nobody", &leaf, SIGN_PLAIN & ~(unsigned)CMS_NOCERTS, of_leaf },
		{ "inside, and it names its issuer", &under, SIGN_PLAIN & ~(unsigned)CMS_NOCERTS, of_both },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t len;
		auto_str char *file = sign(rows[i].by, "sha256", rows[i].flags, &len);
		auto_modsig struct modsig sig;
		modsig_read(file, len, &sig);
		auto_str char *ids = strv_join(&sig.signers, " ");
		expect(str_eq(ids, rows[i].want), rows[i].name);
	}
}

static void test_verify(void **state) // R-C3
{
	(void)state;
	const struct {
		const char *name;
		const struct signer *by, *trusted;
		unsigned flags;
		int want;
	} rows[] = {
		{ "own key", &ca, &ca, SIGN_PLAIN, 1 },
		{ "own key by id", &ca, &ca, SIGN_PLAIN | CMS_USE_KEYID, 1 },
		{ "leaf trusted itself", &leaf, &leaf, SIGN_PLAIN, 1 },
		{ "leaf inside, CA trusted", &leaf, &ca, SIGN_PLAIN & ~CMS_NOCERTS, 1 },
		{ "leaf not inside, CA trusted", &leaf, &ca, SIGN_PLAIN, 0 },
		{ "stranger inside", &stranger, &ca, SIGN_PLAIN & ~CMS_NOCERTS, 0 },
		{ "stranger", &stranger, &ca, SIGN_PLAIN, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		size_t len;
		auto_certs struct certs *certs = trust(rows[i].trusted, i % 2 == 0);
		auto_str char *file = sign(rows[i].by, "sha256", rows[i].flags, &len);
		auto_modsig struct modsig sig;
		modsig_read(file, len, &sig);
		expect(modsig_verify(&sig, file, certs, &err) == rows[i].want, rows[i].name);
		file[3] = 'X';
		bool is_at_hand = rows[i].want || !(rows[i].flags & CMS_NOCERTS);
		expect(modsig_verify(&sig, file, certs, &err) == (is_at_hand ? -1 : 0), rows[i].name);
		expect(!is_at_hand || err.code == E_SIGNATURE_BAD, rows[i].name);
	}
}

static void test_verify_unsigned(void **state)
{
	(void)state;
	struct err err;
	auto_certs struct certs *certs = trust(&ca, true);
	auto_modsig struct modsig sig;
	modsig_read(CONTENT, sizeof(CONTENT), &sig);
	assert_int_equal(modsig_verify(&sig, CONTENT, certs, &err), -1);
	assert_int_equal(err.code, E_SIGNING_REQUIRED);
}

static void test_no_certificate(void **state)
{
	(void)state;
	struct err err;
	auto_certs struct certs *certs = modsig_certs_new();
	assert_int_equal(modsig_certs_add(certs, "nonsense", 8, "mok.der", &err), -1);
	assert_int_equal(err.code, E_CONFIG);
	assert_non_null(strstr(err.text, "mok.der"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signer),         cmocka_unit_test(test_key_id),
		cmocka_unit_test(test_no_magic),       cmocka_unit_test(test_trailer),
		cmocka_unit_test(test_length),         cmocka_unit_test(test_only_magic),
		cmocka_unit_test(test_garbage_cms),    cmocka_unit_test(test_unsupported),
		cmocka_unit_test(test_verify),         cmocka_unit_test(test_verify_unsigned),
		cmocka_unit_test(test_no_certificate), cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_signers),
	};
	return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
