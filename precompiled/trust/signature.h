// SPDX-License-Identifier: Apache-2.0
// Signatures of packages: made beside a package in a layout, and checked wherever the package comes from.
//
// A signature covers the digest of the package's manifest, and through it every byte. It is kept in two encodings, so
// that other programs find it: cosign's older one, a manifest under the tag sha256-HEX.sig whose layers are the signed
// statements, and its newer one, a "bundle" in a manifest that names the package as its subject and is listed in the
// index under the tag sha256-HEX. A third is optional: a CMS signature over the manifest itself, listed in the same
// index. Each alone is enough. What other programs write into that index is not believed: every manifest is opened.
#pragma once
#include "precompiled/repository/repository.h"
#include "precompiled/trust/trust.h"

enum { SIGNATURE_COUNT_MAX = 64, SIGNATURE_SIZE_MAX = 1 << 20 }; // of one manifest's signatures; bytes of one

#define SIGNATURE_COSIGN_TAG "application/vnd.dev.cosign.simplesigning.v1+json"
#define SIGNATURE_BUNDLE "application/vnd.dev.sigstore.bundle.v0.3+json"
#define SIGNATURE_CMS "application/pkcs7-signature"

// Who signs, and as what.
struct signature_maker {
	const struct key *key;
	const char *reference;          // "HOST/REPOSITORY", as in a pull; "kmodsmith" where there is none
	const char *chain, *chain_name; // PEM, for a CMS signature as well; NULL = none
	time_t now;
};
// Beside the manifest, in the layout and its index. 1 = made, 0 = the key's signatures were all there.
int signature_make(const struct layout *l, const struct oci_descriptor *manifest, const struct signature_maker *maker,
		   struct err *err);

struct signature_verdict {
	struct strv ids, names;    // of the keys of the rule that signed; the names of those with one
	bool is_unsigned_accepted; // it has no signature, and the rule takes it so
};
void signature_verdict_done(struct signature_verdict *v);
#define auto_signature_verdict __attribute__((cleanup(signature_verdict_done)))
// 0 = as many keys of the rule signed the manifest as it demands. E_UNSIGNED: there is no signature; E_UNTRUSTED: too
// few or none are by keys of the rule; E_FORGED: one says that it is, or covers another manifest, and does not hold.
int signature_check(struct repository *r, const char *manifest_hex, const struct trust_rule *rule,
		    struct signature_verdict *ret, struct err *err);
// 1 = somebody signed it, whoever that is; 0 = nobody did.
int signature_exists(struct repository *r, const char *manifest_hex, struct err *err);
// Brings the signatures of a manifest along, whoever made them. 1 = there were some, 0 = none.
int signature_copy(struct repository *from, const char *manifest_hex, const struct layout *to, struct err *err);
