// SPDX-License-Identifier: Apache-2.0
// Where the running kernel would find a firmware file, following the kernel's own rules (contract 1.9).
//
// The rules are drivers/base/firmware_loader/main.c: the path parameter, if it is set, then in /lib/firmware
// updates/RELEASE, updates, RELEASE and the directory itself; the plain file in all of them first, then FILE.zst, then
// FILE.xz, where the kernel's configuration has them. Paths are relative to the machine's own root, not the caller's.
#pragma once
#include "base/file/root.h"

struct firmware_path {
	char *path;            // the path parameter as it is set, "" = unset; NULL = this kernel does not show it
	bool is_path_writable; // sysfs is not read-only here
	struct strv dirs;      // below the host's root, in the kernel's order
	struct strv endings;   // "", ".zst", ".xz"
	bool is_sure;          // endings come from the kernel's configuration, not a guess
};

// host NULL: without the kernel's configuration, so uncompressed files only.
int firmware_path(const struct root *host, const struct root *kern, const char *release, struct firmware_path *ret,
		  struct err *err);
void firmware_path_done(struct firmware_path *s);
#define auto_firmware_path __attribute__((cleanup(firmware_path_done)))

// name: "nvidia/535.261.03/gsp_ga10x.bin". The path below the host's root, caller frees; NULL = the kernel would not
// find it.
char *firmware_path_find(const struct root *host, const struct firmware_path *s, const char *name);
// What is there under this name although the kernel does not take it, as text: "'/lib/firmware/nvidia/...' is empty";
// NULL = nothing. Caller frees.
char *firmware_path_unusable(const struct root *host, const struct firmware_path *s, const char *name);
// Driver versions that have a directory nvidia/VERSION anywhere in the search path, each once.
void firmware_path_versions(const struct root *host, const struct firmware_path *s, struct strv *ret);
// For messages: "/lib/firmware/updates, /lib/firmware; the path parameter is unset".
char *firmware_path_text(const struct firmware_path *s);
