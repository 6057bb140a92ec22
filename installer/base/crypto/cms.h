// SPDX-License-Identifier: Apache-2.0
// Detached CMS signatures (RFC 5652) whose signer's certificate leads to an anchor, for sites that have an X.509 chain
// and revocation lists and no list of single keys.
#pragma once
#include "base/crypto/key.h"

#include <time.h>

struct anchor; // trusted certificates, and the revocation lists that came with them
int cms_anchor_parse(const char *pem, const char *name, struct anchor **ret, struct err *err); // E_KEY: no certificate
void cms_anchor_free(struct anchor *a);
static inline void anchor_freep(struct anchor **a)
{
	cms_anchor_free(*a);
}
#define auto_anchor __attribute__((cleanup(anchor_freep)))

bool cms_fits(const struct key *k, const char *chain); // the first certificate is the key's
// chain: PEM, the certificate of the key first, then those that lead to the anchor; all go into the signature.
int cms_sign(const struct key *k, const char *chain, const char *name, const void *data, size_t len, char **ret,
	     size_t *ret_len, struct err *err);

struct cms_verdict {
	char id[DIGEST_HEX + 1]; // of the signer's key, 64 hex digits
	char *subject;           // of its certificate
	char *why;               // why it is not trusted; NULL = it is
	bool is_wrong;           // the content does not match the signature
};
void cms_verdict_done(struct cms_verdict *v);
#define auto_cms_verdict __attribute__((cleanup(cms_verdict_done)))
// The certificate must lead to the anchor at that time, be in no revocation list, and be made for signing code or for
// no purpose in particular: an authority that also serves web servers does not make each of them a publisher.
// is_kept: the content was trusted and stored at that time. A certificate that has expired since then is not a
// revocation, and revocation lists count whatever their own dates are.
// 1 = trusted, 0 = not: see why.
int cms_verify(const struct anchor *a, time_t at, bool is_kept, const void *cms, size_t cms_len, const void *data,
	       size_t len, struct cms_verdict *ret);

// When the first certificate of a PEM text ends; false = it has none.
bool cms_certificate_end(const char *pem, time_t *ret);
