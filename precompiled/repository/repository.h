// SPDX-License-Identifier: Apache-2.0
// A place to get packages from or push them to, of one of the kinds in kind.h. Nothing from a repository is
// trusted: callers check bytes against digests and signatures.
#pragma once
#include "base/http/http.h"
#include "precompiled/oci/partial_blob.h"
#include "precompiled/repository/kind.h"

struct repository_options {
	struct http *http;       // NULL = remote repositories fail with E_OFFLINE
	const char *credentials; // a docker config.json; NULL = docker's and podman's (credentials.h)
};

struct repository;
int repository_open(const char *name, const struct repository_options *options, struct repository **ret,
		    struct err *err);
// Where there was no answer, err says what tells which layer fails, too. Always -1.
int repository_unreached(const char *name, struct err *err);

// The manifest or index of ref (a tag, or "sha256:HEX"), at most OCI_DOCUMENT_MAX bytes. 1 = found, 0 = absent. By
// digest the content must match, else E_DIGEST.
int repository_manifest(struct repository *r, const char *ref, char **ret, size_t *ret_len,
			char ret_digest[DIGEST_HEX + 1], struct err *err);
// A small blob, at most OCI_DOCUMENT_MAX; size and digest are checked. 1 = found, 0 = absent.
int repository_document(struct repository *r, const struct oci_descriptor *d, char **ret, size_t *ret_len,
			struct err *err);
// Manifests that have this one as subject: from the referrers API where the registry has it, and the index under the
// fallback tag sha256-HEX. Fields of these descriptors may be wrong (clients differ): read each manifest. Empty if
// none.
int repository_referrers(struct repository *r, const char *hex, struct oci_index *ret, struct err *err);

// Blobs are fetched in parallel: begin any number, then step until each is_done. A transfer appends to its part from
// part->have on; a failed one has err.code set, and its part keeps the bytes so far. Interrupted transfers are resumed
// within the deadlines.
struct blob_transfer {
	struct partial_blob *part; // borrowed
	bool is_done;
	struct err err; // .code 0 = none
	void *own;      // private to the repository
};
int repository_begin(struct repository *r, struct blob_transfer *t, struct err *err);

// The operations of a kind; the functions around this check and dispatch.
struct repository_ops {
	int (*manifest)(struct repository *r, const char *ref, char **ret, size_t *ret_len, struct err *err);
	int (*tags)(struct repository *r, struct strv *ret, struct err *err);
	int (*untagged)(struct repository *r, const char *artifact_type, struct strv *ret,
			struct err *err); // NULL: nothing is there without a tag
	int (*document)(struct repository *r, const struct oci_descriptor *d, char **ret, size_t *ret_len,
			struct err *err);
	int (*referrers)(struct repository *r, const char *hex, struct oci_index *ret,
			 struct err *err); // NULL: fallback tag
	int (*begin)(struct repository *r, struct blob_transfer *t, struct err *err);
	int (*step)(struct repository *r, struct err *err);
	void (*end)(struct repository *r, struct blob_transfer *t);
	int (*has_blob)(struct repository *r, const char *hex, struct err *err);
	int (*put_blob)(struct repository *r, const struct layout *from, const struct oci_descriptor *d,
			struct err *err);
	int (*put_manifest)(struct repository *r, const char *data, size_t len, const char *media_type, const char *tag,
			    struct err *err);
	void (*free)(struct repository *r); // name too
};
struct repository { // first member of each kind's own struct
	const struct repository_ops *ops;
	char *name; // for messages and policies
};
static inline void repository_free(struct repository *r)
{
	if (r)
		r->ops->free(r);
}
static inline void repository_freep(struct repository **r)
{
	repository_free(*r);
}
#define auto_repository __attribute__((cleanup(repository_freep)))
static inline int repository_tags(struct repository *r, struct strv *ret, struct err *err)
{
	return r->ops->tags(r, ret, err);
}
// As oci_index_untagged(). A registry shows none.
static inline int repository_untagged(struct repository *r, const char *artifact_type, struct strv *ret,
				      struct err *err)
{
	return r->ops->untagged ? r->ops->untagged(r, artifact_type, ret, err) : 0;
}
// Waits a moment for data.
static inline int repository_step(struct repository *r, struct err *err)
{
	return r->ops->step(r, err);
}
// Frees the transfer, finished or not.
static inline void repository_end(struct repository *r, struct blob_transfer *t)
{
	r->ops->end(r, t);
}
// Writing. E_USAGE for read-only kinds (a static server, a bundle). 1 yes, 0 no.
static inline int repository_has_blob(struct repository *r, const char *hex, struct err *err)
{
	return r->ops->has_blob(r, hex, err);
}
static inline int repository_put_blob(struct repository *r, const struct layout *from, const struct oci_descriptor *d,
				      struct err *err)
{
	return r->ops->put_blob(r, from, d, err);
}
// tag may be NULL. A manifest with a subject is also listed under the referrers fallback tag if the registry does not
// do that itself.
static inline int repository_put_manifest(struct repository *r, const char *data, size_t len, const char *media_type,
					  const char *tag, struct err *err)
{
	return r->ops->put_manifest(r, data, len, media_type, tag, err);
}

// Each kind's own. Layouts and bundles need no options.
int repository_open_layout(const char *dir, const struct repository_options *options, struct repository **ret,
			   struct err *err);
int repository_open_bundle(const char *file, const struct repository_options *options, struct repository **ret,
			   struct err *err);
int repository_open_web(const char *url, const struct repository_options *options, struct repository **ret,
			struct err *err);
int repository_open_registry(const char *name, const struct repository_options *options, struct repository **ret,
			     struct err *err);
struct repository *repository_of_layout(const struct layout *l); // borrowed until repository_free()
// Reads every blob of a bundle: found is the digest of its content. E_USAGE: r is not a bundle.
int repository_bundle_blobs(struct repository *r,
			    int (*each)(void *ctx, const char *hex, uint64_t size, const char *found, struct err *err),
			    void *ctx, struct err *err);
