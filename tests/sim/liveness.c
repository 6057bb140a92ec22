// SPDX-License-Identifier: Apache-2.0
// Laws about time, in addition to those of a request (laws.c): what has to end, or must not come too early. They only
// know the API and the design, too. Time counts while a coordinator renews the Lease: without a leader nothing has to
// end.
//
// L1 drains for one target are limited; L2 no state of a drain exceeds its deadline, and no cordon of ours its drain;
// L3 a node with a healthy driver returns to service; L4 jobs are waited for as long as the policy requires.
#include "base/core/date.h"
#include "tests/sim/farm.h"
#include "tests/sim/sim_internal.h"

enum { SLACK_MS = 20 * 60 * 1000, WELL_MS = 2 * 60 * 60 * 1000, RENEWED_MS = 20000, DAY_MS = 24 * 60 * 60 * 1000 };

static const char *note(const json_t *node, const char *key)
{
	const char *value = json_string_value(json_object_get(sim_at(node, "metadata annotations"), key));
	return value ? value : "";
}
static const char *state(const json_t *node)
{
	const char *value = json_string_value(json_object_get(sim_at(node, "metadata labels"), "kmodsmith.io/state"));
	return value ? value : "";
}
static bool has_cordon(const json_t *node)
{
	return json_is_true(sim_at(node, "spec unschedulable"));
}
static bool is_one_of_words(const char *text, const char *words)
{
	auto_str char *needle = str_fmt(" %s ", text);
	return *text && strstr(words, needle) != NULL;
}
static void report_lost_liveness(struct farm *f, const char *law, const struct farm_node *n, const char *what)
{
	strv_add(f->laws, str_fmt("%s at %ld ms: %s: %s", law, sim_now_ms(), n->name, what));
}

static void read_current_policy(const struct farm *f, struct policy *ret)
{
	struct err err;
	const char *text =
		sim_text(sim_get(f->sim, "/api/v1/namespaces/kmodsmith/configmaps/" POLICY_NAME), "data " POLICY_KEY);
	if (!text || policy_parse(text, strlen(text), ret, &err) < 0)
		*ret = POLICY_NONE;
}

// L1. Failed drains count, and so do those that another controller undid; one more may succeed.
static void watch_drains(struct farm *f, struct farm_node *n, const json_t *after)
{
	struct life *l = &n->life;
	auto_policy struct policy policy = POLICY_NONE;
	read_current_policy(f, &policy);
	if (!policy.pool_count)
		return;
	uint64_t cause =
		policy.pools[0].target.target_hash.payload ^ target_hash_of_text(note(after, "kmodsmith.io/retry"));
	if (l->cause != cause || sim_now_ms() - l->first_ms > DAY_MS) {
		l->cause = cause;
		l->drains = 0;
		l->first_ms = sim_now_ms();
	}
	if (++l->drains > 2 * policy.pools[0].drain_attempts + policy.pools[0].attempts)
		report_lost_liveness(f, "L1", n, "one more drain for the same target within a day");
}

static bool has_label(const json_t *pod, const char *term)
{
	auto_str char *key = str_ndup(term, strcspn(term, "="));
	const char *value = json_string_value(json_object_get(sim_at(pod, "metadata labels"), key));
	return value && strchr(term, '=') && str_eq(value, strchr(term, '=') + 1);
}

static bool has_job(const struct farm *f, const struct farm_node *n, const char *term)
{
	const struct sim_shelf *shelf = &f->sim->store.shelves[SIM_PODS - sim_kinds];
	for (size_t i = 0; i < shelf->count; i++) {
		const json_t *pod = shelf->rows[i].object;
		if (pod && str_eq(sim_text(pod, "spec nodeName"), n->name) && has_label(pod, term) &&
		    str_eq(sim_text(pod, "status phase"), "Running") && !sim_at(pod, "metadata deletionTimestamp"))
			return true;
	}
	return false;
}

// L4
static void watch_job_waits(struct farm *f, struct farm_node *n, const char *from, const char *to)
{
	auto_policy struct policy policy = POLICY_NONE;
	if (str_eq(to, "waiting") && !str_eq(from, "waiting"))
		n->life.waits_ms = sim_now_ms();
	if (!str_eq(to, "evicting") || !is_one_of_words(from, " cordoned waiting "))
		return;
	read_current_policy(f, &policy);
	const struct pool *pool = policy.pools;
	if (!policy.pool_count || !pool->wait_for || !has_job(f, n, pool->wait_for))
		return;
	bool has_waited =
		str_eq(from, "waiting") && sim_now_ms() - n->life.waits_ms >= (pool->spans[SPAN_WAIT] - 10L) * 1000;
	if (!has_waited || pool->on_wait_timeout == WAIT_RELEASE)
		report_lost_liveness(f, "L4", n, "a job that is to be waited for is not");
}

