// SPDX-License-Identifier: Apache-2.0
// A bundle: an OCI layout as one uncompressed tar, which skopeo and others read as oci-archive. It appears whole or not
// at all, and the same layout always gives the same bytes.
#pragma once
#include "precompiled/bundle/bundle_manifest.h"

// Whether file can be made, before the work is done: its directory is there, and what it would replace is a file.
int bundle_check_place(const char *file, struct err *err);
// oci-layout, index.json and every whole blob; unfinished parts stay out.
int bundle_write(const struct layout *l, const char *file, struct err *err);

struct bundle_report {
	struct bundle_manifest manifest;
	char *signers;       // names of the keys that vouch for the list
	struct strv missing; // "package DRIVER FLAVOUR KERNEL ARCH: why"
	struct strv damaged; // "blobs/sha256/HEX ..."
	size_t blobs;
	uint64_t bytes; // read
};
void bundle_report_done(struct bundle_report *r);
#define auto_bundle_report __attribute__((cleanup(bundle_report_done)))
// Who made it, does it hold what it promises, is every byte right? 0 = yes; 1 = something is missing or damaged.
// E_UNSIGNED, E_UNTRUSTED, E_FORGED: of the list or of a package; E_EXPIRED; E_NOT_FOUND: it has no list.
int bundle_verify(const char *file, const struct trust *trust, time_t now, struct bundle_report *ret, struct err *err);
