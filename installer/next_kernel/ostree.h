// SPDX-License-Identifier: Apache-2.0
// Deployments of an ostree host: root directories of which one runs, and one is started next. What rpm-ostree and bootc
// install is one more of them, with a kernel of its own, before any reboot.
//
// ostree/deploy/OS/deploy/CHECKSUM.SERIAL are the roots; proc/cmdline names the running one by a link below
// ostree/boot.N; run/ostree/staged-deployment (a GVariant) holds the name of one that gets its boot entry when the
// machine goes down.
#pragma once
#include "base/file/root.h"

struct deployment {
	char *path; // below the host's root
	bool is_booted, is_next;
};
struct deployments {
	struct deployment *items;
	size_t count;
};
// At most a few dozen; none on other hosts.
void ostree_read(const struct root *host, const struct root *kern, struct deployments *ret);
void deployments_done(struct deployments *d);
#define auto_deployments __attribute__((cleanup(deployments_done)))
