// SPDX-License-Identifier: Apache-2.0
// The status of PodDisruptionBudgets, as kube-controller-manager's disruption controller sets it
// (pkg/controller/disruption), except that expectedPods counts the existing pods, not the replicas of their owners.
#include "base/core/date.h"
#include "tests/sim/sim_internal.h"

// "30%" or 3, of expected; percentages are rounded up.
static json_int_t budget_share(const json_t *value, json_int_t expected)
{
	if (!json_is_string(value))
		return json_integer_value(value);
	return (strtoll(json_string_value(value), NULL, 10) * expected + 99) / 100;
}

static bool is_pod_ready(const json_t *pod)
{
	size_t i;
	const json_t *c;
	json_array_foreach(sim_at(pod, "status conditions"), i, c)
	{
		if (str_eq(sim_text(c, "type"), "Ready"))
			return str_eq(sim_text(c, "status"), "True");
	}
	return false;
}

static bool sim_is_guarded(const json_t *budget, const json_t *pod)
{
	json_t *labels = sim_at(budget, "spec selector matchLabels");
	return str_eq(sim_text(budget, "metadata namespace"), sim_text(pod, "metadata namespace")) && labels &&
	       sim_has_labels(pod, labels);
}

static json_t *counted_budget(const struct sim *s, const json_t *budget)
{
	const struct sim_shelf *pods = &s->store.shelves[SIM_PODS - sim_kinds];
	const json_t *least = sim_at(budget, "spec minAvailable"), *most = sim_at(budget, "spec maxUnavailable");
	json_int_t expected = 0, healthy = 0;
	for (size_t i = 0; i < pods->count; i++) {
		const json_t *pod = pods->rows[i].object;
		if (!sim_is_guarded(budget, pod))
			continue;
		expected++;
		healthy += is_pod_ready(pod) && !sim_at(pod, "metadata deletionTimestamp");
	}
	json_int_t desired = least ? budget_share(least, expected) : expected - budget_share(most, expected);
	desired = desired < 0 ? 0 : desired;
	json_int_t allowed = expected && healthy > desired ? healthy - desired : 0;
	return json_pack("{s:O, s:I, s:I, s:I, s:I}", "observedGeneration", sim_at(budget, "metadata generation"),
			 "disruptionsAllowed", allowed, "currentHealthy", healthy, "desiredHealthy", desired,
			 "expectedPods", expected);
}

void sim_budgets(struct sim *s, const char *namespace)
{
	const struct sim_shelf *shelf = &s->store.shelves[SIM_BUDGETS - sim_kinds];
	for (size_t i = 0; i < shelf->count; i++) {
		const json_t *budget = shelf->rows[i].object;
		if (!str_eq(sim_text(budget, "metadata namespace"), namespace))
			continue;
		auto_json json_t *status = counted_budget(s, budget);
		if (json_equal(status, json_object_get(budget, "status")))
			continue;
		json_t *next = json_deep_copy(budget);
		json_object_set(next, "status", status);
		sim_store_put(&s->store, SIM_BUDGETS, shelf->rows[i].key, next);
	}
}

// The budget after one more disruption, or NULL and why it allows none (eviction.go, checkAndDecrement).
static json_t *sim_spend(struct sim *s, const json_t *budget, const char *pod, struct sim_answer *a)
{
	static const char refusal[] = "Cannot evict pod as it would violate the pod's disruption budget.";
	const char *name = sim_text(budget, "metadata name");
	json_int_t allowed = json_integer_value(sim_at(budget, "status disruptionsAllowed")),
		   desired = json_integer_value(sim_at(budget, "status desiredHealthy")),
		   current = json_integer_value(sim_at(budget, "status currentHealthy"));
	bool is_behind = json_integer_value(sim_at(budget, "status observedGeneration")) <
			 json_integer_value(sim_at(budget, "metadata generation"));
	if (!is_behind && allowed > 0) {
		json_t *next = json_deep_copy(budget);
		auto_str char *keys = str_fmt("status disruptedPods %s", pod), *now = date_text((time_t)sim_time(s));
		sim_set(next, "status disruptionsAllowed", json_integer(allowed - 1));
		sim_set(next, keys, json_string(now));
		return next;
	}
	auto_str char *why =
		is_behind          ? str_fmt("The disruption budget %s is still being processed by the server.", name) :
		current <= desired ? str_fmt("The disruption budget %s needs %lld healthy pods and has %lld currently",
					     name, (long long)desired, (long long)current) :
				     str_fmt("The disruption budget %s does not allow evicting pods currently", name);
	sim_say(a, 429, "TooManyRequests", "%s", refusal);
	sim_say_cause(a, "DisruptionBudget", why, NULL);
	if (is_behind) {
		a->retry_s = 10;
		sim_set(a->reply, "details retryAfterSeconds", json_integer(10));
	}
	return NULL;
}

