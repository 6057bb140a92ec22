// SPDX-License-Identifier: Apache-2.0
// What a node says of its next kernel, for people and for reboot controllers: the annotation
// kmodsmith.io/agent.next-kernel of its Node, and an Event when it turns bad or good again (R-F1). Written only when it
// says something new. It is no condition: that would need the right to write nodes/status.
#pragma once
#include "cluster/kube/client.h"
#include "next_kernel/kernel_report.h"

#define NEXT_KERNEL_REPORT_KEY "kmodsmith.io/agent.next-kernel"
char *next_kernel_report_text(
	const struct kernel_report *f); // "VERDICT RELEASE CODE", at most 256 bytes; NULL = there is none
// 1 = told, 0 = it says so already. E_NOT_FOUND: there is no such Node.
int next_kernel_report_write(struct kube *k, const char *node, const struct kernel_report *f, struct err *err);
