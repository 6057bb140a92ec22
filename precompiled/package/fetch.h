// SPDX-License-Identifier: Apache-2.0
// Gets a package from the first trusted repository of an ordered list that has it.
//
// fetch_find reads documents only: manifest, configuration, signatures. fetch_take downloads the layer into a layout
// and unpacks it while it arrives. A failing source is noted and the next one is tried (R-I1); because blobs are named
// by digest, an interrupted transfer resumes from the next mirror.
#pragma once
#include "precompiled/package/package.h"
#include "precompiled/repository/repository.h"

// A package in a repository: its documents, read and compared with the request; the layer is not read.
struct package_candidate {
	struct package package; // not unpacked
	char *manifest, *config;
	size_t manifest_len, config_len;
};
void package_candidate_done(struct package_candidate *o);
#define auto_candidate __attribute__((cleanup(package_candidate_done)))
#define CANDIDATE_NONE ((struct package_candidate){ .package = PACKAGE_NONE })
// By tag or "sha256:HEX". 0 = absent, or not a package.
int package_candidate_read(struct repository *r, const char *ref, struct package_candidate *ret, struct err *err);

struct fetch {
	const struct strv *from; // names of repositories, in order
	const struct repository_options *options;
	const struct trust *trust;           // NULL = no checks: given by hand, or --insecure-skip-verify
	bool is_unverified;                  // --insecure-skip-verify: uses are counted
	bool is_compiled_here;               // built for this machine in another container; recorded as such
	const struct trust_now *now_trusted; // checks packages of the store; NULL = they are not checked
	const struct strv *builders; // builder roots named by digest, "NAME@sha256:HEX" or "sha256:HEX"; NULL = none
	struct err *down;            // per source: why it is unreachable, so that it is tried once; NULL = not kept
	const struct root *state;    // scratch, and the catalogue numbers seen; outlives the packages
	time_t now;                  // for expiry dates
	void (*note)(void *ctx, const char *text);                  // an event worth a line; may be NULL
	void (*progress)(void *ctx, uint64_t done, uint64_t total); // bytes of the layer; may be NULL
	void *ctx;
};

struct fetch_result {
	struct package_candidate candidate;
	struct repository *repository;
	size_t source;                // position in from
	char *signers;                // names of the keys that signed it, "" = none is required; NULL = not verified
	struct provenance provenance; // as the store records it
};
void fetch_result_done(struct fetch_result *f);
#define auto_fetch_result __attribute__((cleanup(fetch_result_done)))
#define FETCH_RESULT_NONE ((struct fetch_result){ .candidate = CANDIDATE_NONE })

// Finds the best matching package of a source. If driver, flavour, release and architecture are all given, by its tag;
// a tag of a package that does not match counts as absent. Otherwise among all tags (newest driver first); where a
// branch is wanted, an untrusted one is noted and passed over for an older one of the same source.
// 0 = found. E_NO_PACKAGE: no source has it; or the code of the first source that failed for another reason. The
// message has one clause per source.
int fetch_find(const struct fetch *f, const struct package_want *want, struct fetch_result *ret, struct err *err);
// Afterwards found->candidate.package is unpacked, and into has it with its signatures and tag. If the source fails
// half way, the next one with a matching package is used.
int fetch_take(const struct fetch *f, const struct package_want *want, struct fetch_result *found,
	       const struct layout *into, struct err *err);

// Content of a source besides packages, signed like them.
struct fetch_item {
	const struct strv *tags; // the first that a repository has and that matches is taken
	// Does the repository's tag match the request? 1 = yes, with the digest of its manifest; 0 = no.
	int (*fits)(void *ctx, struct repository *r, const char *tag, char ret_hex[DIGEST_HEX + 1], char **ret_why,
		    struct err *err);
	void *ctx;
};
// Copies it with tag and signatures from the first trusted source that has it, *ret_source of f->from. into may be
// NULL: only check. Errors as fetch_find().
int fetch_item(const struct fetch *f, const struct fetch_item *item, const struct layout *into,
	       char ret_hex[DIGEST_HEX + 1], size_t *ret_source, struct err *err);

// Which sources can be reached. Probes the remote names from first on in parallel, so that a black-holed network costs
// one deadline instead of one per source (R-A10). ret has an entry per name from first on: .code 0 = it answers or was
// not probed: local ones are not, nor is a single remote one, which will be used anyway.
void fetch_probe(const struct strv *names, size_t first, const struct repository_options *options, struct err *ret);
