// SPDX-License-Identifier: Apache-2.0
// Source patches: the built-in ones and those of a user's directory.
//
// A patch file starts with lines "Key: value" (and free text) before the first "---" line:
//   Driver:  glob on the driver version                      Driver: 535.261.*
//   Flavour: open, proprietary or both (the default)          Flavour: open
//   When:    FILE ~ EXTENDED-REGEX on the target tree         When: include/linux/pci.h ~ pci_resize_resource\(.*int
//   Unless:  the same, negated
//   Source:  the same on the driver's source (source_matches) Source: nvidia/nv-pci.c ~ pci_resize_resource\(
// Tree and source, not versions, decide: distributions backport. Every When and Source must hold and no Unless may. A
// built-in patch is for sources that have the lines which it changes, word for word: one that does not fit a driver
// must not keep it from being compiled. A user's patch that does not fit is an error.
#pragma once
#include "base/file/digest.h"
#include "kmod/source/source.h"

struct tree;

struct patch {
	char *name; // file name
	char *text;
	size_t len;
	char digest[DIGEST_HEX + 1];
	bool is_builtin;
};

struct patches {
	struct patch *items;
	size_t count;
};

// Of the built-in patches and, when dir is not NULL, those in it (*.patch; one of the same name replaces a built-in)
// the ones that this driver needs on this tree, sorted by name. source and tree NULL: all of them. E_PATCH names a file
// with a missing Driver line or a bad expression.
int patches_choose(const struct root *dir, const struct source *source, enum module_type flavour,
		   const struct tree *tree, struct patches *ret, struct err *err);
// Apply to a private copy of the source with patch(1); E_PATCH quotes the hunk that failed. path: where programs are,
// in the builder root base (NULL = on this machine).
int patches_apply(const struct patches *patches, const struct root *source, const char *path, const struct root *base,
		  struct err *err);
// The patches that a Debian source contains and wants applied first (debian/patches/series), in its order; often none.
int patches_series(const struct root *source, struct patches *ret, struct err *err);
void patches_done(struct patches *patches);
#define auto_patches __attribute__((cleanup(patches_done)))

// Built-in patches that were switched off: each says for which driver and tree a compile fails without it. A file of
// its name in a user's directory replaces it, and one that is not for this pair leaves the pair unpatched.
// dir: that directory, NULL = none. E_SOURCE_KERNEL names the missing patch before anything is compiled. A replacement
// that is for this pair is trusted to work. Of a source that was only peeked at it knows less, and refuses less.
int patches_check_removed(const struct root *dir, const struct source *source, enum module_type flavour,
			  const struct tree *tree, struct err *err);
