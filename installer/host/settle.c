// SPDX-License-Identifier: Apache-2.0
#include "host/settle.h"

#include <time.h>

enum { POLL_MS = 100 };

const struct loaded_module *settle_pending(const struct modules *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].state != LOADED_LIVE)
			return &l->items[i];
	return NULL;
}

int settle_read(const struct root *host, const struct root *kern, const char *release, int timeout_ms,
		struct progress *progress, struct modules *ret, struct err *err)
{
	const struct timespec nap = { .tv_nsec = POLL_MS * 1000 * 1000 };
	for (int waited_ms = 0;; waited_ms += POLL_MS) {
		auto_modules struct modules l = { 0 };
		if (modules_read(host, kern, release, &l, err) < 0)
			return -1;
		const struct loaded_module *m = settle_pending(&l);
		if (!m) {
			*ret = l;
			l = (struct modules){ 0 };
			return ret->count > 0;
		}
		if (waited_ms >= timeout_ms)
			return err_set(err, E_MODULE_BUSY, "module %s is still %s after %g s", m->name,
				       modules_state_name(m->state), timeout_ms / 1e3);
		if (!waited_ms)
			progress_note(progress, "module %s is %s: waiting for it", m->name,
				      modules_state_name(m->state));
		nanosleep(&nap, NULL);
	}
}
