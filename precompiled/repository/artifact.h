// SPDX-License-Identifier: Apache-2.0
// A JSON document as an artifact: a manifest with the empty configuration and one layer, both of the document's type.
// What a source offers (catalog.h), what a bundle promises (bundle_manifest.h) and how a package came into a store
// (provenance.h) are such.
#pragma once
#include "precompiled/repository/repository.h"

// Blobs of the layout; the index is not touched, so that what is signed before it gets its tag is never seen unsigned.
// subject: the manifest that it is about; NULL = it is about none.
int artifact_put(const struct layout *l, const char *type, const struct oci_descriptor *subject, const json_t *json,
		 struct oci_descriptor *ret, struct err *err);
// Under the tag; the one before goes, with what signed it.
int artifact_publish(const struct layout *l, const struct oci_descriptor *d, const char *tag, struct err *err);
// The document behind the bytes of a manifest. E_MANIFEST: it is of another type.
int artifact_read(struct repository *r, const char *tag, const char *type, const char *manifest, size_t len, char **ret,
		  size_t *ret_len, struct err *err);
