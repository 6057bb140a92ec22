// SPDX-License-Identifier: Apache-2.0
// Keys that sign what is published, and the signatures they make: ECDSA on P-256 (DER form), RSA (PKCS#1 v1.5) and
// Ed25519, the first two over SHA-256. A public key's id is the SHA-256 of its SubjectPublicKeyInfo in DER; a key that
// is written in another form (a compressed point, explicit parameters) has the id of the usual one.
//
// An unusable key is E_KEY, and the message says what was found instead. Nothing here ever prompts on a terminal.
#pragma once
#include "base/file/digest.h"

#include <time.h>

enum { KEY_RSA_BITS_MIN = 2048, KEY_SIGNATURE_MAX = 2048 /* bytes: RSA of 16384 bits */ };

struct key {
	struct evp_pkey_st *private, *public; // private: NULL = only the public half is known
	struct engine_st *engine;             // started, as long as a key of its token lives; NULL = none
	const char *digest;                   // NULL = the algorithm brings its own
	char *algorithm;                      // "ecdsa-p256", "rsa-3072", "ed25519"
	char id[DIGEST_HEX + 1];
};
// The private key that a user names: a PEM file, or the "pkcs11:" URI of RFC 7512 for a key that stays in its token.
// A token is reached through OpenSSL's provider or engine "pkcs11", whichever this machine has; PKCS11_MODULE_PATH
// names the token's own library where p11-kit does not know it. password (NULL = none) opens an encrypted file, and is
// the PIN of a token whose URI has none.
int key_open(const char *where, const char *password, struct key **ret, struct err *err);
int key_parse(const char *pem, const char *name, struct key **ret, struct err *err); // a public key as PEM
void key_free(struct key *k);
static inline void key_freep(struct key **k)
{
	key_free(*k);
}
#define auto_key __attribute__((cleanup(key_freep)))

char *key_pem(const struct key *k); // the public half
int key_sign(const struct key *k, const void *data, size_t len, char **ret, size_t *ret_len, struct err *err);
bool key_verify(const struct key *k, const void *data, size_t len, const void *signature, size_t signature_len);

// When the first certificate of a PEM text ends; false = it has none.
bool key_certificate_end(const char *pem, time_t *ret);

const char *key_failure(void); // why OpenSSL's last call failed, for modsign.c too; empties its queue of errors
