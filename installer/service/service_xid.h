// SPDX-License-Identifier: Apache-2.0
// Counts NVIDIA's errors in the kernel log as a part of `init` and `watch` (status/xid.h).
#pragma once
#include "service/service.h"
#include "status/xid.h"

struct service_xid {
	const struct root *host; // borrowed
	char *boot_id;
	int log;
	int64_t quiet_ms; // until then the log is not read: a flood of other messages wakes nobody
	struct xids xids;
	bool is_unwritten; // what was counted is not in the file yet: the disk was full
};
#define SERVICE_XID_NONE ((struct service_xid){ .log = -1 })

// False: the log cannot be read here, and nothing is counted. x must stay where it is. To be opened while there are
// rights to.
bool service_xid_open(const struct root *host, const struct root *kern, struct service_xid *x,
		      struct service_part *ret_part);
void service_xid_done(struct service_xid *x);
#define auto_service_xid __attribute__((cleanup(service_xid_done)))
