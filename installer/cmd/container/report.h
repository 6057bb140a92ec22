// SPDX-License-Identifier: Apache-2.0
// Conditions and start-up taint of this machine's Node, for `init` and `watch`: as a child without capabilities, so
// that nothing waits for the Kubernetes API.
#pragma once
#include "cmd/common/common.h"
#include "service/service_child.h"

#define NFD_LABELS_HELP                                                                                         \
	"write labels of the GPUs for Node Feature Discovery, by the names of NVIDIA's GPU feature discovery, " \
	"while that does not run"
// node: NULL = unknown; kubeconfig: NULL = a pod's service account, seen in kern. Without a Node or an API there is
// nothing to do. tables, values: options that are passed on to the child, as far as it knows them. True: *ret is to be
// started. A failure is only logged: no start fails because of it.
bool report_child_open(const struct root *kern, const char *node, const char *kubeconfig, bool has_labels,
		       const struct opt *const *tables, const void *values, struct service_child *ret);
