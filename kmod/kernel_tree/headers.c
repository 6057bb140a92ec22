// SPDX-License-Identifier: Apache-2.0
#include "kmod/kernel_tree/headers.h"

#include "base/archive/archive.h"
#include "base/file/file.h"
#include "base/file/scratch.h"

#include <errno.h>
#include <fcntl.h>

static int open_stored(const struct root *store, const char *digest, const char *release, const char *banner,
		       struct tree *ret, struct err *err)
{
	auto_root struct root root = ROOT_NONE;
	return root_sub(store, digest, &root, err) < 0 ? -1 : tree_open(&root, release, banner, ret, err);
}

// Trees of one kernel may differ in what their scripts run on.
static bool has_foreign_scripts(const struct tree *tree)
{
	const char *arch = tree_scripts_arch(tree);
	return arch && !str_eq(arch, tree_own_arch());
}

// These return 1 = found, 0 = not, for the reason in why, negative = the search fails.
static int search_store(const struct root *store, const char *release, const char *banner, struct tree *ret,
			struct err *why, struct err *err)
{
	auto_strv struct strv names = { 0 };
	int code = E_HEADERS_NOT_FOUND;
	if (store && root_list(store, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < 2 * names.count; i++) { // the second time, any will do
		struct err this;
		const char *name = names.items[i % names.count];
		if (!digest_is_hex(name))
			continue;
		if (open_stored(store, name, release, banner, ret, &this) == 0) {
			if (i >= names.count || !has_foreign_scripts(ret))
				return 1;
			tree_done(ret);
			continue;
		}
		if (this.code == E_HEADERS_MISMATCH)
			code = E_HEADERS_MISMATCH;
	}
	err_set(why, code, "none of the stored trees is for this kernel");
	return 0;
}

static int import_files(const struct headers_source *s, const struct root *store, const char *release,
			const char *banner, struct tree *ret, struct err *why, struct err *err)
{
	auto_root struct root root = ROOT_NONE;
	auto_strv struct strv found = { 0 };
	char digest[DIGEST_HEX + 1];
	if (!store)
		return err_set(err, E_CONFIG, "%s: a header store is needed to unpack files", s->name);
	if (headers_import(s->files, store, digest, err) < 0)
		return err_wrap(err, "%s", s->name);
	if (root_sub(store, digest, &root, why) < 0 || tree_releases(&root, &found, why) < 0)
		return 0;
	// Files were meant for this kernel: headers of another one are a mistake to name, not merely an absence.
	if (found.count && !strv_has(&found, release)) {
		auto_str char *text = strv_join(&found, ", ");
		err_set(why, E_HEADERS_MISMATCH, "the files are for kernel %s, expected %s", text, release);
		return 0;
	}
	return tree_open(&root, release, banner, ret, why) == 0;
}

int headers_find(const struct headers_source *sources, size_t count, const char *release, const char *banner,
		 const struct root *store, struct tree *ret, char **ret_from, struct err *err)
{
	auto_str char *misses = NULL;
	int code = E_HEADERS_NOT_FOUND;
	for (size_t i = 0; i < count; i++) {
		const struct headers_source *s = &sources[i];
		char digest[DIGEST_HEX + 1];
		struct err why;
		int r;
		if (s->kind == HEADERS_FILES && (!s->files || !s->files->count))
			continue;
		if (s->kind == HEADERS_ROOT)
			r = tree_open(s->root, release, banner, ret, &why) == 0;
		else if (s->kind == HEADERS_FILES)
			r = import_files(s, store, release, banner, ret, &why, err);
		else if (s->kind == HEADERS_STORE)
			r = search_store(store, release, banner, ret, &why, err);
		else
			r = s->offer->bring(s->offer->ctx, release, store, digest, &why) == 0 &&
			    open_stored(store, digest, release, banner, ret, &why) == 0;
		if (r < 0)
			return -1;
		if (r > 0) {
			*ret_from =
				str_fmt("%s: %s%s", s->name, ret->root.name, s->kind == HEADERS_ROOT ? ret->build : "");
			return 0;
		}
		bool is_asked_last = i + 1 == count && s->kind == HEADERS_OFFER && why.code != E_NOT_FOUND;
		auto_str char *before = TAKE(misses);
		auto_str char *this = str_fmt("%s: %s", s->name, why.text);
		// Who was asked last tells most, and a message has an end.
		misses = !before       ? TAKE(this) :
			 is_asked_last ? str_fmt("%s; %s", this, before) :
					 str_fmt("%s; %s", before, this);
		if (why.code == E_HEADERS_MISMATCH || (is_asked_last && code != E_HEADERS_MISMATCH))
			code = why.code;
	}
	return err_set(err, code, "headers of %s: %s", release, misses ? misses : "no source was given");
}

static bool is_header_path(void *ctx, const char *path)
{
	(void)ctx;
	return !str_starts(path, "usr/share/");
}

// Two processes may do the same: both unpack, one rename wins, the other's copy is dropped.
int headers_import(const struct strv *files, const struct root *store, char ret_digest[DIGEST_HEX + 1], struct err *err)
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
	digest_data(joined, strlen(joined), ret_digest);
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
	return scratch_keep(&into, ret_digest, err);
}
