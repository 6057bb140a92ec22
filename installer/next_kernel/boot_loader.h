// SPDX-License-Identifier: Apache-2.0
// Which kernel the boot loader starts next, from the files that it reads itself; no program is run.
//
// Tried in this order; the first answer counts:
//   ostree         the deployment that is staged, else the first boot entry's (ostree-sysroot-deploy.c: a staged one
//                  gets its entry only when the machine goes down)
//   systemd-boot   EFI variables LoaderEntryOneShot and LoaderEntryDefault, loader.conf `default`, else the order of
//                  the entries (Boot Loader Specification, "Sorting"; systemd.io/BOOT_LOADER_INTERFACE)
//   GRUB           next_entry, `set default` and saved_entry, on the entries of grub.cfg, or where grub.cfg says blscfg
//                  (Red Hat's), on loader/entries. grubby only edits these
//   links          vmlinuz, as Debian keeps it in / and SUSE in /boot
// The files are untrusted: one that is too large, damaged or hostile gives no answer, and the next reader is tried.
#pragma once
#include "base/file/root.h"

struct boot_choice {
	char *release; // NULL = not known
	char *by;      // what said so: "boot/grub/grub.cfg, entry '0'"
};
// kern: where EFI variables and the command line are seen. releases: kernels that there are; others are no answer.
// true = known.
bool boot_choice_read(const struct root *host, const struct root *kern, const struct strv *releases,
		      struct boot_choice *ret);
void boot_choice_done(struct boot_choice *b);
#define auto_boot_choice __attribute__((cleanup(boot_choice_done)))

// Deployments of an ostree host: root directories of which one runs, and one is started next. What rpm-ostree and bootc
// install is one more of them, with a kernel of its own, before any reboot.
//
// ostree/deploy/OS/deploy/CHECKSUM.SERIAL are the roots; proc/cmdline names the running one by a link below
// ostree/boot.N; run/ostree/staged-deployment (a GVariant) holds the name of one that gets its boot entry when the
// machine goes down.

struct ostree_deployment {
	char *path; // below the host's root
	bool is_booted, is_next;
};
struct ostree_deployments {
	struct ostree_deployment *items;
	size_t count;
};
// At most a few dozen; none on other hosts.
void boot_ostree_read(const struct root *host, const struct root *kern, struct ostree_deployments *ret);
void boot_ostree_done(struct ostree_deployments *d);
#define auto_ostree_deployments __attribute__((cleanup(boot_ostree_done)))
