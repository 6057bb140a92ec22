// SPDX-License-Identifier: Apache-2.0
// Unpacks a package's layer, from a layout or while it is still arriving, to a directory that is deleted with the
// package. The files are not used until the digest of the layer matches: a failure leaves no file behind.
#pragma once
#include "precompiled/oci/partial_blob.h"
#include "precompiled/package/package.h"

// From a blob of a layout. E_STORE_CORRUPT: its content does not match its digest. state must outlive the package.
int unpack_package(const struct layout *from, const struct root *state, struct package *p, struct err *err);

// From a growing part: more() adds bytes, 1 = continue, 0 = complete. The part is committed.
struct unpack_stream {
	struct partial_blob *part;
	int (*more)(void *ctx, struct err *err);
	void *ctx;
};
int unpack_stream(const struct unpack_stream *feed, const struct root *state, struct package *p, struct err *err);
