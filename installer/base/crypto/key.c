// SPDX-License-Identifier: Apache-2.0
// OpenSSL 3 for keys. Whatever a private key comes from, its public half is written out and read again: what verifies
// is then always a plain key of OpenSSL's own, and its id does not depend on the form of the input.
#define OPENSSL_SUPPRESS_DEPRECATED // engines: Debian 12 has no pkcs11 provider, only the engine
#include "base/crypto/key.h"

#include "base/core/secret.h"
#include "base/file/file.h"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/engine.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/store.h>
#include <openssl/storeerr.h>
#include <openssl/ui.h>
#include <openssl/x509.h>

static void free_biop(BIO **bio)
{
	BIO_free(*bio);
}
static void free_pkeyp(EVP_PKEY **key)
{
	EVP_PKEY_free(*key);
}
static void free_ctxp(EVP_MD_CTX **ctx)
{
	EVP_MD_CTX_free(*ctx);
}
static void free_storep(OSSL_STORE_CTX **ctx)
{
	OSSL_STORE_close(*ctx);
}
static void free_uip(UI_METHOD **ui)
{
	UI_destroy_method(*ui);
}
static void free_enginep(ENGINE **e)
{
	ENGINE_free(*e);
}
#define auto_free(x) __attribute__((cleanup(free_##x##p)))

const char *key_failure(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;
	ERR_clear_error();
	return text ? text : "no reason given";
}

struct password {
	const char *text;
	bool was_asked;
};

static int give_password(char *buf, int size, int is_writing, void *ctx)
{
	struct password *p = ctx;
	(void)is_writing;
	p->was_asked = true;
	size_t len = p->text ? strlen(p->text) : 0;
	if (!p->text || len > (size_t)size)
		return -1;
	memcpy(buf, p->text, len);
	return (int)len;
}

static char *spki(const EVP_PKEY *key, size_t *ret_len)
{
	unsigned char *der = NULL;
	int len = i2d_PUBKEY(key, &der);
	if (len <= 0)
		return NULL;
	char *copy = mem_alloc((size_t)len);
	memcpy(copy, der, (size_t)len);
	OPENSSL_free(der);
	*ret_len = (size_t)len;
	return copy;
}

// The public half as a key of its own, EC points uncompressed and curves by name: the usual form to hash.
static EVP_PKEY *normalize_key(const EVP_PKEY *key)
{
	size_t len = 0;
	auto_str char *der = spki(key, &len);
	const unsigned char *p = (const unsigned char *)der;
	EVP_PKEY *public = der ? d2i_PUBKEY(NULL, &p, (long)len) : NULL;
	if (public && EVP_PKEY_is_a(public, "EC")) {
		EVP_PKEY_set_utf8_string_param(public, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "uncompressed");
		EVP_PKEY_set_utf8_string_param(public, OSSL_PKEY_PARAM_EC_ENCODING, OSSL_PKEY_EC_ENCODING_GROUP);
	}
	return public;
}

// Reads algorithm, digest and id of the public half. Other algorithms than ours are refused.
static int describe_key(struct key *k, const char *name, struct err *err)
{
	char curve[64] = "explicit parameters";
	size_t len = 0;
	auto_str char *der = k->public ? spki(k->public, &len) : NULL;
	if (!der)
		return err_set(err, E_KEY, "'%s' has no public half: %s", name, key_failure());
	int bits = EVP_PKEY_get_bits(k->public);
	k->digest = "SHA256";
	if (EVP_PKEY_is_a(k->public, "RSA") && bits >= KEY_RSA_BITS_MIN && bits <= 8 * KEY_SIGNATURE_MAX) {
		k->algorithm = str_fmt("rsa-%d", bits);
	} else if (EVP_PKEY_is_a(k->public, "RSA")) {
		return err_set(err, E_KEY, "'%s' is an RSA key of %d bits; %d to %d are accepted", name, bits,
			       KEY_RSA_BITS_MIN, 8 * KEY_SIGNATURE_MAX);
	} else if (EVP_PKEY_is_a(k->public, "ED25519")) {
		k->digest = NULL;
		k->algorithm = str_dup("ed25519");
	} else if (EVP_PKEY_is_a(k->public, "EC")) {
		EVP_PKEY_get_group_name(k->public, curve, sizeof(curve), NULL);
		if (!str_eq(curve, "prime256v1"))
			return err_set(err, E_KEY, "'%s' is an EC key on %s; only P-256 is supported", name, curve);
		k->algorithm = str_dup("ecdsa-p256");
	} else {
		const char *type = EVP_PKEY_get0_type_name(k->public);
		return err_set(err, E_KEY, "'%s' is a key of the unsupported type %s", name, type ? type : "unknown");
	}
	digest_data(der, len, k->id);
	ERR_clear_error();
	return 0;
}

