// SPDX-License-Identifier: Apache-2.0
#include "node/unload.h"

#include "kmod/load.h"
#include "node/publish.h"

int unload_modules(const struct strv *order, const struct sys *sys, int timeout_ms, struct strv *ret, struct err *err)
{
	for (size_t i = 0; i < order->count; i++) {
		int r = unload_module(sys, order->items[i], timeout_ms, err);
		if (r < 0)
			return -1;
		if (r > 0)
			strv_add(ret, str_dup(order->items[i]));
	}
	return 0;
}

// That nothing could be written about a driver that is gone does not bring it back.
static void tell(const struct root *host, const struct root *kern, const struct sys *sys, const struct err *failure)
{
	auto_facts struct facts now = { 0 };
	auto_status struct status status = { 0 };
	const struct publish_end end = { .outcome = "unload", .failure = failure };
	struct err ignored;
	if (facts_read(host, kern, &now, &ignored) == 0 && status_read(&now, kern, kern, sys, &status, &ignored) == 0)
		publish_end(kern, &now, &status, &end, &ignored);
}

static int unload_published(const struct root *host, const struct root *kern, const struct sys *sys, int timeout_ms,
			    const struct host *facts, const struct strv *order, struct strv *ret_unloaded,
			    struct err *err)
{
	auto_str char *names = strv_join(order, ", ");
	if (publish_step(kern, facts, "unload", names, true, err) < 0)
		return -1;
	int r = unload_modules(order, sys, timeout_ms, ret_unloaded, err);
	tell(host, kern, sys, r < 0 ? err : NULL);
	return r;
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
	return unload_published(host, kern, sys, timeout_ms, &f.host, &order, ret_unloaded, err) < 0 ? -1 : 1;
}