static long span_ms(const json_t *node)
{
	time_t since = 0, deadline = 0;
	bool has_both = date_parse(note(node, "kmodsmith.io/since"), &since) &&
			date_parse(note(node, "kmodsmith.io/deadline"), &deadline) && deadline > since;
	return has_both ? (long)(deadline - since) * 1000 : 0;
}

static bool holds_unreleased(const struct farm *f)
{
	auto_policy struct policy policy = POLICY_NONE;
	read_current_policy(f, &policy);
	return policy.pool_count && policy.pools[0].on_release_timeout == RELEASE_HOLD;
}

// What to measure from now on, by the current Node.
static void begin_phase_watch(const struct farm *f, struct life *l, const json_t *node)
{
	const char *receipt = note(node, "kmodsmith.io/cordon"), *is = state(node);
	bool is_ours = *receipt && has_cordon(node) && !strstr(receipt, "\"prior\":true");
	auto_str char *well = str_fmt("%s:ok", note(node, "kmodsmith.io/target"));
	bool is_ready = str_eq(sim_text(json_array_get(sim_at(node, "status conditions"), 0), "status"), "True");
	bool is_drain = is_one_of_words(is, " cordoned waiting evicting replacing validating restoring releasing ");
	bool is_left = is_ours && is_one_of_words(is, " idle done rolledback held ");
	bool is_well =
		is_ours && is_ready && str_eq(is, "queued") && str_eq(note(node, "kmodsmith.io/agent.health"), well);
	uint64_t what = target_hash_of_text(is) ^ target_hash_of_text(note(node, "kmodsmith.io/since")) ^
			(uint64_t)(is_left + 2 * is_well);
	if (what == l->what)
		return;
	l->what = what;
	l->led_ms = 0;
	// By the policy, a node whose GPUs do not come back may stay cordoned for ever.
	bool is_kept = str_eq(is, "releasing") && *receipt && holds_unreleased(f);
	l->law = is_kept ? NULL : is_drain ? "L2" : is_left ? "L2" : is_well ? "L3" : NULL;
	l->most_ms = is_drain ? span_ms(node) + SLACK_MS : is_well ? WELL_MS : SLACK_MS;
}

void liveness_look(struct farm *f, const struct sim_request *r, struct farm_node *n)
{
	bool is_boss = str_starts(r->client, "boss");
	if (is_boss && !has_cordon(r->before) && has_cordon(r->after)) {
		n->life.cordons++;
		watch_drains(f, n, r->after);
	}
	if (is_boss)
		watch_job_waits(f, n, state(r->before), state(r->after));
	begin_phase_watch(f, &n->life, r->after);
}

// L4: nor a job that came after the wait had ended because there was none.
static void watch_evictions(struct farm *f, const struct sim_request *r)
{
	auto_policy struct policy policy = POLICY_NONE;
	read_current_policy(f, &policy);
	if (!policy.pool_count || !policy.pools[0].wait_for || !r->before ||
	    !has_label(r->before, policy.pools[0].wait_for))
		return;
	for (unsigned i = 0; i < f->count; i++) {
		auto_str char *path = str_fmt("/api/v1/nodes/%s", f->nodes[i].name);
		if (str_eq(sim_text(r->before, "spec nodeName"), f->nodes[i].name) &&
		    !strstr(note(sim_get(f->sim, path), "kmodsmith.io/cordon"), "\"waited\":true"))
			report_lost_liveness(f, "L4", &f->nodes[i], "a job is evicted before the wait for it is over");
	}
}

void liveness_hear(struct farm *f, const struct sim_request *r)
{
	if (str_eq(r->verb, "evict") && str_starts(r->client, "boss"))
		watch_evictions(f, r);
	if (str_eq(r->resource, "leases") && str_starts(r->client, "boss") && str_eq(r->verb, "update") &&
	    r->status / 100 == 2)
		f->renewed_ms = sim_now_ms();
}

void liveness_pass(struct farm *f, long ms)
{
	if (!f->renewed_ms || sim_now_ms() - f->renewed_ms > RENEWED_MS)
		return;
	for (unsigned i = 0; i < f->count; i++) {
		struct life *l = &f->nodes[i].life;
		if (!l->law)
			continue;
		l->led_ms += ms;
		if (l->led_ms <= l->most_ms)
			continue;
		report_lost_liveness(f, l->law, &f->nodes[i],
				     str_eq(l->law, "L2") ? "a cordon outlives what it was for" :
							    "its driver works, and it is kept cordoned");
		l->law = NULL;
	}
}
