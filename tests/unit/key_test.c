// SPDX-License-Identifier: Apache-2.0
// Keys of every kind, from files and from a token (SoftHSM, where it is installed).
#include "tests/unit/tempdir.h"

#include "base/crypto/key.h"
#include "base/process/proc.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

static const char DATA[] = "what is signed";

static char *written(EVP_PKEY *key, const char *password)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *text = NULL;
	assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, key, password ? EVP_aes_256_cbc() : NULL, password,
						       password ? (int)strlen(password) : 0, NULL, NULL),
			 1);
	long len = BIO_get_mem_data(bio, &text);
	char *copy = str_ndup(text, (size_t)len);
	BIO_free(bio);
	return copy;
}

static EVP_PKEY *generate(const char *type)
{
	EVP_PKEY *key = NULL;
	if (str_starts(type, "EC:"))
		key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", type + 3);
	else if (str_starts(type, "RSA:"))
		key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)strtoul(type + 4, NULL, 10));
	else
		key = EVP_PKEY_Q_keygen(NULL, NULL, type);
	assert_non_null(key);
	return key;
}

// A private key as a file of the folder.
static char *make_file(const struct folder *folder, const char *name, const char *type, const char *password)
{
	EVP_PKEY *key = generate(type);
	auto_str char *pem = written(key, password);
	EVP_PKEY_free(key);
	folder_file(folder, name, pem);
	return str_fmt("%s/%s", folder->path, name);
}

static void test_sign_and_verify(void **state)
{
	(void)state;
	static const char *const rows[][2] = { { "EC:P-256", "ecdsa-p256" },
					       { "RSA:2048", "rsa-2048" },
					       { "ED25519", "ed25519" } };
	auto_folder struct folder folder;
	folder_make(&folder);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		auto_str char *path = make_file(&folder, "k.pem", rows[i][0], NULL), *other = NULL;
		auto_key struct key *key = NULL, *public = NULL, *stranger = NULL;
		auto_str char *signature = NULL;
		size_t len = 0;
		expect(key_open(path, NULL, &key, &err) == 0, rows[i][0]);
		expect(str_eq(key->algorithm, rows[i][1]) && digest_is_hex(key->id), rows[i][0]);
		auto_str char *pem = key_pem(key);
		expect(key_parse(pem, "public", &public, &err) == 0 && str_eq(public->id, key->id), rows[i][0]);
		expect(key_sign(key, DATA, sizeof(DATA), &signature, &len, &err) == 0, rows[i][0]);
		expect(key_verify(public, DATA, sizeof(DATA), signature, len), rows[i][0]);
		expect(!key_verify(public, DATA, sizeof(DATA) - 1, signature, len), rows[i][0]);
		expect(!key_verify(public, DATA, sizeof(DATA), signature, len - 1), rows[i][0]);
		expect(!key_verify(public, DATA, sizeof(DATA), signature, 0), rows[i][0]);
		signature[len / 2] ^= 1;
		expect(!key_verify(public, DATA, sizeof(DATA), signature, len), rows[i][0]);
		signature[len / 2] ^= 1;
		other = make_file(&folder, "other.pem", rows[i][0], NULL);
		expect(key_open(other, NULL, &stranger, &err) == 0, rows[i][0]);
		expect(!key_verify(stranger, DATA, sizeof(DATA), signature, len), rows[i][0]);
		expect(key_sign(public, DATA, sizeof(DATA), &other, &len, &err) == -1 && err.code == E_KEY, rows[i][0]);
	}
}

