// SPDX-License-Identifier: Apache-2.0
// The rules are those of the kernel's mod_check_sig, module_sig_check and its PKCS#7 parser.
#include "kmod/module/modsig.h"

#include <openssl/cms.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

static const char MAGIC[] = "~Module signature appended~\n";
enum { MAGIC_LEN = sizeof(MAGIC) - 1, TRAILER = 12, ID_PKCS7 = 2 };

struct certs {
	STACK_OF(X509) * list;
};

static void free_cmsp(CMS_ContentInfo **cms)
{
	CMS_ContentInfo_free(*cms);
}
static void free_biop(BIO **bio)
{
	BIO_free(*bio);
}
static void free_bnp(BIGNUM **bn)
{
	BN_free(*bn);
}
static void free_storep(X509_STORE **s)
{
	X509_STORE_free(*s);
}
static void free_ctxp(X509_STORE_CTX **c)
{
	X509_STORE_CTX_free(*c);
}
static void free_stackp(STACK_OF(X509) * *s)
{
	sk_X509_free(*s);
}
#define auto_free(x) __attribute__((cleanup(free_##x##p)))

static void set_state(struct modsig *sig, enum modsig_state state, const char *why)
{
	sig->state = state;
	sig->why = str_dup(why);
}

static char *hex_text(const unsigned char *data, size_t len)
{
	char *s = mem_alloc(2 * len + 1);
	for (size_t i = 0; i < len; i++) {
		s[2 * i] = "0123456789ABCDEF"[data[i] >> 4];
		s[2 * i + 1] = "0123456789ABCDEF"[data[i] & 15];
	}
	return s;
}

static char *name_text(const X509_NAME *name)
{
	auto_free(bio) BIO *bio = BIO_new(BIO_s_mem());
	char *text = NULL;
	if (!bio || X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253) < 0)
		return NULL;
	long len = BIO_get_mem_data(bio, &text);
	return str_ndup(text, (size_t)len);
}

static char *serial_text(const ASN1_INTEGER *serial)
{
	auto_free(bn) BIGNUM *bn = ASN1_INTEGER_to_BN(serial, NULL);
	char *openssl = bn ? BN_bn2hex(bn) : NULL;
	char *copy = str_dup(openssl);
	OPENSSL_free(openssl);
	return copy;
}

static void add_content(char **hex, unsigned char *der, int len)
{
	const unsigned char *p = der;
	long size = 0;
	int tag, class;
	if (len > 0 && !(ASN1_get_object(&p, &size, &tag, &class, len) & 0x80))
		for (long i = 0; i < size; i++)
			str_add(hex, "%02x", p[i]);
	OPENSSL_free(der);
}

// asymmetric_key_generate_id, as x509_cert_parser.c and pkcs7_parser.c call it
static char *signer_text(const ASN1_INTEGER *serial, const X509_NAME *issuer)
{
	unsigned char *serial_der = NULL, *issuer_der = NULL;
	char *hex = NULL;
	int serial_len = i2d_ASN1_INTEGER(serial, &serial_der), issuer_len = i2d_X509_NAME(issuer, &issuer_der);
	add_content(&hex, serial_der, serial_len);
	add_content(&hex, issuer_der, issuer_len);
	return hex;
}

static char *octets_text(const ASN1_OCTET_STRING *octets)
{
	auto_str char *hex = str_dup("");
	for (int i = 0; i < ASN1_STRING_length(octets); i++)
		str_add(&hex, "%02x", ASN1_STRING_get0_data(octets)[i]);
	return TAKE(hex);
}

static void add_id(struct modsig *sig, char *take)
{
	auto_str char *id = take;
	if (id && *id && !strv_has(&sig->signers, id))
		strv_add(&sig->signers, TAKE(id));
}

static char *cert_text(const X509 *cert)
{
	return signer_text(X509_get0_serialNumber(cert), X509_get_issuer_name(cert));
}

// crypto/asymmetric_keys/pkcs7_parser.c, pkcs7_sig_note_digest_algo and pkcs7_sig_note_pkey_algo
static bool is_kernel_hash(int nid)
{
	return nid == NID_sha1 || nid == NID_sha224 || nid == NID_sha256 || nid == NID_sha384 || nid == NID_sha512 ||
	       nid == NID_sha3_256 || nid == NID_sha3_384 || nid == NID_sha3_512 || nid == NID_sm3;
}

