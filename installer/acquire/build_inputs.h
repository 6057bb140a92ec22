// SPDX-License-Identifier: Apache-2.0
// What a package was built from, as the statement about it says (precompiled/trust/statement.h): dependencies with
// their digests, and the parameters that decide the bytes. The same inputs give the same text: no clock, no path and no
// name of this machine is in it.
#pragma once
#include "acquire/compile.h"
#include "precompiled/package/package.h"

// The driver source and the kernel headers: package files each by its SHA-256, another tree by one over the names and
// contents of the directories that a compile sees.
int build_inputs_open(const struct compile_request *request, const struct tree *tree, json_t **ret, struct err *err);
// The root of the builder image.
int build_inputs_builder(const struct root *base, json_t *inputs, struct err *err);
// The statement's predicate for what was compiled of them.
json_t *build_inputs_predicate(const struct tree *tree, const struct build_outcome *done, const struct package_key *key,
			       json_t *inputs);
