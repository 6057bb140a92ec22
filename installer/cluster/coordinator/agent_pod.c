// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/agent_pod.h"

static const json_t *find_at(const json_t *object, const char *const *keys)
{
	for (; object && *keys; keys++)
		object = json_object_get(object, *keys);
	return object;
}
#define at(object, ...) find_at(object, (const char *const[]){ __VA_ARGS__, NULL })
#define text_at(...) json_string_value(at(__VA_ARGS__))

struct find {
	const char *node;
	json_t *pod; // one that has not ended is preferred
};

// The scheduler sets nodeName. Until it does, the DaemonSet's controller has named the node in a required affinity
// (kubernetes 1.30, pkg/controller/daemon/util/daemonset_util.go, ReplaceDaemonSetPodNodeNameNodeAffinity). The labels
// are those of deploy/ and of the chart.
static int take_pod(void *ctx, json_t *pod, struct err *err)
{
	struct find *f = ctx;
	const char *label = text_at(pod, "metadata", "labels", "app.kubernetes.io/name");
	const char *node = text_at(pod, "spec", "nodeName"), *phase = text_at(pod, "status", "phase");
	const json_t *terms = at(pod, "spec", "affinity", "nodeAffinity",
				 "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms");
	const json_t *field = json_array_get(at(json_array_get(terms, 0), "matchFields"), 0);
	node = node ? node : json_string_value(json_array_get(at(field, "values"), 0));
	bool is_agent = str_eq(label, "kmodsmith-agent") || str_eq(label, "kmodsmith-builder");
	bool has_ended = str_eq(phase, "Failed") || str_eq(phase, "Succeeded");
	(void)err;
	if (is_agent && str_eq(node, f->node) && !(f->pod && has_ended)) {
		json_decref(f->pod);
		f->pod = json_incref(pod);
	}
	return 0;
}

// "WHAT: REASON: MESSAGE", as far as they are there. Caller frees.
static char *words_of(const char *what, const char *reason, const char *message)
{
	return str_fmt("%s%s%s%s%s", what ? what : "?", reason ? ": " : "", reason ? reason : "",
		       message && *message ? ": " : "", message ? message : "");
}

// Of one that is started again, its last words say more than that it is. NULL = it runs, or has done its work.
static char *container_text(const json_t *container)
{
	const json_t *waiting = at(container, "state", "waiting"), *ended = at(container, "state", "terminated");
	const json_t *state = waiting ? waiting : ended;
	const char *last = waiting ? text_at(container, "lastState", "terminated", "message") : NULL;
	if (!state || (ended && json_integer_value(at(ended, "exitCode")) == 0))
		return NULL;
	return words_of(text_at(container, "name"), text_at(state, "reason"), last ? last : text_at(state, "message"));
}

static char *pod_text(const json_t *pod)
{
	static const char *const lists[] = { "initContainerStatuses", "containerStatuses" };
	const json_t *status = at(pod, "status"), *conditions = at(status, "conditions");
	const char *phase = text_at(status, "phase");
	for (size_t i = 0; i < json_array_size(conditions); i++) {
		const json_t *one = json_array_get(conditions, i);
		if (str_eq(text_at(one, "type"), "PodScheduled") && str_eq(text_at(one, "status"), "False"))
			return words_of(phase, text_at(one, "reason"), text_at(one, "message"));
	}
	for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
		for (size_t i = 0; i < json_array_size(at(status, lists[l])); i++) {
			char *text = container_text(json_array_get(at(status, lists[l]), i));
			if (text)
				return text;
		}
	return words_of(phase, text_at(status, "reason"), text_at(status, "message"));
}

int agent_pod_text(struct kube *k, const char *namespace, const char *node, char **ret, struct err *err)
{
	static const char *const record[] = { "metadata name", "metadata labels", "spec nodeName",
					      "spec affinity", "status",          NULL };
	auto_str char *path = str_fmt("/api/v1/namespaces/%s/pods", namespace), *version = NULL;
	struct find find = { .node = node };
	struct kube_list list = { .path = path, .record = record, .take = take_pod, .ctx = &find };
	int r = kube_list(k, &list, &version, err);
	auto_json json_t *pod = find.pod;
	if (r < 0)
		return r;
	auto_str char *said = pod ? pod_text(pod) : NULL;
	*ret = pod ? str_fmt("%s/%s: %s", namespace, text_at(pod, "metadata", "name"), said) :
		     str_fmt("no pod of an agent in the namespace %s is for this node", namespace);
	for (char *c = *ret; *c; c++) // a message may have lines
		*c = *c >= ' ' && *c <= '~' ? *c : ' ';
	return 0;
}
