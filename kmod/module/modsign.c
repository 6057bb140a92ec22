// SPDX-License-Identifier: Apache-2.0
// As scripts/sign-file.c of the kernel calls OpenSSL, and include/linux/module_signature.h lays out the end.
#include "kmod/module/modsign.h"

#include "base/core/secret.h"
#include "base/crypto/key.h"
#include "base/file/file.h"

#include <fcntl.h>
#include <openssl/cms.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

struct module_signer {
	struct key *key;
	X509 *cert;
	char *name;
	char id[DIGEST_HEX + 1];
};

static void free_cmsp(CMS_ContentInfo **cms)
{
	CMS_ContentInfo_free(*cms);
}
static void free_biop(BIO **bio)
{
	BIO_free(*bio);
}
#define auto_free(x) __attribute__((cleanup(free_##x##p)))

void module_signer_free(struct module_signer *s)
{
	if (!s)
		return;
	key_free(s->key);
	X509_free(s->cert);
	free(s->name);
	free(s);
}

static X509 *parse_cert(const char *text, size_t len)
{
	char no_password[] = ""; // never ask a terminal for one
	const unsigned char *der = (const unsigned char *)text;
	auto_free(bio) BIO *bio = BIO_new_mem_buf(text, (int)len);
	X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, no_password) : NULL;
	if (!cert)
		cert = d2i_X509(NULL, &der, (long)len);
	ERR_clear_error();
	return cert;
}

static char *subject_of(const X509 *cert)
{
	auto_free(bio) BIO *bio = BIO_new(BIO_s_mem());
	char *text = NULL;
	if (!bio || X509_NAME_print_ex(bio, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) < 0)
		abort();
	long len = BIO_get_mem_data(bio, &text);
	return str_ndup(text, (size_t)len);
}

static int describe_cert(struct module_signer *s, const char *file, struct err *err)
{
	unsigned char *der = NULL;
	int len = i2d_X509(s->cert, &der);
	if (len <= 0)
		return err_set(err, E_KEY, "'%s': %s", file, key_failure());
	digest_data(der, (size_t)len, s->id);
	OPENSSL_free(der);
	s->name = subject_of(s->cert);
	return 0;
}

// Extensions that are absent allow everything. A CA's certificate that may sign certificates alone cannot be a leaf.
static int check_use(const struct module_signer *s, const char *file, bool is_leaf, struct err *err)
{
	uint32_t flags = X509_get_extension_flags(s->cert);
	uint32_t use = X509_get_key_usage(s->cert), extended = X509_get_extended_key_usage(s->cert);
	if (flags & EXFLAG_INVALID)
		return err_set(err, E_KEY, "'%s': its extensions are damaged", file);
	if (!(use & KU_DIGITAL_SIGNATURE) && (is_leaf || X509_check_ca(s->cert) <= 0))
		return err_set(err, E_KEY, "'%s' (%s) must not sign: its keyUsage lacks digitalSignature", file,
			       s->name);
	if (flags & EXFLAG_XKUSAGE && !(extended & (XKU_CODE_SIGN | XKU_ANYEKU)))
		return err_set(err, E_KEY, "'%s' (%s) is not for code: its extendedKeyUsage lacks codeSigning", file,
			       s->name);
	return 0;
}

static int load_cert(struct module_signer *s, const char *file, struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0;
	auto_fd int fd = file_open_arg(file, O_RDONLY, err);
	if (fd < 0 || file_read_most(fd, file, 1 << 20, &text, &len, err) < 0)
		return err_code(err, E_KEY);
	s->cert = parse_cert(text, len);
	if (!s->cert)
		return err_set(err, E_KEY, "'%s' is not a certificate, neither PEM nor DER", file);
	return describe_cert(s, file, err);
}

void module_cert_done(struct module_cert *c)
{
	free(c->der);
	free(c->name);
	*c = (struct module_cert){ 0 };
}

int module_cert_read(const char *file, struct module_cert *ret, struct err *err)
{
	auto_module_signer struct module_signer *s = mem_alloc(sizeof(*s));
	unsigned char *der = NULL;
	if (load_cert(s, file, err) < 0 || check_use(s, file, false, err) < 0)
		return -1;
	int len = i2d_X509(s->cert, &der);
	*ret = (struct module_cert){ .der = str_ndup((const char *)der, (size_t)len), .len = (size_t)len };
	ret->name = TAKE(s->name);
	OPENSSL_free(der);
	return 0;
}

