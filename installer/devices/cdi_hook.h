// SPDX-License-Identifier: Apache-2.0
// What the createContainer hook does (OCI runtime specification, config-linux.md and runtime.md): it runs in the
// mount namespace of the new container, before its root becomes the root. Nothing in there is trusted: an image may
// contain prepared links, pipes and damaged files, so every path is resolved inside the container's root, nothing in
// it is run, and its own files stay.
#pragma once
#include "base/process/sys.h"

// state: the JSON that a runtime writes to a hook. *ret is the root that the bundle's config.json names.
int cdi_hook_open(const struct root *machine, const char *state, size_t len, struct root *ret, struct err *err);

// link: "TARGET::PATH". An existing file with content stays, and its path is added to ret_kept. An empty file, which
// a bind mount may have left in an image, is replaced.
int cdi_hook_link(const struct root *root, const char *link, struct strv *ret_kept, struct err *err);

// "/usr/local/cuda/compat" if the image has CUDA's forward compatibility libraries there and they are of a later branch
// than the driver, as NVIDIA's toolkit decides; else NULL. They have to be found before the driver's own.
const char *cdi_hook_compat(const struct root *root, const char *driver);

// etc/ld.so.cache with these folders, and a line for the container's own ldconfig where it would not find them.
// 1 = written, 0 = the container has no dynamic linker that reads one (musl, or static programs only).
int cdi_hook_ldcache(const struct root *root, const struct strv *folders, struct err *err);

// The driver's libraries and nvidia-modprobe make and correct device nodes unless /proc/driver/nvidia/params forbids
// it. The container sees a copy that does, read-only; a runtime gives it the nodes. 1 = it does now, 0 = there is
// nothing to change, or the container has the machine's own root.
int cdi_hook_fix_nodes(const struct root *machine, const struct root *root, const struct sys *sys, struct err *err);

// EGL and Vulkan list all GPUs of the machine. An application profile (README of the driver, appendix "Application
// Profiles") with the setting that NVIDIA's toolkit writes: a bit for each minor number of the nodes that the container
// has. 1 = written, 0 = it has no GPU's node.
int cdi_hook_own_gpus(const struct root *root, struct err *err);
