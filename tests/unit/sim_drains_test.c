// SPDX-License-Identifier: Apache-2.0
// One drain after the other in the life of one coordinator: what was seen of pods, jobs and budgets belongs to the stay
// of a node in a state, and decides nothing in a later one. T04, T05, T82.
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define BUDGETS "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
#define POOL(driver, drain) \
	"{'pools':[{'name':'gpus','maxUnavailable':'50%','drain':{" drain "},'target':{'driver':'" driver "'}}]}"

static const json_t *pod_of(const struct farm *f, const char *name)
{
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/%s", name);
	return sim_get(f->sim, path);
}

static void begin(struct farm *f, struct farm_coordinator *coordinator, unsigned nodes, const char *policy)
{
	farm_begin(f, nodes, policy);
	farm_coordinator_begin(f, coordinator, "boss");
}
static void end(struct farm *f, struct farm_coordinator *coordinator)
{
	lawful(f);
	farm_coordinator_kill(coordinator);
	farm_end(f);
}

// Two rollouts without anything in their way, so that all that can be seen of pods was seen to be 0.
static void roll_out_twice(struct farm *f, struct farm_coordinator *coordinator, const char *first, const char *second)
{
	struct target_hash target = farm_target(second);
	begin(f, coordinator, 2, first);
	farm_pod(f, 0, "before-0");
	farm_pod(f, 1, "before-1");
	assert_true(farm_until(f, coordinator, 1, "done", 2, MINUTES(30)));
	farm_policy(f, second);
	for (int i = 0;
	     i < 30 && !(target_hash_eq(&f->nodes[0].loaded, &target) && target_hash_eq(&f->nodes[1].loaded, &target));
	     i++)
		farm_run(coordinator, 1, MINUTES(1));
	assert_true(farm_until(f, coordinator, 1, "done", 2, MINUTES(5)));
}

static void a_job_is_waited_for_in_every_rollout(void **state)
{
	(void)state;
	enum { JOB_MINUTES = 40 };
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash third = farm_target(POOL("535.4", ""));
	roll_out_twice(&f, &coordinator, POOL("535.2", "'waitFor':'app=train'"),
		       POOL("535.3", "'waitFor':'app=train'"));
	farm_pod(&f, 0, "train");
	farm_policy(&f, POOL("535.4", "'waitFor':'app=train'"));
	assert_true(farm_until(&f, &coordinator, 1, "waiting", 1, MINUTES(10)));
	size_t evictions = sim_count(f.sim, "boss", "evict");
	for (int i = 0; i < JOB_MINUTES; i++) {
		farm_run(&coordinator, 1, MINUTES(1));
		expect(str_eq(farm_state(&f, 0), "waiting"), farm_state(&f, 0));
	}
	assert_string_equal(farm_note(&f, 0, "kmodsmith.io/reason"), "jobs default/train");
	assert_int_equal(sim_count(f.sim, "boss", "evict"), evictions);
	sim_merge(f.sim, "/api/v1/namespaces/default/pods/train/status", "{'status':{'phase':'Succeeded'}}");
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(30)));
	assert_true(target_hash_eq(&f.nodes[0].loaded, &third));
	end(&f, &coordinator);
}

static void a_pod_is_evicted_in_every_rollout(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash third = farm_target(POOL("535.4", ""));
	roll_out_twice(&f, &coordinator, POOL("535.2", ""), POOL("535.3", ""));
	farm_pod(&f, 0, "idle");
	size_t evictions = sim_count(f.sim, "boss", "evict");
	farm_policy(&f, POOL("535.4", ""));
	for (int i = 0; i < 60 && !target_hash_eq(&f.nodes[0].loaded, &third); i++) {
		farm_run(&coordinator, 1, 10 * 1000L);
		if (strstr(farm_note(&f, 0, "kmodsmith.io/go"), ":replace:"))
			assert_null(pod_of(&f, "idle"));
	}
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(10)));
	assert_int_equal(sim_count(f.sim, "boss", "evict"), evictions + 1);
	end(&f, &coordinator);
}