// An unready pod while enough others are ready (or by policy): its eviction costs no disruption.
static bool sim_is_free(const json_t *budget, const json_t *pod)
{
	json_int_t desired = json_integer_value(sim_at(budget, "status desiredHealthy"));
	return !is_pod_ready(pod) &&
	       (str_eq(sim_text(budget, "spec unhealthyPodEvictionPolicy"), "AlwaysAllow") ||
		(desired > 0 && json_integer_value(sim_at(budget, "status currentHealthy")) >= desired));
}

// The eviction of a pod, like registry/core/pod/storage/eviction.go of kubernetes 1.36.

enum { TRIES_MS = 19 * 500 }; // EvictionsRetry: a conflict on a pod without a budget is retried twenty times

static bool is_unguarded(const json_t *pod)
{
	static const char *const phases[] = { "Succeeded", "Failed", "Pending" };
	for (size_t i = 0; i < ARRAY_SIZE(phases); i++) {
		if (str_eq(sim_text(pod, "status phase"), phases[i]))
			return true;
	}
	return sim_at(pod, "metadata deletionTimestamp") != NULL;
}

static const json_t *budget_of(const struct sim *s, const json_t *pod, unsigned *count)
{
	const struct sim_shelf *shelf = &s->store.shelves[SIM_BUDGETS - sim_kinds];
	const json_t *found = NULL;
	*count = 0;
	for (size_t i = 0; i < shelf->count; i++) {
		if (!sim_is_guarded(shelf->rows[i].object, pod))
			continue;
		found = shelf->rows[i].object;
		++*count;
	}
	return found;
}

// What the pod becomes before it is deleted.
static json_t *add_disruption_condition(const json_t *pod)
{
	json_t *next = json_deep_copy(pod);
	if (!sim_at(next, "status conditions"))
		sim_set(next, "status conditions", json_array());
	json_array_append_new(sim_at(next, "status conditions"),
			      json_pack("{s:s, s:s, s:s, s:s}", "type", "DisruptionTarget", "status", "True", "reason",
					"EvictionByEvictionAPI", "message", "Eviction API: evicting"));
	return next;
}

static bool has_paid_budget(struct sim *s, const struct sim_request *r, struct sim_effect *e)
{
	unsigned count;
	const json_t *budget = budget_of(s, e->before, &count);
	if (count > 1) {
		sim_say(&e->answer, 500, NULL,
			"This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
			"support.");
		return false;
	}
	if (!budget || sim_is_free(budget, e->before))
		return true;
	e->budget = sim_spend(s, budget, r->name, &e->answer);
	return e->budget != NULL;
}

void sim_evict(struct sim *s, const struct sim_request *r, struct sim_effect *e)
{
	const json_t *options = json_object_get(r->body, "deleteOptions");
	if (!sim_may_be_made(s, e->kind, r->namespace, r->name, &e->answer))
		return;
	if (!str_eq(sim_text(r->body, "metadata name"), r->name)) {
		sim_say(&e->answer, 400, "BadRequest", "name in URL does not match name in Eviction object");
		return;
	}
	if (!e->before) {
		sim_say_of(&e->answer, 404, "NotFound", e->kind, r->name, "pods \"%s\" not found", r->name);
		return;
	}
	bool is_guarded = !is_unguarded(e->before);
	if (is_guarded && !has_paid_budget(s, r, e))
		return;
	if (!sim_holds(e->before, options, r->name, e->kind, &e->answer)) {
		e->answer.took_ms = is_guarded ? 0 : TRIES_MS;
		return;
	}
	auto_json json_t *marked = sim_at(e->before, "metadata deletionTimestamp") ?
					   json_incref(e->before) :
					   add_disruption_condition(e->before);
	e->after = sim_ended(s, e->kind, marked, options);
	e->is_write = !e->after || !json_equal(e->before, e->after);
	e->answer.status = 201;
	e->answer.reply = json_pack("{s:s, s:s, s:{}, s:s, s:i}", "kind", "Status", "apiVersion", "v1", "metadata",
				    "status", "Success", "code", 201);
}
