// SPDX-License-Identifier: Apache-2.0
// How a package came into a node's store, and whether its signers are still trusted: removing a key also affects
// packages accepted with it earlier.
//
// The record is an artifact in the store whose subject is the package, like a signature: it has a digest, garbage
// collection keeps both or neither, and it does not leave the machine with the package. The latest origin counts. A
// package taken by an older version has no record: if signed, some entry of the policy must accept the signatures; if
// unsigned, it counts as given by hand.
//
// Current keys and thresholds apply, for the original repository.
#pragma once
#include "precompiled/trust/signature.h"

#define PROVENANCE_TYPE "application/vnd.kmodsmith.provenance.v1+json"

enum provenance_origin {
	PROVENANCE_UNKNOWN,    // no record, but signed
	PROVENANCE_FETCHED,    // from .source, accepted by the policy
	PROVENANCE_BY_HAND,    // --package, pack; or no record and unsigned
	PROVENANCE_COMPILED,   // on this machine
	PROVENANCE_UNVERIFIED, // --insecure-skip-verify
};

struct provenance {
	enum provenance_origin origin;
	bool is_recorded;
	char *source;           // the repository, if fetched
	struct strv names, ids; // the keys whose signatures were accepted
	uint64_t catalog;       // the catalogue that listed it; 0 = none
	time_t taken;           // 0 = built here
};
void provenance_done(struct provenance *p);
#define auto_provenance __attribute__((cleanup(provenance_done)))

// Replaces an earlier record. Does nothing if the layout is not a store.
int provenance_write(const struct layout *l, const struct oci_descriptor *manifest, const struct provenance *p,
		     struct err *err);
// 0 = it may be used, and *ret (may be NULL) has its origin. E_UNTRUSTED, E_UNSIGNED, E_FORGED: it may not; or the
// error of reading the trust directory, if that is needed. Without a trust directory, earlier decisions stand. ret is
// filled in on failure as well.
int provenance_check(const struct layout *l, const char *manifest_hex, const struct trust_now *now,
		     struct provenance *ret, struct err *err);
// Accepted by its signatures, so the trust directory decides.
static inline bool provenance_is_vouched(const struct provenance *p)
{
	return p->origin == PROVENANCE_FETCHED || p->origin == PROVENANCE_UNKNOWN;
}
// Records an unsigned package from before there were records as given by hand, on its first use. Ignores a read-only
// store.
void provenance_remember(const struct layout *l, const struct oci_descriptor *manifest);
char *provenance_text(const struct provenance *p);   // "signed by release", "compiled here", ...
json_t *provenance_json(const struct provenance *p); // the record

// How often this machine took a package without checking who signed it: STATE/unverified.json. It is a fact about the
// machine that outlives the log line.
int provenance_count_unverified(const struct root *state, const char *tag, struct err *err);
// 1 = it happened, with the number and the last tag (caller frees); 0 = never.
int provenance_read_unverified(const struct root *state, uint64_t *ret_count, char **ret_last, struct err *err);
