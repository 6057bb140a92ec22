// SPDX-License-Identifier: Apache-2.0
// An OCI image layout: a directory with oci-layout, index.json and blobs/sha256/HEX. The node's store, the output of
// `build --output`, the contents of a bundle and the files on a static web server all have this form.
//
// A blob appears complete, with the right digest, or not at all: temporary name, fsync, rename. index.json is replaced
// by rename, under an exclusive lock. So a kill at any time leaves a valid layout and at most unreferenced files.
#pragma once
#include "precompiled/oci/oci.h"

struct pack;
struct layout_view;

struct layout {
	struct root root;
	struct layout_view *view; // of its index, read when it is needed (layout_view.h)
	bool is_store;            // of a node: the origin of each package is recorded (provenance.h)
};
#define LAYOUT_NONE ((struct layout){ .root = ROOT_NONE })
// E_NOT_FOUND when the directory holds no layout.
int layout_open(const struct root *dir, struct layout *ret, struct err *err);
// Creates an empty one if needed; E_USAGE when the directory holds something else.
int layout_make(const struct root *dir, struct layout *ret, struct err *err);
int layout_at(const struct root *dir, struct layout *ret, struct err *err); // without a look at the mark
int layout_mark(const struct root *dir, struct err *err);                   // its content is always the same
int layout_check_place(const struct root *dir, struct err *err);            // would layout_make succeed?
void layout_done(struct layout *l);
#define auto_layout __attribute__((cleanup(layout_done)))

// Waits for another writer of the index. fd to close; shared is for readers that need index and blobs to agree.
int layout_lock(const struct layout *l, bool is_shared, struct err *err);

#define LAYOUT_MARK "oci-layout"
#define LAYOUT_BLOBS "blobs/sha256"
#define LAYOUT_INDEX "index.json"
static inline char *layout_blob_path(const char *hex)
{
	return str_fmt(LAYOUT_BLOBS "/%s", hex);
}
bool layout_has(const struct layout *l, const char *hex);
int layout_blob_open(const struct layout *l, const char *hex, struct err *err); // fd; not verified
// Reads a small document; size and digest are checked (E_DIGEST). E_NOT_FOUND when absent.
int layout_blob_read(const struct layout *l, const struct oci_descriptor *d, char **ret, size_t *ret_len,
		     struct err *err);
int layout_blob_put(const struct layout *l, const void *data, size_t len, char ret[DIGEST_HEX + 1], struct err *err);

// Reads a manifest. name: for messages.
int layout_manifest(const struct layout *l, const struct oci_descriptor *d, const char *name, struct oci_manifest *ret,
		    struct err *err);
// Writes a text as a blob of that type; ret describes it.
int layout_document_put(const struct layout *l, const char *media_type, const char *text, struct oci_descriptor *ret,
			struct err *err);
// Adds a blob with what fill writes: the single layer of everything we publish, a tar+zstd whose bytes depend on its
// content alone. title: a file name for clients that write layers to disk. ret_diff_id: digest of the tar inside.
int layout_layer_put(const struct layout *into, const char *title,
		     int (*fill)(void *ctx, struct pack *p, struct err *err), void *ctx, struct oci_descriptor *ret,
		     char ret_diff_id[DIGEST_HEX + 1], struct err *err);

int layout_index(const struct layout *l, struct oci_index *ret, struct err *err);
// Replaces the index; the caller has held the exclusive lock since reading it.
int layout_index_write(const struct layout *l, const struct oci_index *x, struct err *err);
// Adds one manifest to the index, under the lock. 0.
int layout_publish(const struct layout *l, const struct oci_descriptor *d, const char *tag, struct err *err);
