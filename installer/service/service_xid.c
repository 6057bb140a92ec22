// SPDX-License-Identifier: Apache-2.0
#include "service/service_xid.h"

#include "base/core/date.h"
#include "base/process/boot_record.h"
#include "base/process/log.h"

#include <errno.h>
#include <fcntl.h>

enum { RECORD_MOST = 8192, QUIET_MS = 1000 };

// Each read is one record. EPIPE: older ones were overwritten meanwhile; go on with those that are there.
static int64_t tick(void *ctx, int64_t now_ms)
{
	struct service_xid *x = ctx;
	struct err why;
	char record[RECORD_MOST];
	bool is_any = false;
	if (x->log < 0 || now_ms < x->quiet_ms)
		return x->log < 0 ? INT64_MAX : x->quiet_ms;
	for (;;) {
		ssize_t n = read(x->log, record, sizeof(record));
		if (n < 0 && errno != EPIPE && errno != EINTR)
			break;
		if (n == 0) { // the file of a recorded machine: there will be no more
			close(TAKE_FD(x->log));
			break;
		}
		is_any = true;
		x->is_unwritten |= n > 0 && xids_take(&x->xids, record, (size_t)n);
	}
	if (is_any && x->is_unwritten) {
		x->is_unwritten = xids_write(x->host, x->boot_id, &x->xids, &why) < 0;
		if (x->is_unwritten)
			log_warn("the errors of GPUs cannot be written: %s", why.text);
	}
	if (!is_any)
		return INT64_MAX;
	x->quiet_ms = now_ms + QUIET_MS;
	return x->quiet_ms;
}

static size_t fds(void *ctx, struct pollfd *ret, size_t room)
{
	const struct service_xid *x = ctx;
	if (!room || x->log < 0 || clock_ms() < x->quiet_ms)
		return 0;
	*ret = (struct pollfd){ .fd = x->log, .events = POLLIN };
	return 1;
}

bool service_xid_open(const struct root *host, const struct root *kern, struct service_xid *x,
		      struct service_part *ret_part)
{
	struct err why;
	x->host = host;
	x->log = root_open(kern, "dev/kmsg", O_RDONLY | O_NONBLOCK, &why);
	if (x->log < 0) {
		log_debug("errors of GPUs are not counted: %s", why.text);
		return false;
	}
	x->boot_id = boot_record_id(kern);
	if (!x->boot_id)
		return false;
	xids_read(host, x->boot_id, &x->xids, &why); // what cannot be read is counted anew
	*ret_part = (struct service_part){ .ctx = x, .fds = fds, .tick = tick };
	return true;
}

void service_xid_done(struct service_xid *x)
{
	close_fdp(&x->log);
	free(x->boot_id);
	*x = SERVICE_XID_NONE;
}
