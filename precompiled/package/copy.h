// SPDX-License-Identifier: Apache-2.0
// Copies packages, their signatures and catalogues between repositories with unchanged digests, always through a layout
// that checks every byte.
#pragma once
#include "precompiled/repository/repository.h"

// Copies what ref (tag or "sha256:HEX") names with its blobs (in parallel) and signatures. 1 = done, 0 = absent.
// E_LOCKED: another process is writing one of the blobs.
int copy_to_layout(struct repository *from, const char *ref, const struct layout *to, struct err *err);

// Copies everything in the layout's index. A tag is pushed only after its content and signatures, so that a node never
// sees half a package. note is called for each tag; may be NULL.
int copy_to_repository(const struct layout *from, struct repository *to, void (*note)(void *ctx, const char *text),
		       void *ctx, struct err *err);
