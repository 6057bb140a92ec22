// SPDX-License-Identifier: Apache-2.0
// The encodings of signatures: signature_make.c writes them, signature.c checks them.
#pragma once
#include "precompiled/trust/signature.h"

// A signed statement, independent of its encoding.
struct signature_claim {
	struct strv digests; // of the manifests it signs, as hex
	char *payload;       // of a bundle: the statement
	size_t payload_len;
	char *text; // the signed bytes
	size_t text_len;
	char *signature;
	size_t signature_len;
	char hint[DIGEST_HEX + 1]; // the id of the key it claims; "" = not stated
};
static inline void signature_claim_done(struct signature_claim *c)
{
	strv_done(&c->digests);
	free(c->payload);
	free(c->text);
	free(c->signature);
	*c = (struct signature_claim){ 0 };
}
#define auto_signature_claim __attribute__((cleanup(signature_claim_done)))

// The older encoding. d is the payload's descriptor: the signature is one of its annotations. E_MANIFEST: not valid.
int signature_cosign_claim(const struct oci_descriptor *d, const char *payload, size_t len, struct signature_claim *ret,
			   struct err *err);
static inline char *signature_cosign_tag(const char *manifest_hex)
{
	return str_fmt("sha256-%s.sig", manifest_hex);
}

// The newer one: a manifest whose subject is the package, and one blob. 0 = the bundle is another kind of attestation
// than a signature.
int signature_bundle_claim(const char *data, size_t len, const char *name, struct signature_claim *ret,
			   struct err *err);
// The same for the statement of how a package was built (statement.h). 0 = another attestation.
int signature_attestation_claim(const char *data, size_t len, const char *name, struct signature_claim *ret,
				struct err *err);
// Does it have our build type, so that we know what its parameters mean?
bool statement_is_ours(const json_t *statement);
// Whether a manifest holds one.
bool signature_is_bundle(const struct oci_manifest *m);
