// SPDX-License-Identifier: Apache-2.0
// A package: the modules of one driver x flavour x kernel, with the key that says exactly what they are.
//
// Here it is a directory: package.json (written last, so that a directory with one is complete) and the .ko files it
// lists with SHA-256 and size. Nothing of a package is believed before its digest was checked.
#pragma once
#include "base/digest.h"
#include "base/json.h"

struct package_key {
	char *driver;        // "535.261.03"
	char *flavour;       // "open" or "proprietary"
	char *release;       // exact kernel release
	char *build_id;      // kernel build id, 64 hex digits; NULL = unknown (headers alone could not tell)
	char *arch;          // "x86_64"
	char *compiler;      // version text of the compiler used
	char *source;        // SHA-256 of the driver source; NULL = a directory
	struct strv modules; // "nvidia", "nvidia-uvm", ... sorted
	struct strv patches; // "NAME SHA256", sorted by name
};
void package_key_done(struct package_key *key);
#define auto_package_key __attribute__((cleanup(package_key_done)))
json_t *package_key_json(const struct package_key *key);

struct package_file {
	char *name;       // "nvidia-uvm.ko"
	char *module;     // "nvidia-uvm"
	char *srcversion; // of the module inside; compares with /sys/module/X/srcversion
	char sha256[DIGEST_HEX + 1];
	uint64_t size;
};

struct package {
	struct package_key key;
	struct package_file *files;
	size_t count;
	struct root dir;
};
void package_done(struct package *p);
#define auto_package __attribute__((cleanup(package_done)))

// Directory name: DRIVER-FLAVOUR-RELEASE-ARCH-HASH; HASH covers the whole key, so two kernels that share a release but
// not a build id never share a directory (R-F4).
char *package_name(const struct package_key *key);

// Complete a directory that already holds the .ko files: computes digests and writes package.json. files gives name,
// module and srcversion; digests and sizes are filled in here.
int package_write(const struct root *dir, const struct package_key *key, struct package_file *files, size_t count,
		  struct err *err);
// Reads and checks package.json, not the files. E_NOT_FOUND without one, E_STORE_CORRUPT when it is not sound.
int package_open(const struct root *dir, struct package *ret, struct err *err);
// Every file has the size and digest that package.json says, else E_DIGEST naming it.
int package_verify(const struct package *p, struct err *err);
int package_file_open(const struct package *p, size_t i, struct err *err); // fd

// What a node wants from a package; a NULL member is not compared.
struct package_want {
	const char *driver, *flavour, *release, *build_id, *arch, *source;
	const struct strv *modules; // all of these must be inside
};
// 1 = fits; 0 = not, with *ret_why (caller frees) naming the first difference.
int package_fits(const struct package *p, const struct package_want *want, char **ret_why);

// The node's packages below DIR/packages. find: 1 = found (newest driver first), 0 = none.
int package_find(const struct root *state, const struct package_want *want, struct package *ret, struct err *err);
// Copy a package into the node's store, whole or not at all; the copy is verified. 0 also when it was there already.
int package_keep(const struct root *state, const struct package *p, struct package *ret, struct err *err);
