// SPDX-License-Identifier: Apache-2.0
#include "host/module_set.h"

#include <fcntl.h>

const char *const default_modules[DEFAULT_MODULES] = { "nvidia", "nvidia-uvm", "nvidia-modeset" };

int module_set_check_name(const char *what, const char *name, struct err *err)
{
	static const char *const known[] = { "nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm", "nvidia-peermem" };
	auto_str char *list = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (module_name_eq(name, known[i]))
			return 0;
		str_add(&list, "%s%s", i ? ", " : "", known[i]);
	}
	return err_set(err, E_USAGE, "%s: '%s' is not a module of the NVIDIA driver (%s)", what, name, list);
}

int module_set_read(const struct root *dir, const struct strv *names, struct module_set *ret, struct err *err)
{
	auto_module_set struct module_set set = { .items = mem_alloc(names->count * sizeof(*set.items)),
						  .pointers = mem_alloc(names->count * sizeof(*set.pointers)) };
	for (; set.count < names->count; set.count++) {
		struct module *m = &set.items[set.count];
		auto_fd int fd = root_open(dir, names->items[set.count], O_RDONLY | O_NOFOLLOW, err);
		if (fd < 0 || module_read(fd, names->items[set.count], m, err) < 0)
			return -1;
		set.pointers[set.count] = m;
	}
	*ret = set;
	set = (struct module_set){ 0 };
	return 0;
}

void module_set_done(struct module_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		module_done(&set->items[i]);
	free(set->items);
	free(set->pointers);
	*set = (struct module_set){ 0 };
}

char *module_set_name(const struct module_set *set, size_t i)
{
	size_t len = strcspn(set->items[i].file, ".");
	return str_ndup(set->items[i].file, len);
}
