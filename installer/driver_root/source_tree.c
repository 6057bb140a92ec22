// SPDX-License-Identifier: Apache-2.0
#include "driver_root/source_tree.h"

#include "base/file/copy.h"
#include "base/file/scratch.h"
#include "journal/state_dir.h"

void source_tree_key(const char *payload, const char *release, enum module_type flavour, char ret[DIGEST_HEX + 1])
{
	auto_str char *text = str_fmt("%s %s %s", payload, release, module_type_name(flavour));
	digest_data(text, strlen(text), ret);
}

// Directories of the flavours, as NVIDIA's installer and our payloads name them.
static const char OPEN[] = "kernel-open", PROPRIETARY[] = "kernel";

static int list_source_files(const struct root *payload, const char *path, enum module_type flavour, struct strv *ret,
			     struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(payload, path, &names, err) < 0)
		return -1;
	const char *own = flavour == MODULE_TYPE_OPEN ? OPEN : PROPRIETARY, *other = own == OPEN ? PROPRIETARY : OPEN;
	bool is_choice = flavour != MODULE_TYPE_AUTO && strv_has(&names, own);
	for (size_t i = 0; i < names.count; i++)
		if (!is_choice || !str_eq(names.items[i], other))
			strv_add(ret, str_dup(names.items[i]));
	return 0;
}

int source_tree_make(const struct root *payload, const char *driver, enum module_type flavour, const struct root *store,
		     const char *key, struct err *err)
{
	auto_strv struct strv names = { 0 };
	auto_scratch struct scratch into = SCRATCH_NONE;
	auto_str char *path = str_fmt(SOURCE_TREE_DIR, driver);
	uint64_t bytes = 0;
	struct stat st;
	if (root_exists(store, key))
		return 0;
	int r = list_source_files(payload, path, flavour, &names, err);
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		auto_str char *from = str_fmt("%s/%s", path, names.items[i]);
		r = root_stat(payload, from, &st, err);
		if (r > 0 && S_ISDIR(st.st_mode))
			r = copy_bytes(payload, from, &bytes, err);
		else if (r > 0)
			bytes += (uint64_t)st.st_size;
	}
	if (r >= 0 && (state_dir_space(store, bytes, err) < 0 || scratch_make(store, "sources", &into, err) < 0))
		r = -1;
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		auto_str char *from = str_fmt("%s/%s", path, names.items[i]);
		r = root_stat(payload, from, &st, err);
		if (r > 0)
			r = (S_ISDIR(st.st_mode) ? copy_tree : copy_entry)(payload, from, &into.root, names.items[i],
									   err);
	}
	return r < 0 ? err_wrap(err, "copy the sources of driver %s", driver) : scratch_keep(&into, key, err);
}
