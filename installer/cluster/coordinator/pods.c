// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/pods.h"

#include "cluster/node_state/annotations.h"
#include "cluster/policy/label_selector.h"

#include <stdio.h>

static const json_t *meta(const json_t *pod, const char *key)
{
	return json_object_get(json_object_get(pod, "metadata"), key);
}
static const json_t *pod_spec(const json_t *pod, const char *key)
{
	return json_object_get(json_object_get(pod, "spec"), key);
}
static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));
	return value ? value : "";
}

static bool is_pod_over(const json_t *pod)
{
	const char *phase = text(json_object_get(pod, "status"), "phase");
	return str_eq(phase, "Succeeded") || str_eq(phase, "Failed");
}

static const char *controller(const json_t *pod) // its kind; NULL = it has none
{
	const json_t *owners = meta(pod, "ownerReferences");
	for (size_t i = 0; i < json_array_size(owners); i++)
		if (json_is_true(json_object_get(json_array_get(owners, i), "controller")))
			return text(json_array_get(owners, i), "kind");
	return NULL;
}

// An eviction would not end it: it belongs to the kubelet, or would be recreated at once.
static bool is_pod_fixed(const json_t *pod)
{
	const char *kind = controller(pod);
	return json_object_get(meta(pod, "annotations"), "kubernetes.io/config.mirror") || str_eq(kind, "Node") ||
	       str_eq(kind, "DaemonSet");
}

static bool asks_for_gpu(const json_t *containers)
{
	static const char *const kinds[] = { "limits", "requests" };
	const char *name;
	json_t *amount;
	for (size_t i = 0; i < json_array_size(containers); i++)
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			const json_t *resources = json_object_get(json_array_get(containers, i), "resources");
			json_object_foreach(json_object_get(resources, kinds[k]), name, amount)
			{
				if (str_starts(name, "nvidia.com/") && !str_eq(json_string_value(amount), "0"))
					return true;
			}
		}
	return false;
}

bool pod_asks_for_gpu(const json_t *spec)
{
	return asks_for_gpu(json_object_get(spec, "containers")) ||
	       asks_for_gpu(json_object_get(spec, "initContainers"));
}

static bool is_holder(const char *holders, const char *uid)
{
	size_t len;
	for (const char *at = holders, *word; *uid && (word = node_word_cut(&at, ' ', &len));)
		if (strlen(uid) == len && memcmp(word, uid, len) == 0)
			return true;
	return false;
}

static bool is_pod_protected(const json_t *pod)
{
	const json_t *labels = meta(pod, "labels");
	const char *skip = json_string_value(json_object_get(labels, KEY_PREFIX "drain-skip"));
	return (skip && !str_eq(skip, "false")) ||
	       str_eq(text(labels, "nvidia.com/gpu-driver-upgrade-drain.skip"), "true");
}

static bool has_empty_dir(const json_t *pod) // an emptyDir that is not memory (T07)
{
	const json_t *volumes = pod_spec(pod, "volumes");
	for (size_t i = 0; i < json_array_size(volumes); i++) {
		const json_t *dir = json_object_get(json_array_get(volumes, i), "emptyDir");
		if (dir && !str_eq(text(dir, "medium"), "Memory"))
			return true;
	}
	return false;
}

static bool is_in_the_way(const json_t *pod, const struct pod_rules *r, bool is_held, bool claims_gpu)
{
	switch (r->pool->evict) {
	case EVICT_ALL:
		return true;
	case EVICT_GPU:
		return is_held || claims_gpu || pod_asks_for_gpu(json_object_get(pod, "spec"));
	case EVICT_HOLDERS:
		return is_held;
	default:
		return false;
	}
}

// Why it must not be evicted; NULL = it may.
static const char *forbidden(const json_t *pod, const struct pod_rules *r, bool is_held)
{
	if (is_pod_protected(pod))
		return is_held ? "uses the GPU, and its label forbids the eviction" : "";
	if (!controller(pod) && !r->pool->is_forced)
		return "no controller would recreate it; see drain.force";
	if (has_empty_dir(pod) && !r->pool->deletes_empty_dir)
		return "its emptyDir would be lost; see drain.deleteEmptyDir";
	return NULL;
}

static void set_pod_reason(const json_t *pod, const char *what, char why[OBJECT_TEXT])
{
	const json_t *m = json_object_get(pod, "metadata");
	snprintf(why, OBJECT_TEXT, "%s/%s: %s", text(m, "namespace"), text(m, "name"), what);
}

// Operands of NVIDIA's operator run on nodes with a certain label, which pausing changes. A site's own pod that runs
// where the label is "false" does not end by that.
static bool is_operand_pod(const json_t *pod)
{
	const json_t *selector = pod_spec(pod, "nodeSelector");
	for (unsigned i = 0; operands[i].key; i++)
		if (str_eq(text(selector, operands[i].key), operands[i].theirs))
			return true;
	return false;
}

