// SPDX-License-Identifier: Apache-2.0
// What a runtime lets us do in a container that is being made (hook createContainer of the OCI runtime specification,
// config-linux.md and runtime.md): in its mount namespace, before its root becomes the root. All of it is somebody
// else's: an image may have prepared links, pipes and damaged files, so every path is looked up in the container's
// root, nothing of it is run, and what it has of its own stays.
#pragma once
#include "base/file/root.h"

// state: the JSON that a runtime writes to a hook. *ret is the root that the bundle's config.json names.
int cdi_hook_open(const struct root *machine, const char *state, size_t len, struct root *ret, struct err *err);

// link: "TARGET::PATH". What is there with a content of its own stays, and its path is added to ret_kept. What a bind
// mount left in an image is an empty file: that is replaced.
int cdi_hook_link(const struct root *root, const char *link, struct strv *ret_kept, struct err *err);

// etc/ld.so.cache with these folders, and a line for the container's own ldconfig where it would not find them.
// 1 = written, 0 = the container has no dynamic linker that reads one (musl, or static programs only).
int cdi_hook_ldcache(const struct root *root, const struct strv *folders, struct err *err);