static bool is_kernel_key(int nid)
{
	return nid == NID_rsaEncryption || nid == NID_X9_62_id_ecPublicKey || nid == NID_ecdsa_with_SHA1 ||
	       nid == NID_ecdsa_with_SHA224 || nid == NID_ecdsa_with_SHA256 || nid == NID_ecdsa_with_SHA384 ||
	       nid == NID_ecdsa_with_SHA512 || nid == NID_ecdsa_with_SHA3_256 || nid == NID_ecdsa_with_SHA3_384 ||
	       nid == NID_ecdsa_with_SHA3_512 || nid == NID_sm2;
}

static int algorithm_nid(const X509_ALGOR *algor)
{
	const ASN1_OBJECT *object = NULL;
	X509_ALGOR_get0(&object, NULL, NULL, algor);
	return object ? OBJ_obj2nid(object) : NID_undef;
}

static void read_signer(struct modsig *sig, CMS_SignerInfo *signer)
{
	ASN1_OCTET_STRING *key_id = NULL;
	X509_NAME *issuer = NULL;
	ASN1_INTEGER *serial = NULL;
	X509_ALGOR *digest = NULL, *key = NULL;
	if (CMS_SignerInfo_get0_signer_id(signer, &key_id, &issuer, &serial) == 1) {
		sig->issuer = issuer ? name_text(issuer) : NULL;
		sig->serial = serial ? serial_text(serial) : NULL;
		sig->key_id =
			key_id ? hex_text(ASN1_STRING_get0_data(key_id), (size_t)ASN1_STRING_length(key_id)) : NULL;
		add_id(sig, serial && issuer ? signer_text(serial, issuer) : key_id ? octets_text(key_id) : NULL);
	}
	CMS_SignerInfo_get0_algs(signer, NULL, NULL, &digest, &key);
	int hash = digest ? algorithm_nid(digest) : NID_undef, pkey = key ? algorithm_nid(key) : NID_undef;
	if (hash != NID_undef) {
		sig->hash = str_dup(OBJ_nid2ln(hash));
		for (char *p = sig->hash; *p; p++)
			*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
	}
	if (!is_kernel_hash(hash))
		set_state(sig, MODSIG_UNSUPPORTED, "the kernel does not support its hash algorithm");
	else if (!is_kernel_key(pkey))
		set_state(sig, MODSIG_UNSUPPORTED, "the kernel does not support its signature algorithm");
	else if (CMS_signed_get_attr_count(signer) > 0 &&
		 CMS_signed_get_attr_by_NID(signer, NID_SMIMECapabilities, -1) >= 0)
		set_state(sig, MODSIG_BAD, "it has S/MIME capabilities, which the kernel refuses");
	else if (CMS_signed_get_attr_count(signer) > 0) // pkcs7_verify: "Invalid module sig (has authattrs)"
		set_state(sig, MODSIG_BAD, "it has signed attributes, which the kernel refuses");
}

// Of the certificates inside, the one that issued another, which a kernel knows by its key id alone.
static X509 *find_issuer(STACK_OF(X509) * inside, X509 *cert)
{
	const ASN1_OCTET_STRING *want = X509_get0_authority_key_id(cert);
	for (int i = 0; want && i < sk_X509_num(inside); i++) {
		X509 *other = sk_X509_value(inside, i);
		const ASN1_OCTET_STRING *id = other == cert ? NULL : X509_get0_subject_key_id(other);
		if (id && ASN1_OCTET_STRING_cmp(id, want) == 0)
			return other;
	}
	return NULL;
}

// pkcs7_verify_sig_chain and pkcs7_validate_trust_one: each certificate on the way up, then the issuer of the last.
static void read_chain(struct modsig *sig, CMS_SignerInfo *signer, STACK_OF(X509) * inside)
{
	X509 *cert = NULL;
	for (int i = 0; i < sk_X509_num(inside) && !cert; i++)
		if (CMS_SignerInfo_cert_cmp(signer, sk_X509_value(inside, i)) == 0)
			cert = sk_X509_value(inside, i);
	for (int depth = 0; cert && depth <= sk_X509_num(inside); depth++) {
		const ASN1_OCTET_STRING *issuer = X509_get0_authority_key_id(cert);
		add_id(sig, cert_text(cert));
		if (issuer)
			add_id(sig, octets_text(issuer));
		cert = find_issuer(inside, cert);
	}
}

