// SPDX-License-Identifier: Apache-2.0
// What still uses a directory that is about to be removed: mounts of it in any mount namespace, and processes in it.
// mountinfo shows the present path of a mount's root, so a consumer that bound an earlier generation is found even
// after that was renamed.
#pragma once
#include "base/file/mountinfo.h"
#include "base/file/root.h"

struct mount_users {
	struct mountinfo *items; // of each mount namespace that has a process, once
	size_t count;
	struct strv namespaces; // their names, parallel to items
	struct strv places;     // where processes have their root and working directory, each once
	bool is_partial;        // something could not be read
};
int mount_users_read(const struct root *kern, struct mount_users *ret, struct err *err);
void mount_users_done(struct mount_users *v);
#define auto_mount_users __attribute__((cleanup(mount_users_done)))

// path: the same directory as our mount namespace names it.
bool mount_users_has(const struct mount_users *v, const struct fs_dir *fs_dir, const char *path);
