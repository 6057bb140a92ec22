// SPDX-License-Identifier: Apache-2.0
// Signatures of packages: created next to a package in a layout, and checked for any repository.
//
// A signature covers the digest of the package's manifest, and through it every byte. It is stored in two encodings for
// other programs: cosign's older one, a manifest under the tag sha256-HEX.sig whose layers are the signed statements,
// and its newer one, a "bundle" in a manifest that has the package as its subject and is listed in the index under the
// tag sha256-HEX. Each alone is enough. The fields of that index are not trusted: every manifest is read.
#pragma once
#include "precompiled/repository/repository.h"
#include "precompiled/trust/trust.h"

enum { SIGNATURE_COUNT_MAX = 64, SIGNATURE_SIZE_MAX = 1 << 20 }; // of one manifest's signatures; bytes of one

#define SIGNATURE_COSIGN_TAG "application/vnd.dev.cosign.simplesigning.v1+json"
#define SIGNATURE_BUNDLE "application/vnd.dev.sigstore.bundle.v0.3+json"
#define SPDX_TYPE "application/spdx+json" // a bill of materials, not signed by itself

// The signer, and the identity to state.
struct signature_maker {
	const struct key *key;
	const char *reference; // "HOST/REPOSITORY", as in a pull; default "kmodsmith"
	time_t now;
};
// Signs a manifest in the layout. 1 = signed, 0 = all signatures of this key existed.
int signature_make(const struct layout *l, const struct oci_descriptor *manifest, const struct signature_maker *maker,
		   struct err *err);
// Signs manifests with each of the keys. ret_made[i] = one of them signed the manifest i.
int signature_make_all(const struct layout *l, const struct oci_descriptor *manifests, size_t count,
		       const struct signature_maker *makers, size_t maker_count, bool *ret_made, struct err *err);

// Publishes a JSON document as an artifact (artifact.h): signed with each key, then tagged, so that no reader sees
// it unsigned. The previous one is removed with its signatures.
int signature_publish(const struct layout *l, const char *type, const char *tag, const json_t *json,
		      const struct signature_maker *makers, size_t count, struct err *err);

// Lists a document about a manifest beside its signatures, instead of an earlier one of this type, the type of its
// layer. notes: annotations; NULL = none. 1 = done, 0 = it was there.
int signature_attach(const struct layout *l, const struct oci_descriptor *manifest, const char *type,
		     const json_t *notes, const char *text, struct err *err);

struct signature_verdict {
	struct strv ids, names;    // of the rule's keys that signed; their names
	bool is_unsigned_accepted; // it has no valid signature, and the rule accepts that
};
static inline void signature_verdict_done(struct signature_verdict *v)
{
	strv_done(&v->ids);
	strv_done(&v->names);
	*v = (struct signature_verdict){ 0 };
}
#define auto_signature_verdict __attribute__((cleanup(signature_verdict_done)))
// 0 = enough keys of the rule signed the manifest, and what else the rule demands of a package holds: the statement of
// how it was built, its driver source. E_UNSIGNED: there is no signature; E_UNTRUSTED: too few or none are by keys of
// the rule; E_FORGED: one claims to be but does not verify, covers another manifest or a statement that is false.
int signature_check(struct repository *r, const char *manifest_hex, const struct trust_rule *rule,
		    struct signature_verdict *ret, struct err *err);
// 1 = it has a signature of any kind; 0 = none.
int signature_exists(struct repository *r, const char *manifest_hex, struct err *err);
// Copies all signatures of a manifest, and the documents about it. 1 = there were some, 0 = none.
int signature_copy(struct repository *from, const char *manifest_hex, const struct layout *to, struct err *err);
