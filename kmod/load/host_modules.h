// SPDX-License-Identifier: Apache-2.0
// What the host says about its modules: modprobe.d(5), read by libkmod, and the kernel command line.
//
// `options` and `blacklist` count. A module that is loaded here is loaded from its own file, so what leads modprobe to
// a module or away from it does not: an `install` command is not run, an `alias` names no other module's options, and
// no `softdep` is loaded (R-P9). An `install` command that does nothing and an `alias` that is "off" are what others
// write for `blacklist`.
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
	struct strv blacklist; // names, as they are written there, of what the host does not load by itself
	struct strv forbidden; // names that the running kernel refuses, whoever loads them: its own module_blacklist=
	struct strv installs;  // names that have an `install` line: the first one of a name counts
	struct strv skipped;   // what no file is, a sentence each
};
void host_modules_done(struct host_modules *m);
#define auto_host_modules __attribute__((cleanup(host_modules_done)))

// Files of modprobe.d: etc, run, usr/local/lib, usr/lib, lib; the first directory with a file name wins, files in name
// order; what no regular file is hides none. A line that libkmod does not understand is skipped (KMOD_LOG=err in the
// environment names it).
int host_modules_read(const struct root *host, const struct root *kern, struct host_modules *ret, struct err *err);
// The module_blacklist= of the running kernel alone. The kernel compares whole names, with "_".
int host_modules_forbidden(const struct root *kern, struct strv *ret, struct err *err);
int host_modules_next(struct err *err); // how a name gets out of it, as err_next()
// Next blank-separated word, quotes respected and dropped; NULL = end. Caller frees.
char *host_modules_next_word(const char **text);
