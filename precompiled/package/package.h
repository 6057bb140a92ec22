// SPDX-License-Identifier: Apache-2.0
// A package: the modules of one driver x flavour x kernel, with the key that says exactly what they are, as one OCI
// image manifest that is also a legal container image.
//
// Its configuration is an image configuration whose labels hold the key and the list of files; its one layer is a
// tar+zstd with the files below opt/lib/modules/RELEASE/. precompiled/SPEC.md is the format, for other implementers.
// Nothing of a package is believed before the digests down to the layer were right.
#pragma once
#include "base/file/scratch.h"
#include "precompiled/oci/oci.h"

#define PACKAGE_TYPE "application/vnd.kmodsmith.kmod.package.v1"
#define PACKAGE_RELEASE "io.kmodsmith.kernel.release" // annotation of the manifest, label of the configuration

struct package_key {
	char *driver;        // "535.261.03"
	char *flavour;       // "open" or "proprietary"
	char *release;       // exact kernel release
	char *build_id;      // kernel build id, 64 hex digits; NULL = unknown (headers alone could not tell)
	char *arch;          // "x86_64"
	char *distro;        // whose kernel it is, told by its release and banner: "debian"; NULL = unknown
	char *compiler;      // version text of the compiler used
	char *source;        // SHA-256 of the driver source (source.h); NULL = unknown
	struct strv modules; // "nvidia", "nvidia-uvm", ... sorted
	struct strv patches; // "NAME SHA256", sorted by name
};
void package_key_done(struct package_key *key);
#define auto_package_key __attribute__((cleanup(package_key_done)))
json_t *package_key_json(const struct package_key *key);
bool package_key_is_same(const struct package_key *a, const struct package_key *b); // made of the same inputs
// DRIVER-FLAVOUR-RELEASE-ARCH as a tag (oci_tag). Only a pointer: the configuration holds the exact strings.
char *package_tag(const struct package_key *key);

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
	size_t count;                   // 0 = no package
	struct oci_descriptor manifest; // .digest is the package's identity
	struct oci_descriptor layer;
	char *place;          // where it was found, for messages
	struct scratch stage; // of its files, when unpacked
	struct root dir;      // in there: holds the files; .fd -1 = not unpacked
};
#define PACKAGE_NONE ((struct package){ .stage = SCRATCH_NONE, .dir = ROOT_NONE })
void package_done(struct package *p);
#define auto_package __attribute__((cleanup(package_done)))
void package_move(struct package *from, struct package *to); // to is released first, from is PACKAGE_NONE afterwards

// From a manifest with its digest, and the bytes of its configuration (of the digest that the manifest names). 1 = a
// package, 0 = the manifest is of something else; E_MANIFEST when it claims to be a package and is no sound one.
int package_parse(const struct oci_manifest *manifest, const struct oci_descriptor *descriptor, const char *config,
		  size_t len, struct package *ret, struct err *err);
// The configuration of a package with this key, these files and a layer whose tar has this digest, and its manifest.
char *package_config(const struct package_key *key, const struct package_file *files, size_t count,
		     const char *diff_id);
char *package_manifest(const struct package_key *key, const struct oci_descriptor *config,
		       const struct oci_descriptor *layer);
char *package_dir(const struct package_key *key); // of the files in the layer: "opt/lib/modules/RELEASE"

// What a node wants from a package; a NULL member is not compared.
struct package_want {
	const char *digest; // of its manifest
	const char *driver, *flavour, *release, *build_id, *arch, *source;
	const char *srcversion;     // of one of its modules
	const struct strv *modules; // all of these must be inside
	const struct strv *but;     // none of these, as digests of manifests
};
// 1 = fits; 0 = not, with *ret_why (caller frees) naming the first difference.
int package_fits(const struct package *p, const struct package_want *want, char **ret_why);
