// SPDX-License-Identifier: Apache-2.0
// A place that packages come from or go to, whatever it is made of. Its name is written as skopeo and curl write it:
//
//   oci:DIR               an OCI layout directory
//   oci-archive:FILE      a bundle: the same layout as a tar
//   https://HOST/PATH     a static web server that offers the same files (http:// for plain HTTP)
//   docker://HOST/NAME    a registry, through the distribution API (docker+http://HOST/NAME for plain HTTP)
//
// Nothing that a repository says is believed: bytes are compared with digests and signatures by those who ask.
#pragma once
#include "base/http/http.h"
#include "precompiled/oci/partial_blob.h"

struct repository_options {
	struct http *http;       // for remote ones; NULL = remote ones are refused with E_OFFLINE
	const char *credentials; // a docker config.json; NULL = $DOCKER_CONFIG, ~/.docker/config.json
};

struct repository;
int repository_open(const char *name, const struct repository_options *options, struct repository **ret,
		    struct err *err);
void repository_free(struct repository *r);
static inline void repository_freep(struct repository **r)
{
	repository_free(*r);
}
#define auto_repository __attribute__((cleanup(repository_freep)))
const char *repository_name(const struct repository *r);
bool repository_is_remote(const char *name);  // by its spelling
char *repository_probe_url(const char *name); // what to ask to learn whether a remote one answers; NULL = local

// The bytes of the manifest or index that ref (a tag, or "sha256:HEX") names, at most OCI_DOCUMENT_MAX. 1 = found,
// 0 = absent. Asked for by digest, they have that digest, else E_DIGEST.
int repository_manifest(struct repository *r, const char *ref, char **ret, size_t *ret_len,
			char ret_digest[DIGEST_HEX + 1], struct err *err);
int repository_tags(struct repository *r, struct strv *ret, struct err *err);
// A small blob, whole, at most OCI_DOCUMENT_MAX; size and digest are checked. 1 = found, 0 = absent.
int repository_document(struct repository *r, const struct oci_descriptor *d, char **ret, size_t *ret_len,
			struct err *err);
// What names the manifest as its subject: the referrers API where the registry has it, and the index under the fallback
// tag sha256-HEX. Fields of these descriptors may be wrong (clients differ): open each manifest. Empty when none.
int repository_referrers(struct repository *r, const char *hex, struct oci_index *ret, struct err *err);

// Blobs come side by side: begin any number of them, then step until each is_done. A transfer appends to its part from
// part->have on; one that fails has err.code set, and its part keeps what came. Cuts are resumed within the deadlines.
struct transfer {
	struct partial_blob *part; // borrowed
	bool is_done;
	struct err err; // .code 0 = none
	void *own;      // of the repository
};
int repository_begin(struct repository *r, struct transfer *t, struct err *err);
int repository_step(struct repository *r, struct err *err);    // waits for bytes, at most a moment
void repository_end(struct repository *r, struct transfer *t); // frees what begin made, finished or not

// Writing. E_USAGE where a place cannot be written (a static server, a bundle).
int repository_has_blob(struct repository *r, const char *hex, struct err *err); // 1 yes, 0 no
int repository_put_blob(struct repository *r, const struct layout *from, const struct oci_descriptor *d,
			struct err *err);
// tag may be NULL. A manifest with a subject is also listed under the referrers fallback tag where the registry does
// not do so itself.
int repository_put_manifest(struct repository *r, const char *data, size_t len, const char *media_type, const char *tag,
			    struct err *err);

// What each kind implements; the functions above check and dispatch.
struct repository_ops {
	int (*manifest)(struct repository *r, const char *ref, char **ret, size_t *ret_len, struct err *err);
	int (*tags)(struct repository *r, struct strv *ret, struct err *err);
	int (*document)(struct repository *r, const struct oci_descriptor *d, char **ret, size_t *ret_len,
			struct err *err);
	int (*referrers)(struct repository *r, const char *hex, struct oci_index *ret,
			 struct err *err); // NULL: fallback tag
	int (*begin)(struct repository *r, struct transfer *t, struct err *err);
	int (*step)(struct repository *r, struct err *err);
	void (*end)(struct repository *r, struct transfer *t);
	int (*has_blob)(struct repository *r, const char *hex, struct err *err);
	int (*put_blob)(struct repository *r, const struct layout *from, const struct oci_descriptor *d,
			struct err *err);
	int (*put_manifest)(struct repository *r, const char *data, size_t len, const char *media_type, const char *tag,
			    struct err *err);
	void (*free)(struct repository *r); // name too
};
struct repository { // first member of each kind's own struct
	const struct repository_ops *ops;
	char *name;
};
int repository_open_layout(const char *dir, struct repository **ret, struct err *err);
int repository_open_bundle(const char *file, struct repository **ret, struct err *err);
// Reads every blob of a bundle: found is the digest that its bytes have. E_USAGE: r is of another kind.
int repository_bundle_blobs(struct repository *r,
			    int (*each)(void *ctx, const char *hex, uint64_t size, const char *found, struct err *err),
			    void *ctx, struct err *err);
int repository_open_http(const char *url, struct http *http, struct repository **ret, struct err *err);
int repository_open_registry(const char *name, const struct repository_options *options, struct repository **ret,
			     struct err *err);
