// SPDX-License-Identifier: Apache-2.0
#include "precompiled/bundle/bundle.h"

#include "base/archive/pack.h"
#include "base/core/date.h"
#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

// Splits a path as the user typed it into its directory and its name.
static int open_parent(const char *file, struct root *ret, char **ret_name, struct err *err)
{
	const char *slash = strrchr(file, '/');
	auto_str char *dir = slash == file ? str_dup("/") :
			     slash         ? str_ndup(file, (size_t)(slash - file)) :
					     str_dup(".");
	const char *name = slash ? slash + 1 : file;
	if (!*name || str_eq(name, ".") || str_eq(name, ".."))
		return err_set(err, E_USAGE, "'%s' does not name a file", file);
	if (root_init(ret, dir, err) < 0)
		return -1;
	*ret_name = str_dup(name);
	return 0;
}

int bundle_check_place(const char *file, struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	auto_str char *name = NULL;
	struct stat st;
	if (open_parent(file, &dir, &name, err) < 0)
		return -1;
	int r = root_stat(&dir, name, &st, err);
	if (r > 0 && !S_ISREG(st.st_mode))
		return err_set(err, E_USAGE, "the bundle would replace '%s', which is not a regular file", file);
	return r < 0 ? -1 : 0;
}

static int pack_layout_file(struct pack *pack, const struct root *root, const char *path, struct err *err)
{
	struct stat st;
	auto_fd int fd = root_open(root, path, O_RDONLY | O_NOFOLLOW, err);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at '%s/%s'", root->name, path);
	return pack_file(pack, path, fd, (uint64_t)st.st_size, err);
}

static int write_bundle_tar(const struct layout *l, int fd, const char *name, struct err *err)
{
	auto_strv struct strv names = { 0 };
	auto_pack struct pack *pack = NULL;
	// The small files come first: a reader knows the contents before it meets the first blob.
	if (pack_new(fd, name, PACK_PLAIN, &pack, err) < 0 || root_list(&l->root, "blobs/sha256", &names, err) < 0 ||
	    pack_layout_file(pack, &l->root, "oci-layout", err) < 0 ||
	    pack_layout_file(pack, &l->root, "index.json", err) < 0 || pack_dir(pack, "blobs", err) < 0 ||
	    pack_dir(pack, "blobs/sha256", err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = layout_blob_path(names.items[i]);
		if (digest_is_hex(names.items[i]) && pack_layout_file(pack, &l->root, path, err) < 0)
			return -1;
	}
	if (pack_close(pack, NULL, NULL, NULL, err) < 0)
		return -1;
	return fsync(fd) < 0 ? file_fail("write", name, err) : 0;
}

int bundle_write(const struct layout *l, const char *file, struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	auto_str char *name = NULL;
	if (open_parent(file, &dir, &name, err) < 0)
		return -1;
	auto_str char *temporary = str_fmt(".%s.%d.tmp", name, (int)getpid());
	auto_fd int lock = layout_lock(l, true, err), fd = lock < 0 ? -1 : root_create(&dir, temporary, err);
	if (fd < 0)
		return -1;
	struct err ignored;
	int r = write_bundle_tar(l, fd, file, err);
	if (r == 0)
		r = root_rename(&dir, temporary, name, err);
	if (r == 0) {
		auto_fd int at = root_open(&dir, ".", O_RDONLY | O_DIRECTORY, err);
		r = at < 0 ? -1 : fsync(at) < 0 ? file_fail("write", dir.name, err) : 0;
	}
	if (r < 0)
		root_unlink(&dir, temporary, &ignored);
	return r;
}

// Verifying a bundle that arrived on removable media, without unpacking it.
void bundle_report_done(struct bundle_report *r)
{
	bundle_manifest_done(&r->manifest);
	strv_done(&r->missing);
	strv_done(&r->damaged);
	free(r->signers);
	*r = (struct bundle_report){ 0 };
}

static int on_blob(void *ctx, const char *hex, uint64_t size, const char *found, struct err *err)
{
	struct bundle_report *report = ctx;
	(void)err;
	report->blobs++;
	report->bytes += size;
	if (!str_eq(hex, found))
		strv_add(&report->damaged, str_fmt("blobs/sha256/%s has the SHA-256 %s", hex, found));
	return 0;
}

static int verify_bundle(struct repository *r, const struct trust_rule *rule, time_t now, struct bundle_report *report,
			 struct err *err)
{
	auto_signature_verdict struct signature_verdict verdict = { 0 };
	const struct bundle_manifest *all = &report->manifest;
	if (bundle_manifest_read(r, rule, &report->manifest, &verdict, err) < 0)
		return -1;
	auto_str char *expires = date_text(all->expires), *today = date_text(now);
	if (now >= all->expires)
		return err_set(err, E_EXPIRED, "'%s' expired at %s; the time here is %s", r->name, expires, today);
	report->signers = strv_join(&verdict.names, ", ");
	for (size_t i = 0; i < all->count; i++) {
		auto_str char *why = NULL, *text = bundle_entry_text(&all->items[i]);
		int kept = bundle_entry_is_present(r, &all->items[i], &why, err);
		if (kept < 0)
			return err_wrap(err, "%s", text);
		if (kept == 0)
			strv_add(&report->missing, str_fmt("%s: %s", text, why));
	}
	if (repository_bundle_blobs(r, on_blob, report, err) < 0)
		return -1;
	if (report->missing.count || report->damaged.count)
		return 1; // the missing parts may include signatures
	for (size_t i = 0; i < all->count; i++) {
		auto_signature_verdict struct signature_verdict of_entry = { 0 };
		auto_str char *text = bundle_entry_text(&all->items[i]);
		if (signature_check(r, all->items[i].digest, rule, &of_entry, err) < 0)
			return err_wrap(err, "%s", text);
	}
	return 0;
}

int bundle_verify(const char *file, const struct trust *trust, time_t now, struct bundle_report *ret, struct err *err)
{
	auto_repository struct repository *r = NULL;
	auto_trust_rule struct trust_rule rule = { 0 };
	auto_bundle_report struct bundle_report report = { 0 };
	if (repository_open_bundle(file, NULL, &r, err) < 0)
		return -1;
	trust_rule(trust, r->name, &rule);
	int found = verify_bundle(r, &rule, now, &report, err);
	if (found < 0)
		return -1;
	*ret = report;
	report = (struct bundle_report){ 0 };
	return found;
}
