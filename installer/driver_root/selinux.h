// SPDX-License-Identifier: Apache-2.0
// Where the host runs SELinux, containers may read what has a type that their policy knows; what lies on the host's
// disk has not. NVIDIA's images give it to the dev of their root (contract 1.7); here the trees that a root is made of
// are on the host, and a bind mount takes no context of its own, so the files themselves get it.
#pragma once
#include "base/process/sys.h"

// 1 = the host runs it: process 1 sees a selinuxfs.
int selinux_is_enabled(const struct root *kern, struct err *err);
int selinux_label(const struct sys *sys, const struct root *root, const char *path, struct err *err);
// The directory with all that is below, on whatever is mounted there.
int selinux_label_tree(const struct sys *sys, const struct root *root, const char *path, struct err *err);
// The driver's nodes in dev. The others are the machine's, and stay what they are.
int selinux_label_nodes(const struct sys *sys, const struct root *host, struct err *err);
