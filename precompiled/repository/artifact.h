// SPDX-License-Identifier: Apache-2.0
// A JSON document as an OCI artifact: a manifest with the empty configuration and one layer, both of the document's
// type. Catalogues (catalog.h), bundle manifests (bundle_manifest.h) and provenance records (provenance.h) are stored
// this way.
#pragma once
#include "precompiled/repository/repository.h"

// Adds its blobs to the layout. The index is not changed, so the artifact can be signed before it is tagged. subject:
// the manifest it refers to; NULL = none.
int artifact_put(const struct layout *l, const char *type, const struct oci_descriptor *subject, const json_t *json,
		 struct oci_descriptor *ret, struct err *err);
// The document of a manifest. E_MANIFEST: another type.
int artifact_read(struct repository *r, const char *tag, const char *type, const char *manifest, size_t len, char **ret,
		  size_t *ret_len, struct err *err);
