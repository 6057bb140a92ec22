// SPDX-License-Identifier: Apache-2.0
// What a node reports about its next kernel, for users and reboot controllers: the annotation
// kmodsmith.io/agent.next-kernel of its Node, and an Event when it turns bad or good again (R-F1). Written only when it
// changes. The condition of the Node, which needs the right to write nodes/status, is in node_report.h.
#pragma once
#include "cluster/kube/client.h"
#include "next_kernel/kernel_report.h"

#define NEXT_KERNEL_REPORT_KEY "kmodsmith.io/agent.next-kernel" // "VERDICT RELEASE[ CODE]", at most 256 bytes
// 1 = written, 0 = the Node says so already. E_NOT_FOUND: there is no such Node.
int next_kernel_report_write(struct kube *k, const char *node, const struct kernel_report *f, struct err *err);
