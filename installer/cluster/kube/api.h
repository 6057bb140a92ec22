// SPDX-License-Identifier: Apache-2.0
// The requests to the Kubernetes API, one function each. A lost race against another writer is a value, not an error:
// the caller reads again and decides again.
#pragma once
#include "cluster/kube/client.h"

int api_get(struct kube *k, const char *path, json_t **ret, struct err *err); // 1 = found, 0 = absent
// The object with that uid, or already gone.
int api_delete(struct kube *k, const char *path, const char *uid, struct err *err);
int api_create(struct kube *k, const char *path, const json_t *body, json_t **ret, struct err *err); // 0: it exists
enum api_how {
	API_REPLACE, // the whole object, with the body's metadata.resourceVersion
	API_MERGE,   // a merge patch, best with metadata.uid or resourceVersion
	API_PATCH,   // a JSON patch (RFC 6902), with tests
};
// 1 = done, 0 = the object is gone, or not as the body requires.
int api_change(struct kube *k, enum api_how how, const char *path, const json_t *body, json_t **ret, struct err *err);

// policy/v1 Eviction of the pod with that uid.
enum api_evicted {
	API_EVICTED,
	API_GONE,
	API_OTHER,   // another pod has the name, or the pod changed: list the pods again
	API_BLOCKED, // by a budget
	API_ENDING,  // its namespace is terminating, and the pod with it: nothing can be created there
	API_REFUSED, // for this pod, now: by a webhook, missing rights, or a server that is busy or fails
};
struct api_eviction {
	enum api_evicted what;
	unsigned retry_ms; // of API_BLOCKED, API_REFUSED: Retry-After; 0 = none
	struct err why;    // of these and API_OTHER: the server's message, with the budget's name
};
// An error only if there was no answer: other pods would get none either.
int api_evict(struct kube *k, const char *namespace, const char *pod, const char *uid, struct api_eviction *ret,
	      struct err *err);

// An Event about a Node, in namespace default, where `kubectl describe node` looks; or about another object, in its
// own.
struct api_object {
	const char *version, *kind, *namespace, *name, *uid; // uid NULL: its name, as the kubelet does for its Node
};
struct api_event {
	const char *node, *uid;
	const struct api_object *of; // NULL = the node
	const char *reason, *message;
	bool is_warning;
	const char *component; // the source
};
int api_event(struct kube *k, const struct api_event *event, struct err *err);

#define DRIVER_ROLLOUT_VERSION "kmodsmith.io/v1alpha1" // deploy/crd.yaml
#define DRIVER_ROLLOUT_KIND "DriverRollout"
enum api_kind { API_CONFIGMAP, API_LEASE, API_DRIVER_ROLLOUT };
char *api_path(enum api_kind kind, const char *namespace, const char *name); // name NULL = the collection; caller frees
char *api_node(const char *name);                                            // caller frees
static inline const char *api_configmap_value(const json_t *map, const char *key) // NULL = absent
{
	return json_string_value(json_object_get(json_object_get(map, "data"), key));
}
