// SPDX-License-Identifier: Apache-2.0
// The kernels that this machine may start after the running one, the newest first (R-F1): of the host's own root, of
// deployments of ostree, and of directories where an updater has the root of the next boot (A/B partitions).
//
// Boot loaders are not asked: distributions start the newest kernel that is installed. An entry that somebody chose,
// for once or for good, may name an older one.
//
// Reads files only; a kernel that is still being installed lacks some, so that nothing is built for half a kernel.
#pragma once
#include "base/file/digest.h"
#include "base/file/root.h"

struct boot_candidate {
	char *release;
	struct root root;           // that has its files
	char *where;                // "" = the host's own, else below it: "ostree/deploy/..."
	bool is_next;               // newer than the running one, or in a root of the next boot
	char *lacks;                // what it has not yet; NULL = it is whole
	char stamp[DIGEST_HEX + 1]; // changes when its files do, its headers' among them
};
struct boot_candidates {
	struct boot_candidate *items;
	size_t count;
};

// roots: directories below the host's root, may be NULL; missing ones are ignored. At most a few dozen.
int boot_candidates_read(const struct root *host, const char *running, const struct strv *roots,
			 struct boot_candidates *ret, struct err *err);
void boot_candidates_done(struct boot_candidates *c);
#define auto_boot_candidates __attribute__((cleanup(boot_candidates_done)))

// Releases of the kernels that this machine could start, whose packages must stay in the store: the running one (NULL =
// none), every one that the host has in lib/modules with an image or modules that depmod has seen, and those of
// deployments of ostree. Sorted.
int boot_installed_kernels(const struct root *host, const char *running, struct strv *ret, struct err *err);