static bool add_extension(X509 *cert, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	bool ok = extension && X509_add_ext(cert, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return ok;
}

static bool fill_cert(X509 *cert, EVP_PKEY *key, const char *host)
{
	enum { DAYS = 3650, SERIAL_BYTES = 16 };
	unsigned char serial[SERIAL_BYTES];
	auto_str char *name = str_fmt("%.40s kernel modules", host); // 64 bytes at most
	X509_NAME *subject = X509_get_subject_name(cert);
	if (RAND_bytes(serial, sizeof(serial)) != 1)
		return false;
	serial[0] = (serial[0] & 0x7f) | 0x40;
	BIGNUM *number = BN_bin2bn(serial, sizeof(serial), NULL);
	bool ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
	BN_free(number);
	return ok && X509_set_version(cert, X509_VERSION_3) == 1 && X509_gmtime_adj(X509_getm_notBefore(cert), 0) &&
	       X509_time_adj_ex(X509_getm_notAfter(cert), DAYS, 0, NULL) &&
	       X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (unsigned char *)name, -1, -1, 0) == 1 &&
	       X509_set_issuer_name(cert, subject) == 1 && X509_set_pubkey(cert, key) == 1 &&
	       add_extension(cert, NID_basic_constraints, "critical,CA:FALSE") &&
	       add_extension(cert, NID_key_usage, "digitalSignature") &&
	       add_extension(cert, NID_ext_key_usage, "codeSigning") &&
	       add_extension(cert, NID_subject_key_identifier, "hash") &&
	       add_extension(cert, NID_authority_key_identifier, "keyid") && X509_sign(cert, key, EVP_sha256()) > 0;
}

static char *bio_text(BIO *bio)
{
	char *text = NULL;
	long len = BIO_get_mem_data(bio, &text);
	return str_ndup(text, (size_t)len);
}

int module_key_make(const char *host, char **ret_key, char **ret_cert, struct err *err)
{
	enum { BITS = 3072 };
	secret_guard();
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)BITS);
	X509 *cert = X509_new();
	auto_free(bio) BIO *key_pem = BIO_new(BIO_s_mem());
	auto_free(bio) BIO *cert_pem = BIO_new(BIO_s_mem());
	bool ok = key && cert && key_pem && cert_pem && fill_cert(cert, key, host) &&
		  PEM_write_bio_PKCS8PrivateKey(key_pem, key, NULL, NULL, 0, NULL, NULL) == 1 &&
		  PEM_write_bio_X509(cert_pem, cert) == 1;
	EVP_PKEY_free(key);
	X509_free(cert);
	if (!ok)
		return err_set(err, E_KEY, "cannot make a key: %s", key_failure());
	*ret_key = bio_text(key_pem);
	*ret_cert = bio_text(cert_pem);
	return 0;
}

int module_signer_open(const struct module_key *from, struct module_signer **ret, struct err *err)
{
	auto_module_signer struct module_signer *s = mem_alloc(sizeof(*s));
	if ((from->key && key_open(from->key, from->password, &s->key, err) < 0) || load_cert(s, from->cert, err) < 0 ||
	    check_use(s, from->cert, true, err) < 0)
		return -1;
	if (!from->key) {
		*ret = TAKE(s);
		return 0;
	}
	if (!s->key->digest)
		return err_set(err, E_KEY, "kernels verify RSA and ECDSA, and the module key is %s", s->key->algorithm);
	bool is_its = EVP_PKEY_eq(X509_get0_pubkey(s->cert), s->key->public) == 1;
	ERR_clear_error();
	if (!is_its)
		return err_set(err, E_KEY, "'%s' (%s) is the certificate of another key", from->cert, s->name);
	*ret = TAKE(s);
	return 0;
}

const char *module_signer_id(const struct module_signer *s)
{
	return s->id;
}

const char *module_signer_name(const struct module_signer *s)
{
	return s->name;
}

static char *date_text(const ASN1_TIME *date)
{
	auto_free(bio) BIO *bio = BIO_new(BIO_s_mem());
	char *text = NULL;
	if (!bio || !ASN1_TIME_print(bio, date))
		return str_dup("an unreadable date");
	long len = BIO_get_mem_data(bio, &text);
	return str_ndup(text, (size_t)len);
}

char *module_signer_dates(const struct module_signer *s, time_t now)
{
	const ASN1_TIME *from = X509_get0_notBefore(s->cert), *to = X509_get0_notAfter(s->cert);
	bool is_early = X509_cmp_time(from, &now) > 0, is_late = X509_cmp_time(to, &now) < 0;
	auto_str char *date = is_early || is_late ? date_text(is_early ? from : to) : NULL;
	return date ? str_fmt("%s is valid %s %s", s->name, is_early ? "from" : "until", date) : NULL;
}

static char *lower_hex(const unsigned char *data, int len, const char *before)
{
	auto_str char *hex = str_dup(before);
	for (int i = 0; i < len; i++)
		str_add(&hex, "%02x", data[i]);
	return TAKE(hex);
}

void module_signer_key_ids(const struct module_signer *s, struct strv *ret)
{
	const ASN1_OCTET_STRING *own = X509_get0_subject_key_id(s->cert), *issuer = X509_get0_authority_key_id(s->cert);
	const ASN1_INTEGER *serial = X509_get0_serialNumber(s->cert);
	const ASN1_STRING *id = own ? own : serial;
	const unsigned char *data = ASN1_STRING_get0_data(id);
	bool is_padded = !own && ASN1_STRING_length(id) > 0 && data[0] & 0x80; // a number in DER is not negative
	strv_add(ret, lower_hex(data, ASN1_STRING_length(id), is_padded ? "00" : ""));
	if (issuer)
		strv_add(ret, lower_hex(ASN1_STRING_get0_data(issuer), ASN1_STRING_length(issuer), ""));
}

