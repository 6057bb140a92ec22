// SPDX-License-Identifier: Apache-2.0
// What the host says about its modules: modprobe.d(5), read by libkmod, and the kernel command line.
//
// `options` and `blacklist` count. A module that is loaded here is loaded from its own file, so what leads modprobe to
// a module or away from it does not: an `install` command is not run, an `alias` names no other module's options, and
// no `softdep` is loaded (R-P9).
#pragma once
#include "base/file/root.h"

struct host_param {
	char *module; // "nvidia_drm" or "nvidia-drm": compare with module_name_eq
	char *word;   // "NVreg_A=1", without quotes; a bare name has no "="
	char *where;  // the file; NULL = the kernel command line
};
struct host_modules {
	struct host_param *params; // a later one is stronger
	size_t count;
	struct strv blacklist; // names as they are written there
	struct strv skipped;   // what no file is, a sentence each
};
void host_modules_done(struct host_modules *m);
#define auto_host_modules __attribute__((cleanup(host_modules_done)))

// Files of modprobe.d: etc, run, usr/local/lib, usr/lib, lib; the first directory with a file name wins, files in name
// order; what no regular file is hides none. A line that libkmod does not understand is skipped (KMOD_LOG=err in the
// environment names it).
int host_modules_read(const struct root *host, const struct root *kern, struct host_modules *ret, struct err *err);
// Next blank-separated word, quotes respected and dropped; NULL = end. Caller frees.
char *host_modules_next_word(const char **text);
