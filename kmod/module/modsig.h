// SPDX-License-Identifier: Apache-2.0
// The signature behind a kernel module: ELF image, CMS, a 12-byte trailer and a magic line.
//
// modsig_read judges as the kernel does: without the magic as the very last bytes there is no signature, whatever
// else may be there. Whether the kernel will accept it is another question: modsig_verify answers it for given
// certificates.
#pragma once
#include "base/core/err.h"

enum modsig_state {
	MODSIG_NONE, // unsigned: no magic at the very end (cut files and trailing bytes included)
	MODSIG_SIGNED,
	// Not PKCS#7, an unknown hash, ...: unsigned for a kernel that does not enforce, refused by others.
	MODSIG_UNSUPPORTED,
	MODSIG_BAD, // the trailer contradicts itself or the CMS is garbage: the kernel refuses it in any case
};

struct modsig {
	enum modsig_state state;
	size_t payload;  // bytes that are signed; the whole length when unsigned
	const void *cms; // borrowed; DER
	size_t cms_len;
	// Of the first signer; NULL where the CMS does not say.
	char *issuer; // "CN=...,O=..." as RFC 2253
	char *serial; // hex, upper case, two digits a byte
	char *key_id; // subject key id in hex, when the signer is named by it and not by issuer and serial
	char *hash;   // "sha256"
	// By which a kernel finds a certificate that makes the signature trusted, one of them is enough: of the signer,
	// of those inside the CMS that issued it, and of the issuer of the last. In lower-case hex: serial number and
	// issuer as they are in the certificate (DER, without the headers), or a subject key id.
	struct strv signers;
	char *why; // UNSUPPORTED and BAD: what is wrong
};

void modsig_read(const void *data, size_t len, struct modsig *ret); // ret is filled from zero
void modsig_done(struct modsig *sig);
#define auto_modsig __attribute__((cleanup(modsig_done)))

// The id of a certificate (DER), as in modsig.signers; NULL = it is none. Caller frees.
char *modsig_cert_id(const void *der, size_t len);

// Certificates that count as trusted.
struct certs;
struct certs *modsig_certs_new(void);
void modsig_certs_free(struct certs *certs); // NULL is fine
static inline void certs_freep(struct certs **certs)
{
	modsig_certs_free(*certs);
}
#define auto_certs __attribute__((cleanup(certs_freep)))
// PEM (one or more certificates) or DER (one): how many. E_CONFIG when there is none.
int modsig_certs_add(struct certs *certs, const void *data, size_t len, const char *name, struct err *err);

// Drops those whose id (as of modsig.signers) is_kept returns 0 for.
void modsig_certs_keep(struct certs *certs, int (*is_kept)(const void *ctx, const char *id), const void *ctx);
bool modsig_certs_has(const struct certs *certs, const char *id);     // id: of modsig.signers
void modsig_certs_names(const struct certs *certs, struct strv *ret); // their subjects, as RFC 2253

// 1 = signed by one of the certificates, or by a certificate inside the CMS that one of them issued (the kernel
// builds that chain too; validity dates do not count, as in the kernel). 0 = signed by another key.
// Negative: E_SIGNATURE_BAD, the signature does not match the content (told whenever the signer's certificate is at
// hand); E_SIGNING_REQUIRED, no usable signature.
int modsig_verify(const struct modsig *sig, const void *data, const struct certs *certs, struct err *err);