static void test_id_is_that_of_the_usual_form(void **state)
{
	(void)state;
	// One public half three times: as everybody writes it, with a compressed point, with explicit parameters.
	EVP_PKEY *pkey = generate("EC:P-256");
	char *forms[3] = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		BIO *bio = BIO_new(BIO_s_mem());
		char *text = NULL;
		EVP_PKEY_set_utf8_string_param(pkey, "point-format", i == 1 ? "compressed" : "uncompressed");
		EVP_PKEY_set_utf8_string_param(pkey, "encoding", i == 2 ? "explicit" : "named_curve");
		assert_int_equal(PEM_write_bio_PUBKEY(bio, pkey), 1);
		long len = BIO_get_mem_data(bio, &text);
		forms[i] = str_ndup(text, (size_t)len);
		BIO_free(bio);
	}
	assert_string_not_equal(forms[0], forms[1]);
	assert_string_not_equal(forms[0], forms[2]);
	char first[DIGEST_HEX + 1] = "";
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct err err;
		auto_key struct key *key = NULL;
		expect(key_parse(forms[i], "form", &key, &err) == 0, forms[i]);
		auto_str char *pem = key_pem(key);
		expect(str_eq(pem, forms[0]), forms[i]);
		if (i == 0)
			memcpy(first, key->id, sizeof(first));
		expect(str_eq(key->id, first), forms[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		free(forms[i]);
	EVP_PKEY_free(pkey);
}

static void test_known_id_and_signature(void **state)
{
	(void)state;
	// RFC 8032, 7.1, test 2; the id by `openssl pkey -pubin -outform DER | sha256sum`
	static const char pem[] = "-----BEGIN PUBLIC KEY-----\n"
				  "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
				  "-----END PUBLIC KEY-----\n";
	static const unsigned char signature[] = {
		0x92, 0xa0, 0x09, 0xa9, 0xf0, 0xd4, 0xca, 0xb8, 0x72, 0x0e, 0x82, 0x0b, 0x5f, 0x64, 0x25, 0x40,
		0xa2, 0xb2, 0x7b, 0x54, 0x16, 0x50, 0x3f, 0x8f, 0xb3, 0x76, 0x22, 0x23, 0xeb, 0xdb, 0x69, 0xda,
		0x08, 0x5a, 0xc1, 0xe4, 0x3e, 0x15, 0x99, 0x6e, 0x45, 0x8f, 0x36, 0x13, 0xd0, 0xf1, 0x1d, 0x8c,
		0x38, 0x7b, 0x2e, 0xae, 0xb4, 0x30, 0x2a, 0xee, 0xb0, 0x0d, 0x29, 0x16, 0x12, 0xbb, 0x0c, 0x00,
	};
	struct err err;
	auto_key struct key *key = NULL;
	assert_int_equal(key_parse(pem, "rfc8032", &key, &err), 0);
	assert_string_equal(key->id, "deb2ded39dc26fce0e6085b6fc34bf6b5941913bbfe2ea614113cff9e004c170");
	assert_true(key_verify(key, "\x72", 1, signature, sizeof(signature)));
	assert_false(key_verify(key, "\x73", 1, signature, sizeof(signature)));
}

static void test_passphrase(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_str char *path = make_file(&folder, "k.pem", "EC:P-256", "secret");
	auto_key struct key *key = NULL;
	assert_int_equal(key_open(path, NULL, &key, &err), -1);
	assert_int_equal(err.code, E_KEY);
	assert_non_null(strstr(err.text, "it is encrypted"));
	assert_int_equal(key_open(path, "wrong", &key, &err), -1);
	assert_int_equal(err.code, E_KEY);
	assert_non_null(strstr(err.text, "the passphrase does not open it"));
	auto_str char *long_one = mem_alloc(100001);
	memset(long_one, 'x', 100000);
	assert_int_equal(key_open(path, long_one, &key, &err), -1);
	assert_null(key);
	assert_int_equal(key_open(path, "secret", &key, &err), 0);
	auto_str char *empty = make_file(&folder, "empty.pem", "EC:P-256", ""); // is encrypted, too
	auto_key struct key *other = NULL;
	assert_int_equal(key_open(empty, NULL, &other, &err), -1);
	assert_non_null(strstr(err.text, "it is encrypted"));
	assert_int_equal(key_open(empty, "", &other, &err), 0);
}

static void test_private_keys_that_cannot_be_used(void **state)
{
	(void)state;
	static const char *const kinds[][2] = {
		{ "EC:P-384", "an EC key on secp384r1" },
		{ "RSA:1024", "an RSA key of 1024 bits" },
		{ "X25519", "a key of the unsupported type X25519" },
		{ "ED448", "a key of the unsupported type ED448" },
	};
	static const char *const texts[][2] = {
		{ "", "not a PEM private key" },
		{ "hello", "not a PEM private key" },
		{ "-----BEGIN PRIVATE KEY-----\n", "not a PEM private key" },
		{ "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "not a PEM private key" },
		{ "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE "
		  "KEY-----\n",
		  "cosign's own form" },
	};
	struct err err;
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_key struct key *key = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		auto_str char *path = make_file(&folder, "k.pem", kinds[i][0], NULL);
		expect(key_open(path, NULL, &key, &err) == -1 && err.code == E_KEY, kinds[i][0]);
		expect(strstr(err.text, kinds[i][1]) && strstr(err.text, path), err.text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		auto_str char *path = str_fmt("%s/k.pem", folder.path);
		folder_file(&folder, "k.pem", texts[i][0]);
		expect(key_open(path, NULL, &key, &err) == -1 && err.code == E_KEY, texts[i][0]);
		expect(strstr(err.text, texts[i][1]), err.text);
	}
	assert_int_equal(key_open("/no/such/file.pem", NULL, &key, &err), -1);
	assert_int_equal(err.code, E_KEY);
	assert_null(key);
}

static void test_public_keys_that_cannot_be_used(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "", "not a PEM public key" },
		{ "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n", "not a PEM public key" },
		{ "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "it holds a private key" },
		{ "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "it holds a certificate" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		struct key *key = NULL;
		expect(key_parse(rows[i][0], "NAME", &key, &err) == -1 && err.code == E_KEY, rows[i][0]);
		expect(strstr(err.text, rows[i][1]) && strstr(err.text, "'NAME'") && !key, err.text);
	}
}

// What a user of a token has: SoftHSM with a P-256 and an RSA key.
static bool make_token(const struct folder *folder)
{
	static const char *const library = "/usr/lib/softhsm/libsofthsm2.so";
	auto_str char *util = proc_find(PROC_PATH, "softhsm2-util");
	if (!util || access(library, R_OK) != 0)
		return false;
	auto_str char *conf = str_fmt("%s/softhsm2.conf", folder->path), *env = str_fmt("SOFTHSM2_CONF=%s", conf);
	auto_str char *text = str_fmt("directories.tokendir = %s\n", folder->path);
	folder_file(folder, "softhsm2.conf", text);
	setenv("SOFTHSM2_CONF", conf, 1);
	setenv("PKCS11_MODULE_PATH", library, 1);
	const char *const environment[] = { env, NULL };
	struct proc_end end;
	struct err err;
	const char *init[] = { util,    "--init-token", "--free",   "--label",  "signing",
			       "--pin", "4321",         "--so-pin", "87654321", NULL };
	assert_int_equal(proc_must(&(struct proc){ .argv = init, .env = environment }, &end, &err), 0);
	static const char *const keys[][3] = { { "EC:P-256", "release", "01" }, { "RSA:2048", "old", "02" } };
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		auto_str char *path = make_file(folder, "import.pem", keys[i][0], NULL);
		const char *import[] = { util,       "--import", path,       "--token", "signing", "--label",
					 keys[i][1], "--id",     keys[i][2], "--pin",   "4321",    NULL };
		assert_int_equal(proc_must(&(struct proc){ .argv = import, .env = environment }, &end, &err), 0);
	}
	return true;
}

static void test_token(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder folder;
	folder_make(&folder);
	if (!make_token(&folder)) {
		print_message("key: SKIPPED: SoftHSM (package softhsm2) is not installed\n");
		skip();
	}
	static const struct {
		const char *uri, *pin, *algorithm;
	} good[] = {
		{ "pkcs11:token=signing;object=release;type=private", "4321", "ecdsa-p256" },
		{ "pkcs11:token=signing;object=release;type=private?pin-value=4321", NULL, "ecdsa-p256" },
		{ "pkcs11:token=signing;object=old;type=private", "4321", "rsa-2048" },
	}, bad[] = {
		{ "pkcs11:token=signing;object=release;type=private", NULL, NULL },
		{ "pkcs11:token=signing;object=release;type=private?pin-value=9999", NULL, NULL },
		{ "pkcs11:token=signing;object=absent;type=private", "4321", NULL },
		{ "pkcs11:token=other;object=release;type=private", "4321", NULL },
		{ "pkcs11:nonsense", "4321", NULL },
	};
	// The bad ones first, and those without a PIN before all: a token that is open stays open for the process.
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct key *key = NULL;
		expect(key_open(bad[i].uri, bad[i].pin, &key, &err) == -1 && err.code == E_KEY, bad[i].uri);
		expect(!key && !strstr(err.text, "9999") && strstr(err.text, "pkcs11:"), err.text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		auto_key struct key *key = NULL, *public = NULL;
		auto_str char *signature = NULL;
		size_t len = 0;
		int r = key_open(good[i].uri, good[i].pin, &key, &err);
		expect(r == 0, r < 0 ? err.text : NULL);
		expect(str_eq(key->algorithm, good[i].algorithm), good[i].uri);
		auto_str char *pem = key_pem(key);
		expect(key_sign(key, DATA, sizeof(DATA), &signature, &len, &err) == 0, good[i].uri);
		expect(key_parse(pem, "public", &public, &err) == 0, good[i].uri);
		expect(key_verify(public, DATA, sizeof(DATA), signature, len), good[i].uri);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sign_and_verify),
		cmocka_unit_test(test_id_is_that_of_the_usual_form),
		cmocka_unit_test(test_known_id_and_signature),
		cmocka_unit_test(test_passphrase),
		cmocka_unit_test(test_private_keys_that_cannot_be_used),
		cmocka_unit_test(test_public_keys_that_cannot_be_used),
		cmocka_unit_test(test_token),
	};
	return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
