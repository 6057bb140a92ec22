// SPDX-License-Identifier: Apache-2.0
// Deployments of an ostree host: root directories of which one runs, and one is started next. What rpm-ostree and bootc
// install is one more of them, with a kernel of its own, before any reboot.
//
// ostree/deploy/OS/deploy/CHECKSUM.SERIAL are the roots; proc/cmdline names the running one by a link below
// ostree/boot.N; run/ostree/staged-deployment (a GVariant) holds the name of one that gets its boot entry when the
// machine goes down.
#pragma once
#include "base/file/root.h"

struct ostree_deployment {
	char *path; // below the host's root
	bool is_booted, is_next;
};
struct ostree_deployments {
	struct ostree_deployment *items;
	size_t count;
};
// At most a few dozen; none on other hosts.
void ostree_read(const struct root *host, const struct root *kern, struct ostree_deployments *ret);
void ostree_deployments_done(struct ostree_deployments *d);
#define auto_ostree_deployments __attribute__((cleanup(ostree_deployments_done)))
