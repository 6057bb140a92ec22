// SPDX-License-Identifier: Apache-2.0
// modprobe.d(5) for the static program, which cannot have libkmod: its lines as libkmod reads them (its
// kmod_config_parse() and freadline_wrapped(), kmod 30). Everywhere else libkmod itself is asked (host_modules).
#pragma once
#include "base/core/str.h"

struct modprobe_line {
	bool is_blacklist;  // else options
	const char *module; // "-" is "_" there
	const char *words;  // the options
};
// The next line of TEXT that says options or blacklists a module; false = there is none. TEXT is written to.
bool modprobe_text_next(char **text, struct modprobe_line *ret);
