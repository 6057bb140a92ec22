// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/unpack.h"

#include "base/archive/archive.h"
#include "base/file/file.h"

#include <errno.h>
#include <sys/stat.h>

// Room for what the tar contains besides the listed files: headers, padding and parent directories.
enum { OVERHEAD = 1 << 20, ENTRIES_BESIDE = 16 };

struct layer_reader {
	int fd;
	uint64_t at;
	struct digest *sum;               // of a blob; NULL = the part is hashed elsewhere
	const struct unpack_stream *feed; // NULL = a blob
};

static ssize_t read_layer(void *ctx, void *buf, size_t len, struct err *err)
{
	struct layer_reader *s = ctx;
	ssize_t n;
	for (int r = 1; s->feed && r > 0 && s->at >= s->feed->part->have;) {
		r = s->feed->more(s->feed->ctx, err);
		if (r < 0)
			return -1;
		// The transfer restarted, so the unpacked files belong to another attempt.
		if (s->at > s->feed->part->have)
			return err_set(err, EAGAIN, "the transfer started over");
	}
	do
		n = pread(s->fd, buf, len, (off_t)s->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return file_fail("read", "a layer", err);
	if (s->sum)
		digest_add(s->sum, buf, (size_t)n);
	s->at += (uint64_t)n;
	return n;
}

// The digest also covers bytes after the end of the tar.
static int read_to_end(struct layer_reader *s, struct err *err)
{
	char buf[1 << 14];
	ssize_t n;
	do
		n = read_layer(s, buf, sizeof(buf), err);
	while (n > 0);
	return (int)n;
}

static int unpack_layer(struct layer_reader *s, const struct root *state, struct package *p, struct err *err)
{
	const struct archive_stream stream = { .read = read_layer, .ctx = s };
	struct archive_options options = { .bytes = OVERHEAD, .entries = p->count + ENTRIES_BESIDE, .stream = &stream };
	auto_str char *name = str_fmt("layer sha256:%s", p->layer.digest);
	for (size_t i = 0; i < p->count; i++)
		options.bytes += p->files[i].size;
	if (scratch_make(state, "stage", &p->stage, err) < 0 ||
	    archive_unpack(-1, name, 0, &p->stage.root, &options, err) < 0)
		return -1;
	return read_to_end(s, err);
}

// The digest covers the bytes; this catches a configuration that lists files missing from the layer.
static int find_unpacked_files(struct package *p, struct err *err)
{
	auto_str char *dir = package_dir(&p->key);
	if (root_sub(&p->stage.root, dir, &p->dir, err) < 0)
		return err_code(err, E_MANIFEST);
	for (size_t i = 0; i < p->count; i++) {
		struct stat st;
		int r = root_stat(&p->dir, p->files[i].name, &st, err);
		if (r < 0)
			return -1;
		if (r == 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != p->files[i].size)
			return err_set(err, E_MANIFEST, "layer sha256:%s has no '%s' of %llu bytes", p->layer.digest,
				       p->files[i].name, (unsigned long long)p->files[i].size);
	}
	return 0;
}

static int remove_unpacked(struct package *p)
{
	root_done(&p->dir);
	p->dir = ROOT_NONE;
	scratch_done(&p->stage);
	return -1;
}

int unpack_package(const struct layout *from, const struct root *state, struct package *p, struct err *err)
{
	auto_fd int fd = layout_blob_open(from, p->layer.digest, err);
	if (fd < 0)
		return err->code == E_NOT_FOUND ? err_code(err, E_STORE_CORRUPT) : -1;
	struct layer_reader s = { .fd = fd, .sum = digest_new() };
	char hex[DIGEST_HEX + 1];
	struct err ignored;
	int done = unpack_layer(&s, state, p, err);
	// A damaged layer may fail to unpack before its digest is known: report the digest as the cause.
	if (done < 0)
		read_to_end(&s, &ignored);
	digest_hex(s.sum, hex);
	if (s.at != p->layer.size || !str_eq(hex, p->layer.digest))
		done = err_set(err, E_STORE_CORRUPT, "layer sha256:%s has %llu bytes and SHA-256 %s in '%s'",
			       p->layer.digest, (unsigned long long)s.at, hex, p->place ? p->place : "the layout");
	return done < 0 || find_unpacked_files(p, err) < 0 ? remove_unpacked(p) : 0;
}

int unpack_stream(const struct unpack_stream *feed, const struct root *state, struct package *p, struct err *err)
{
	struct layer_reader s = { .fd = feed->part->fd, .feed = feed };
	int done = unpack_layer(&s, state, p, err);
	// Downloads the rest to check the digest first; a part with the right digest but a bad archive is deleted.
	if (done < 0 && (err->code == E_ARCHIVE || err->code == E_ARCHIVE_UNSAFE)) {
		struct err why = *err;
		int r = 1;
		while (r > 0)
			r = feed->more(feed->ctx, err);
		if (r == 0 && partial_blob_check(feed->part, err) == 0) {
			partial_blob_remove(feed->part);
			*err = why;
		}
	}
	if (done < 0 || partial_blob_check(feed->part, err) < 0 || find_unpacked_files(p, err) < 0 ||
	    partial_blob_commit(feed->part, err) < 0)
		return remove_unpacked(p);
	return 0;
}
