// SPDX-License-Identifier: Apache-2.0
#include "transaction/unload.h"

#include "daemons/daemon_record.h"
#include "gpu_check/gpu_start.h"
#include "host/modules.h"
#include "kmod/load/load.h"
#include "status/status_file.h"

#include <time.h>

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

// The driver is unloaded already: a failure here is ignored.
static void publish_unloaded(const struct holders_wait *d, const struct err *failure)
{
	auto_facts struct facts now = { 0 };
	auto_status struct status status = { 0 };
	const struct status_file_end end = { .outcome = "unload", .progress = d->node->progress, .failure = failure };
	struct err ignored;
	if (facts_read(d->node->host, d->node->kern, &now, &ignored) == 0 &&
	    status_read(&now, d->node, &status, &ignored) == 0)
		status_file_end(d->node->host, &now, &status, &end, &ignored);
}

// There were no other holders. New ones, or those hidden behind our daemons, show once the daemons have stopped; the
// driver may close their files a moment after their end (nvidia_close, deferred to its own thread).
static int stop_daemons(const struct holders_wait *d, struct daemon_stop *daemons, struct holders *ret_holders,
			struct err *err)
{
	enum { TRIES = 100, NAP_MS = 100 };
	const struct timespec nap = { .tv_nsec = NAP_MS * 1000 * 1000 };
	int r = daemon_stop_all(daemons, err);
	if (r <= 0)
		return r;
	for (int left = d->node->sys->record ? 1 : TRIES; left > 0; left--) { // on a recorded machine nothing changes
		auto_modules struct modules now = { 0 };
		r = holders_wait_check(d, &now, ret_holders, err);
		if (r == 0 || err->code != E_IN_USE)
			return r;
		nanosleep(&nap, NULL);
	}
	return r;
}

int unload_driver(const struct holders_wait *d, int timeout_ms, struct holders *ret_holders, struct strv *ret_unloaded,
		  struct err *err)
{
	auto_modules struct modules loaded = { 0 };
	auto_strv struct strv order = { 0 };
	auto_host struct host host = { 0 };
	auto_str char *pending = NULL;
	if (gpu_start_find_pending(d->node->kern, &pending))
		return err_set(err, E_GPU_PENDING, "the driver is starting a GPU (%s)", pending);
	int r = modules_read_settled(d->node->host, d->node->kern, d->node->release, timeout_ms, d->node->progress,
				     &loaded, err);
	if (r <= 0)
		return r;
	if (holders_wait_check(d, &loaded, ret_holders, err) < 0 || modules_unload_order(&loaded, &order, err) < 0)
		return -1;
	// Before the unload, for those that wait for a ready driver.
	auto_str char *names = strv_join(&order, ", ");
	if (host_read(d->node->host, d->node->kern, &host, err) < 0 ||
	    status_file_step(d->node->host, &host, "unload", names, true, err) < 0)
		return -1;
	auto_daemon_stop struct daemon_stop daemons = { .node = d->node };
	r = stop_daemons(d, &daemons, ret_holders, err);
	if (r == 0)
		r = unload_modules(&order, d->node->sys, d->node->kern, timeout_ms, ret_unloaded, err);
	for (size_t i = 0; i < ret_unloaded->count; i++)
		if (!modules_find(&loaded, ret_unloaded->items[i])->is_driver)
			progress_note(d->node->progress,
				      "module %s, which used the driver, was unloaded and will not be reloaded",
				      ret_unloaded->items[i]);
	if (r < 0 && ret_unloaded->count) {
		auto_str char *unloaded = strv_join(ret_unloaded, ", ");
		err_wrap(err, "after %s was unloaded", unloaded);
	}
	if (r < 0 && err->code != E_WEDGED)
		daemon_stop_undo(&daemons);
	publish_unloaded(d, r < 0 ? err : NULL);
	return r < 0 ? -1 : 1;
}

void unload_record_wedge(const struct root *host, const struct root *state, struct journal *j, const char *boot,
			 struct progress *progress, const struct err *why)
{
	struct err err;
	if (why->code != E_WEDGED)
		return;
	journal_wedge(j, boot, why->text);
	if (journal_keep(host, state, true, j, &err) < 0)
		progress_note(progress, "cannot record it in the journal: %s", err.text);
}

int unload_node(const struct holders_wait *d, const struct root *state, int timeout_ms, struct holders *ret_holders,
		struct strv *ret_unloaded, struct err *err)
{
	auto_host struct host host = { 0 };
	auto_journal struct journal j = { 0 };
	journal_mend(state);
	if (host_read(d->node->host, d->node->kern, &host, err) < 0 ||
	    journal_find(d->node->host, state, &j, err) < 0 || journal_check_wedged(&j, host.boot_id, err) < 0)
		return -1;
	int r = unload_driver(d, timeout_ms, ret_holders, ret_unloaded, err);
	if (r < 0)
		unload_record_wedge(d->node->host, state, &j, host.boot_id, d->node->progress, err);
	return r;
}
