// SPDX-License-Identifier: Apache-2.0
// What kmodsmith takes for granted of a Kubernetes API server, request by request. They are sent one after the other to
// the simulated server and to a real one, and both have to give these answers.
//
// $name.uid, $name.version, $name.next: of a reply that was kept under that name; in a path it is escaped. $big: more
// than all annotations of an object may have together. ' stands for ".
// facts: "keys=JSON", joined by ';'. "keys=-": absent, "keys=*": there is something, "keys#=3": so many.
#pragma once
#include "cluster/coordinator/coordinator.h"
#include "cluster/coordinator/pods.h"
#include "cluster/kube/client.h"

struct conform_row {
	const char *what, *method, *path, *body;
	long status;
	const char *reason; // of a refusal
	int code;           // what our client makes of it
	const char *facts;  // of what was done
	const char *keep;
	unsigned retry_ms;
	const char *cause; // that has to be among those of a refusal; NULL = any
};

#define NODES "/api/v1/nodes"
#define NODE NODES "/c1"
#define LEASES "/apis/coordination.k8s.io/v1/namespaces/default/leases"
#define MAPS "/api/v1/namespaces/default/configmaps"
#define EVENTS "/api/v1/namespaces/default/events"
#define PODS "/api/v1/namespaces/default/pods"
#define TEMPLATES "/api/v1/namespaces/default/podtemplates"
#define ENDING "/api/v1/namespaces/ending"
#define ROLLOUTS "/apis/kmodsmith.io/v1alpha1/namespaces/default/driverrollouts"
#define ROLLOUT ROLLOUTS "/kmodsmith-policy"
#define BUDGETS "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
#define DAEMONSETS "/apis/apps/v1/namespaces/default/daemonsets"
#define DRIVERSETS DRIVER_DAEMONSETS_PATH "?" DRIVER_DAEMONSETS_QUERY
#define DAEMONSET(name, component)                                                                                     \
	"{'metadata': {'name': '" name "', 'labels': {'app.kubernetes.io/component': " component                       \
	"}, 'ownerReferences': [{'apiVersion': 'nvidia.com/v1', 'kind': 'ClusterPolicy', 'name': 'p', 'uid': 'p'}]}, " \
	"'spec': {'selector': {'matchLabels': {'a': 'b'}}, 'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': "  \
	"{'nodeSelector': {'nvidia.com/gpu.deploy.driver': 'true'}, 'containers': [{'name': 'c', 'image': 'i'}]}}}}"
#define NOTE "/metadata/annotations/kmodsmith.io~1seq"
#define OTHER_UID "11111111-2222-3333-4444-555555555555"
#define POD(name, more)                                                       \
	"{'metadata': {'name': '" name "', 'labels': {'set': 'conform'}" more \
	"}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}]"
#define EVICT_IN(space, name, uid)                                                                                     \
	"{'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': '" name "', 'namespace': '" space "'}, " \
	"'deleteOptions': {'preconditions': {'uid': '" uid "'}}}"
#define EVICT(name, uid) EVICT_IN("default", name, uid)
#define RUNS "{'status': {'phase': 'Running', 'conditions': [{'type': 'Ready', 'status': 'True'}]}}"
#define BUDGET_STATUS(allowed)                                                \
	"{'status': {'observedGeneration': 1, 'disruptionsAllowed': " allowed \
	", 'currentHealthy': 1, 'desiredHealthy': 1, "                        \
	"'expectedPods': 1}}"

static const struct conform_row conform_rows[] = {
#include "tests/cluster/conform.def"
};

// After the server has forgotten all of that.
static const struct conform_row conform_aged[] = {
	{ .what = "the page after it", "GET", EVENTS "?limit=1&continue=$old.next", NULL, 410, "Expired", E_KUBE },
	{ .what = "from the beginning", "GET", EVENTS "?limit=1", NULL, 200, NULL, 0, "items#=1;metadata continue=*" },
};
