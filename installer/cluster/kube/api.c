// SPDX-License-Identifier: Apache-2.0
#include "cluster/kube/api.h"

#include "base/core/date.h"

#include <sys/random.h>
#include <time.h>

// 1 = done; *ret, where the caller wants it, is the reply.
static int run_call(struct kube *k, struct kube_call *call, json_t **ret, struct err *err)
{
	if (kube_run(k, call, err) < 0)
		return -1;
	if (ret)
		*ret = TAKE(call->reply);
	return 1;
}

int api_get(struct kube *k, const char *path, json_t **ret, struct err *err)
{
	auto_kube_call struct kube_call call = { .path = path };
	int r = run_call(k, &call, ret, err);
	return r < 0 && call.status == 404 ? 0 : r;
}

int api_create(struct kube *k, const char *path, const json_t *body, json_t **ret, struct err *err)
{
	auto_kube_call struct kube_call call = { .method = "POST", .path = path, .body = body };
	int r = run_call(k, &call, ret, err);
	return r < 0 && call.status == 409 && str_eq(call.reason, "AlreadyExists") ? 0 : r;
}

int api_delete(struct kube *k, const char *path, const char *uid, struct err *err)
{
	auto_json json_t *body = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "DeleteOptions",
					   "preconditions", "uid", uid);
	auto_kube_call struct kube_call call = {
		.method = "DELETE", .path = path, .body = body, .is_repeatable = true
	};
	int r = run_call(k, &call, NULL, err);
	return r < 0 && (err->code == E_CONFLICT || call.status == 404) ? 0 : r;
}

// A precondition makes a retry harmless: at worst it fails because our first try went through.
int api_change(struct kube *k, enum api_how how, const char *path, const json_t *body, json_t **ret, struct err *err)
{
	static const char *const types[] = { [API_MERGE] = "application/merge-patch+json",
					     [API_PATCH] = "application/json-patch+json",
					     [API_REPLACE] = NULL };
	auto_kube_call struct kube_call call = { .method = how == API_REPLACE ? "PUT" : "PATCH",
						 .path = path,
						 .type = types[how],
						 .body = body,
						 .is_repeatable = true };
	int r = run_call(k, &call, ret, err);
	return r < 0 && (err->code == E_CONFLICT || call.status == 404) ? 0 : r;
}

// The server reports another uid only after 10 s of its own retries (EvictionsRetry in its eviction.go).
int api_evict(struct kube *k, const char *namespace, const char *pod, const char *uid, struct api_eviction *ret,
	      struct err *err)
{
	auto_str char *path = str_fmt("/api/v1/namespaces/%s/pods/%s/eviction", namespace, pod);
	auto_json json_t *body = json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:{s:s}}}", "apiVersion", "policy/v1", "kind",
					   "Eviction", "metadata", "name", pod, "namespace", namespace, "deleteOptions",
					   "preconditions", "uid", uid);
	// Not retried here: the drain lists the pods first, and tries again.
	auto_kube_call struct kube_call call = { .method = "POST", .path = path, .body = body, .is_busy_final = true };
	call.deadline_ms = 60000;
	call.try_ms = 25000;
	*ret = (struct api_eviction){ 0 };
	if (kube_run(k, &call, err) == 0)
		return 0;
	if (call.status == 404) {
		ret->what = API_GONE;
		return 0;
	}
	if (call.status == 0 || call.status == 401)
		return -1;
	// registry/core/pod/storage/eviction.go: a blocking budget is a 429 with a cause; other 429 come from what
	// protects the server itself, and a pod with two budgets is a 500. NamespaceLifecycle: a 403 with a cause,
	// which kubectl drain tells apart the same way.
	bool is_blocked = call.status == 429 && kube_cause(&call, "reason", "DisruptionBudget");
	bool is_ending = call.status == 403 && kube_cause(&call, "reason", "NamespaceTerminating");
	ret->what = call.status == 409 ? API_OTHER : is_blocked ? API_BLOCKED : is_ending ? API_ENDING : API_REFUSED;
	ret->retry_ms = call.retry_ms;
	// The cause says more about a budget than the message does.
	const char *budget = call.message ? strstr(err->text, "The disruption budget ") : NULL;
	err_set(&ret->why, err->code, "%s", budget ? budget : call.message ? call.message : err->text);
	return 0;
}

int api_event(struct kube *k, const struct api_event *e, struct err *err)
{
	const struct api_object node = { "v1", "Node", NULL, e->node, e->uid }, *of = e->of ? e->of : &node;
	const char *namespace = of->namespace ? of->namespace : "default";
	const char *where = e->of ? e->component : e->node;
	uint64_t unique = 0;
	auto_str char *now = date_text(time(NULL));
	if (getrandom(&unique, sizeof(unique), 0) < 0)
		return err_set(err, E_SYSTEM, "getrandom");
	auto_str char *name = str_fmt("%s.%016llx", of->name, (unsigned long long)unique);
	auto_json json_t *about =
		json_pack("{s:s, s:s, s:s*, s:s, s:s}", "apiVersion", of->version, "kind", of->kind, "namespace",
			  of->namespace, "name", of->name, "uid", of->uid ? of->uid : of->name);
	auto_json json_t *body = json_pack(
		"{s:s, s:s, s:{s:s, s:s}, s:O, s:s, s:o, s:s, s:{s:s, s:s*}, s:s, s:s, s:s, s:s, s:i}", "apiVersion",
		"v1", "kind", "Event", "metadata", "name", name, "namespace", namespace, "involvedObject", about,
		"reason", e->reason, "message", json_text(e->message), "type", e->is_warning ? "Warning" : "Normal",
		"source", "component", e->component, "host", e->node, "reportingComponent", e->component,
		"reportingInstance", where, "firstTimestamp", now, "lastTimestamp", now, "count", 1);
	if (!body)
		return err_set(err, E_KUBE, "event '%s': a name or text is not valid UTF-8", e->reason);
	auto_str char *path = str_fmt("/api/v1/namespaces/%s/events", namespace);
	return api_create(k, path, body, NULL, err) < 0 ? -1 : 0;
}

char *api_node(const char *name)
{
	return str_fmt("/api/v1/nodes/%s", name);
}

char *api_path(enum api_kind kind, const char *namespace, const char *name)
{
	static const char *const paths[][2] = {
		[API_CONFIGMAP] = { "/api/v1", "configmaps" },
		[API_LEASE] = { "/apis/coordination.k8s.io/v1", "leases" },
		[API_DRIVER_ROLLOUT] = { "/apis/" DRIVER_ROLLOUT_VERSION, "driverrollouts" },
	};
	return str_fmt("%s/namespaces/%s/%s%s%s", paths[kind][0], namespace, paths[kind][1], name ? "/" : "",
		       name ? name : "");
}
