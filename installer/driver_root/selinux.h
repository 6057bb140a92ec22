// SPDX-License-Identifier: Apache-2.0
// With SELinux on the host, containers may read files only if their policy knows the type, and files on the host's
// disk have another one. NVIDIA's images label the dev of their root (contract 1.7); here the trees of the root are
// on the host, and a bind mount takes no context of its own, so the files themselves are labelled.
#pragma once
#include "base/process/sys.h"

// 1 = the host uses it: process 1 has a selinuxfs mounted.
int selinux_is_enabled(const struct root *kern, struct err *err);
// A file, or a directory and everything below it, in the file systems mounted there; the directory last.
int selinux_label_tree(const struct sys *sys, const struct root *root, const char *path, struct err *err);
// The driver's nodes in dev. Others belong to the machine and are not changed.
int selinux_label_nodes(const struct sys *sys, const struct root *host, struct err *err);
