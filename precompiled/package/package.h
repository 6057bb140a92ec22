// SPDX-License-Identifier: Apache-2.0
// A package: the modules of one driver x flavour x kernel and the key that describes them, as one OCI image manifest
// that is also a valid container image.
//
// Its configuration is an image configuration whose labels hold the key and the list of files; its one layer is a
// tar+zstd with the files below opt/lib/modules/RELEASE/. precompiled/SPEC.md specifies the format.
// Nothing in a package is trusted until all digests down to the layer match.
#pragma once
#include "base/file/scratch.h"
#include "precompiled/oci/layout.h"
#include "precompiled/trust/provenance.h"
#include "precompiled/trust/statement.h"

#define PACKAGE_RELEASE "io.kmodsmith.kernel.release" // annotation of the manifest, label of the configuration

struct package_key {
	char *driver;        // "535.261.03"
	char *flavour;       // "open" or "proprietary"
	char *release;       // exact kernel release
	char *build_id;      // kernel build id, 64 hex digits; NULL = unknown (headers alone may not contain it)
	char *arch;          // "x86_64"
	char *distro;        // the kernel's vendor, from its release and banner: "debian"; NULL = unknown
	char *compiler;      // version text of the compiler used
	char *source;        // SHA-256 of the driver source (source.h); NULL = unknown
	char *signer;        // SHA-256 of the certificate that signed the modules for kernels; NULL = nobody did
	struct strv modules; // "nvidia", "nvidia-uvm", ... sorted
	struct strv patches; // "NAME SHA256", sorted by name
};
void package_key_done(struct package_key *key);
#define auto_package_key __attribute__((cleanup(package_key_done)))
json_t *package_key_json(const struct package_key *key);
bool package_key_is_same(const struct package_key *a, const struct package_key *b); // the same inputs
// DRIVER-FLAVOUR-RELEASE-ARCH as a tag (oci_tag). Only a pointer: the configuration has the exact strings.
char *package_tag(const struct package_key *key);

struct package_file {
	char *name;       // "nvidia-uvm.ko"
	char *module;     // "nvidia-uvm"
	char *srcversion; // of the module; compare with /sys/module/X/srcversion
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
	struct scratch stage; // holds its files when unpacked
	struct root dir;      // the directory of the files in it; .fd -1 = not unpacked
};
#define PACKAGE_NONE ((struct package){ .stage = SCRATCH_NONE, .dir = ROOT_NONE })
void package_done(struct package *p);
#define auto_package __attribute__((cleanup(package_done)))
static inline void package_move(struct package *from, struct package *to)
{
	package_done(to);
	*to = *from;
	*from = PACKAGE_NONE;
}

// Parses a manifest with its descriptor and configuration, whose digest was checked. 1 = a package, 0 = something else;
// E_MANIFEST: a package, but not a valid one.
int package_parse(const struct oci_manifest *manifest, const struct oci_descriptor *descriptor, const char *config,
		  size_t len, struct package *ret, struct err *err);
static inline char *package_dir(const struct package_key *key) // of the files in the layer
{
	return str_fmt("opt/lib/modules/%s", key->release);
}

// A request for a package; a NULL member is not compared.
struct package_want {
	const char *digest; // of the manifest
	const char *driver, *flavour, *release, *build_id, *arch, *source;
	const char *branch;         // of the driver: "535"; "" = all
	const char *srcversion;     // of one of its modules
	const struct strv *modules; // all of these must be included
	const struct strv *but;     // none of these, as digests of manifests
	bool is_signed;             // its modules must be signed for kernels
	// Does it serve the machine? NULL = any does. *ret_why (caller frees) if not.
	bool (*serves)(const void *ctx, const struct package_key *key, char **ret_why);
	const void *ctx;
};
bool package_is_of_branch(const char *driver, const char *branch); // "535.261.03" is of "535", and of ""
// 1 = it matches; 0 = it does not, with *ret_why (caller frees) naming the first difference.
int package_fits(const struct package *p, const struct package_want *want, char **ret_why);

// Creates a package from module files in a layout, with an entry in its index. The same files and key always give the
// same bytes. dir holds the files; files has name, module and srcversion, sizes and digests are filled in here. ret is
// not unpacked. On failure the index is unchanged.
int package_create(const struct layout *into, const struct root *dir, const struct package_key *key,
		   struct package_file *files, size_t count, struct package *ret, struct err *err);

// The common form of packages and assets (asset.h): an image with one layer.
struct package_image {
	const char *type, *arch, *tag;
	const struct oci_descriptor *layer;
	const char *diff_id;                     // digest of the layer's tar
	json_t *labels, *manifest_notes, *notes; // of the configuration, the manifest, its index entry; NULL = none
	enum provenance_origin origin;
};
// Writes configuration and manifest and lists the image. Takes the labels and annotations. ret: of the manifest.
int package_publish(const struct layout *into, const struct package_image *image, struct oci_descriptor *ret,
		    struct err *err);

// The package with this manifest. 1 = found, 0 = the manifest is not a package.
int package_read(const struct layout *l, const struct oci_descriptor *manifest, struct package *ret, struct err *err);
// By key and not by tag. The best match: newest driver, then the latest entry. 1 = found, 0 = none. Damaged entries and
// other content are skipped. ret_why (may be NULL): with 0, why the last one did not match; NULL = there are no
// packages.
int package_find(const struct layout *l, const struct package_want *want, struct package *ret, char **ret_why,
		 struct err *err);
