// SPDX-License-Identifier: Apache-2.0
// Keys, certificates and signed modules, made on the spot with OpenSSL.
#pragma once
#include "base/core/str.h"

#include <openssl/cms.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

struct signer {
	EVP_PKEY *key;
	X509 *cert;
};

// names_issuer: by its authority key identifier, as a kernel needs it to follow a chain.
static inline struct signer signer_of(EVP_PKEY *key, const char *name, const struct signer *issuer, bool names_issuer)
{
	struct signer s = { .key = key, .cert = X509_new() };
	X509_NAME *subject = X509_get_subject_name(s.cert);
	X509V3_CTX ctx;
	X509_set_version(s.cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(s.cert), issuer ? 0x1234 : 0xabcdef);
	X509_gmtime_adj(X509_getm_notBefore(s.cert), -2 * 86400);
	X509_gmtime_adj(X509_getm_notAfter(s.cert), -86400); // run out: dates do not count
	X509_set_pubkey(s.cert, s.key);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(s.cert, issuer ? X509_get_subject_name(issuer->cert) : subject);
	X509V3_set_ctx(&ctx, issuer ? issuer->cert : s.cert, s.cert, NULL, NULL, 0);
	X509_EXTENSION *constraint =
		X509V3_EXT_conf_nid(NULL, &ctx, NID_basic_constraints, issuer ? "CA:FALSE" : "critical,CA:TRUE");
	X509_EXTENSION *id = X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_key_identifier, "hash");
	X509_add_ext(s.cert, constraint, -1);
	X509_add_ext(s.cert, id, -1);
	if (names_issuer) {
		X509_EXTENSION *above = X509V3_EXT_conf_nid(NULL, &ctx, NID_authority_key_identifier, "keyid:always");
		X509_add_ext(s.cert, above, -1);
		X509_EXTENSION_free(above);
	}
	X509_EXTENSION_free(constraint);
	X509_EXTENSION_free(id);
	if (X509_sign(s.cert, issuer ? issuer->key : s.key, EVP_sha256()) <= 0)
		abort();
	return s;
}

static inline struct signer signer_make(const char *name, const struct signer *issuer)
{
	return signer_of(EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048), name, issuer, false);
}

static inline struct signer signer_issued(const char *name, const struct signer *issuer)
{
	return signer_of(EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048), name, issuer, true);
}

static inline void signer_done(struct signer *s)
{
	EVP_PKEY_free(s->key);
	X509_free(s->cert);
}
#define auto_signer __attribute__((cleanup(signer_done)))

// The certificate as PEM or DER.
static inline char *signer_cert(const struct signer *s, bool is_pem, size_t *ret_len)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *data;
	if ((is_pem ? PEM_write_bio_X509(bio, s->cert) : i2d_X509_bio(bio, s->cert)) != 1)
		abort();
	long len = BIO_get_mem_data(bio, &data);
	char *copy = str_ndup(data, (size_t)len);
	BIO_free(bio);
	*ret_len = (size_t)len;
	return copy;
}

// A private key as PEM, without a passphrase.
static inline char *signer_key(EVP_PKEY *key)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *data;
	if (PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1)
		abort();
	long len = BIO_get_mem_data(bio, &data);
	char *copy = str_ndup(data, (size_t)len);
	BIO_free(bio);
	return copy;
}

// Content and its signature with the kernel's trailer. flags: CMS_USE_KEYID names the signer by key id; without
// CMS_NOCERTS the certificate goes inside; without CMS_NOATTR there are attributes.
static inline char *signer_sign(const struct signer *s, const void *content, size_t len, const char *hash,
				unsigned flags, size_t *ret_len)
{
	static const char magic[] = "~Module signature appended~\n";
	unsigned char trailer[12] = { [2] = 2 }, *der = NULL;
	BIO *bio = BIO_new_mem_buf(content, (int)len);
	unsigned common = CMS_BINARY | CMS_DETACHED | CMS_PARTIAL | (flags & CMS_NOCERTS);
	CMS_ContentInfo *cms = CMS_sign(NULL, NULL, NULL, NULL, common);
	if (!CMS_add1_signer(cms, s->cert, s->key, EVP_get_digestbyname(hash), flags | CMS_BINARY) ||
	    CMS_final(cms, bio, NULL, common) != 1)
		abort();
	int der_len = i2d_CMS_ContentInfo(cms, &der);
	char *file = mem_alloc(len + (size_t)der_len + sizeof(trailer) + sizeof(magic));
	trailer[10] = (unsigned char)(der_len >> 8);
	trailer[11] = (unsigned char)der_len;
	memcpy(file, content, len);
	memcpy(file + len, der, (size_t)der_len);
	memcpy(file + len + der_len, trailer, sizeof(trailer));
	memcpy(file + len + der_len + sizeof(trailer), magic, sizeof(magic));
	*ret_len = len + (size_t)der_len + sizeof(trailer) + sizeof(magic) - 1;
	OPENSSL_free(der);
	CMS_ContentInfo_free(cms);
	BIO_free(bio);
	return file;
}

enum { SIGN_PLAIN = CMS_NOCERTS | CMS_NOATTR | CMS_NOSMIMECAP };
