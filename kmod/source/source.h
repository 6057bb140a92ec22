// SPDX-License-Identifier: Apache-2.0
// A driver source, from whatever form it comes in. Nothing of it is ever executed here.
//
//   a directory     NVIDIA's layout (kernel-open/ and kernel/), or one module type's directory (with its Kbuild), or
//                   NVIDIA's open source release: as published, with the core as sources below src/ (see .release), or
//                   with its core compiled: a link from kernel-open/ into src/. What git keeps (.git) does not count
//   Debian's .deb   nvidia-*kernel-source: contains usr/src/*.tar.xz, with modules/<name>/ for one module type and, for
//                   some branches, debian/patches/series still to be applied
//   a dkms package  .deb, .rpm, or a tar of its content: usr/src/NAME-VERSION/ is the directory of one module type, or
//                   contains those of both
//   .tar.*          the inner archive of Debian's .deb, or NVIDIA's open source release
//   .run            a shell script with an archive behind it: the payload is found by the script's own header (NVIDIA:
//                   skip=LINES; makeself: the same in its own form) or else by the compression's magic
#pragma once
#include "base/file/digest.h"
#include "kmod/source/recipe.h"

// The part of a module that NVIDIA compiles without a kernel's headers, and where its open source release has that.
struct source_core {
	const char *module, *sources; // "src/nvidia"
	const char *file;             // below a module type's directory
};
enum { SOURCE_CORES = 2 };
extern const struct source_core source_cores[SOURCE_CORES];

struct source {
	struct root root;  // the directory of the source; owned
	char *version;     // "535.261.03"
	unsigned flavours; // set of enum module_type
	char *dirs[3];     // by module type, inside root; NULL = absent
	// Of the open modules, whose core is to be compiled (kmod/build/core.h): the directory with NVIDIA's Makefile
	// and src/, inside root; NULL = they have it.
	char *release;
	char *probes; // what tells the kernel's interfaces apart: texts of Kbuild, conftest.sh and debian/patches
	char digest[DIGEST_HEX + 1]; // of the file, or of a directory's names and contents
};

// path: as a user typed it. sha256: 64 hex digits it must have, or NULL (E_DIGEST): then it is copied below work first,
// so that the bytes with that digest are compiled. Archives are unpacked below work, under a name made of the digest;
// the caller removes work when done. E_SOURCE when it has no known form.
int source_open(const char *path, const char *sha256, const struct root *work, struct source *ret, struct err *err);
// Version and module types without unpacking everything, for checks that should refuse within a second (recipe_check):
// only the beginning of an archive is read, so one with two module types may show only the first. 1 = known, 0 = not
// that easily. ret gets version, flavours and probes, no root. Uses and cleans a directory in work.
int source_peek(const char *path, const struct root *work, struct source *ret, struct err *err);
// A file of one module type. 1 = read; 0 = no such file, or not known: only the beginning of the source was read, or
// patches that it brings (debian/patches) are about to change the file.
int source_read(const struct source *source, enum module_type flavour, const char *file, char **ret, struct err *err);
// Does it match an extended regular expression? 1 yes; 0 no, or source_read knows none.
int source_matches(const struct source *source, enum module_type flavour, const char *file, const char *regex,
		   struct err *err);
// What source_open() would put into digest, without unpacking anything.
int source_digest(const char *path, const char *sha256, char ret[DIGEST_HEX + 1], struct err *err);
void source_done(struct source *source);
#define auto_source __attribute__((cleanup(source_done)))
