// SPDX-License-Identifier: Apache-2.0
// Deletion of objects; pods are deleted by the kubelet of their node, after their grace period.
#include "tests/sim/sim_internal.h"

#include "base/core/date.h"

bool sim_holds(const json_t *before, const json_t *options, const char *name, const struct sim_kind *kind,
	       struct sim_answer *a)
{
	static const struct {
		const char *key, *what, *happened;
	} rows[] = { { "uid", "UID", "deleted and then recreated" },
		     { "resourceVersion", "ResourceVersion", "modified" } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *keys = str_fmt("metadata %s", rows[i].key);
		const char *wanted =
			json_string_value(json_object_get(json_object_get(options, "preconditions"), rows[i].key));
		const char *is = sim_text(before, keys);
		if (!wanted || str_eq(wanted, is))
			continue;
		sim_say_of(a, 409, "Conflict", kind, name,
			   "Operation cannot be fulfilled on %s \"%s\": the %s in the precondition (%s) does not match "
			   "the %s in "
			   "record (%s). The object might have been %s",
			   kind->kind, name, rows[i].what, wanted, rows[i].what, is, rows[i].happened);
		return false;
	}
	return true;
}

// plugin/pkg/admission/namespace/lifecycle: an eviction is a creation, too.
bool sim_may_be_made(struct sim *s, const struct sim_kind *kind, const char *namespace, const char *name,
		     struct sim_answer *a)
{
	const json_t *space = namespace ? sim_store_get(&s->store, SIM_NAMESPACES, namespace) : NULL;
	if (!sim_at(space, "metadata deletionTimestamp"))
		return true;
	auto_str char *why = str_fmt("namespace %s is being terminated", namespace);
	sim_say_of(
		a, 403, "Forbidden", kind, name,
		"%s \"%s\" is forbidden: unable to create new content in namespace %s because it is being terminated",
		kind->resource, name, namespace);
	sim_say_cause(a, "NamespaceTerminating", why, "metadata.namespace");
	return false;
}

// Grace period in seconds: 0 if the pod is not scheduled, or finished (registry/core/pod/strategy.go).
static json_int_t grace_seconds(const json_t *pod, const json_t *options)
{
	const json_t *asked = json_object_get(options, "gracePeriodSeconds"),
		     *own = sim_at(pod, "spec terminationGracePeriodSeconds");
	const char *phase = sim_text(pod, "status phase"), *node = sim_text(pod, "spec nodeName");
	if (!node || str_eq(phase, "Succeeded") || str_eq(phase, "Failed"))
		return 0;
	return asked ? json_integer_value(asked) : own ? json_integer_value(own) : 30;
}

// The object with its deletionTimestamp; NULL = it is removed at once.
json_t *sim_ended(struct sim *s, const struct sim_kind *kind, const json_t *object, const json_t *options)
{
	if (kind == SIM_NAMESPACES && sim_at(object, "metadata deletionTimestamp"))
		return json_deep_copy(object);
	if (kind == SIM_NAMESPACES) {
		json_t *ending = json_deep_copy(object);
		auto_str char *begun = date_text((time_t)sim_time(s));
		sim_set(ending, "metadata deletionTimestamp", json_string(begun));
		sim_set(ending, "status phase", json_string("Terminating"));
		return ending;
	}
	json_int_t grace = kind == SIM_PODS ? grace_seconds(object, options) : 0;
	const json_t *left = sim_at(object, "metadata deletionGracePeriodSeconds");
	if (left && json_integer_value(left) <= grace)
		return grace == 0 && !sim_at(object, "metadata finalizers") ? NULL : json_deep_copy(object);
	if (grace == 0 && !sim_at(object, "metadata finalizers"))
		return NULL;
	json_t *next = json_deep_copy(object);
	auto_str char *end = date_text((time_t)(sim_time(s) + grace));
	sim_set(next, "metadata deletionTimestamp", json_string(end));
	sim_set(next, "metadata deletionGracePeriodSeconds", json_integer(grace));
	return next;
}

struct sim_ending { // a pod that a kubelet terminates
	long ms;
	char *key, *uid;
	struct sim_ending *next;
};

void sim_endings_free(struct sim_ending *e)
{
	while (e) {
		struct sim_ending *next = e->next;
		free(e->key);
		free(e->uid);
		free(e);
		e = next;
	}
}

// A pod with claims ends when its node's DRA plugin has released them (pkg/kubelet/cm/dra, UnprepareResources).
static bool is_claim_stuck(const struct sim *s, const json_t *pod)
{
	const char *name = sim_text(pod, "spec nodeName");
	const json_t *node = name ? sim_store_get(&s->store, SIM_NODES, name) : NULL;
	const char *plugin =
		json_string_value(json_object_get(sim_at(node, "metadata labels"), "nvidia.com/gpu.deploy.dra-driver"));
	return sim_at(pod, "spec resourceClaims") && plugin && !str_eq(plugin, "true");
}

static void end_pods(void *ctx);

static void end_pod(struct sim *s, const struct sim_ending *e)
{
	enum { AGAIN_MS = 5000 };
	const json_t *pod = sim_store_get(&s->store, SIM_PODS, e->key);
	if (!pod || !str_eq(sim_text(pod, "metadata uid"), e->uid))
		return;
	if (is_claim_stuck(s, pod)) {
		struct sim_ending *again = mem_alloc(sizeof(*again));
		*again = (struct sim_ending){ .ms = sim_now_ms() + AGAIN_MS,
					      .key = str_dup(e->key),
					      .uid = str_dup(e->uid),
					      .next = s->endings };
		s->endings = again;
		sim_after(AGAIN_MS, end_pods, s);
		return;
	}
	json_t *next = NULL;
	if (sim_at(pod,
		   "metadata finalizers")) { // its containers have ended, and it stays until its finalizers are removed
		next = json_deep_copy(pod);
		sim_set(next, "metadata deletionGracePeriodSeconds", json_integer(0));
	}
	sim_commit(s, SIM_PODS, e->key, next);
}

static void end_pods(void *ctx)
{
	struct sim *s = ctx;
	for (struct sim_ending **at = &s->endings; *at;) {
		struct sim_ending *e = *at;
		if (e->ms > sim_now_ms()) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		e->next = NULL;
		end_pod(s, e);
		sim_endings_free(e);
		at = &s->endings;
	}
}

void sim_kubelet(struct sim *s, const char *key)
{
	const json_t *pod = sim_store_get(&s->store, SIM_PODS, key);
	const char *uid = sim_text(pod, "metadata uid");
	long grace_ms = (long)json_integer_value(sim_at(pod, "metadata deletionGracePeriodSeconds")) * 1000;
	struct sim_ending *e = s->endings;
	while (e && !str_eq(e->uid, uid))
		e = e->next;
	if (grace_ms == 0 || (e && e->ms <= sim_now_ms() + grace_ms))
		return;
	if (!e) {
		e = mem_alloc(sizeof(*e));
		*e = (struct sim_ending){ .key = str_dup(key), .uid = str_dup(uid), .next = s->endings };
		s->endings = e;
	}
	e->ms = sim_now_ms() + grace_ms;
	sim_after(grace_ms, end_pods, s);
}
