// SPDX-License-Identifier: Apache-2.0
// The directives that a C source begins with, cut into pieces: what two sources can have in common.
//
// A piece ends after an #include, or after an #if with all its branches that holds one; so no piece ends inside of a
// condition, and the preprocessor is in the same state after a piece whether it came from this file or another. The
// first line that is neither blank, comment nor a plain directive ends it, and so does a directive that asks for its
// own place (__LINE__ and the like).
//
// Pure, without anything of base: it is also part of the library that runs inside of the compiler.
#pragma once
#include <stddef.h>

enum { DIRECTIVES_PIECES = 64, DIRECTIVES_BYTES = 16384 };

struct directives {
	size_t count;
	struct {
		size_t at, len;   // in text: the piece without comments, continued lines joined
		size_t rest;      // offset in the source of what follows the piece
		size_t rest_line; // and its line number
	} pieces[DIRECTIVES_PIECES];
	char text[DIRECTIVES_BYTES]; // of all pieces, one after the other
};

// source: len bytes and a NUL. What does not fit into ret is left to the rest.
void directives_read(const char *source, size_t len, struct directives *ret);
