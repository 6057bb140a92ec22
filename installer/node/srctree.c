// SPDX-License-Identifier: Apache-2.0
#include "node/srctree.h"

#include "base/copy.h"
#include "base/scratch.h"
#include "node/preflight.h"

static char *path_of(const char *driver)
{
	return str_fmt("usr/src/nvidia-%s", driver);
}

bool srctree_is_in(const struct root *payload, const char *driver)
{
	auto_str char *path = path_of(driver);
	return root_exists(payload, path);
}

void srctree_key(const char *payload, const char *release, char ret[DIGEST_HEX + 1])
{
	auto_str char *text = str_fmt("%s %s", payload, release);
	digest_data(text, strlen(text), ret);
}

int srctree_make(const struct root *payload, const char *driver, const struct root *store, const char *key,
		 struct err *err)
{
	auto_scratch struct scratch into = SCRATCH_NONE;
	auto_str char *path = path_of(driver);
	uint64_t bytes = 0;
	if (root_exists(store, key))
		return 0;
	if (copy_bytes(payload, path, &bytes, err) < 0 || preflight_space(store, bytes, err) < 0 ||
	    scratch_make(store, "sources", &into, err) < 0 || copy_tree(payload, path, &into.root, ".", err) < 0)
		return err_wrap(err, "lay out the sources of driver %s", driver);
	return scratch_keep(&into, key, err);
}
