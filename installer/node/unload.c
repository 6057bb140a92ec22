// SPDX-License-Identifier: Apache-2.0
#include "node/unload.h"

#include "kmod/load.h"
#include "node/settle.h"

static int unload_one(const struct drain *d, const struct loaded_module *m, int timeout_ms, struct strv *ret,
		      struct err *err)
{
	int r = unload_module(d->sys, d->kern, m->name, timeout_ms, err);
	if (r <= 0)
		return r;
	strv_add(ret, str_dup(m->name));
	if (!m->is_driver)
		watch_note(d->watch, "module %s, which used the driver, is unloaded and is not loaded again", m->name);
	return 0;
}

static int tell_half(const struct strv *unloaded, struct err *err)
{
	auto_str char *names = strv_join(unloaded, ", ");
	return err_wrap(err, "after %s went", names);
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
	for (size_t i = 0; i < order.count; i++)
		if (unload_one(d, loaded_find(&loaded, order.items[i]), timeout_ms, ret_unloaded, err) < 0)
			return ret_unloaded->count ? tell_half(ret_unloaded, err) : -1;
	return 1;
}
