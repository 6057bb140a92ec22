// SPDX-License-Identifier: Apache-2.0
// A kernel's header packages from the repositories that the host itself uses (R-A1), by the host's own package manager
// with its own configuration: sources, keys, proxies, certificates, credentials.
//
// Nothing on the host is installed or changed. The package manager runs in the sandbox (kmod/sandbox): it sees the host
// read-only, has memory where it keeps its state, and writes what it downloads into a directory of ours. There is no
// choice by os-release: whichever of the package managers below is installed and has repositories is asked.
//
//   apt   linux-headers-RELEASE (or a name of Proxmox's) and the linux-* header packages that it depends on; of several
//         builds of a release the one that the kernel's banner names. apt verifies what it downloads against the
//         signed lists; repositories without a signature are not used.
//   dnf   what provides `kernel-devel-uname-r = RELEASE`. `dnf download` checks no signature, whatever gpgcheck says,
//         so rpmkeys is asked about each package with the key files that the host's enabled repositories name.
//   zypper  SUSE's kernel-FLAVOUR-devel and the kernel-devel that it requires. zypper checks the lists of a repository,
//         rpmkeys each package, with the keys that the host's rpm has.
#pragma once
#include "base/file/digest.h"
#include "base/process/progress.h"

struct package_manager_options {
	const char *why_not; // no package manager is asked, for this reason; NULL = it is
	// Directories of more sources (*.list, *.sources; *.repo), each asked before the host's own. NULL = none.
	const struct strv *added;
	// Another one, asked when the host's own do not have the kernel any more: archives of a distribution. NULL =
	// none.
	const char *archive;
	unsigned stall_s; // a server that sends nothing for so long is given up; 0 = 15
};

struct package_manager {
	struct package_manager_options options;
	const struct root *host, *state; // state: where it works, in .tmp; both in one mount namespace
	const char *banner;              // of the kernel whose headers are wanted; NULL = not known
	const char *arch;                // `uname -m`
	struct progress *progress;
};

// headers_offer.bring: the header packages, unpacked into the store of trees. E_NOT_FOUND: there is nobody to ask.
// E_HEADERS_NOT_FOUND: none of the repositories has them, and what they have instead; E_NETWORK, E_TIMEOUT, E_AUTH,
// E_TLS, E_EXPIRED, E_UNTRUSTED: as the package manager says it.
int package_manager_headers(void *package_manager, const char *release, const struct root *store,
			    char ret_digest[DIGEST_HEX + 1], struct err *err);
// What that would ask, without asking: "apt for linux-headers-RELEASE, from the host's repositories". NULL = nothing,
// for the reason in *ret_why (caller frees both).
char *package_manager_plan(const struct package_manager *pm, const char *release, char **ret_why);
