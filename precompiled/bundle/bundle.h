// SPDX-License-Identifier: Apache-2.0
// A bundle: an OCI layout as one uncompressed tar, which skopeo and others read as oci-archive. It appears complete or
// not at all, and the same layout always gives the same bytes.
#pragma once
#include "precompiled/bundle/bundle_manifest.h"

// Checks before the work whether file can be written: its directory exists, and it would only replace a regular file.
int bundle_check_place(const char *file, struct err *err);
// Writes oci-layout, index.json and every complete blob; partial blobs are left out.
int bundle_write(const struct layout *l, const char *file, struct err *err);

struct bundle_report {
	struct bundle_manifest manifest;
	char *signers;       // names of the keys that signed the manifest
	struct strv missing; // "package DRIVER FLAVOUR KERNEL ARCH: why"
	struct strv damaged; // "blobs/sha256/HEX ..."
	size_t blobs;
	uint64_t bytes; // read
};
void bundle_report_done(struct bundle_report *r);
#define auto_bundle_report __attribute__((cleanup(bundle_report_done)))
// Verifies signatures, completeness and the digest of every blob. 0 = all good; 1 = something is missing or damaged.
// E_UNSIGNED, E_UNTRUSTED, E_FORGED: the manifest or a package; E_EXPIRED; E_NOT_FOUND: there is no manifest.
int bundle_verify(const char *file, const struct trust *trust, time_t now, struct bundle_report *ret, struct err *err);