int key_parse(const char *pem, const char *name, struct key **ret, struct err *err)
{
	auto_free(bio) BIO *bio = BIO_new_mem_buf(pem, -1);
	auto_free(pkey) EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
	if (!key) {
		const char *why = key_failure();
		if (strstr(pem, "PRIVATE KEY-----"))
			why = "it holds a private key, which belongs to the signer alone";
		else if (strstr(pem, "-----BEGIN CERTIFICATE-----"))
			why = "it holds a certificate";
		return err_set(err, E_KEY, "'%s' is not a PEM public key: %s", name, why);
	}
	auto_key struct key *k = mem_alloc(sizeof(*k));
	k->public = normalize_key(key);
	if (describe_key(k, name, err) < 0)
		return -1;
	*ret = TAKE(k);
	return 0;
}

static int open_pem_file(const char *path, const char *password, EVP_PKEY **ret, struct err *err)
{
	struct password p = { .text = password };
	auto_str char *pem = NULL;
	size_t len = 0;
	auto_fd int fd = file_open_arg(path, O_RDONLY, err);
	if (fd < 0 || file_read(fd, path, &pem, &len, err) < 0)
		return err_code(err, E_KEY);
	auto_free(bio) BIO *bio = BIO_new_mem_buf(pem, (int)(len < INT32_MAX ? len : INT32_MAX));
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, give_password, &p) : NULL;
	const char *why = key ? NULL : key_failure();
	if (!key && p.was_asked && !password)
		why = "it is encrypted, and KMODSMITH_KEY_PASSWORD is not set";
	else if (!key && p.was_asked)
		why = "the passphrase does not open it";
	else if (!key && strstr(pem, "SIGSTORE PRIVATE KEY-----"))
		why = "it is in cosign's own format; make a key with `openssl genpkey`";
	OPENSSL_cleanse(pem, len);
	if (!key)
		return err_set(err, E_KEY, "'%s' is not a PEM private key: %s", path, why);
	*ret = key;
	return 0;
}

// A URI may hold a PIN: only its path goes into messages.
static char *public_uri(const char *uri)
{
	return str_ndup(uri, strcspn(uri, "?"));
}

// 1 = found, 0 = no provider of this machine knows the scheme.
static int open_provider(const char *uri, struct password *password, EVP_PKEY **ret, struct err *err)
{
	auto_str char *name = public_uri(uri);
	auto_free(ui) UI_METHOD *ui = UI_UTIL_wrap_read_pem_callback(give_password, 0);
	auto_free(store) OSSL_STORE_CTX *store = OSSL_STORE_open(uri, ui, password, NULL, NULL);
	EVP_PKEY *key = NULL;
	for (OSSL_STORE_INFO *info; store && !key && (info = OSSL_STORE_load(store)) != NULL;) {
		if (OSSL_STORE_INFO_get_type(info) == OSSL_STORE_INFO_PKEY)
			key = OSSL_STORE_INFO_get1_PKEY(info);
		OSSL_STORE_INFO_free(info);
	}
	if (key) {
		*ret = key;
		return 1;
	}
	// What has no loader ends at that or, tried as a file name, at the file system.
	if (!store) {
		ERR_clear_error();
		return 0;
	}
	return err_set(err, E_KEY, "'%s': the token has no such private key: %s", name, key_failure());
}

