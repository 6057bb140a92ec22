// SPDX-License-Identifier: Apache-2.0
// A bundle: an OCI layout as one uncompressed tar, which skopeo and others read as oci-archive. It appears whole or not
// at all, and the same layout always gives the same bytes.
#pragma once
#include "precompiled/layout.h"

// Whether file can be made, before the work is done: its directory is there, and what it would replace is a file.
int bundle_check_place(const char *file, struct err *err);
// oci-layout, index.json and every whole blob; unfinished parts stay out.
int bundle_write(const struct layout *l, const char *file, struct err *err);
