// SPDX-License-Identifier: Apache-2.0
// modprobe.d(5) for the static program, which cannot have libkmod: its lines as libkmod reads them (its
// kmod_config_parse() and freadline_wrapped(), kmod 30). Everywhere else libkmod itself is asked (host_modules).
#pragma once
#include "base/core/str.h"

enum modprobe_verb { MODPROBE_OPTIONS, MODPROBE_BLACKLIST, MODPROBE_INSTALL, MODPROBE_ALIAS };

struct modprobe_line {
	enum modprobe_verb verb;
	const char *module; // of an alias its name; "-" is "_" there
	const char *words;  // the options, the command, the module that an alias means
};
// The next line of TEXT with one of these verbs; false = there is none. TEXT is written to.
bool modprobe_text_next(char **text, struct modprobe_line *ret);
