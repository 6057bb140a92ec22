// SPDX-License-Identifier: Apache-2.0
// The statement of how a package was built: an in-toto statement with SLSA's provenance predicate, as other programs
// write and read it. It is a manifest whose subject is the package, listed beside the signatures and copied with them;
// `kmodsmith sign` adds it in an envelope of each key (signature_make.c). Not to be confused with provenance.h: how a
// package came into this store.
//
// The package's labels say the same as far as they go, and are covered by its digest: a statement that contradicts them
// is false, whoever signed it. What only the statement has are the inputs themselves, of which the package can be built
// again.
#pragma once
#include "precompiled/trust/signature.h"

#define PACKAGE_TYPE "application/vnd.kmodsmith.kmod.package.v1"
#define STATEMENT_TYPE "application/vnd.in-toto+json"
#define STATEMENT_PREDICATE "https://slsa.dev/provenance/v1"
#define STATEMENT_BUILD_TYPE "https://kmodsmith.io/build/v1"
// Names of resolved dependencies.
#define STATEMENT_SOURCE "driver-source"
#define STATEMENT_HEADERS "kernel-headers"
#define STATEMENT_PATCH "patch/"
#define STATEMENT_BUILDER "builder"
#define STATEMENT_CORE "core/"

// Lists the statement with this predicate for a package of the layout, instead of an earlier one that is not signed.
int statement_put(const struct layout *l, const struct oci_descriptor *manifest, const char *tag,
		  const json_t *predicate, struct err *err);
// Reads the statement about a package, signed or not; nothing is verified. 1 = found, 0 = none is ours.
int statement_read(struct repository *r, const char *manifest_hex, json_t **ret, struct err *err);
// Returns how it contradicts the package with these labels; caller frees. NULL = not at all.
char *statement_contradiction(const json_t *statement, const char *manifest_hex, const json_t *labels);
// 1 = a package, and its labels; 0 = the manifest is something else.
int statement_labels(struct repository *r, const char *manifest_hex, json_t **ret, struct err *err);

// The SOURCE_DATE_EPOCH of the build, which is in the bytes of the package: sets or unsets the variable.
void statement_set_time(const json_t *statement);
const json_t *statement_external(const json_t *statement); // externalParameters
const json_t *statement_internal(const json_t *statement); // internalParameters
const json_t *statement_dependencies(const json_t *statement);
// The SHA-256 of a dependency; NULL = it has none, or is not an object.
const char *statement_dependency_digest(const json_t *dependency);
