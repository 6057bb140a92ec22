// SPDX-License-Identifier: Apache-2.0
#include "kmod/source/unpatched.h"

#include "kmod/kernel_tree/tree.h"

static bool has_patch(const struct patches *patches, const char *name)
{
	for (size_t i = 0; i < patches->count; i++)
		if (str_eq(patches->items[i].name, name))
			return true;
	return false;
}

int unpatched_check(const struct root *dir, const char *driver_version, enum flavour flavour, const struct tree *tree,
		    struct err *err)
{
	auto_patches struct patches needed = { 0 }, chosen = { 0 };
	if (!dir)
		return 0;
	if (patches_load(NULL, &needed, err) < 0 || patches_choose(&needed, driver_version, flavour, tree, err) < 0 ||
	    patches_load(dir, &chosen, err) < 0 || patches_choose(&chosen, driver_version, flavour, tree, err) < 0)
		return -1;
	for (size_t i = 0; i < needed.count; i++)
		if (!has_patch(&chosen, needed.items[i].name))
			return err_set(err, E_SOURCE_KERNEL,
				       "driver %s (%s) does not compile for kernel %s without %s, and the file of that "
				       "name in '%s' is for another driver or kernel",
				       driver_version, flavour_name(flavour), tree->release, needed.items[i].name,
				       dir->name);
	return 0;
}
