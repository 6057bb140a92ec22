// SPDX-License-Identifier: Apache-2.0
// The one layer of what we publish: a tar+zstd whose bytes depend on its content alone.
#pragma once
#include "base/archive/pack.h"
#include "precompiled/oci/layout.h"

struct layer {
	struct oci_descriptor blob;
	char diff_id[DIGEST_HEX + 1]; // digest of the tar inside
};
void layer_done(struct layer *l);
#define auto_layer __attribute__((cleanup(layer_done)))
// A blob of the layout, with what fill puts in. title: a file name for clients that write layers to disk.
int layer_make(const struct layout *into, const char *title, int (*fill)(void *ctx, struct pack *p, struct err *err),
	       void *ctx, struct layer *ret, struct err *err);
