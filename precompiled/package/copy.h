// SPDX-License-Identifier: Apache-2.0
// Copy packages, their signatures and catalogues between repositories, digests unchanged. In the middle there is always
// a layout, where every byte is checked.
#pragma once
#include "precompiled/repository/repository.h"

// What ref (tag or "sha256:HEX") names, with all its blobs side by side and its signatures. 1 = done, 0 = absent.
// E_LOCKED: another process brings one of the blobs just now.
int copy_to_layout(struct repository *from, const char *ref, const struct layout *to, struct err *err);

// Everything that the layout's index names. A tag appears only when what it points to is complete, signatures included,
// so that a node never sees half of a package. note, for each tag: may be NULL.
int copy_to_repository(const struct layout *from, struct repository *to, void (*note)(void *ctx, const char *text),
		       void *ctx, struct err *err);