void module_signer_trust(const struct module_signer *s, struct certs *certs)
{
	unsigned char *der = NULL;
	int len = i2d_X509(s->cert, &der);
	struct err err;
	if (len <= 0 || modsig_certs_add(certs, der, (size_t)len, s->name, &err) < 0)
		abort();
	OPENSSL_free(der);
}

static int make_cms(const struct module_signer *s, const char *hash, const void *data, size_t len, unsigned char **ret,
		    struct err *err)
{
	const EVP_MD *digest = EVP_get_digestbyname(hash);
	// Not X509_check_issued: a key that may sign code and no certificates is its own issuer all the same.
	bool is_issued = X509_NAME_cmp(X509_get_subject_name(s->cert), X509_get_issuer_name(s->cert)) != 0;
	unsigned shape = CMS_BINARY | (is_issued ? 0 : CMS_NOCERTS);
	auto_free(bio) BIO *content = BIO_new_mem_buf(data, (int)len);
	auto_free(cms) CMS_ContentInfo *cms =
		CMS_sign(NULL, NULL, NULL, NULL, CMS_NOCERTS | CMS_PARTIAL | CMS_BINARY | CMS_DETACHED | CMS_STREAM);
	if (!digest)
		return err_set(err, E_SIGNATURE_BAD, "OpenSSL has no hash '%s', which the kernel's configuration names",
			       hash);
	if (!content || !cms ||
	    !CMS_add1_signer(cms, s->cert, s->key->private, digest, shape | CMS_NOSMIMECAP | CMS_NOATTR) ||
	    CMS_final(cms, content, NULL, CMS_NOCERTS | CMS_BINARY) < 1)
		return err_set(err, E_KEY, "the key of %s cannot sign: %s", s->name, key_failure());
	int size = i2d_CMS_ContentInfo(cms, ret);
	return size > 0 ? size : err_set(err, E_KEY, "the key of %s cannot sign: %s", s->name, key_failure());
}

size_t module_unsigned_length(const void *data, size_t len)
{
	for (;;) {
		auto_modsig struct modsig sig = { 0 };
		modsig_read(data, len, &sig);
		if (sig.payload == len)
			return len;
		len = sig.payload;
	}
}

int module_attach(const struct module_signer *s, const void *cms, size_t cms_len, const void *data, size_t len,
		  char **ret, size_t *ret_len, struct err *err)
{
	static const char magic[] = "~Module signature appended~\n";
	enum { ID_PKCS7 = 2, CMS_MOST = 1 << 20 };
	auto_modsig struct modsig made = { 0 };
	auto_certs struct certs *certs = modsig_certs_new();
	size_t payload = module_unsigned_length(data, len);
	if (cms_len > CMS_MOST)
		return err_set(err, E_SIGNATURE_BAD, "the signature has %zu bytes, and %d are the most", cms_len,
			       CMS_MOST);
	// algo, hash, id_type, signer_len, key_id_len, three bytes of padding, then the length, big-endian
	const unsigned char trailer[] = { 0,
					  0,
					  ID_PKCS7,
					  0,
					  0,
					  0,
					  0,
					  0,
					  (unsigned char)(cms_len >> 24),
					  (unsigned char)(cms_len >> 16),
					  (unsigned char)(cms_len >> 8),
					  (unsigned char)cms_len };
	size_t whole = payload + cms_len + sizeof(trailer) + sizeof(magic) - 1;
	auto_str char *text = mem_alloc(whole + 1);
	char *end = mempcpy(text, data, payload);
	end = mempcpy(end, cms, cms_len);
	memcpy(mempcpy(end, trailer, sizeof(trailer)), magic, sizeof(magic) - 1);
	module_signer_trust(s, certs);
	modsig_read(text, whole, &made);
	if (made.state != MODSIG_SIGNED)
		return err_set(err, E_SIGNATURE_BAD, "the signature is of no use to a kernel: %s",
			       made.why ? made.why : "it is no CMS");
	int r = modsig_verify(&made, text, certs, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_KEY, "not signed by the key of %s", s->name);
	*ret = TAKE(text);
	*ret_len = whole;
	return 0;
}

int module_sign(const struct module_signer *s, const char *hash, const void *data, size_t len, char **ret,
		size_t *ret_len, struct err *err)
{
	unsigned char *cms = NULL;
	int size = make_cms(s, hash, data, module_unsigned_length(data, len), &cms, err);
	if (size < 0)
		return -1;
	int r = module_attach(s, cms, (size_t)size, data, len, ret, ret_len, err);
	OPENSSL_free(cms);
	// A token can hold a private and a public object that do not belong together.
	return r < 0 ? err_code(err, E_KEY) : 0;
}
