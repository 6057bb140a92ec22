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
enum pair_result { PAIR_BUILT, PAIR_THERE, PAIR_FETCHED, PAIR_SKIPPED, PAIR_REFUSED, PAIR_FAILED, PAIR_RESULTS };
struct pair {
	enum pair_result result;
	char *driver; // version; NULL = the source could not be opened
	const char *source, *release;
	enum flavour flavour;
	char *tag, *digest; // NULL = there is no package
	struct err err;     // why not; .code 0 = see why
	const char *why;    // of a skip
	double seconds;
};
struct pairs {
	struct pair *items;
	size_t count;
	size_t counts[PAIR_RESULTS];
};
void pairs_done(struct pairs *pairs);
void pairs_show(const struct pairs *pairs, const char *output, bool is_json);

// Who has the package of these inputs, and not merely one for the same driver and kernel: THERE, the output; FETCHED, a
// source of fetch, believed as for a node, and the output has it now, with its signatures. A source that fails costs a
// note. 1 = one of them, 0 = nobody.
int pair_look(const struct fetch *fetch, const struct layout *output, const struct package_key *key,
	      enum pair_result *ret_result, struct package *ret, struct err *err);
