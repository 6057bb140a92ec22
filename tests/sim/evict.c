// SPDX-License-Identifier: Apache-2.0
// The eviction of a pod, step by step as registry/core/pod/storage/eviction.go of kubernetes 1.36 does it.
#include "tests/sim/own.h"

enum { TRIES_MS = 19 * 500 }; // EvictionsRetry: a conflict on a pod that no budget guards is tried twenty times

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
