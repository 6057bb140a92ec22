// SPDX-License-Identifier: Apache-2.0
#include "node/unload.h"

#include "kmod/load.h"
#include "node/facts.h"

int unload_modules(const struct strv *order, const struct sys *sys, const struct root *kern, int timeout_ms,
		   struct strv *ret, struct err *err)
{
	for (size_t i = 0; i < order->count; i++) {
		int r = unload_module(sys, kern, order->items[i], timeout_ms, err);
		if (r < 0)
			return -1;
		if (r > 0)
			strv_add(ret, str_dup(order->items[i]));
	}
	return 0;
}

int unload_driver(const struct root *host, const struct root *kern, const struct sys *sys, int timeout_ms,
		  struct holders *ret_holders, struct strv *ret_unloaded, struct err *err)
{
	auto_facts struct facts f = { 0 };
	auto_strv struct strv order = { 0 };
	if (facts_read(host, kern, &f, err) < 0)
		return -1;
	if (!f.loaded.count)
		return 0;
	if (holders_find(kern, &f.loaded, ret_holders, err) < 0 || loaded_unload_order(&f.loaded, &order, err) < 0)
		return -1;
	if (holders_block(ret_holders)) {
		auto_str char *first = ret_holders->count ? holder_text(&ret_holders->items[0]) :
							    str_fmt("module %s", ret_holders->modules.items[0]);
		return err_set(err, E_IN_USE, "%zu holder(s), first: %s",
			       ret_holders->count + ret_holders->modules.count, first);
	}
	return unload_modules(&order, sys, kern, timeout_ms, ret_unloaded, err) < 0 ? -1 : 1;
}
