// SPDX-License-Identifier: Apache-2.0
// Attributes of the kernel below sys that are written to: where, and whether it can be done.
//
// All sysfs mounts of a network namespace share one superblock, which stays read-only if the first of them was,
// whatever the later ones say (fs/sysfs/mount.c, sysfs_init_fs_context; fs/kernfs/mount.c). Of a pod the first one is
// its pause container's, and containerd before 2.1 mounts that read-only, for privileged pods, too (containerd pull
// request 11271). The machine's own, which a pod with the host's process ids reaches, is of another network namespace.
#pragma once
#include "base/process/sys.h"

// Returns the root to write the attribute through: kern, unless it is read-only there and not on the host.
const struct root *attribute_root(const struct root *host, const struct root *kern, const char *path);
bool attribute_is_writable(const struct root *host, const struct root *kern, const char *path);
// Opens it for writing, and changes nothing. E_READ_ONLY, E_RIGHTS.
int attribute_check(const struct root *host, const struct root *kern, const char *path, struct err *err);
int attribute_set(const struct sys *sys, const struct root *host, const struct root *kern, const char *path,
		  const char *text, struct err *err);
