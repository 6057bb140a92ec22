// SPDX-License-Identifier: Apache-2.0
// Get a package from the first of an ordered list of repositories that has it and is believed.
//
// Looking (fetch_find) reads documents only: manifest, configuration, signatures. Taking (fetch_take) brings the layer
// into a layout and unpacks it while it arrives. A source that fails costs a note and the next one is asked (R-I1);
// because blobs are named by digest, a cut transfer goes on from the next mirror where it stopped.
#pragma once
#include "precompiled/package/candidate.h"
#include "precompiled/trust/provenance.h"

struct fetch {
	const struct strv *from; // names of repositories, in order
	const struct repository_options *options;
	const struct trust *trust;           // NULL = nothing is demanded: named by hand, or --insecure-skip-verify
	bool is_unverified;                  // the latter: it is counted
	bool is_compiled_here;               // for this machine, in another container: that is how a store remembers it
	const struct trust_now *now_trusted; // what lies in the store is judged by this; NULL = it is not
	struct err *down; // per source: why it could not be reached, so that it is asked once; NULL = not remembered
	const struct root *state;                  // scratch, and the catalogue numbers seen; must outlive packages
	time_t now;                                // for what expires
	void (*note)(void *ctx, const char *text); // an event worth a line; may be NULL
	void (*progress)(void *ctx, uint64_t done, uint64_t total); // bytes of the layer; may be NULL
	void *ctx;
};

struct fetch_result {
	struct package_candidate candidate;
	struct repository *repository;
	size_t source;                // position in from
	char *signers;                // names of the keys that vouch for it, "" = none is demanded; NULL = not verified
	struct provenance provenance; // as a store remembers it
};
void fetch_result_done(struct fetch_result *f);
#define auto_fetch_result __attribute__((cleanup(fetch_result_done)))
#define FETCH_RESULT_NONE ((struct fetch_result){ .candidate = CANDIDATE_NONE })

// 0 = found. E_NO_PACKAGE: no source has it; or the code of the first source that failed for another reason. The
// message has one clause per source.
int fetch_find(const struct fetch *f, const struct package_want *want, struct fetch_result *ret, struct err *err);
// Afterwards found->offer.package is unpacked, and into has it with its signatures and its tag. Another source, when
// this one fails half-way, must have a package that fits, too.
int fetch_take(const struct fetch *f, const struct package_want *want, struct fetch_result *found,
	       const struct layout *into, struct err *err);

// What a source offers beside packages, signed as they are.
struct fetch_item {
	const char *tag;
	// Is what the repository has under the tag what is wanted? 1 = yes, with the digest of its manifest; 0 = no.
	int (*fits)(void *ctx, struct repository *r, char ret_hex[DIGEST_HEX + 1], char **ret_why, struct err *err);
	void *ctx;
};
// From the first source that has it and is believed: into has it under its tag, with its signatures. into may be NULL:
// only look. Errors as fetch_find().
int fetch_item(const struct fetch *f, const struct fetch_item *item, const struct layout *into,
	       char ret_hex[DIGEST_HEX + 1], struct err *err);

// Which sources can be reached at all.
// Asks the remote ones of names, from first on, side by side, so that a black-holed network costs one deadline and not
// one for each source (R-A10). ret has an entry per name from first on: .code 0 = it answers, or was not asked: local
// ones are not, and a single remote one will be asked anyway.
void fetch_probe(const struct strv *names, size_t first, const struct repository_options *options, struct err *ret);
