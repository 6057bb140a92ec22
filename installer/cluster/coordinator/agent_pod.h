// SPDX-License-Identifier: Apache-2.0
// The pod of a node's agent, for a node whose agent says nothing: what Kubernetes says that it waits for.
#pragma once
#include "cluster/kube/client.h"

// "NAMESPACE/NAME: driver: ImagePullBackOff: ...", or that there is none. One line of plain characters. Caller frees.
int agent_pod_text(struct kube *k, const char *namespace, const char *node, char **ret, struct err *err);