static CMS_ContentInfo *parse_cms(const struct modsig *sig)
{
	const unsigned char *p = sig->cms;
	CMS_ContentInfo *cms = d2i_CMS_ContentInfo(NULL, &p, (long)sig->cms_len);
	ERR_clear_error();
	return cms;
}

static void read_cms(struct modsig *sig)
{
	auto_free(cms) CMS_ContentInfo *cms = parse_cms(sig);
	STACK_OF(CMS_SignerInfo) *signers =
		cms && OBJ_obj2nid(CMS_get0_type(cms)) == NID_pkcs7_signed ? CMS_get0_SignerInfos(cms) : NULL;
	if (!signers || sk_CMS_SignerInfo_num(signers) < 1) {
		set_state(sig, MODSIG_BAD, "the CMS is damaged or has no signer");
		return;
	}
	sig->state = MODSIG_SIGNED;
	read_signer(sig, sk_CMS_SignerInfo_value(signers, 0));
	STACK_OF(X509) *inside = CMS_get1_certs(cms);
	read_chain(sig, sk_CMS_SignerInfo_value(signers, 0), inside);
	sk_X509_pop_free(inside, X509_free);
	ERR_clear_error();
}

void modsig_read(const void *data, size_t len, struct modsig *ret)
{
	const unsigned char *end = (const unsigned char *)data + len;
	*ret = (struct modsig){ .payload = len };
	if (len < MAGIC_LEN || memcmp(end - MAGIC_LEN, MAGIC, MAGIC_LEN) != 0)
		return;
	const unsigned char *t = end - MAGIC_LEN - TRAILER;
	size_t room = len - MAGIC_LEN;
	if (room <= TRAILER) {
		set_state(ret, MODSIG_BAD, "the signature trailer is truncated");
		return;
	}
	// algo, hash, id_type, signer_len, key_id_len, three bytes of padding, then the length, big-endian
	size_t sig_len = (size_t)t[8] << 24 | (size_t)t[9] << 16 | (size_t)t[10] << 8 | (size_t)t[11];
	room -= TRAILER;
	if (sig_len >= room) {
		set_state(ret, MODSIG_BAD, "the signature claims more bytes than the file has");
		return;
	}
	ret->payload = room - sig_len;
	ret->cms = (const unsigned char *)data + ret->payload;
	ret->cms_len = sig_len;
	if (t[2] != ID_PKCS7)
		set_state(ret, MODSIG_UNSUPPORTED, "the signature is not PKCS#7");
	else if (t[0] || t[1] || t[3] || t[4] || t[5] || t[6] || t[7])
		set_state(ret, MODSIG_BAD, "the signature trailer has fields that must be zero");
	else
		read_cms(ret);
}

void modsig_done(struct modsig *sig)
{
	free(sig->issuer);
	free(sig->serial);
	strv_done(&sig->signers);
	free(sig->key_id);
	free(sig->hash);
	free(sig->why);
	*sig = (struct modsig){ 0 };
}

char *modsig_cert_id(const void *der, size_t len)
{
	const unsigned char *p = der;
	X509 *cert = d2i_X509(NULL, &p, (long)len);
	char *id = cert ? cert_text(cert) : NULL;
	X509_free(cert);
	ERR_clear_error();
	return id;
}

struct certs *modsig_certs_new(void)
{
	struct certs *certs = mem_alloc(sizeof(*certs));
	certs->list = sk_X509_new_null();
	if (!certs->list)
		abort();
	return certs;
}

void modsig_certs_free(struct certs *certs)
{
	if (!certs)
		return;
	sk_X509_pop_free(certs->list, X509_free);
	free(certs);
}

int modsig_certs_add(struct certs *certs, const void *data, size_t len, const char *name, struct err *err)
{
	const unsigned char *p = data;
	auto_free(bio) BIO *bio = BIO_new_mem_buf(data, (int)len);
	char no_password[] = ""; // never ask a terminal for one
	int count = 0;
	for (X509 *cert; bio && (cert = PEM_read_bio_X509(bio, NULL, NULL, no_password)) != NULL; count++)
		if (sk_X509_push(certs->list, cert) <= 0)
			abort();
	X509 *der = count ? NULL : d2i_X509(NULL, &p, (long)len);
	if (der && sk_X509_push(certs->list, der) <= 0)
		abort();
	ERR_clear_error();
	if (!count && !der)
		return err_set(err, E_CONFIG, "'%s' has no certificate, neither PEM nor DER", name);
	return der ? 1 : count;
}

