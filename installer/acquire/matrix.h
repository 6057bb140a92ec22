// SPDX-License-Identifier: Apache-2.0
// Which drivers to build for which kernels, from a file:
//
//   {"drivers": [{"source": "open.deb", "flavours": ["open"], "sha256": "..."}],
//    "kernels": [{"release": "6.1.0-56-cloud-amd64", "headers": ["a.deb", "b.deb"]}],
//    "skip":    [{"driver": "535.*", "kernel": "6.12.*", "why": "..."}],
//    "modules": ["nvidia", "uvm"], "patches": "DIR"}
//
// Required are drivers with their source, and kernels with their release, unless nodes report them. Without
// "flavours" it is what the source has (a path, or a URL together with "sha256"), without "headers" this machine's,
// without "modules" all. Paths are relative to the file's directory. A pair is skipped when it matches "driver" (its
// version) and "kernel" of an entry, as globs; one of them may be absent.
#pragma once
#include "kmod/source/recipe.h"

struct matrix_driver {
	char *source;
	char *sha256;      // NULL = not pinned
	unsigned flavours; // set of enum module_type; 0 = what the source has
};

struct matrix_kernel {
	char *release;
	struct strv headers; // empty = this machine's
};

struct matrix_skip {
	char *driver, *kernel; // globs; NULL = any
	char *why;
};

struct matrix {
	struct matrix_driver *drivers;
	struct matrix_kernel *kernels;
	struct matrix_skip *skips;
	size_t driver_count, kernel_count, skip_count;
	struct strv modules;
	char *patches; // NULL = none
};
// file: as a user typed it. E_CONFIG names the entry: unknown keys, wrong types, a source or release listed twice.
// is_open: kernels may be missing, because others are added.
int matrix_parse(const char *text, size_t len, const char *file, bool is_open, struct matrix *ret, struct err *err);
void matrix_done(struct matrix *m);
#define auto_matrix __attribute__((cleanup(matrix_done)))

struct matrix_nodes {
	size_t nodes, others; // seen; of another architecture, so left out
	size_t kernels;       // that the matrix did not have
	size_t bad;           // nodes left out: they report too many kernels, or something that is not one
	struct err first_bad; // why the first of them
};
// Adds the kernels that nodes run, each once, and those that they have installed (annotation
// kmodsmith.io/agent.kernels: a JSON list of releases), from the output of `kubectl get nodes -o json`; of it only
// .items[].metadata.name, .metadata.annotations and .status.nodeInfo.kernelVersion and .architecture are looked at.
// arch: "x86_64". At most 256 kernels. E_CONFIG: not the output of that command.
int matrix_nodes_add(const char *text, size_t len, const char *file, const char *arch, struct matrix *m,
		     struct matrix_nodes *ret, struct err *err);

// Why this pair is skipped; NULL = it is built.
const char *matrix_skipped(const struct matrix *m, const char *driver, const char *release);
