// SPDX-License-Identifier: Apache-2.0
#include "precompiled/oci/partial_blob.h"

#include "base/file/file.h"
#include "base/file/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

enum { TRIES = 16 };

static char *partial_blob_path(const char *hex)
{
	return str_fmt("blobs/sha256/.%s.part", hex);
}

// A full disk is reported as a full store from here on.
static int fail_partial_blob(const struct partial_blob *p, const char *what, struct err *err)
{
	auto_str char *path = partial_blob_path(p->digest), *full = root_path(&p->layout->root, path);
	file_fail(what, full, err);
	return err->code == E_NO_SPACE ? err_code(err, E_STORE_FULL) : -1;
}

// 1 = the blob exists with its size and is open for reading. One of another size is damaged: it is fetched again.
static int open_complete_blob(struct partial_blob *p, struct err *err)
{
	struct stat st;
	auto_fd int fd = layout_blob_open(p->layout, p->digest, err);
	if (fd < 0)
		return err->code == E_NOT_FOUND ? 0 : -1;
	if (fstat(fd, &st) < 0)
		return fail_partial_blob(p, "look at", err);
	if ((uint64_t)st.st_size != p->size)
		return 0;
	p->fd = TAKE_FD(fd);
	p->have = p->size;
	p->is_committed = true;
	return 1;
}

// 1 = open and locked, or complete after all; 0 = it was renamed or removed between open and lock.
static int begin_partial_blob(struct partial_blob *p, struct err *err)
{
	struct stat ours, named;
	auto_str char *path = partial_blob_path(p->digest), *name = NULL;
	auto_fd int dir = root_parent(&p->layout->root, path, &name, err);
	if (dir < 0)
		return -1;
	auto_fd int part = lockfile_open(dir, name, O_RDWR);
	if (part < 0)
		return fail_partial_blob(p, "open", err);
	if (flock(part, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return err_set(err, E_LOCKED, "another process is writing sha256:%s to '%s'", p->digest,
			       p->layout->root.name);
	if (fstat(part, &ours) < 0)
		return fail_partial_blob(p, "look at", err);
	if (fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) < 0 || named.st_ino != ours.st_ino)
		return 0;
	// The previous writer may have finished the blob between our check and our lock: then this file is new and
	// empty.
	int r = open_complete_blob(p, err);
	if (r == 0)
		p->fd = TAKE_FD(part);
	if (r > 0)
		partial_blob_remove(p);
	return r < 0 ? -1 : 1;
}

// Hash what an earlier attempt left. A file larger than the blob is garbage.
static int hash_existing_bytes(struct partial_blob *p, struct err *err)
{
	char buf[1 << 16];
	struct stat st;
	p->sum = digest_new();
	if (fstat(p->fd, &st) < 0)
		return fail_partial_blob(p, "look at", err);
	if ((uint64_t)st.st_size > p->size)
		return partial_blob_restart(p, err);
	for (ssize_t n; (n = pread(p->fd, buf, sizeof(buf), (off_t)p->have)) != 0;) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail_partial_blob(p, "read", err);
		digest_add(p->sum, buf, (size_t)n);
		p->have += (uint64_t)n;
	}
	return 0;
}

int partial_blob_open(const struct layout *l, const struct oci_descriptor *d, struct partial_blob *ret, struct err *err)
{
	auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE;
	p.layout = l;
	p.size = d->size;
	memcpy(p.digest, d->digest, sizeof(p.digest));
	int r = 0;
	for (int i = 0; r == 0; i++) {
		if (i == TRIES)
			return err_set(err, E_LOCKED, "other processes keep writing and removing sha256:%s in '%s'",
				       d->digest, l->root.name);
		r = open_complete_blob(&p, err);
		if (r == 0)
			r = begin_partial_blob(&p, err);
	}
	if (r < 0 || (!p.is_committed && hash_existing_bytes(&p, err) < 0))
		return -1;
	*ret = p;
	p = PARTIAL_BLOB_NONE;
	return ret->is_committed;
}

int partial_blob_append(struct partial_blob *p, const void *data, size_t len, struct err *err)
{
	if (len > p->size - p->have)
		return err_set(err, E_TOO_LARGE, "sha256:%s should have %llu bytes, received more", p->digest,
			       (unsigned long long)p->size);
	for (size_t done = 0; done < len;) {
		ssize_t n = pwrite(p->fd, (const char *)data + done, len - done, (off_t)(p->have + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			fail_partial_blob(p, "write", err);
			// Keep the count and the file in step. If this fails too, the next open hashes the file.
			if (ftruncate(p->fd, (off_t)p->have) < 0)
				err_wrap(err, "truncate the part file");
			return -1;
		}
		done += (size_t)n;
	}
	digest_add(p->sum, data, len);
	p->have += len;
	return 0;
}

static void discard_sum(struct partial_blob *p)
{
	char ignored[DIGEST_HEX + 1];
	if (p->sum)
		digest_hex(TAKE(p->sum), ignored);
}

int partial_blob_restart(struct partial_blob *p, struct err *err)
{
	if (ftruncate(p->fd, 0) < 0)
		return fail_partial_blob(p, "empty", err);
	discard_sum(p);
	p->sum = digest_new();
	p->have = 0;
	return 0;
}

void partial_blob_remove(struct partial_blob *p)
{
	struct err ignored;
	auto_str char *path = partial_blob_path(p->digest);
	root_unlink(&p->layout->root, path, &ignored);
}

int partial_blob_check(struct partial_blob *p, struct err *err)
{
	if (p->is_committed)
		return 0;
	if (p->sum)
		digest_hex(TAKE(p->sum), p->found);
	if (p->have == p->size && str_eq(p->found, p->digest))
		return 0;
	partial_blob_remove(p);
	return err_set(err, E_DIGEST, "received %llu bytes with SHA-256 %s instead of %llu with %s",
		       (unsigned long long)p->have, p->found, (unsigned long long)p->size, p->digest);
}

int partial_blob_commit(struct partial_blob *p, struct err *err)
{
	auto_str char *from = partial_blob_path(p->digest), *to = layout_blob_path(p->digest);
	if (p->is_committed)
		return 0;
	if (fchmod(p->fd, 0644) < 0 || fsync(p->fd) < 0) // it is no longer a lock file, and readable for all
		return fail_partial_blob(p, "write", err);
	if (partial_blob_check(p, err) < 0 || root_rename(&p->layout->root, from, to, err) < 0)
		return -1;
	auto_fd int dir = root_open(&p->layout->root, "blobs/sha256", O_RDONLY | O_DIRECTORY, err);
	if (dir < 0)
		return -1;
	if (fsync(dir) < 0)
		return fail_partial_blob(p, "make durable", err);
	p->is_committed = true;
	return lseek(p->fd, 0, SEEK_SET) < 0 ? fail_partial_blob(p, "rewind", err) : 0;
}

void partial_blob_done(struct partial_blob *p)
{
	discard_sum(p);
	if (p->fd >= 0)
		close(p->fd);
	*p = PARTIAL_BLOB_NONE;
}
