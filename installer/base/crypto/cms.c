// SPDX-License-Identifier: Apache-2.0
#include "base/crypto/cms.h"

#include <openssl/cms.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

struct anchor {
	X509_STORE *store;
};

static void free_biop(BIO **bio)
{
	BIO_free_all(*bio);
}
static void free_cmsp(CMS_ContentInfo **cms)
{
	CMS_ContentInfo_free(*cms);
}
static void free_listp(STACK_OF(X509) * *list)
{
	sk_X509_pop_free(*list, X509_free);
}
static void free_borrowedp(STACK_OF(X509) * *list)
{
	sk_X509_free(*list);
}
static void free_infosp(STACK_OF(X509_INFO) * *infos)
{
	sk_X509_INFO_pop_free(*infos, X509_INFO_free);
}
#define auto_free(x) __attribute__((cleanup(free_##x##p)))

int cms_anchor_parse(const char *pem, const char *name, struct anchor **ret, struct err *err)
{
	auto_free(bio) BIO *bio = BIO_new_mem_buf(pem, -1);
	char no_password[] = ""; // never ask a terminal for one
	auto_free(infos) STACK_OF(X509_INFO) *infos = bio ? PEM_X509_INFO_read_bio(bio, NULL, NULL, no_password) : NULL;
	auto_anchor struct anchor *a = mem_alloc(sizeof(*a));
	a->store = X509_STORE_new();
	if (!a->store)
		abort();
	bool has_certificate = false, has_list = false;
	for (int i = 0; infos && i < sk_X509_INFO_num(infos); i++) {
		const X509_INFO *info = sk_X509_INFO_value(infos, i);
		has_certificate |= info->x509 && X509_STORE_add_cert(a->store, info->x509) == 1;
		has_list |= info->crl && X509_STORE_add_crl(a->store, info->crl) == 1;
	}
	if (!has_certificate)
		return err_set(err, E_KEY, "'%s' has no PEM certificate: %s", name, key_failure());
	// With a revocation list in the file, every certificate of a chain must be checked against one.
	X509_STORE_set_flags(a->store, X509_V_FLAG_PARTIAL_CHAIN |
					       (has_list ? X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL : 0UL));
	// cms_verify() checks purposes: OpenSSL's default for CMS is mail.
	X509_STORE_set_purpose(a->store, X509_PURPOSE_ANY);
	ERR_clear_error();
	*ret = TAKE(a);
	return 0;
}

void cms_anchor_free(struct anchor *a)
{
	if (!a)
		return;
	X509_STORE_free(a->store);
	free(a);
}

static STACK_OF(X509) * read_chain(const char *pem)
{
	auto_free(bio) BIO *bio = BIO_new_mem_buf(pem, -1);
	STACK_OF(X509) *list = sk_X509_new_null();
	char no_password[] = "";
	if (!bio || !list)
		abort();
	for (X509 *cert; (cert = PEM_read_bio_X509(bio, NULL, NULL, no_password)) != NULL;)
		sk_X509_push(list, cert);
	ERR_clear_error();
	return list;
}

static bool matches_key(const struct key *k, STACK_OF(X509) * certs)
{
	bool is_its = sk_X509_num(certs) > 0 && k->private &&
		      X509_check_private_key(sk_X509_value(certs, 0), k->private) == 1;
	ERR_clear_error();
	return is_its;
}

bool cms_fits(const struct key *k, const char *chain)
{
	auto_free(list) STACK_OF(X509) *certs = read_chain(chain);
	return matches_key(k, certs);
}

int cms_sign(const struct key *k, const char *chain, const char *name, const void *data, size_t len, char **ret,
	     size_t *ret_len, struct err *err)
{
	const unsigned flags = CMS_BINARY | CMS_DETACHED | CMS_NOSMIMECAP;
	auto_free(list) STACK_OF(X509) *certs = read_chain(chain);
	if (sk_X509_num(certs) == 0)
		return err_set(err, E_KEY, "'%s' has no PEM certificate", name);
	X509 *leaf = sk_X509_value(certs, 0);
	if (!matches_key(k, certs))
		return err_set(err, E_KEY, "the first certificate of '%s' does not belong to key %s", name, k->id);
	auto_free(list) STACK_OF(X509) *others = X509_chain_up_ref(certs);
	X509_free(sk_X509_shift(others));
	auto_free(bio) BIO *content = BIO_new_mem_buf(data, (int)len);
	auto_free(cms) CMS_ContentInfo *cms = CMS_sign(leaf, k->private, others, content, flags);
	unsigned char *der = NULL;
	int der_len = cms ? i2d_CMS_ContentInfo(cms, &der) : -1;
	if (der_len <= 0)
		return err_set(err, E_KEY, "key %s cannot make a CMS signature: %s", k->id, key_failure());
	*ret = mem_alloc((size_t)der_len + 1);
	memcpy(*ret, der, (size_t)der_len);
	*ret_len = (size_t)der_len;
	OPENSSL_free(der);
	return 0;
}

void cms_verdict_done(struct cms_verdict *v)
{
	free(v->subject);
	free(v->why);
	*v = (struct cms_verdict){ 0 };
}

