// SPDX-License-Identifier: Apache-2.0
// The shapes of the OCI image specification (1.1): descriptor, image manifest, image index. Pure: bytes in, bytes out.
//
// Only SHA-256 digests are supported. Sizes are bytes. Input is hostile until its digest was compared; a document that
// violates the specification is E_MANIFEST, and the message names it.
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
#define OCI_SHA256 "sha256:"
#define OCI_VERSION "org.opencontainers.image.version"

enum {
	OCI_DOCUMENT_MAX = 4 << 20, // bytes of a manifest, an index or a configuration; more is E_TOO_LARGE
	OCI_INDEX_MAX = 8 << 20,    // of a layout's index.json: 10,000 packages with their records have 6 MB
};

struct oci_descriptor { // a reference to a blob
	char *media_type;
	char digest[DIGEST_HEX + 1];
	uint64_t size;
	char *artifact_type; // NULL = not stated
	json_t *annotations; // object; NULL = none
};
void oci_descriptor_done(struct oci_descriptor *d);
#define auto_oci_descriptor __attribute__((cleanup(oci_descriptor_done)))
void oci_descriptor_copy(const struct oci_descriptor *from, struct oci_descriptor *ret);
static inline const char *oci_descriptor_annotation(const struct oci_descriptor *d, const char *key) // NULL = absent
{
	return json_string_value(json_object_get(d->annotations, key));
}

struct oci_manifest {
	char *artifact_type; // NULL = not stated
	struct oci_descriptor config;
	struct oci_descriptor *layers;
	size_t count;
	struct oci_descriptor subject; // .media_type NULL = none
	json_t *annotations;           // object; NULL = none
};
void oci_manifest_done(struct oci_manifest *m);
#define auto_oci_manifest __attribute__((cleanup(oci_manifest_done)))
int oci_manifest_parse(const char *data, size_t len, const char *name, struct oci_manifest *ret, struct err *err);
char *oci_manifest_text(const struct oci_manifest *m); // the same manifest always gives the same bytes

struct oci_index {
	struct oci_descriptor *items;
	size_t count;
};
void oci_index_done(struct oci_index *x);
#define auto_oci_index __attribute__((cleanup(oci_index_done)))
int oci_index_parse(const char *data, size_t len, const char *name, struct oci_index *ret, struct err *err);
char *oci_index_text(const struct oci_index *x);
// Adds a copy of d, or replaces the entry of the same digest; tag (NULL = none) moves to it from any other entry.
void oci_index_put(struct oci_index *x, const struct oci_descriptor *d, const char *tag);
int oci_index_find(const struct oci_index *x, const char *ref); // tag or "sha256:HEX"; position, -1 = absent
void oci_index_remove(struct oci_index *x, size_t i);
void oci_index_drop(struct oci_index *x, const char *ref); // tag or "sha256:HEX"; may be absent
void oci_index_tags(const struct oci_index *x, struct strv *ret);
// As "sha256:HEX", the manifests without a name that could be a registry's tag, as other programs save what they pull:
// `crane pull --format oci`, `cosign save`. Not those that say that they are something else than artifact_type.
void oci_index_untagged(const struct oci_index *x, const char *artifact_type, struct strv *ret);

// "sha256:HEX" -> HEX. False on anything else.
bool oci_digest_parse(const char *s, char ret[DIGEST_HEX + 1]);
static inline char *oci_digest_text(const char *hex) // "sha256:HEX"
{
	return str_fmt(OCI_SHA256 "%s", hex);
}
// A valid registry tag: every byte outside [A-Za-z0-9._-] becomes '_'. At most 128 bytes: a longer name becomes its
// first 95 bytes, '-' and 32 digits of its SHA-256. Two names can give the same tag: compare the exact strings of the
// configuration afterwards.
char *oci_tag(const char *name);
// Parses a JSON document; duplicate keys and trailing bytes are errors. name: for messages (E_MANIFEST).
int oci_json(const char *data, size_t len, const char *name, json_t **ret, struct err *err);
