// SPDX-License-Identifier: Apache-2.0
#include "driver_root/image_payload.h"

#include "base/file/copy.h"
#include "base/file/scratch.h"
#include "driver_root/driver_root.h"
#include "journal/state_dir.h"

#include <fcntl.h>

// In the copied tree, where the export shows nothing that begins with a dot.
static const char DOCUMENT[] = "." IMAGE_DIR_DOCUMENT;

void image_payload_done(struct image_payload *c)
{
	root_done(&c->dir);
	image_dir_done(&c->is);
	*c = IMAGE_PAYLOAD_NONE;
}

int image_payload_open(const char *dir, struct image_payload *ret, struct err *err)
{
	struct image_payload c = IMAGE_PAYLOAD_NONE;
	if (root_init(&c.dir, dir, err) < 0)
		return err_wrap(err, "--payload");
	int r = image_dir_read(&c.dir, IMAGE_DIR_DOCUMENT, &c.is, err);
	if (r > 0 && root_exists(&c.dir, IMAGE_DIR_ROOT)) {
		*ret = c;
		return 0;
	}
	if (r >= 0)
		err_set(err, E_PAYLOAD, "--payload '%s' lacks " IMAGE_DIR_DOCUMENT " or " IMAGE_DIR_ROOT, dir);
	image_payload_done(&c);
	return -1;
}

bool image_payload_matches(const struct image_payload *c, const char *driver, const char *arch)
{
	return str_eq(c->is.driver, driver) && str_eq(c->is.arch, arch);
}

// It gets the digest as its name when all of it is on disk, so it is complete wherever it is found.
static int copy_payload(const struct image_payload *c, const struct root *store, struct err *err)
{
	auto_scratch struct scratch into = SCRATCH_NONE;
	if (state_dir_space(store, c->is.bytes, err) < 0 || scratch_make(store, "carried", &into, err) < 0 ||
	    copy_tree(&c->dir, IMAGE_DIR_ROOT, &into.root, ".", err) < 0 ||
	    image_dir_write(&into.root, DOCUMENT, &c->is, err) < 0)
		return err_wrap(err, "copy the payload of driver %s", c->is.driver);
	return scratch_keep(&into, c->is.digest, err);
}

int image_payload_copy(const struct image_payload *c, const struct root *state, struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	if (root_mkdirs(state, DRIVER_ROOT_PAYLOADS, 0755, err) < 0 ||
	    root_sub(state, DRIVER_ROOT_PAYLOADS, &store, err) < 0)
		return -1;
	return root_exists(&store, c->is.digest) ? 0 : copy_payload(c, &store, err);
}

// With an invalid document a payload cannot be exported.
static int match_payload(const struct root *store, const char *hex, const char *driver, const char *arch)
{
	struct err ignored;
	auto_image_dir struct image_dir is = { 0 };
	auto_str char *path = str_fmt("%s/%s", hex, DOCUMENT);
	return image_dir_read(store, path, &is, &ignored) > 0 && str_eq(is.digest, hex) && str_eq(is.driver, driver) &&
	       str_eq(is.arch, arch);
}

int image_payload_find(const struct root *state, const char *driver, const char *arch, char ret_hex[DIGEST_HEX + 1],
		       struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	if (!root_exists(state, DRIVER_ROOT_PAYLOADS))
		return 0;
	if (root_sub(state, DRIVER_ROOT_PAYLOADS, &store, err) < 0 || root_list(&store, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (digest_is_hex(names.items[i]) && match_payload(&store, names.items[i], driver, arch)) {
			memcpy(ret_hex, names.items[i], DIGEST_HEX + 1);
			return 1;
		}
	return 0;
}

char *image_payload_source_path(const struct image_payload *c)
{
	auto_str char *path = c->is.driver ? str_fmt(IMAGE_DIR_ROOT "/usr/src/nvidia-%s", c->is.driver) : NULL;
	return path && root_exists(&c->dir, path) ? root_path(&c->dir, path) : NULL;
}
