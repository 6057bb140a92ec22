// SPDX-License-Identifier: Apache-2.0
// Unpack a package's layer into a directory that goes away with the package, while its bytes still arrive or from a
// layout that has it. What is unpacked counts for nothing until the digest of the layer was right: a failure leaves no
// file behind.
#pragma once
#include "precompiled/oci/partial_blob.h"
#include "precompiled/package/package.h"

// From a layout's blob. E_STORE_CORRUPT: its bytes are not what its name says. state must outlive the package.
int unpack_package(const struct layout *from, const struct root *state, struct package *p, struct err *err);

// From a part that grows: more() brings bytes, 1 = go on, 0 = all of them are there. The part is committed.
struct unpack_stream {
	struct partial_blob *part;
	int (*more)(void *ctx, struct err *err);
	void *ctx;
};
int unpack_stream(const struct unpack_stream *feed, const struct root *state, struct package *p, struct err *err);
