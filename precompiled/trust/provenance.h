// SPDX-License-Identifier: Apache-2.0
// How a package came into a node's store, and whether whoever vouched for it then is still believed: a key that was
// taken away counts no more for what was taken under it.
//
// The record is an artifact in the store whose subject is the package, as a signature is: its bytes have a digest, what
// collects garbage keeps both or neither, and nothing of it leaves the machine with the package. How a package came
// last is what counts. One that an older version took has no record, and is judged by what it holds: signed, and some
// entry of the policy must accept the signatures; not signed, and it was handed over by hand.
//
// Keys, thresholds, anchors and revocation lists are those of now, for the repository of then. Only certificates are
// judged at the time when the package was taken: one that ran out since is no revocation.
#pragma once
#include "precompiled/trust/signature.h"

#define PROVENANCE_TYPE "application/vnd.kmodsmith.provenance.v1+json"

enum provenance_origin {
	PROVENANCE_UNKNOWN,    // no record, and somebody signed it
	PROVENANCE_FETCHED,    // from .source, believed as the policy demanded
	PROVENANCE_BY_HAND,    // --package, pack; or no record, and nobody signed it
	PROVENANCE_COMPILED,   // on this machine
	PROVENANCE_UNVERIFIED, // --insecure-skip-verify
};

struct provenance {
	enum provenance_origin origin;
	bool is_recorded;
	char *source;           // of what was fetched: the repository
	struct strv names, ids; // and whose signatures were enough for it: keys
	uint64_t catalog;       // that listed it; 0 = there was none
	time_t taken;           // 0 = it was made here
};
void provenance_done(struct provenance *p);
#define auto_provenance __attribute__((cleanup(provenance_done)))

// In place of an earlier one. Does nothing where the layout is no store.
int provenance_write(const struct layout *l, const struct oci_descriptor *manifest, const struct provenance *p,
		     struct err *err);
// 0 = it may be used, and *ret (may be NULL) says how it came. E_UNTRUSTED, E_UNSIGNED, E_FORGED: it may not; or why
// the trust directory cannot be read, where that is needed. Where there is none, what was believed when it came still
// is. ret is filled in on failure, too.
int provenance_check(const struct layout *l, const char *manifest_hex, const struct trust_now *now,
		     struct provenance *ret, struct err *err);
bool provenance_is_vouched(const struct provenance *p); // by signatures, of which the trust directory is asked
// What came before there were records and nobody signed is remembered as handed over, once it is used. A store that
// cannot be written is none the worse.
void provenance_remember(const struct layout *l, const struct oci_descriptor *manifest);
char *provenance_text(const struct provenance *p);   // "signed by release", "compiled here", ...
json_t *provenance_json(const struct provenance *p); // of the record

// How often this machine took a package without checking who signed it: STATE/unverified.json. It is a fact about the
// machine that outlives the log line.
int provenance_count_unverified(const struct root *state, const char *tag, struct err *err);
// 1 = it happened, with the number and the last tag (caller frees); 0 = never.
int provenance_read_unverified(const struct root *state, uint64_t *ret_count, char **ret_last, struct err *err);
