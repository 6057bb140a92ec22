// SPDX-License-Identifier: Apache-2.0
// The contents of NVIDIA's .run: its .manifest lists each file with a type, and the type says where the file goes.
// Format and places: nvidia-installer 590.48.01, install-from-cwd.c (parse_manifest), manifest.c, files.c
// (set_destinations). Eight header lines, the second is the version; then FILE MODE TYPE and, depending on the
// type, NATIVE or COMPAT32, a path, and the target of a link. The rest of a line is ignored, as NVIDIA's installer
// does.
#pragma once
#include "base/core/err.h"

struct runfile_entry {
	char *file;   // in the archive; NULL = a link
	char *place;  // in the payload
	char *target; // of a link
};
struct runfile {
	char *version;
	struct runfile_entry *items; // what a payload needs: no manuals, no X server, no 32-bit files
	size_t count;
};
// triplet: of the library directory. E_PAYLOAD: not a manifest, or a line lacks fields that its type needs.
int runfile_parse(const char *text, const char *name, const char *triplet, struct runfile *ret, struct err *err);
void runfile_done(struct runfile *r);
#define auto_runfile __attribute__((cleanup(runfile_done)))