struct counter { // of cordons
	const struct farm *f;
	unsigned count;
	bool was;
};
static void look(void *ctx)
{
	struct counter *c = ctx;
	bool is = farm_is_cordoned(c->f, 0);
	if (c->f->is_over)
		return;
	c->count += is && !c->was;
	c->was = is;
	sim_after(100, look, c);
}

// T82: the slot is given back; with the budget gone the next drain gets on, from its first look.
static void a_budget_that_was_lifted_blocks_nobody(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct counter cordons = { .f = &f };
	struct target_hash target = farm_target(POOL("535.2", ""));
	begin(&f, &coordinator, 1, POOL("535.2", ""));
	farm_pod(&f, 0, "db");
	sim_make(f.sim, BUDGETS,
		 "{'metadata':{'name':'all','namespace':'default'},'spec':{'minAvailable':1,'selector':{'matchLabels':{"
		 "'app':'db'}}}}");
	sim_after(1, look, &cordons);
	assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(5)));
	assert_true(farm_until(&f, &coordinator, 1, "idle", 1, MINUTES(30)));
	sim_delete(f.sim, BUDGETS "/all");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(20)));
	assert_true(target_hash_eq(&f.nodes[0].loaded, &target));
	assert_int_equal(cordons.count, 2);
	end(&f, &coordinator);
}

// Somebody takes our cordon away while pods are evicted, and the scheduler binds a job at once; or the job was bound
// before the scheduler had heard of the cordon. It is not evicted, now or later.
static void a_job_that_comes_into_a_drain(void **state)
{
	(void)state;
	static const char policy[] = POOL("535.2", "'waitFor':'app=train'");
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash target = farm_target(policy);
	begin(&f, &coordinator, 1, policy);
	farm_pod(&f, 0, "db");
	sim_make(f.sim, BUDGETS,
		 "{'metadata':{'name':'all','namespace':'default'},'spec':{'minAvailable':1,'selector':{'matchLabels':{"
		 "'app':'db'}}}}");
	assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(5)));
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'spec':{'unschedulable':null}}");
	farm_pod(&f, 0, "train");
	assert_true(farm_until(&f, &coordinator, 1, "idle", 1, MINUTES(2)));
	assert_false(farm_is_cordoned(&f, 0));
	assert_string_equal(farm_note(&f, 0, "kmodsmith.io/reason"), "jobs default/train");
	sim_delete(f.sim, BUDGETS "/all");
	assert_true(farm_until(&f, &coordinator, 1, "waiting", 1, MINUTES(30)));
	farm_run(&coordinator, 1, MINUTES(30));
	assert_string_equal(farm_state(&f, 0), "waiting");
	assert_non_null(pod_of(&f, "train"));
	sim_merge(f.sim, "/api/v1/namespaces/default/pods/train/status", "{'status':{'phase':'Succeeded'}}");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	assert_true(target_hash_eq(&f.nodes[0].loaded, &target));
	end(&f, &coordinator);
}

// The wait is over, and the policy evicts: also a job that came last.
static void a_job_is_waited_for_once_a_drain(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator, 1, POOL("535.2", "'waitFor':'app=train'"));
	farm_pod(&f, 0, "train");
	assert_true(farm_until(&f, &coordinator, 1, "waiting", 1, MINUTES(5)));
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(150)));
	assert_null(pod_of(&f, "train"));
	end(&f, &coordinator);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_is_waited_for_in_every_rollout),
		cmocka_unit_test(a_pod_is_evicted_in_every_rollout),
		cmocka_unit_test(a_budget_that_was_lifted_blocks_nobody),
		cmocka_unit_test(a_job_that_comes_into_a_drain),
		cmocka_unit_test(a_job_is_waited_for_once_a_drain),
	};
	return cmocka_run_group_tests_name("drains", tests, NULL, NULL);
}
