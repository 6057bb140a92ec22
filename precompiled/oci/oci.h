// SPDX-License-Identifier: Apache-2.0
// The shapes of the OCI image specification (1.1): descriptor, image manifest, image index. Pure: bytes in, bytes out.
//
// Only SHA-256 digests are known. Sizes are bytes. What is read is hostile until its digest was compared; a shape that
// the specification does not allow is E_MANIFEST, with the name of what was read.
#pragma once
#include "base/file/digest.h"
#include "base/formats/json.h"

#define OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define OCI_INDEX "application/vnd.oci.image.index.v1+json"
#define OCI_CONFIG "application/vnd.oci.image.config.v1+json"
#define OCI_LAYER "application/vnd.oci.image.layer.v1.tar+zstd"
#define OCI_EMPTY "application/vnd.oci.empty.v1+json" // of the two bytes {}
#define OCI_REF_NAME "org.opencontainers.image.ref.name"
#define OCI_TITLE "org.opencontainers.image.title"
#define OCI_CREATED "org.opencontainers.image.created"
#define OCI_VERSION "org.opencontainers.image.version"

enum { OCI_DOCUMENT_MAX = 4 << 20 }; // of a manifest, an index or a configuration; more is E_TOO_LARGE

struct descriptor { // what is pointed to
	char *media_type;
	char digest[DIGEST_HEX + 1];
	uint64_t size;
	char *artifact_type; // NULL = not stated
	json_t *annotations; // object; NULL = none
};
void descriptor_done(struct descriptor *d);
#define auto_descriptor __attribute__((cleanup(descriptor_done)))
void descriptor_copy(const struct descriptor *from, struct descriptor *ret);
json_t *descriptor_json(const struct descriptor *d);
const char *descriptor_note(const struct descriptor *d, const char *key); // an annotation; NULL = absent

struct manifest {
	char *artifact_type; // NULL = not stated
	struct descriptor config;
	struct descriptor *layers;
	size_t count;
	struct descriptor subject; // .media_type NULL = none
	json_t *annotations;       // object; NULL = none
};
void manifest_done(struct manifest *m);
#define auto_manifest __attribute__((cleanup(manifest_done)))
int manifest_parse(const char *data, size_t len, const char *name, struct manifest *ret, struct err *err);
char *manifest_text(const struct manifest *m); // the same manifest always gives the same bytes

struct index {
	struct descriptor *items;
	size_t count;
};
void index_done(struct index *x);
#define auto_index __attribute__((cleanup(index_done)))
int index_parse(const char *data, size_t len, const char *name, struct index *ret, struct err *err);
char *index_text(const struct index *x);
// Puts d (copied) in, in place of an entry with the same digest; tag (NULL = none) moves to it from any other entry.
void index_put(struct index *x, const struct descriptor *d, const char *tag);
int index_find(const struct index *x, const char *ref); // tag or "sha256:HEX"; position, -1 = absent
void index_drop(struct index *x, size_t i);

// "sha256:HEX" -> HEX. False on anything else.
bool oci_digest_parse(const char *s, char ret[DIGEST_HEX + 1]);
char *oci_digest_text(const char *hex); // "sha256:HEX"
// What a registry takes as a tag: every byte outside [A-Za-z0-9._-] becomes '_'. At most 128 bytes: a longer name is
// its first 95, '-' and 32 digits of the SHA-256 of all of it. The map is not injective: compare the exact strings of
// the configuration afterwards.
char *oci_tag(const char *name);
// When it was made, as annotations say it: the time is that of the inputs (SOURCE_DATE_EPOCH, else 1970), not of the
// clock, so that the same content has the same digest wherever it is made.
char *oci_created(void);
const char *oci_arch(const char *machine); // as container images name it: "x86_64" -> "amd64"
// A JSON document held in memory; duplicate keys and trailing bytes are refused. E_MANIFEST names it.
int oci_json(const char *data, size_t len, const char *name, json_t **ret, struct err *err);
