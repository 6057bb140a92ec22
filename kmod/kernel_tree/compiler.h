// SPDX-License-Identifier: Apache-2.0
// Which compiler a kernel or a module was built with, read from texts: the first line of `cc --version`,
// CONFIG_CC_VERSION_TEXT, a kernel's banner, a string of .comment. Nothing is run.
#pragma once
#include <stdbool.h>

struct compiler {
	bool is_clang;
	unsigned major; // 0 = the text does not tell
};

// "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0", "Debian clang version 16.0.6", "GCC: (GNU) 11.4.1 20231218": the number
// is the first with a dot in it that stands outside of parentheses. text may be NULL.
struct compiler compiler_parse(const char *text);
// Both known, of one family and major version: what kmod/kernel_tree/toolchain.h demands of a compile (R-B1).
bool compiler_is_same(const char *a, const char *b);

// "Linux version REL (WHO) (COMPILER, LINKER) #1 ...": COMPILER; NULL = it has another shape. Caller frees.
char *compiler_of_banner(const char *banner);
