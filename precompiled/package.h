// SPDX-License-Identifier: Apache-2.0
// A package: the modules of one driver x flavour x kernel, with the key that says exactly what they are, as one OCI
// image manifest that is also a legal container image.
//
// Its configuration is an image configuration whose labels hold the key and the list of files; its one layer is a
// tar+zstd with the files below opt/lib/modules/RELEASE/. precompiled/SPEC.md is the format, for other implementers.
// A package that was unpacked ("staged") has its files in a directory; nothing of it is believed before the digests
// down to the layer were right.
#pragma once
#include "base/scratch.h"
#include "precompiled/layout.h"

#define PACKAGE_TYPE "application/vnd.kmodsmith.kmod.package.v1"

struct package_key {
	char *driver;        // "535.261.03"
	char *flavour;       // "open" or "proprietary"
	char *release;       // exact kernel release
	char *build_id;      // kernel build id, 64 hex digits; NULL = unknown (headers alone could not tell)
	char *arch;          // "x86_64"
	char *distro;        // whose kernel it is, by its release and banner: "debian"; NULL = unknown
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
	size_t count;               // 0 = no package
	struct descriptor manifest; // of it; .digest is the package's identity
	struct descriptor layer;
	char *place;        // where it is, for messages: "oci:/var/lib/kmodsmith/store"
	struct scratch dir; // staged: holds the files; .root.fd -1 = not staged
};
#define PACKAGE_NONE ((struct package){ .dir = SCRATCH_NONE })
void package_done(struct package *p);
#define auto_package __attribute__((cleanup(package_done)))

// DRIVER-FLAVOUR-RELEASE-ARCH as a tag (oci_tag). Only a pointer: the configuration holds the exact strings.
char *package_tag(const struct package_key *key);

// From the bytes of a manifest and its configuration. E_MANIFEST when they are no sound package; 0 when the manifest is
// of something else (a signature, a payload), 1 = a package.
int package_parse(const char *manifest, size_t manifest_len, const char *config, size_t config_len, const char *name,
		  struct package *ret, struct err *err);
