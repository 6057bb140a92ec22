// SPDX-License-Identifier: Apache-2.0
// build: one pair (build.c), or all that a file lists (build_matrix.c).
#pragma once
#include "acquire/matrix.h"
#include "cmd/common/job.h"

struct build_values {
	struct job_values job;
	char *kernel, *output, *matrix, *nodes;
	bool is_partial;
};
int build_matrix(const struct build_values *v, struct err *err); // exit status, or negative

// What became of one driver and one kernel of a matrix.
enum build_result {
	BUILD_BUILT,
	BUILD_PRESENT,
	BUILD_FETCHED,
	BUILD_SKIPPED,
	BUILD_REFUSED,
	BUILD_FAILED,
	BUILD_RESULTS
};
struct build_pair {
	enum build_result result;
	char *driver; // version; NULL = the source could not be opened
	const char *source, *release;
	enum flavour flavour;
	char *tag, *digest; // NULL = there is no package
	struct err err;     // why not; .code 0 = see why
	const char *why;    // of a skip
	double seconds;
};
struct build_pairs {
	struct build_pair *items;
	size_t count;
	size_t counts[BUILD_RESULTS];
};
void build_pairs_done(struct build_pairs *pairs);
void build_pairs_show(const struct build_pairs *pairs, const char *output, bool is_json);

// Who has the package of these inputs, and not merely one for the same driver and kernel: THERE, the output; FETCHED, a
// source of fetch, believed as for a node, and the output has it now, with its signatures. A source that fails costs a
// note. 1 = one of them, 0 = nobody.
int build_find_existing(const struct fetch *fetch, const struct layout *output, const struct package_key *key,
			enum build_result *ret_result, struct package *ret, struct err *err);
