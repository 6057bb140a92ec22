// SPDX-License-Identifier: Apache-2.0
#include "driver_root/image_payload.h"

#include "base/file/copy.h"
#include "base/file/scratch.h"
#include "driver_root/driver_root.h"
#include "journal/state_dir.h"

#include <fcntl.h>

// In the copied tree, where the export shows nothing that begins with a dot.
static const char DOCUMENT[] = "." CARRIED_DOCUMENT;

void carry_done(struct carry *c)
{
	root_done(&c->dir);
	carried_done(&c->is);
	*c = CARRY_NONE;
}

int carry_open(const char *dir, struct carry *ret, struct err *err)
{
	struct carry c = CARRY_NONE;
	if (root_init(&c.dir, dir, err) < 0)
		return err_wrap(err, "--payload");
	int r = carried_read(&c.dir, CARRIED_DOCUMENT, &c.is, err);
	if (r > 0 && root_exists(&c.dir, CARRIED_ROOT)) {
		*ret = c;
		return 0;
	}
	if (r >= 0)
		err_set(err, E_PAYLOAD, "--payload '%s': it lacks " CARRIED_DOCUMENT " or " CARRIED_ROOT, dir);
	carry_done(&c);
	return -1;
}

bool carry_is_of(const struct carry *c, const char *driver, const char *arch)
{
	return str_eq(c->is.driver, driver) && str_eq(c->is.arch, arch);
}

// The name of the digest is given when all is on the disk, so who finds it there finds all of it.
static int copy(const struct carry *c, const struct root *store, struct err *err)
{
	auto_scratch struct scratch into = SCRATCH_NONE;
	if (state_dir_space(store, c->is.bytes, err) < 0 || scratch_make(store, "carried", &into, err) < 0 ||
	    copy_tree(&c->dir, CARRIED_ROOT, &into.root, ".", err) < 0 ||
	    carried_write(&into.root, DOCUMENT, &c->is, err) < 0)
		return err_wrap(err, "copy the payload of driver %s", c->is.driver);
	return scratch_keep(&into, c->is.digest, err);
}

int carry_copy(const struct carry *c, const struct root *state, struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	if (root_mkdirs(state, EXPORT_PAYLOADS, 0755, err) < 0 || root_sub(state, EXPORT_PAYLOADS, &store, err) < 0)
		return -1;
	return root_exists(&store, c->is.digest) ? 0 : copy(c, &store, err);
}

// A document that cannot be understood is of no payload that could be exported.
static int look(const struct root *store, const char *hex, const char *driver, const char *arch)
{
	struct err ignored;
	auto_carried struct carried is = { 0 };
	auto_str char *path = str_fmt("%s/%s", hex, DOCUMENT);
	return carried_read(store, path, &is, &ignored) > 0 && str_eq(is.digest, hex) && str_eq(is.driver, driver) &&
	       str_eq(is.arch, arch);
}

int carry_find(const struct root *state, const char *driver, const char *arch, char ret_hex[DIGEST_HEX + 1],
	       struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	if (!root_exists(state, EXPORT_PAYLOADS))
		return 0;
	if (root_sub(state, EXPORT_PAYLOADS, &store, err) < 0 || root_list(&store, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (digest_is_hex(names.items[i]) && look(&store, names.items[i], driver, arch)) {
			memcpy(ret_hex, names.items[i], DIGEST_HEX + 1);
			return 1;
		}
	return 0;
}

char *carry_source(const struct carry *c)
{
	auto_str char *path = c->is.driver ? str_fmt(CARRIED_ROOT "/usr/src/nvidia-%s", c->is.driver) : NULL;
	return path && root_exists(&c->dir, path) ? root_path(&c->dir, path) : NULL;
}