// Ours, which validation.c ends. A user's pod with that label is in another namespace.
static bool is_validation(const json_t *pod, const struct pod_rules *r)
{
	return meta(pod, "labels") && *text(meta(pod, "labels"), VALIDATION_LABEL) &&
	       str_eq(json_string_value(meta(pod, "namespace")), r->validations);
}

enum pod_verdict pod_judge(const json_t *pod, const struct pod_rules *r, bool claims_gpu, char why[OBJECT_TEXT])
{
	const char *uid = text(json_object_get(pod, "metadata"), "uid");
	bool is_held = r->holders && is_holder(r->holders, uid);
	memset(why, 0, OBJECT_TEXT);
	if (is_pod_over(pod) || str_eq(r->own_uid, uid))
		return POD_STAYS;
	if (is_validation(pod, r)) {
		if (is_held)
			set_pod_reason(pod, "has the GPU open, and is being deleted", why);
		return is_held ? POD_HOLDS : POD_STAYS;
	}
	if (is_pod_fixed(pod)) {
		bool ends = is_operand_pod(pod);
		if (is_held)
			set_pod_reason(pod,
				       ends ? "has the GPU open, and its operand is paused" :
					      "has the GPU open, and no gpu.deploy label ends it",
				       why);
		return !is_held ? POD_STAYS : ends ? POD_HOLDS : POD_FIXED;
	}
	if (!is_in_the_way(pod, r, is_held, claims_gpu))
		return POD_STAYS;
	if (meta(pod, "deletionTimestamp")) {
		const char *finalizer = json_string_value(json_array_get(meta(pod, "finalizers"), 0));
		auto_str char *wait = finalizer ? str_fmt("waits for %s", finalizer) : NULL;
		set_pod_reason(pod, wait ? wait : "is ending", why);
		return POD_LEAVING;
	}
	const char *what = forbidden(pod, r, is_held);
	if (!what)
		return POD_GOES;
	if (!*what) // excluded by its label, and not blocking
		return POD_STAYS;
	set_pod_reason(pod, what, why);
	return POD_STUCK;
}

// The labels of the GPU Operator, of the device plugin's own chart and of its static manifest (gpu-operator
// assets/state-device-plugin and state-operator-validation, k8s-device-plugin deployments).
const char *pod_ready_operand(const json_t *pod)
{
	static const struct {
		const char *label, *value, *operand;
	} rows[] = { { "app", "nvidia-operator-validator", BASELINE_VALIDATOR },
		     { "app", "nvidia-device-plugin-daemonset", BASELINE_PLUGIN },
		     { "app.kubernetes.io/name", "nvidia-device-plugin", BASELINE_PLUGIN },
		     { "name", "nvidia-device-plugin-ds", BASELINE_PLUGIN } };
	const json_t *conditions = json_object_get(json_object_get(pod, "status"), "conditions");
	bool is_ready = false;
	for (size_t i = 0; i < json_array_size(conditions); i++) {
		const json_t *c = json_array_get(conditions, i);
		is_ready = is_ready || (str_eq(text(c, "type"), "Ready") && str_eq(text(c, "status"), "True"));
	}
	if (!is_ready || !is_pod_fixed(pod) || meta(pod, "deletionTimestamp"))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (str_eq(text(meta(pod, "labels"), rows[i].label), rows[i].value))
			return rows[i].operand;
	return NULL;
}

bool pod_is_job(const json_t *pod, const struct pool *pool)
{
	return pool->wait_for && !is_pod_over(pod) && !is_pod_fixed(pod) &&
	       label_selector_matches(pool->wait_for, meta(pod, "labels"));
}

// A claim made from a template has a generated name, which is in the pod's status.
static const char *claim_name(const json_t *pod, const json_t *claim)
{
	const json_t *made = json_object_get(json_object_get(pod, "status"), "resourceClaimStatuses");
	const char *own = json_string_value(json_object_get(claim, "resourceClaimName"));
	for (size_t i = 0; !own && i < json_array_size(made); i++)
		if (str_eq(text(json_array_get(made, i), "name"), text(claim, "name")))
			own = json_string_value(json_object_get(json_array_get(made, i), "resourceClaimName"));
	return own;
}

void pod_claims(const json_t *pod, struct strv *ret)
{
	const json_t *claims = pod_spec(pod, "resourceClaims");
	for (size_t i = 0; i < json_array_size(claims); i++) {
		const char *name = claim_name(pod, json_array_get(claims, i));
		if (name)
			strv_add(ret, str_dup(name));
	}
}
