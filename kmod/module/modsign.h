// SPDX-License-Identifier: Apache-2.0
// Signs kernel modules, so that a kernel that demands signatures takes them (R-C1): the same bytes as the kernel's own
// scripts/sign-file, for the same key, certificate and hash.
//
// The CMS names the certificate by issuer and serial number and holds a detached signature without attributes. A
// certificate that another one issued is put into it as well: kernels find an issuer among their keys (a CA in MOK),
// but not the certificate itself. sign-file leaves it out.
#pragma once
#include "kmod/module/modsig.h"

struct module_key {           // as a user names it; borrowed
	const char *key;      // a PEM file or a pkcs11: URI (base/crypto/key.h); NULL = modules stay unsigned
	const char *cert;     // its certificate, a PEM or DER file
	const char *password; // of the key; NULL = none
};

struct module_signer;
// Without a key it signs nothing itself, and attaches what the key of the certificate signed elsewhere.
// E_KEY: key and certificate cannot be read, do not belong together, or are of no use to a kernel: Ed25519, or a
// certificate whose extensions forbid signatures or code signing.
int module_signer_open(const struct module_key *from, struct module_signer **ret, struct err *err);
void module_signer_free(struct module_signer *s); // NULL is fine
static inline void module_signerp(struct module_signer **s)
{
	module_signer_free(*s);
}
#define auto_module_signer __attribute__((cleanup(module_signerp)))

const char *module_signer_id(const struct module_signer *s);   // SHA-256 of the certificate (DER), 64 hex digits
const char *module_signer_name(const struct module_signer *s); // its subject, as RFC 2253
// Why its dates do not include this time; NULL = they do. Kernels do not look at dates, people do. Caller frees.
char *module_signer_dates(const struct module_signer *s, time_t now);
// By which a kernel that trusts what it signs can know it: its own subject key id, else its serial number, and that of
// its issuer; lower-case hex, as in /proc/keys.
void module_signer_key_ids(const struct module_signer *s, struct strv *ret);
// Adds the certificate; what it signed then verifies (modsig_verify).
void module_signer_trust(const struct module_signer *s, struct certs *certs);

// A certificate that is to be enrolled: of a key for modules, or of an authority that issues such certificates.
struct module_cert {
	char *der, *name; // name: its subject, as RFC 2253
	size_t len;
};
int module_cert_read(const char *file, struct module_cert *ret, struct err *err); // E_KEY
void module_cert_done(struct module_cert *c);
#define auto_module_cert __attribute__((cleanup(module_cert_done)))
// A new key that signs modules, RSA as every kernel verifies, and its certificate, for ten years. host: for its
// subject. Both as PEM, callers free.
int module_key_make(const char *host, char **ret_key, char **ret_cert, struct err *err);

// The module with its signature, in place of one that it may have. hash: that of the kernel's configuration, "sha256".
// E_KEY: the key cannot sign, or the result does not verify; E_SIGNATURE_BAD: the hash is unknown here.
int module_sign(const struct module_signer *s, const char *hash, const void *data, size_t len, char **ret,
		size_t *ret_len, struct err *err);
// The same with a signature that another program made (`sign-file -p`, `openssl cms -sign -binary -outform DER`): a
// detached CMS of the unsigned module. E_SIGNATURE_BAD: it is of something else, or damaged; E_KEY: of another key.
int module_attach(const struct module_signer *s, const void *cms, size_t cms_len, const void *data, size_t len,
		  char **ret, size_t *ret_len, struct err *err);
// Bytes of a module without its signatures. Kernels look behind one signature only: what was signed twice has two.
size_t module_unsigned_length(const void *data, size_t len);
