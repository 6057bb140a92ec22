// SPDX-License-Identifier: Apache-2.0
// The status of disruption budgets, as the controller of kube-controller-manager keeps it (pkg/controller/disruption),
// but for one thing: the pods that a budget expects are those that there are, not those that their owners want.
#include "tests/sim/own.h"

#include "base/core/date.h"

// "30%" or 3, of expected; percents are rounded up.
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

bool sim_is_guarded(const json_t *budget, const json_t *pod)
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

// The budget with one disruption less, or NULL and why it allows none (eviction.go, checkAndDecrement).
json_t *sim_spend(struct sim *s, const json_t *budget, const char *pod, struct sim_answer *a)
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

// Not ready, and enough others are (or the budget does not mind): nothing is spent for it.
bool sim_is_free(const json_t *budget, const json_t *pod)
{
	json_int_t desired = json_integer_value(sim_at(budget, "status desiredHealthy"));
	return !is_pod_ready(pod) &&
	       (str_eq(sim_text(budget, "spec unhealthyPodEvictionPolicy"), "AlwaysAllow") ||
		(desired > 0 && json_integer_value(sim_at(budget, "status currentHealthy")) >= desired));
}
