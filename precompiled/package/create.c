// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/create.h"

#include "base/archive/pack.h"
#include "precompiled/package/find.h"
#include "precompiled/trust/provenance.h"

#include <errno.h>
#include <fcntl.h>

static int measure_package_file(const struct root *dir, struct package_file *f, struct err *err)
{
	auto_fd int fd = root_open(dir, f->name, O_RDONLY | O_NOFOLLOW, err);
	struct stat st;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, errno, "'%s/%s' is not a regular file", dir->name, f->name);
	f->size = (uint64_t)st.st_size;
	return digest_file(fd, f->name, f->sha256, err);
}

static int pack_parents(struct pack *pack, const char *dir, struct err *err)
{
	for (const char *slash = dir; slash; slash = strchr(slash + 1, '/')) {
		auto_str char *parent = str_ndup(dir, (size_t)(slash - dir));
		if (*parent && pack_dir(pack, parent, err) < 0)
			return -1;
	}
	return pack_dir(pack, dir, err);
}

static int pack_files(struct pack *pack, const struct root *dir, const char *prefix, const struct package_file *files,
		      size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		auto_str char *path = str_fmt("%s/%s", prefix, files[i].name);
		auto_fd int fd = root_open(dir, files[i].name, O_RDONLY | O_NOFOLLOW, err);
		if (fd < 0 || pack_file(pack, path, fd, files[i].size, err) < 0)
			return -1;
	}
	return 0;
}

struct package_content {
	const struct root *dir;
	const struct package_key *key;
	const struct package_file *files;
	size_t count;
};

static int pack_package(void *ctx, struct pack *pack, struct err *err)
{
	const struct package_content *c = ctx;
	auto_str char *prefix = package_dir(c->key);
	return pack_parents(pack, prefix, err) < 0 ? -1 : pack_files(pack, c->dir, prefix, c->files, c->count, err);
}

static int publish_package(const struct layout *into, const struct package_key *key, const struct package_file *files,
			   size_t count, const struct layout_layer *layer, struct oci_descriptor *ret, struct err *err)
{
	auto_str char *config = package_config(key, files, count, layer->diff_id);
	auto_oci_descriptor struct oci_descriptor c = { .media_type = str_dup(OCI_CONFIG), .size = strlen(config) };
	if (layout_blob_put(into, config, c.size, c.digest, err) < 0)
		return -1;
	auto_str char *manifest = package_manifest(key, &c, &layer->blob), *tag = package_tag(key);
	ret->media_type = str_dup(OCI_MANIFEST);
	ret->artifact_type = str_dup(PACKAGE_TYPE);
	ret->size = strlen(manifest);
	ret->annotations = json_pack("{s:s}", PACKAGE_RELEASE, key->release);
	const struct provenance provenance = { .origin = PROVENANCE_COMPILED };
	return layout_blob_put(into, manifest, ret->size, ret->digest, err) < 0 ||
			       provenance_write(into, ret, &provenance, err) < 0 ?
		       -1 :
		       layout_publish(into, ret, tag, err);
}

int create_package(const struct layout *into, const struct root *dir, const struct package_key *key,
		   struct package_file *files, size_t count, struct package *ret, struct err *err)
{
	auto_layout_layer struct layout_layer layer = { 0 };
	struct package_content content = { .dir = dir, .key = key, .files = files, .count = count };
	auto_oci_descriptor struct oci_descriptor manifest = { 0 };
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		r = measure_package_file(dir, &files[i], err);
	if (r == 0)
		r = layout_layer_put(into, "modules.tar.zst", pack_package, &content, &layer, err);
	if (r == 0)
		r = publish_package(into, key, files, count, &layer, &manifest, err);
	if (r < 0)
		return err_wrap(err, "write the package");
	return find_by_descriptor(into, &manifest, ret, err) < 0 ? -1 : 0;
}
