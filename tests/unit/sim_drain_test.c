// SPDX-License-Identifier: Apache-2.0
// One look after the other at the pods of a node that is drained, on the simulated API server: how fast evictions are
// asked for, how long a budget is believed to block, and when the next look is due. T04, T05, T82, 5.7.
#include "cluster/coordinator/drain.h"
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

static const char plain[] = "{'pools':[{'name':'gpus','target':{'driver':'535.2'}}]}";

struct scene {
	struct farm f;
	struct kube *kube;
	struct policy policy;
	struct node_cache node_cache;
	struct evictor drain;
};

static void begin(struct scene *s)
{
	struct err err = { 0 };
	static const char policy[] = "{\"pools\":[{\"name\":\"gpus\",\"target\":{\"driver\":\"535.2\"}}]}";
	*s = (struct scene){ .policy = POLICY_NONE, .node_cache = NODE_CACHE_NONE };
	farm_begin(&s->f, 1, plain);
	expect(policy_parse(policy, strlen(policy), &s->policy, &err) == 0, err.text);
	s->kube = sim_client(s->f.sim, "boss");
	s->drain = (struct evictor){ .kube = s->kube };
	sim_merge(s->f.sim, "/api/v1/nodes/n00",
		  "{'metadata':{'labels':{'kmodsmith.io/state':'evicting'},'annotations':{'kmodsmith.io/cordon':'{"
		  "\\'by\\':\\'kmodsmith\\',\\'prior\\':false,\\'touched\\':false,\\'again\\':0,"
		  "\\'until\\':1900000000}'}},'spec':{'unschedulable':true}}");
	node_cache_put(&s->node_cache, sim_get(s->f.sim, "/api/v1/nodes/n00"), &s->policy);
}

static void end(struct scene *s)
{
	node_cache_done(&s->node_cache);
	policy_done(&s->policy);
	kube_free(s->kube);
	farm_end(&s->f);
}

// The next look is due so many ms after it.
static long look(struct scene *s)
{
	struct err err = { 0 };
	expect(drain_check_pods(&s->drain, &s->node_cache, 0, &s->policy.pools[0], true, kube_time(s->kube), &err) >= 0,
	       err.text);
	return s->node_cache.entries[0].look_ms - kube_now_ms();
}

static const struct pods_seen *seen(const struct scene *s)
{
	return node_state_pods(&s->node_cache.nodes[0]);
}

static void guard(struct scene *s, const char *app) // none of these pods may go
{
	sim_make(s->f.sim, "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
		 "{'metadata':{'name':'of-%s','namespace':'default'},'spec':{'minAvailable':1,'selector':{'matchLabels'"
		 ":{'app':'%s'}}}}",
		 app, app);
}

static unsigned long asked_within(struct scene *s, long ms)
{
	unsigned long before = s->drain.asked;
	for (long end = sim_now_ms() + ms; sim_now_ms() < end; sim_pass(50))
		look(s);
	return s->drain.asked - before;
}

// A node may have hundreds of pods, and the API server has others to serve.
static void at_most_ten_evictions_a_second(void **state)
{
	(void)state;
	enum { PODS = 60 };
	struct scene s;
	begin(&s);
	for (unsigned i = 0; i < PODS; i++) {
		auto_str char *name = str_fmt("train-%u", i);
		farm_pod(&s.f, 0, name);
	}
	look(&s);
	assert_int_equal(s.drain.asked, DRAIN_RATE); // the first second's
	assert_int_equal(seen(&s)->pods, PODS);
	unsigned long second = asked_within(&s, 1000);
	assert_in_range(second, DRAIN_RATE - 2, DRAIN_RATE + 1);
	sim_pass(60 * 1000); // nothing is saved up
	look(&s);
	look(&s);
	assert_in_range(s.drain.asked, DRAIN_RATE + second + DRAIN_RATE, DRAIN_RATE + second + DRAIN_RATE + 1);
	end(&s);
}

// 5 s, 7.5 s, 11.25 s ... a minute; and 5 s again once somebody could go.
static void a_blocking_budget_is_retried_with_back_off(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	farm_pod(&s.f, 0, "db");
	guard(&s, "db");
	static const long waits[] = {
		5000, 7500, 11250, 16875, 25312, 37968, 56952, 60000, 60000, 60000, 60000, 60000
	};
	for (size_t i = 0; i < ARRAY_SIZE(waits); i++) {
		assert_int_equal(look(&s), waits[i]);
		sim_pass(waits[i]);
	}
	assert_int_equal(s.drain.blocked, ARRAY_SIZE(waits));
	farm_pod(&s.f, 0, "train");
	assert_int_equal(look(&s), DRAIN_LOOK_MS); // the other one goes
	sim_pass(60 * 1000);
	assert_int_equal(look(&s), DRAIN_LOOK_MS); // and is gone: blocked for the first time
	assert_int_equal(look(&s), 7500);
	end(&s);
}

