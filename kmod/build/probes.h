// SPDX-License-Identifier: Apache-2.0
// Earlier answers to NVIDIA's conftest (R-B4). Its 300 to 400 probes, each a compile or more, take a third of a build,
// and a build that resumes after a kill (R-H2), or is repeated, need not run them again.
//
// An answer depends only on the kernel's tree, the compiler, its flags and the text of the probe itself. But the
// source's own Makefile asks, and could fake the answer: so answers belong to one source, and only a source that asks
// in the same way uses them (probes_digest): as a rule the other module type of the same version.
//
// One file for each (tree digest, digest of what asks, compiler, make's variables, what all probes of this conftest.sh
// share), named by the digest of these; in it, each answer under the digest of the probe's own text. The file is
// replaced whole, ends with a digest of itself, and is ignored when that is wrong: an answer can be missing, but never
// wrong. In the sandbox a script (ask.sh) replaces conftest.sh; the parent collects its answers bit by bit.
#pragma once
#include "kmod/kernel_tree/tree.h"

enum { PROBES_FILES = 32 }; // are kept, the newest; each is some 60 KiB

struct script;
struct probe;

struct probes {
	const struct root *cache; // borrowed; NULL = nothing is kept
	const struct root *job;   // borrowed
	struct script *script;    // NVIDIA's
	char name[DIGEST_HEX + 1];
	char *known_flags;
	struct probe *known;
	size_t known_count;
	long saved_ms;
};

// NVIDIA's Kbuild computes the flags of its probes again for each of them, which starts the compiler three times; this
// computes them once, for the first probe. And make looks through every object's list of all probes whenever a probe
// ends; with PROBES_ONLY=1 it makes nothing but the headers that the probes write, so that they are there when it makes
// the objects. 1 = done; 0 = a source without probes, which is not changed.
#define PROBES_ONLY "kmodsmith_conftest_only"
int probes_shorten(const struct root *source, struct err *err);
// Digest of what decides how the source asks, and could answer: all makefiles and scripts, and whatever is no C source;
// of headers, which lie in the probes' search path, the names, and the contents of those that conftest.sh names.
int probes_digest(const struct root *source, char ret[DIGEST_HEX + 1], struct err *err);
// Put the script before the conftest.sh in job/src, with what is known. what: text that names source, compiler and
// variables. 0 = done, or there is no conftest.sh of a known form: then every probe is compiled, and nothing is kept.
int probes_start(struct probes *p, const struct root *cache, const struct root *job, const char *tree_digest,
		 const char *what, struct err *err);
// Keep the answers so far; at most once a second unless is_last. A failure to keep them is ignored.
void probes_save(struct probes *p, bool is_last);
// How many were answered from the cache, how many by the compiler.
void probes_count(const struct probes *p, size_t *ret_kept, size_t *ret_asked);
void probes_done(struct probes *p);
