// SPDX-License-Identifier: Apache-2.0
#include "kmod/kernel_tree/headers.h"

#include "base/archive/archive.h"
#include "base/file/file.h"
#include "base/file/scratch.h"

#include <errno.h>
#include <fcntl.h>

// What the sources said, clause by clause; the worst of them decides the code.
struct misses {
	char *text;
	int code;
};

static int add_miss(struct misses *m, const char *name, const struct err *why)
{
	str_add(&m->text, "%s%s: %s", m->text ? "; " : "", name, why->text);
	if (why->code == E_HEADERS_MISMATCH)
		m->code = E_HEADERS_MISMATCH;
	return 0;
}

static int open_and_check(const struct root *root, const char *release, const char *banner, struct tree *ret,
			  struct err *err)
{
	auto_tree struct tree tree = { .root = ROOT_NONE };
	if (tree_open(root, release, &tree, err) < 0 || (banner && tree_check_banner(&tree, banner, err) < 0))
		return -1;
	*ret = tree;
	tree = (struct tree){ .root = ROOT_NONE };
	return 1;
}

static int from_root(const struct headers_source *s, const char *release, const char *banner, struct tree *ret,
		     char **ret_from, struct misses *m)
{
	struct err why;
	if (open_and_check(s->root, release, banner, ret, &why) < 0)
		return add_miss(m, s->name, &why);
	*ret_from = str_fmt("%s: %s%s", s->name, ret->root.name, ret->build);
	return 1;
}

static int from_store(const struct headers_source *s, const struct root *store, const char *digest, const char *release,
		      const char *banner, struct tree *ret, char **ret_from, struct misses *m)
{
	auto_root struct root root = ROOT_NONE;
	struct err why;
	if (root_sub(store, digest, &root, &why) < 0 || open_and_check(&root, release, banner, ret, &why) < 0)
		return add_miss(m, s->name, &why);
	*ret_from = str_fmt("%s: %s", s->name, root.name);
	return 1;
}

static int from_any_stored(const struct headers_source *s, const struct root *store, const char *release,
			   const char *banner, struct tree *ret, char **ret_from, struct misses *m, struct err *err)
{
	auto_strv struct strv names = { 0 };
	struct misses inner = { 0 };
	int r = store ? root_list(store, ".", &names, err) : 0;
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		r = digest_is_hex(names.items[i]) ?
			    from_store(s, store, names.items[i], release, banner, ret, ret_from, &inner) :
			    0;
		if (r != 0)
			break;
	}
	free(inner.text);
	if (r != 0 && *ret_from)
		return 1;
	struct err why;
	err_set(&why, inner.code ? inner.code : E_HEADERS_NOT_FOUND, "none of the stored trees is for this kernel");
	return r < 0 ? -1 : add_miss(m, s->name, &why);
}

// Files were meant for this kernel: headers of another one are a mistake to name, not merely an absence.
static int check_releases(const struct root *store, const char *digest, const char *release, struct err *err)
{
	auto_root struct root root = ROOT_NONE;
	auto_strv struct strv found = { 0 };
	if (root_sub(store, digest, &root, err) < 0 || tree_releases(&root, &found, err) < 0)
		return -1;
	if (!found.count || strv_has(&found, release))
		return 0;
	auto_str char *text = strv_join(&found, ", ");
	return err_set(err, E_HEADERS_MISMATCH, "the files are for kernel %s, expected %s", text, release);
}

static int from_files(const struct headers_source *s, const struct root *store, const char *release, const char *banner,
		      struct tree *ret, char **ret_from, struct misses *m, struct err *err)
{
	char digest[DIGEST_HEX + 1];
	struct err why;
	if (!s->files || !s->files->count)
		return 0;
	if (!store)
		return err_set(err, E_CONFIG, "%s: a header store is needed to unpack files", s->name);
	if (headers_import(s->files, store, digest, err) < 0)
		return err_wrap(err, "%s", s->name);
	return check_releases(store, digest, release, &why) < 0 ?
		       add_miss(m, s->name, &why) :
		       from_store(s, store, digest, release, banner, ret, ret_from, m);
}

static int from_offer(const struct headers_source *s, const struct root *store, const char *release, const char *banner,
		      struct tree *ret, char **ret_from, struct misses *m)
{
	char digest[DIGEST_HEX + 1];
	struct err why;
	if (s->offer->bring(s->offer->ctx, release, store, digest, &why) < 0)
		return add_miss(m, s->name, &why);
	return from_store(s, store, digest, release, banner, ret, ret_from, m);
}

int headers_find(const struct headers_source *sources, size_t count, const char *release, const char *banner,
		 const struct root *store, struct tree *ret, char **ret_from, struct err *err)
{
	struct misses m = { .code = E_HEADERS_NOT_FOUND };
	auto_str char *from = NULL;
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		const struct headers_source *s = &sources[i];
		if (s->kind == HEADERS_ROOT)
			r = from_root(s, release, banner, ret, &from, &m);
		else if (s->kind == HEADERS_FILES)
			r = from_files(s, store, release, banner, ret, &from, &m, err);
		else if (s->kind == HEADERS_OFFER)
			r = from_offer(s, store, release, banner, ret, &from, &m);
		else
			r = from_any_stored(s, store, release, banner, ret, &from, &m, err);
	}
	if (r == 0)
		err_set(err, m.code, "headers of %s: %s", release, m.text ? m.text : "no source was given");
	free(m.text);
	if (r <= 0)
		return -1;
	*ret_from = TAKE(from);
	return 0;
}

static int digest_all(const struct strv *files, char ret[DIGEST_HEX + 1], struct err *err)
{
	auto_strv struct strv digests = { 0 };
	for (size_t i = 0; i < files->count; i++) {
		char one[DIGEST_HEX + 1];
		auto_fd int fd = file_open_arg(files->items[i], O_RDONLY, err);
		if (fd < 0 || digest_file(fd, files->items[i], one, err) < 0)
			return -1;
		strv_add(&digests, str_dup(one));
	}
	strv_sort(&digests);
	auto_str char *joined = strv_join(&digests, "\n");
	digest_data(joined, strlen(joined), ret);
	return 0;
}

static bool is_header_path(void *ctx, const char *path)
{
	(void)ctx;
	return !str_starts(path, "usr/share/");
}

// Two processes may do the same: both unpack, one rename wins, the other's copy is dropped.
int headers_import(const struct strv *files, const struct root *store, char ret_digest[DIGEST_HEX + 1], struct err *err)
{
	if (digest_all(files, ret_digest, err) < 0)
		return -1;
	if (root_exists(store, ret_digest))
		return 0;
	auto_scratch struct scratch into = SCRATCH_NONE;
	if (scratch_make(store, "import", &into, err) < 0)
		return -1;
	for (size_t i = 0; i < files->count; i++) {
		const struct archive_options options = { .select = is_header_path };
		auto_fd int fd = file_open_arg(files->items[i], O_RDONLY, err);
		if (fd < 0 || archive_unpack(fd, files->items[i], 0, &into.root, &options, err) < 0)
			return -1;
	}
	if (root_rename(store, into.name, ret_digest, err) == 0)
		return 1;
	return err->code == ENOTEMPTY || err->code == EEXIST ? 0 : -1;
}
