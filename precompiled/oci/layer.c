// SPDX-License-Identifier: Apache-2.0
#include "precompiled/oci/layer.h"

#include "base/file/file.h"

void layer_done(struct layer *l)
{
	oci_descriptor_done(&l->blob);
	*l = (struct layer){ 0 };
}

struct layer_content {
	int (*fill)(void *ctx, struct pack *p, struct err *err);
	void *ctx;
};

static int write_layer(int fd, const char *name, const struct layer_content *f, struct layer *ret, struct err *err)
{
	auto_pack struct pack *pack = NULL;
	if (pack_new(fd, name, true, &pack, err) < 0 || f->fill(f->ctx, pack, err) < 0 ||
	    pack_close(pack, ret->blob.digest, ret->diff_id, &ret->blob.size, err) < 0)
		return -1;
	return fsync(fd) < 0 ? file_fail("write", name, err) : 0;
}

// The digest is known when all is written: until then the blob has a name that no reader looks for.
int layer_make(const struct layout *into, const char *title, int (*fill)(void *ctx, struct pack *p, struct err *err),
	       void *ctx, struct layer *ret, struct err *err)
{
	struct layer l = { .blob = { .size = 0 } };
	const struct layer_content f = { .fill = fill, .ctx = ctx };
	auto_str char *temporary = str_fmt("blobs/sha256/.new.%d.part", (int)getpid());
	auto_fd int fd = root_create(&into->root, temporary, err);
	if (fd < 0)
		return -1;
	int r = write_layer(fd, temporary, &f, &l, err);
	auto_str char *final = layout_blob_path(l.blob.digest);
	if (r == 0)
		r = root_rename(&into->root, temporary, final, err);
	struct err ignored;
	if (r < 0) {
		root_unlink(&into->root, temporary, &ignored);
		return -1;
	}
	l.blob.media_type = str_dup(OCI_LAYER);
	l.blob.annotations = json_pack("{s:s}", OCI_TITLE, title);
	*ret = l;
	return 0;
}
