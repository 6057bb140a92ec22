// SPDX-License-Identifier: Apache-2.0
// Who still looks at a directory that is about to go: mounts of it in any mount namespace, and processes that are in
// it. The root of a mount is told by its present path, so a consumer that bound an earlier generation is recognised
// after that was renamed.
#pragma once
#include "host/mountinfo.h"

struct views {
	struct mounts *items; // of each mount namespace that has a process, once
	size_t count;
	struct strv namespaces; // their names, parallel to items
	struct strv places;     // where processes have their root and working directory, each once
	bool is_partial;        // something could not be looked at
};
int views_read(const struct root *kern, struct views *ret, struct err *err);
void views_done(struct views *v);
#define auto_views __attribute__((cleanup(views_done)))

// path: the same directory as our mount namespace names it.
bool views_has(const struct views *v, const struct spot *spot, const char *path);
