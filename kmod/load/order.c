// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/load.h"

static bool depends_on(const struct module *module, const struct module *other)
{
	for (size_t i = 0; i < module->depends.count; i++) {
		if (module_name_eq(module->depends.items[i], other->name))
			return true;
	}
	return false;
}

static bool imports(const struct module *module, const struct module *other)
{
	for (size_t i = 0; i < module->import_count; i++) {
		if (symvers_find(other->exports, module->imports[i].name))
			return true;
	}
	return false;
}

static bool are_needs_placed(const struct module *const *modules, size_t count, const bool *done, size_t index)
{
	for (size_t i = 0; i < count; i++) {
		if (i != index && !done[i] &&
		    (depends_on(modules[index], modules[i]) || imports(modules[index], modules[i])))
			return false;
	}
	return true;
}

int load_order(const struct module *const *modules, size_t count, size_t *ret, struct err *err)
{
	bool *done = mem_alloc(count * sizeof(*done));
	size_t placed = 0, next = 0;
	while (placed < count && next < count) {
		for (next = 0; next < count && (done[next] || !are_needs_placed(modules, count, done, next)); next++)
			;
		if (next < count) {
			done[next] = true;
			ret[placed++] = next;
		}
	}
	for (next = 0; next < count && done[next]; next++)
		;
	free(done);
	if (placed < count)
		return err_set(err, E_SYMBOL, "'%s' needs a module that needs it in turn", modules[next]->name);
	return 0;
}
