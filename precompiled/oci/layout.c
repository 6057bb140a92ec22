// SPDX-License-Identifier: Apache-2.0
#include "precompiled/oci/layout.h"

#include "base/archive/pack.h"
#include "base/file/file.h"
#include "base/file/lockfile.h"
#include "precompiled/oci/layout_view.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

static const char MARK[] = LAYOUT_MARK, LOCK[] = ".lock";
static const char MARK_TEXT[] = "{\"imageLayoutVersion\":\"1.0.0\"}";

// 1 = found, 0 = absent. Nothing larger than a document is read.
static int read_layout_document(const struct root *root, const char *path, char **ret, size_t *ret_len, struct err *err)
{
	struct stat st;
	int r = root_stat(root, path, &st, err);
	if (r <= 0)
		return r;
	int most = str_eq(path, LAYOUT_INDEX) ? OCI_INDEX_MAX : OCI_DOCUMENT_MAX;
	if (st.st_size > most)
		return err_set(err, E_TOO_LARGE, "'%s/%s' has %lld bytes, more than the limit of %d", root->name, path,
			       (long long)st.st_size, most);
	return root_read(root, path, ret, ret_len, err);
}

int layout_at(const struct root *dir, struct layout *ret, struct err *err)
{
	struct root root;
	if (root_sub(dir, ".", &root, err) < 0)
		return -1;
	*ret = (struct layout){ .root = root, .view = layout_view_new() };
	return 0;
}

int layout_open(const struct root *dir, struct layout *ret, struct err *err)
{
	auto_str char *data = NULL, *name = root_path(dir, MARK);
	auto_json json_t *json = NULL;
	size_t len = 0;
	int r = read_layout_document(dir, MARK, &data, &len, err);
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, E_NOT_FOUND, "'%s' is not an OCI layout: it has no %s", dir->name, MARK);
	if (oci_json(data, len, name, &json, err) < 0)
		return -1;
	const char *version = json_string_value(json_object_get(json, "imageLayoutVersion"));
	if (!version || !str_starts(version, "1."))
		return err_set(err, E_MANIFEST, "'%s' has layout version '%s', only 1 is supported", name,
			       version ? version : "");
	return layout_at(dir, ret, err);
}

void layout_done(struct layout *l)
{
	layout_view_free(l->view);
	root_done(&l->root);
	*l = LAYOUT_NONE;
}

int layout_check_place(const struct root *dir, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_exists(dir, MARK))
		return 0;
	if (root_list(dir, ".", &names, err) < 0)
		return -1;
	// The directory is empty, or has only what an interrupted layout_make left. The mark may be there too: another
	// process may have written it since our check.
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		bool is_ours = str_eq(name, MARK) || str_eq(name, LOCK) || str_eq(name, LAYOUT_INDEX) ||
			       str_eq(name, "blobs") || (name[0] == '.' && str_ends(name, ".tmp"));
		if (!is_ours)
			return err_set(err, E_USAGE, "'%s' is not an OCI layout and not empty: it contains '%s'",
				       dir->name, name);
	}
	return 0;
}

int layout_lock(const struct layout *l, bool is_shared, struct err *err)
{
	auto_fd int at = root_open(&l->root, ".", O_RDONLY | O_DIRECTORY, err);
	if (at < 0)
		return -1;
	auto_str char *name = str_fmt("%s/%s", l->root.name, LOCK);
	auto_fd int fd = lockfile_open(at, LOCK, O_RDWR);
	if (fd < 0 && (!is_shared || (errno != EROFS && errno != EACCES)))
		return err_set(err, errno, "open '%s'", name);
	if (fd < 0)
		fd = TAKE_FD(at); // on a read-only medium this lock is enough
	return lockfile_wait(fd, is_shared ? LOCK_SH : LOCK_EX, LOCKFILE_WAIT_MS, name, err) < 0 ? -1 : TAKE_FD(fd);
}

