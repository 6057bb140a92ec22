// SPDX-License-Identifier: Apache-2.0
#include "node/unload.h"

#include "kmod/load.h"
#include "node/settle.h"

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

static void tell_foreign(struct watch *watch, const struct loaded *l, const struct strv *gone)
{
	for (size_t i = 0; i < gone->count; i++)
		if (!loaded_find(l, gone->items[i])->is_driver)
			watch_note(watch, "module %s, which used the driver, is unloaded and is not loaded again",
				   gone->items[i]);
}

static void tell_half(const struct strv *unloaded, struct err *err)
{
	auto_str char *names = strv_join(unloaded, ", ");
	err_wrap(err, "after %s went", names);
}

int unload_driver(const struct drain *d, int timeout_ms, struct holders *ret_holders, struct strv *ret_unloaded,
		  struct err *err)
{
	auto_loaded struct loaded loaded = { 0 };
	auto_strv struct strv order = { 0 };
	int r = settle_read(d->host, d->kern, d->release, timeout_ms, d->watch, &loaded, err);
	if (r <= 0)
		return r;
	if (drain_check(d, &loaded, ret_holders, err) < 0 || loaded_unload_order(&loaded, &order, err) < 0)
		return -1;
	r = unload_modules(&order, d->sys, d->kern, timeout_ms, ret_unloaded, err);
	tell_foreign(d->watch, &loaded, ret_unloaded);
	if (r < 0 && ret_unloaded->count)
		tell_half(ret_unloaded, err);
	return r < 0 ? -1 : 1;
}