// Not for a budget: the server guards itself.
static void retry_after_is_respected(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	farm_pod(&s.f, 0, "db");
	sim_fault(s.f.sim, &(struct sim_fault){ .what = SIM_STATUS, .verb = "evict", .status = 429, .retry_s = 40 });
	assert_int_equal(look(&s), 40 * 1000);
	assert_int_equal(seen(&s)->blocked_since, 0);
	end(&s);
}

static bool is_leaving(struct scene *s, const char *pod)
{
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/%s", pod);
	return sim_at(sim_get(s->f.sim, path), "metadata deletionTimestamp") != NULL;
}

static void refuse(struct scene *s, const char *pod, long status, const char *words)
{
	sim_fault(s->f.sim, &(struct sim_fault){ .what = SIM_STATUS,
						 .verb = "evict",
						 .name = pod,
						 .status = status,
						 .message = words,
						 .times = 1000 });
}

// A webhook of somebody else, a server that cannot: of one pod, and no reason to ask the others to stay.
static void one_refusal_does_not_stop_other_evictions(void **state)
{
	(void)state;
	static const struct {
		long status;
		const char *words, *blocker;
	} rows[] = {
		{ 403, "admission webhook 'keep' denied the request: not today",
		  "default/a: admission webhook 'keep' denied the request: not today" },
		{ 500, "Internal error occurred: failed calling webhook",
		  "default/a: Internal error occurred: failed calling webhook" },
		{ 400, "no", "default/a: no" },
		{ 504, "Timeout: request did not complete", "default/a: Timeout: request did not complete" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		begin(&s);
		static const char *const names[] = { "a", "b", "c" };
		for (size_t n = 0; n < ARRAY_SIZE(names); n++)
			farm_pod(&s.f, 0, names[n]);
		refuse(&s, "a", rows[i].status, rows[i].words);
		assert_int_equal(look(&s), DRAIN_LOOK_MS);
		expect(is_leaving(&s, "b") && is_leaving(&s, "c") && !is_leaving(&s, "a"), rows[i].words);
		assert_int_equal(seen(&s)->pods, 3);
		assert_int_equal(seen(&s)->blocked_since, 0);
		assert_int_equal(seen(&s)->blocker.code, REASON_EVICTION_REFUSED);
		assert_string_equal(seen(&s)->blocker.object, rows[i].blocker);
		sim_pass(60 * 1000);
		assert_int_equal(look(&s), DRAIN_LOOK_MS); // asked ever more seldom, once it is alone
		assert_int_equal(look(&s), 7500);
		end(&s);
	}
}

// The worst is told first, whatever the order of the pods: a budget, a refusal, who may not be evicted, who only ends.
static void the_worst_blocker_is_reported(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	farm_pod_that_stays(&s.f, 0, "y");
	farm_pod(&s.f, 0, "z");
	look(&s); // y and z begin to end
	sim_pass(60 * 1000);
	look(&s);
	assert_string_equal(seen(&s)->blocker.object, "default/y: waits for example.com/keep");
	assert_int_equal(seen(&s)->blocker.code, REASON_PODS_LEFT);
	sim_make(s.f.sim, "/api/v1/namespaces/default/pods",
		 "{'metadata':{'name':'x','namespace':'default'},'spec':{'nodeName':'n00','containers':[{'name':'c',"
		 "'image':'i','resources':{'limits':{'nvidia.com/gpu':'1'}}}]}}");
	look(&s);
	assert_int_equal(seen(&s)->blocker.code, REASON_HOLDER_PROTECTED);
	farm_pod(&s.f, 0, "w");
	refuse(&s, "w", 403, "no");
	look(&s);
	assert_string_equal(seen(&s)->blocker.object, "default/w: no");
	farm_pod(&s.f, 0, "db");
	guard(&s, "db");
	look(&s);
	assert_string_equal(seen(&s)->blocker.object, "default/db, budget of-db");
	farm_pod(&s.f, 0, "zz"); // and it goes
	look(&s);
	assert_string_equal(seen(&s)->blocker.object, "default/db, budget of-db");
	assert_int_equal(seen(&s)->blocked_since, 0);
	end(&s);
}

// What two budgets guard nobody can pay for, and nothing says that it will be otherwise.
static void two_budgets_are_a_refusal(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	farm_pod(&s.f, 0, "db");
	guard(&s, "db");
	sim_make(s.f.sim, "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
		 "{'metadata':{'name':'second','namespace':'default'},'spec':{'minAvailable':0,'selector':{"
		 "'matchLabels':{'app':'db'}}}}");
	look(&s);
	assert_int_equal(seen(&s)->blocker.code, REASON_EVICTION_REFUSED);
	expect(strstr(seen(&s)->blocker.object, "default/db: This pod has more than one PodDisruptionBudget"),
	       seen(&s)->blocker.object);
	end(&s);
}

// Its controller deletes what is in it; until then nothing can be made there, no eviction either.
static void a_terminating_namespace_is_waited_for(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	sim_make(s.f.sim, "/api/v1/namespaces", "{'metadata':{'name':'default'}}");
	farm_pod(&s.f, 0, "last");
	sim_delete(s.f.sim, "/api/v1/namespaces/default");
	assert_int_equal(look(&s), DRAIN_LOOK_MS);
	assert_int_equal(look(&s), DRAIN_LOOK_MS);
	assert_int_equal(seen(&s)->pods, 1);
	assert_int_equal(seen(&s)->blocked_since, 0);
	assert_int_equal(seen(&s)->blocker.code, REASON_PODS_LEFT);
	assert_string_equal(seen(&s)->blocker.object, "default/last: its namespace is ending");
	sim_delete(s.f.sim, "/api/v1/namespaces/default/pods/last");
	sim_pass(60 * 1000);
	look(&s);
	assert_int_equal(seen(&s)->pods, 0);
	end(&s);
}

// Since when: the last look at which somebody could go, so that a drain that gets on is not called off.
static void it_is_blocked_only_without_evictions(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	farm_pod(&s.f, 0, "db");
	guard(&s, "db");
	look(&s);
	int64_t first = seen(&s)->blocked_since;
	assert_int_equal(first, kube_time(s.kube));
	assert_string_equal(seen(&s)->blocker.object, "default/db, budget of-db");
	sim_pass(300 * 1000);
	look(&s);
	assert_int_equal(seen(&s)->blocked_since, first);
	farm_pod(&s.f, 0, "train");
	look(&s); // this one goes
	assert_int_equal(seen(&s)->blocked_since, 0);
	sim_pass(60 * 1000);
	assert_null(sim_get(s.f.sim, "/api/v1/namespaces/default/pods/train"));
	look(&s);
	assert_int_equal(seen(&s)->blocked_since, kube_time(s.kube));
	assert_true(seen(&s)->blocked_since >= first + 360);
	sim_delete(s.f.sim, "/apis/policy/v1/namespaces/default/poddisruptionbudgets/of-db");
	look(&s);
	assert_int_equal(seen(&s)->blocked_since, 0);
	end(&s);
}

// Whoever comes into a state again is looked at at once, and with the patience of a first time.
static void a_drain_starts_without_results_of_the_last_one(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	farm_pod(&s.f, 0, "db");
	guard(&s, "db");
	look(&s);
	sim_pass(300 * 1000);
	assert_int_equal(look(&s), 7500);
	assert_false(drain_is_due(&s.node_cache, 0));
	sim_merge(s.f.sim, "/api/v1/nodes/n00",
		  "{'metadata':{'annotations':{'kmodsmith.io/since':'2027-01-15T08:04:00Z'}}}");
	node_cache_put(&s.node_cache, sim_get(s.f.sim, "/api/v1/nodes/n00"), &s.policy);
	assert_true(drain_is_due(&s.node_cache, 0));
	assert_int_equal(seen(&s)->pods, PODS_UNSEEN);
	assert_int_equal(seen(&s)->blocked_since, 0);
	sim_pass(1000);
	assert_int_equal(look(&s), DRAIN_LOOK_MS);
	assert_int_equal(seen(&s)->blocked_since, kube_time(s.kube));
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_most_ten_evictions_a_second),
		cmocka_unit_test(a_blocking_budget_is_retried_with_back_off),
		cmocka_unit_test(retry_after_is_respected),
		cmocka_unit_test(one_refusal_does_not_stop_other_evictions),
		cmocka_unit_test(the_worst_blocker_is_reported),
		cmocka_unit_test(two_budgets_are_a_refusal),
		cmocka_unit_test(a_terminating_namespace_is_waited_for),
		cmocka_unit_test(it_is_blocked_only_without_evictions),
		cmocka_unit_test(a_drain_starts_without_results_of_the_last_one),
	};
	return cmocka_run_group_tests_name("drain", tests, NULL, NULL);
}