static int write_layout_document(const struct root *dir, const char *path, const void *data, size_t len,
				 struct err *err)
{
	int r = root_write(dir, path, data, len, 0644, err);
	return r < 0 && err->code == E_NO_SPACE ? err_code(err, E_STORE_FULL) : r;
}

int layout_mark(const struct root *dir, struct err *err)
{
	return write_layout_document(dir, MARK, MARK_TEXT, strlen(MARK_TEXT), err);
}

int layout_make(const struct root *dir, struct layout *ret, struct err *err)
{
	if (root_exists(dir, MARK))
		return layout_open(dir, ret, err);
	const struct layout here = { .root = *dir };
	auto_fd int held = layout_check_place(dir, err) < 0 ? -1 : layout_lock(&here, false, err);
	if (held < 0)
		return -1;
	if (!root_exists(dir, MARK)) {
		auto_str char *text = oci_index_text(&(struct oci_index){ 0 });
		if (root_mkdirs(dir, LAYOUT_BLOBS, 0755, err) < 0 ||
		    (!root_exists(dir, LAYOUT_INDEX) &&
		     write_layout_document(dir, LAYOUT_INDEX, text, strlen(text), err) < 0) ||
		    layout_mark(dir, err) < 0) // last: it is complete now
			return -1;
	}
	return layout_open(dir, ret, err);
}

bool layout_has(const struct layout *l, const char *hex)
{
	struct err ignored;
	struct stat st;
	auto_str char *path = layout_blob_path(hex);
	return root_stat(&l->root, path, &st, &ignored) > 0 && S_ISREG(st.st_mode);
}

int layout_blob_open(const struct layout *l, const char *hex, struct err *err)
{
	auto_str char *path = layout_blob_path(hex);
	auto_fd int fd = root_open(&l->root, path, O_RDONLY | O_NOFOLLOW, err);
	struct stat st;
	if (fd < 0)
		return err->code == ENOENT || err->code == ENOTDIR ? err_code(err, E_NOT_FOUND) : -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at '%s/%s'", l->root.name, path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_STORE_CORRUPT, "'%s/%s' is not a regular file", l->root.name, path);
	return TAKE_FD(fd);
}

int layout_blob_read(const struct layout *l, const struct oci_descriptor *d, char **ret, size_t *ret_len,
		     struct err *err)
{
	auto_str char *path = layout_blob_path(d->digest), *name = root_path(&l->root, path), *data = NULL;
	char hex[DIGEST_HEX + 1];
	struct stat st;
	size_t len = 0;
	auto_fd int fd = layout_blob_open(l, d->digest, err);
	if (fd < 0)
		return -1;
	if (d->size > OCI_DOCUMENT_MAX)
		return err_set(err, E_TOO_LARGE, "'%s' should have %llu bytes, more than the limit of %d", name,
			       (unsigned long long)d->size, OCI_DOCUMENT_MAX);
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at '%s'", name);
	if ((uint64_t)st.st_size != d->size)
		return err_set(err, E_DIGEST, "'%s' has %lld bytes instead of %llu", name, (long long)st.st_size,
			       (unsigned long long)d->size);
	if (file_read(fd, name, &data, &len, err) < 0)
		return -1;
	digest_data(data, len, hex);
	if (!str_eq(hex, d->digest))
		return err_set(err, E_DIGEST, "'%s' has the SHA-256 %s", name, hex);
	*ret = TAKE(data);
	*ret_len = len;
	return 0;
}

int layout_manifest(const struct layout *l, const struct oci_descriptor *d, const char *name, struct oci_manifest *ret,
		    struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0;
	return layout_blob_read(l, d, &text, &len, err) < 0 ? -1 : oci_manifest_parse(text, len, name, ret, err);
}