// Through key_parse(), so that a key counts once, whatever it signed as. False = a kind of key that is not used.
static bool describe_signer(X509 *cert, struct cms_verdict *v)
{
	auto_free(bio) BIO *name = BIO_new(BIO_s_mem());
	auto_free(bio) BIO *bio = BIO_new(BIO_s_mem());
	auto_key struct key *key = NULL;
	struct err ignored;
	char unknown[] = "?", *text = unknown;
	long len = 1;
	if (name && X509_NAME_print_ex(name, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) >= 0)
		len = BIO_get_mem_data(name, &text);
	v->subject = str_ndup(text, (size_t)len);
	if (!bio || PEM_write_bio_PUBKEY(bio, X509_get0_pubkey(cert)) != 1)
		return false;
	len = BIO_get_mem_data(bio, &text);
	auto_str char *pem = str_ndup(text, (size_t)len);
	if (key_parse(pem, "certificate", &key, &ignored) < 0)
		return false;
	memcpy(v->id, key->id, sizeof(v->id));
	return true;
}

// The only signer, with a certificate: two signers must make two signatures.
static X509 *only_signer(CMS_ContentInfo *cms)
{
	if (OBJ_obj2nid(CMS_get0_type(cms)) != NID_pkcs7_signed ||
	    sk_CMS_SignerInfo_num(CMS_get0_SignerInfos(cms)) != 1)
		return NULL;
	X509_ALGOR *digest = NULL;
	const ASN1_OBJECT *object = NULL;
	CMS_SignerInfo_get0_algs(sk_CMS_SignerInfo_value(CMS_get0_SignerInfos(cms), 0), NULL, NULL, &digest, NULL);
	if (digest)
		X509_ALGOR_get0(&object, NULL, NULL, digest);
	int nid = object ? OBJ_obj2nid(object) : NID_undef;
	if (nid != NID_sha256 && nid != NID_sha384 && nid != NID_sha512)
		return NULL;
	CMS_set1_signers_certs(cms, NULL, 0);
	auto_free(borrowed) STACK_OF(X509) *signers = CMS_get0_signers(cms);
	return signers && sk_X509_num(signers) == 1 ? sk_X509_value(signers, 0) : NULL;
}

static int refuse_signature(struct cms_verdict *v, const char *why)
{
	v->why = str_dup(why);
	return 0;
}

// A revocation list counts even if it is newer than the moment in question or has expired.
static int ignore_list_dates(int ok, X509_STORE_CTX *ctx)
{
	int why = X509_STORE_CTX_get_error(ctx);
	return ok || why == X509_V_ERR_CRL_NOT_YET_VALID || why == X509_V_ERR_CRL_HAS_EXPIRED;
}

int cms_verify(const struct anchor *a, time_t at, bool is_kept, const void *cms, size_t cms_len, const void *data,
	       size_t len, struct cms_verdict *ret)
{
	const unsigned char *p = cms;
	auto_free(cms) CMS_ContentInfo *parsed = d2i_CMS_ContentInfo(NULL, &p, (long)cms_len);
	X509 *signer = parsed ? only_signer(parsed) : NULL;
	ERR_clear_error();
	if (!signer)
		return refuse_signature(ret, "not a CMS signature over SHA-2 by one signer with a certificate");
	if (!describe_signer(signer, ret))
		return refuse_signature(ret, "its certificate has an unsupported type of key");
	// Behind a buffer: of a BIO that is plain memory CMS_verify() makes a copy, and OpenSSL 3.0 loses that when the
	// signature names a digest that it does not know.
	auto_free(bio) BIO *content = BIO_push(BIO_new(BIO_f_buffer()), BIO_new_mem_buf(data, (int)len));
	X509_VERIFY_PARAM_set_time(X509_STORE_get0_param(a->store), at);
	X509_STORE_set_verify_cb(a->store, is_kept ? ignore_list_dates : NULL);
	if (CMS_verify(parsed, NULL, NULL, content, NULL, CMS_BINARY | CMS_NO_SIGNER_CERT_VERIFY) != 1) {
		ret->is_wrong = true;
		return refuse_signature(ret, key_failure());
	}
	(void)BIO_reset(content);
	if (CMS_verify(parsed, NULL, a->store, content, NULL, CMS_BINARY) != 1) {
		unsigned long code = ERR_peek_last_error();
		const char *detail = NULL;
		int flags = 0;
		ERR_peek_last_error_data(&detail, &flags);
		bool has_text = code && detail && (flags & ERR_TXT_STRING);
		ret->why = str_dup(has_text ? detail : "its certificate does not lead to the anchor");
		ERR_clear_error();
		return 0;
	}
	uint32_t purposes = X509_get_extended_key_usage(signer), usage = X509_get_key_usage(signer);
	bool is_publisher = (purposes == UINT32_MAX || (purposes & (XKU_CODE_SIGN | XKU_ANYEKU))) &&
			    (usage == UINT32_MAX || (usage & KU_DIGITAL_SIGNATURE));
	return is_publisher ? 1 : refuse_signature(ret, "its certificate is not for code signing");
}

bool cms_certificate_end(const char *pem, time_t *ret)
{
	struct tm tm;
	char no_password[] = "";
	auto_free(bio) BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, no_password);
	bool is_read = certificate && ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) == 1;
	if (is_read)
		*ret = timegm(&tm);
	X509_free(certificate);
	key_failure();
	return is_read;
}
