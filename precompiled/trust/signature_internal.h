// SPDX-License-Identifier: Apache-2.0
// The encodings of signatures (cosign_tag.c, sigstore_bundle.c), and what they and signature.c share.
#pragma once
#include "precompiled/trust/signature.h"

#define SIGNATURE_PREDICATE "https://sigstore.dev/cosign/sign/v1"

// A signed statement, independent of its encoding.
struct signature_claim {
	struct strv digests; // of the manifests it signs, as hex
	char *text;          // the signed bytes
	size_t text_len;
	char *signature;
	size_t signature_len;
	char hint[DIGEST_HEX + 1]; // the id of the key it claims; "" = not stated
};
static inline void signature_claim_done(struct signature_claim *c)
{
	strv_done(&c->digests);
	free(c->text);
	free(c->signature);
	*c = (struct signature_claim){ 0 };
}
#define auto_signature_claim __attribute__((cleanup(signature_claim_done)))
static inline bool signature_claim_holds(const struct signature_claim *c, const struct key *key,
					 const char *manifest_hex)
{
	return strv_has(&c->digests, manifest_hex) &&
	       key_verify(key, c->text, c->text_len, c->signature, c->signature_len);
}

// The older encoding. d is the payload's descriptor: the signature is one of its annotations. E_MANIFEST: not valid.
char *cosign_tag_name(const char *manifest_hex);
int cosign_tag_claim(const struct oci_descriptor *d, const char *payload, size_t len, struct signature_claim *ret,
		     struct err *err);
// Adds to the signatures in the manifest under the tag. 1 = changed.
int cosign_tag_merge(const struct layout *l, struct oci_index *x, const char *manifest_hex,
		     const struct oci_descriptor *layers, size_t count, struct err *err);
int cosign_tag_make(const struct layout *l, struct oci_index *x, const char *manifest_hex,
		    const struct signature_maker *maker, struct err *err);

// The newer one, and CMS: a manifest whose subject is the package, and one blob. 0 = the bundle is another kind of
// attestation than a signature.
int sigstore_bundle_claim(const char *data, size_t len, const char *name, struct signature_claim *ret, struct err *err);
// Which of the two a manifest holds; NULL = neither.
const char *signature_referrer_type(const struct oci_manifest *m);
char *signature_referrer_tag(const char *manifest_hex);
// Adds to the index under the tag. text: of the manifest. 1 = changed.
int signature_referrer_merge(const struct layout *l, struct oci_index *x, const char *manifest_hex, const char *text,
			     size_t len, struct err *err);
int sigstore_bundle_make(const struct layout *l, struct oci_index *x, const struct oci_descriptor *manifest,
			 const struct signature_maker *maker, struct err *err);
int signature_make_cms(const struct layout *l, struct oci_index *x, const struct oci_descriptor *manifest,
		       const struct signature_maker *maker, struct err *err);