int layout_blob_put(const struct layout *l, const void *data, size_t len, char ret[DIGEST_HEX + 1], struct err *err)
{
	struct oci_descriptor d = { .size = len };
	digest_data(data, len, d.digest);
	auto_str char *path = layout_blob_path(d.digest), *there = NULL;
	size_t there_len;
	struct err ignored;
	// An existing good blob stays; a damaged one is replaced.
	if (layout_blob_read(l, &d, &there, &there_len, &ignored) < 0 &&
	    write_layout_document(&l->root, path, data, len, err) < 0)
		return -1;
	memcpy(ret, d.digest, sizeof(d.digest));
	return 0;
}

int layout_document_put(const struct layout *l, const char *media_type, const char *text, struct oci_descriptor *ret,
			struct err *err)
{
	char hex[DIGEST_HEX + 1];
	if (layout_blob_put(l, text, strlen(text), hex, err) < 0)
		return -1;
	*ret = (struct oci_descriptor){ .media_type = str_dup(media_type), .size = strlen(text) };
	memcpy(ret->digest, hex, sizeof(hex));
	return 0;
}

int layout_index(const struct layout *l, struct oci_index *ret, struct err *err)
{
	auto_str char *data = NULL, *name = root_path(&l->root, LAYOUT_INDEX);
	size_t len = 0;
	if (l->view && l->view->kept)
		return oci_index_parse(l->view->kept, strlen(l->view->kept), name, ret, err);
	int r = read_layout_document(&l->root, LAYOUT_INDEX, &data, &len, err);
	if (r == 0)
		return err_set(err, E_MANIFEST, "'%s' does not exist", name);
	return r < 0 ? -1 : oci_index_parse(data, len, name, ret, err);
}

int layout_index_write(const struct layout *l, const struct oci_index *x, struct err *err)
{
	auto_str char *text = oci_index_text(x);
	size_t len = strlen(text);
	if (len > OCI_INDEX_MAX)
		return err_set(err, E_STORE_FULL, "the index of '%s' would have %zu bytes, more than the limit of %d",
			       l->root.name, len, OCI_INDEX_MAX);
	if (write_layout_document(&l->root, LAYOUT_INDEX, text, len, err) < 0)
		return -1;
	if (l->view)
		free(TAKE(l->view->kept));
	return 0;
}

int layout_publish(const struct layout *l, const struct oci_descriptor *d, const char *tag, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_fd int held = layout_lock(l, false, err);
	if (held < 0 || layout_index(l, &x, err) < 0)
		return -1;
	oci_index_put(&x, d, tag);
	return layout_index_write(l, &x, err);
}

// The digest is only known at the end: until then the blob has a name that readers ignore.
int layout_layer_put(const struct layout *into, const char *title,
		     int (*fill)(void *ctx, struct pack *p, struct err *err), void *ctx, struct oci_descriptor *ret,
		     char ret_diff_id[DIGEST_HEX + 1], struct err *err)
{
	struct oci_descriptor d = { .size = 0 };
	auto_pack struct pack *pack = NULL;
	auto_str char *temporary = str_fmt("blobs/sha256/.new.%d.part", (int)getpid());
	auto_fd int fd = root_create(&into->root, temporary, err);
	if (fd < 0)
		return -1;
	int r = pack_new(fd, temporary, PACK_ZSTD, &pack, err) < 0 || fill(ctx, pack, err) < 0 ?
			-1 :
			pack_close(pack, d.digest, ret_diff_id, &d.size, err);
	if (r == 0 && fsync(fd) < 0)
		r = file_fail("write", temporary, err);
	auto_str char *final = layout_blob_path(d.digest);
	if (r == 0)
		r = root_rename(&into->root, temporary, final, err);
	struct err ignored;
	if (r < 0) {
		root_unlink(&into->root, temporary, &ignored);
		return -1;
	}
	d.media_type = str_dup(OCI_LAYER);
	d.annotations = json_pack("{s:s}", OCI_TITLE, title);
	*ret = d;
	return 0;
}
