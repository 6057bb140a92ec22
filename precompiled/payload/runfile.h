// SPDX-License-Identifier: Apache-2.0
// What is in NVIDIA's .run: its .manifest lists each file with a type, and a type says where its files belong.
// Format and places: nvidia-installer 590.48.01, install-from-cwd.c (parse_manifest), manifest.c, files.c
// (set_destinations). Eight lines of which the second is the version, then FILE MODE TYPE and, as the type demands,
// NATIVE or COMPAT32, a path, and the target of a link. What follows on a line is ignored, as it is there.
#pragma once
#include "base/core/err.h"

#define RUNFILE_DOCUMENTS "NVIDIA_GLX-1.0" // below usr/share/doc, as NVIDIA's installer calls it

struct runfile_entry {
	char *file;   // in the archive; NULL = a link
	char *place;  // in the payload
	char *target; // of a link
};
struct runfile {
	char *version;
	struct runfile_entry *items; // what a payload needs: no manuals, no X server, nothing of 32 bits
	size_t count;
};
// triplet: of the library directory. E_PAYLOAD: this is no manifest, or it has a type without the fields that it needs.
int runfile_parse(const char *text, const char *name, const char *triplet, struct runfile *ret, struct err *err);
void runfile_done(struct runfile *r);
#define auto_runfile __attribute__((cleanup(runfile_done)))