void modsig_certs_keep(struct certs *certs, int (*is_kept)(const void *ctx, const char *id), const void *ctx)
{
	for (int i = sk_X509_num(certs->list); i-- > 0;) {
		auto_str char *id = cert_text(sk_X509_value(certs->list, i));
		if (!id || !is_kept(ctx, id))
			X509_free(sk_X509_delete(certs->list, i));
	}
}

bool modsig_certs_has(const struct certs *certs, const char *id)
{
	for (int i = 0; i < sk_X509_num(certs->list); i++) {
		X509 *cert = sk_X509_value(certs->list, i);
		const ASN1_OCTET_STRING *key = X509_get0_subject_key_id(cert);
		auto_str char *name = cert_text(cert), *key_name = key ? octets_text(key) : NULL;
		if ((name && str_eq(name, id)) || (key_name && str_eq(key_name, id)))
			return true;
	}
	return false;
}

void modsig_certs_names(const struct certs *certs, struct strv *ret)
{
	for (int i = 0; i < sk_X509_num(certs->list); i++) {
		char *name = name_text(X509_get_subject_name(sk_X509_value(certs->list, i)));
		strv_add(ret, name ? name : str_dup("a certificate without a name"));
	}
}

// Issued by one of the certificates, or one of them itself. As in the kernel no purpose and no date counts.
static bool is_signer_trusted(const struct certs *certs, X509 *signer, STACK_OF(X509) * embedded)
{
	auto_free(store) X509_STORE *store = X509_STORE_new();
	auto_free(ctx) X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	if (!store || !ctx)
		abort();
	for (int i = 0; i < sk_X509_num(certs->list); i++)
		X509_STORE_add_cert(store, sk_X509_value(certs->list, i));
	X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_NO_CHECK_TIME);
	bool ok = X509_STORE_CTX_init(ctx, store, signer, embedded) == 1 && X509_verify_cert(ctx) == 1;
	ERR_clear_error();
	return ok;
}

// The certificate that made the first signature, from the trusted ones or from inside the CMS; NULL = neither has it.
static X509 *find_signer(CMS_ContentInfo *cms, STACK_OF(X509) * all)
{
	CMS_SignerInfo *first = sk_CMS_SignerInfo_value(CMS_get0_SignerInfos(cms), 0);
	for (int i = 0; i < sk_X509_num(all); i++) {
		if (CMS_SignerInfo_cert_cmp(first, sk_X509_value(all, i)) == 0)
			return sk_X509_value(all, i);
	}
	return NULL;
}

static STACK_OF(X509) * join_certs(const struct certs *certs, STACK_OF(X509) * embedded)
{
	STACK_OF(X509) *all = sk_X509_dup(certs->list);
	for (int i = 0; all && i < sk_X509_num(embedded); i++)
		sk_X509_push(all, sk_X509_value(embedded, i));
	if (!all)
		abort();
	return all;
}

static void free_embeddedp(STACK_OF(X509) * *s)
{
	sk_X509_pop_free(*s, X509_free);
}

int modsig_verify(const struct modsig *sig, const void *data, const struct certs *certs, struct err *err)
{
	if (sig->state == MODSIG_NONE || sig->state == MODSIG_UNSUPPORTED)
		return err_set(err, E_SIGNING_REQUIRED, "no usable signature: %s",
			       sig->why ? sig->why : "the module is unsigned");
	auto_free(cms) CMS_ContentInfo *cms = sig->state == MODSIG_SIGNED ? parse_cms(sig) : NULL;
	if (!cms)
		return err_set(err, E_SIGNATURE_BAD, "%s", sig->why ? sig->why : "the CMS is damaged");
	auto_free(embedded) STACK_OF(X509) *embedded = CMS_get1_certs(cms);
	auto_free(stack) STACK_OF(X509) *all = join_certs(certs, embedded);
	auto_free(bio) BIO *content = BIO_new_mem_buf(data, (int)sig->payload);
	X509 *signer = find_signer(cms, all);
	if (!content)
		abort();
	if (!signer)
		return 0;
	// As in the kernel, the content first: whoever signed it, it is not what was signed.
	int ok = CMS_verify(cms, all, NULL, content, NULL, CMS_BINARY | CMS_NO_SIGNER_CERT_VERIFY);
	ERR_clear_error();
	if (ok != 1)
		return err_set(err, E_SIGNATURE_BAD, "the signature by %s does not match this content",
			       sig->issuer ? sig->issuer : "the key");
	return is_signer_trusted(certs, signer, embedded);
}