static int open_engine(const char *uri, const char *pin, EVP_PKEY **ret, ENGINE **ret_engine, struct err *err)
{
	auto_str char *name = public_uri(uri);
	ENGINE_load_dynamic();
	auto_free(engine) ENGINE *e = ENGINE_by_id("pkcs11");
	if (!e) {
		ERR_clear_error();
		return err_set(err, E_KEY,
			       "'%s': OpenSSL on this machine has neither a provider nor an engine for pkcs11", name);
	}
	ENGINE_ctrl_cmd_string(e, "QUIET", NULL, 1); // it would print
	if (!ENGINE_init(e))
		return err_set(err, E_KEY, "'%s': the pkcs11 engine does not start: %s", name, key_failure());
	auto_free(ui) UI_METHOD *silent = UI_create_method("silent"); // the default one asks the terminal
	bool has_own_pin = strstr(uri, "pin-value=") || strstr(uri, "pin-source=");
	bool is_ready = !pin || has_own_pin || ENGINE_ctrl_cmd_string(e, "PIN", pin, 0);
	EVP_PKEY *key = is_ready ? ENGINE_load_private_key(e, uri, silent, NULL) : NULL;
	if (!key) {
		err_set(err, E_KEY,
			"'%s': the token has no such private key (%s); PKCS11_MODULE_PATH may name its library, "
			"KMODSMITH_KEY_PASSWORD its PIN",
			name, key_failure());
		ENGINE_finish(e);
		return -1;
	}
	*ret = key;
	*ret_engine = e;
	return 0;
}

int key_open(const char *where, const char *password, struct key **ret, struct err *err)
{
	EVP_PKEY *private = NULL;
	ENGINE *engine = NULL;
	struct password p = { .text = password };
	secret_guard();
	bool is_token = str_starts(where, "pkcs11:");
	int r = is_token ? open_provider(where, &p, &private, err) : open_pem_file(where, password, &private, err);
	if (is_token && r == 0)
		r = open_engine(where, password, &private, &engine, err);
	if (r < 0)
		return -1;
	auto_str char *name = is_token ? public_uri(where) : str_dup(where);
	auto_key struct key *k = mem_alloc(sizeof(*k));
	*k = (struct key){ .private = private, .public = normalize_key(private), .engine = engine };
	if (describe_key(k, name, err) < 0)
		return -1;
	*ret = TAKE(k);
	return 0;
}

void key_free(struct key *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->private);
	EVP_PKEY_free(k->public);
	if (k->engine)
		ENGINE_finish(k->engine);
	free(k->algorithm);
	free(k);
}

char *key_pem(const struct key *k)
{
	auto_free(bio) BIO *bio = BIO_new(BIO_s_mem());
	char *text = NULL;
	if (!bio || PEM_write_bio_PUBKEY(bio, k->public) != 1)
		abort();
	long len = BIO_get_mem_data(bio, &text);
	return str_ndup(text, (size_t)len);
}

bool key_verify(const struct key *k, const void *data, size_t len, const void *signature, size_t signature_len)
{
	auto_free(ctx) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool is_right = ctx && EVP_DigestVerifyInit_ex(ctx, NULL, k->digest, NULL, NULL, k->public, NULL) == 1 &&
			EVP_DigestVerify(ctx, signature, signature_len, data, len) == 1;
	ERR_clear_error();
	return is_right;
}

int key_sign(const struct key *k, const void *data, size_t len, char **ret, size_t *ret_len, struct err *err)
{
	unsigned char out[KEY_SIGNATURE_MAX];
	size_t out_len = sizeof(out);
	auto_free(ctx) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	if (!k->private)
		return err_set(err, E_KEY, "key %s: only its public half is available", k->id);
	const EVP_MD *digest = k->digest ? EVP_sha256() : NULL; // keys in an engine take no digest by name
	if (!ctx || EVP_DigestSignInit(ctx, NULL, digest, NULL, k->private) != 1 ||
	    EVP_DigestSign(ctx, out, &out_len, data, len) != 1)
		return err_set(err, E_KEY, "key %s cannot sign: %s", k->id, key_failure());
	// A token can hold a private and a public object that do not belong together.
	if (!key_verify(k, data, len, out, out_len))
		return err_set(err, E_KEY, "key %s: its signature does not match its public half", k->id);
	*ret = mem_alloc(out_len + 1);
	memcpy(*ret, out, out_len);
	*ret_len = out_len;
	return 0;
}

bool key_certificate_end(const char *pem, time_t *ret)
{
	struct tm tm;
	char no_password[] = ""; // never ask a terminal for one
	auto_free(bio) BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, no_password);
	bool is_read = certificate && ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) == 1;
	if (is_read)
		*ret = timegm(&tm);
	X509_free(certificate);
	ERR_clear_error();
	return is_read;
}
