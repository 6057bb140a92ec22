// SPDX-License-Identifier: Apache-2.0
// The status of a DriverRollout, word by word: `kubectl get` and `kubectl wait` read it, and Argo CD decides by it.
// Which object is the policy: sim_driverrollout_test.
#include "base/core/date.h"
#include "cluster/rollout/undo.h"
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define MAPS "/api/v1/namespaces/kmodsmith/configmaps"
#define OBJECTS "/apis/kmodsmith.io/v1alpha1/namespaces/kmodsmith/driverrollouts"
#define OBJECT OBJECTS "/" POLICY_NAME
#define POOL(name, more, driver) "{'name':'" name "'," more "'maxUnavailable':'100%','target':{'driver':'" driver "'}}"
#define TIERED "'selector':{'tier':'front'},"
#define CANARY TIERED "'waves':[{'name':'canary','count':1,'soak':'1h'}],"
static const char one[] = "{'pools':[" POOL("gpus", "", "535.2") "]}";
static const char two[] = "{'pools':[" POOL("front", CANARY, "535.2") "," POOL("back", "", "535.3") "]}";
static const char same[] = "{'pools':[" POOL("front", TIERED, "535.2") "," POOL("back", "", "535.2") "]}";
enum { NODES = 4, FRONT = 2 }; // n00 and n01 are of the front

static void begin(struct farm *f, struct farm_coordinator *coordinator, const char *spec)
{
	farm_begin(f, NODES, spec);
	sim_delete(f->sim, MAPS "/" POLICY_NAME);
	for (unsigned i = 0; i < FRONT; i++) {
		auto_str char *path = api_node(f->nodes[i].name);
		sim_merge(f->sim, path, "{'metadata':{'labels':{'tier':'front'}}}");
	}
	sim_make(f->sim, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		 "{'metadata':{'name':'driverrollouts.kmodsmith.io'}}");
	sim_make(f->sim, OBJECTS, "{'metadata':{'name':'" POLICY_NAME "'},'spec':%s}", spec);
	farm_coordinator_begin(f, coordinator, "boss");
}
static void end(struct farm *f, struct farm_coordinator *coordinator)
{
	farm_coordinator_kill(coordinator);
	farm_end(f);
}

static const json_t *condition(const struct farm *f, const char *type)
{
	const json_t *list = sim_at(sim_get(f->sim, OBJECT), "status conditions");
	assert_int_equal(json_array_size(list), 4);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (str_eq(sim_text(json_array_get(list, i), "type"), type))
			return json_array_get(list, i);
	fail_msg("there is no condition %s", type);
	return NULL;
}

// "True Reason: words"
static void expect_words(const struct farm *f, const char *type, const char *want)
{
	const json_t *k = condition(f, type);
	auto_str char *text =
		str_fmt("%s %s: %s", sim_text(k, "status"), sim_text(k, "reason"), sim_text(k, "message"));
	if (!str_eq(text, want))
		fail_msg("%s: '%s', not '%s'", type, text, want);
}

static void expect_pools(const struct farm *f, const char *want)
{
	auto_str char *text = json_dumps(sim_at(sim_get(f->sim, OBJECT), "status pools"), JSON_SORT_KEYS);
	for (char *p = text; *p; p++)
		*p = *p == '"' ? '\'' : *p;
	assert_string_equal(text, want);
}

static size_t patches(const struct farm *f)
{
	size_t count, found = 0;
	const struct sim_call *calls = sim_log(f->sim, &count);
	for (size_t i = 0; i < count; i++)
		found += str_eq(calls[i].verb, "patch") && strstr(calls[i].path, "/driverrollouts/");
	return found;
}

static void counts_and_words_of_two_pools(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator, two);
	assert_true(farm_until(&f, &coordinator, 1, "done", 3, MINUTES(60))); // the canary soaks
	farm_run(&coordinator, 1, MINUTES(2));
	expect_words(&f, "Accepted", "True Accepted: it is in force");
	expect_words(&f, "Progressing", "True RollingOut: 3 of 4 nodes are done, 0 failed");
	expect_words(&f, "Complete", "False NodesLeft: 3 of 4 nodes are done, 0 failed");
	expect_words(&f, "Halted", "False NotHalted: no pool is halted");
	expect_pools(&f, "[{'done': 1, 'driver': '535.2', 'failed': 0, 'name': 'front', 'nodes': 2, 'unavailable': 0, "
			 "'wave': 'canary'}, {'done': 2, 'driver': '535.3', 'failed': 0, 'name': 'back', 'nodes': 2, "
			 "'unavailable': 0, 'wave': 'rest'}]");
	sim_merge(f.sim, "/api/v1/nodes/n03", "{'spec':{'unschedulable':true}}");
	farm_run(&coordinator, 1, MINUTES(1));
	const json_t *object = sim_get(f.sim, OBJECT);
	static const struct {
		const char *name;
		int value;
	} numbers[] = { { "nodes", 4 }, { "done", 3 }, { "failed", 0 }, { "unavailable", 1 } };
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		expect(json_integer_value(json_object_get(sim_at(object, "status"), numbers[i].name)) ==
			       numbers[i].value,
		       numbers[i].name);
	assert_string_equal(sim_text(object, "status driver"), "535.2,535.3");
	sim_merge(f.sim, OBJECT, "{'spec':%s}", same); // each driver once
	farm_run(&coordinator, 1, MINUTES(1));
	assert_string_equal(sim_text(sim_get(f.sim, OBJECT), "status driver"), "535.2");
	end(&f, &coordinator);
}

// When a condition became so, not when it was looked at last; and its own time for each.
static void a_condition_keeps_the_time_of_its_last_change(void **state)
{
	(void)state;
	static const char key[] = "lastTransitionTime";
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator, one);
	int64_t began = SIM_EPOCH + sim_now_ms() / 1000;
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(60)));
	auto_str char *accepted = str_dup(sim_text(condition(&f, "Accepted"), key));
	auto_str char *incomplete = str_dup(sim_text(condition(&f, "Complete"), key));
	time_t at;
	assert_true(date_parse(accepted, &at) && at >= began && at <= began + 10);
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
	int64_t done = SIM_EPOCH + sim_now_ms() / 1000;
	farm_run(&coordinator, 1, MINUTES(10));
	assert_string_equal(sim_text(condition(&f, "Accepted"), key), accepted);
	assert_string_not_equal(sim_text(condition(&f, "Complete"), key), incomplete);
	assert_true(date_parse(sim_text(condition(&f, "Complete"), key), &at) && at >= done - 5 && at <= done + 5);
	// Counts move, and the time stays.
	auto_str char *complete = str_dup(sim_text(condition(&f, "Complete"), key));
	sim_delete(f.sim, "/api/v1/nodes/n03");
	farm_run(&coordinator, 1, MINUTES(2));
	expect_words(&f, "Complete", "True AllNodesDone: 3 of 3 nodes are done, 0 failed");
	assert_string_equal(sim_text(condition(&f, "Complete"), key), complete);
	end(&f, &coordinator);
}

static void refusals_are_reported(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator, two);
	assert_true(farm_until(&f, &coordinator, 1, "done", 3, MINUTES(60)));
	sim_merge(f.sim, OBJECT, "{'metadata':{'annotations':{'kmodsmith.io/pause':'true'}}}");
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Progressing", "False Paused: 3 of 4 nodes are done, 0 failed");
	sim_merge(f.sim, OBJECT, "{'metadata':{'annotations':{'kmodsmith.io/pause':null}}}");
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Progressing", "True RollingOut: 3 of 4 nodes are done, 0 failed");
	sim_make(f.sim, MAPS, "{'metadata':{'name':'" POLICY_NAME "'},'data':{'policy.json':'{}'}}");
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Accepted", "True Accepted: it is in force; the ConfigMap " POLICY_NAME " is ignored");
	sim_delete(f.sim, MAPS "/" POLICY_NAME);
	sim_merge(f.sim, OBJECT, "{'spec':{'pools':[]}}");
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Accepted",
		     "False InvalidPolicy: pools: must be a list of at least one pool; the last good policy stays in "
		     "force");
	expect_words(&f, "Progressing", "True RollingOut: 3 of 4 nodes are done, 0 failed"); // by that one
	end(&f, &coordinator);
}

static void undone_targets_are_reported(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash instead = farm_target(one);
	begin(&f, &coordinator, one);
	auto_json json_t *target = json_pack("{s:s}", "driver", "535.1");
	auto_str char *note = undo_note(NULL, "gpus", &instead, target);
	auto_json json_t *body = json_pack("{s:{s:{s:s}}}", "metadata", "annotations", UNDO_NOTE, note);
	auto_str char *text = json_dumps(body, 0);
	sim_merge(f.sim, OBJECT, "%s", text);
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Accepted",
		     "True Accepted: it is in force; pool gpus: driver 535.1 instead of 535.2, by rollout undo");
	assert_string_equal(sim_text(sim_get(f.sim, OBJECT), "status driver"), "535.1");
	// All have what is in force, which is not what stands there: whoever waits for that is not told that it is so.
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Progressing", "False NothingToDo: 4 of 4 nodes are done, 0 failed");
	expect_words(&f, "Complete", "False Undone: 4 of 4 nodes are done, 0 failed");
	sim_merge(f.sim, OBJECT, "{'metadata':{'annotations':{'" UNDO_NOTE "':null}}}");
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Accepted", "True Accepted: it is in force");
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Complete", "True AllNodesDone: 4 of 4 nodes are done, 0 failed");
	end(&f, &coordinator);
}

// Without one that was ever good nothing is in force, and nothing is counted.
static void nothing_is_in_force(void **state)
{
	(void)state;
	static const char words[] = "pools: must be a list of at least one pool";
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator, "{'pools':[]}");
	farm_run(&coordinator, 1, MINUTES(1));
	auto_str char *accepted = str_fmt("False InvalidPolicy: the policy is refused, and there is no last good one "
					  "(no policy was accepted before): %s",
					  words);
	expect_words(&f, "Accepted", accepted);
	expect_words(&f, "Progressing", "False NothingInForce: 0 of 0 nodes are done, 0 failed");
	expect_words(&f, "Complete", "False InvalidPolicy: 0 of 0 nodes are done, 0 failed");
	expect_words(&f, "Halted", "False NotHalted: no pool is halted");
	expect_pools(&f, "[]");
	sim_merge(f.sim, OBJECT, "{'spec':%s}", one);
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Accepted", "True Accepted: it is in force");
	end(&f, &coordinator);
}

// A pool that no node is in is not complete: a selector that is mistyped must not be taken for success.
static void no_nodes_are_not_complete(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator, "{'pools':[" POOL("gpus", "'selector':{'tier':'bakc'},", "535.2") "]}");
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Complete", "False NoNodes: 0 of 0 nodes are done, 0 failed");
	expect_words(&f, "Progressing", "False NothingToDo: 0 of 0 nodes are done, 0 failed");
	end(&f, &coordinator);
}

// Which pool, why, who, and what to do; one after the other. As long as one of two goes on it is a rollout.
static void each_halt_is_reported(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, &coordinator, two);
	f.bad = farm_target(two);
	assert_true(farm_until(&f, &coordinator, 1, "rolledback", 1, MINUTES(60)));
	farm_run(&coordinator, 1, 2000);
	bool is_second = str_eq(farm_state(&f, 1), "rolledback");
	auto_str char *front = str_fmt("True PoolFailures: pool front: too many nodes of the pool failed n0%d; "
				       "next: see the nodes that are listed, then resume, or set another target",
				       is_second);
	expect_words(&f, "Halted", front);
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(60)));
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Progressing", "True RollingOut: 2 of 4 nodes are done, 1 failed");
	// The other one, too: its record is lost, as if it had been renamed.
	farm_coordinator_kill(&coordinator);
	auto_json json_t *status =
		json_loads(sim_text(sim_get(f.sim, MAPS "/" ROLLOUT_STATUS_NAME), "data status.json"), 0, NULL);
	json_array_remove(json_object_get(status, "pools"), 1);
	auto_str char *text = json_dumps(status, 0);
	auto_json json_t *body = json_pack("{s:{s:s}}", "data", "status.json", text);
	auto_str char *map = json_dumps(body, 0);
	sim_merge(f.sim, MAPS "/" ROLLOUT_STATUS_NAME, "%s", map);
	farm_coordinator_begin(&f, &coordinator, "boss2");
	farm_run(&coordinator, 1, MINUTES(2));
	auto_str char *both = str_fmt("%s; pool back: nothing is recorded for this pool, but its nodes have a target "
				      "already: it was renamed or split; next: look at the nodes, "
				      "then resume",
				      front);
	expect_words(&f, "Halted", both);
	expect_words(&f, "Progressing", "False Halted: 2 of 4 nodes are done, 1 failed");
	end(&f, &coordinator);
}

struct trouble {
	unsigned count;
	int code;
};
static void hear(void *ctx, const char *what, const struct err *err)
{
	struct trouble *t = ctx;
	if (!str_eq(what, "the status of the DriverRollout"))
		return;
	t->count++;
	t->code = err->code;
}

// It is there for people: that it cannot be written is said, it is tried again twice a minute at most, and the rollout
// goes on.
static void a_status_that_cannot_be_written(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct trouble trouble = { 0 };
	begin(&f, &coordinator, one);
	coordinator.c.o.callbacks.trouble = hear;
	coordinator.c.o.callbacks.ctx = &trouble;
	sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
					      .resource = "driverrollouts",
					      .verb = "patch",
					      .status = 403,
					      .times = 1000000 });
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
	size_t most = (size_t)sim_now_ms() / 30000 + 1;
	assert_true(trouble.count > 1 && trouble.count <= most && trouble.code == E_AUTH);
	assert_int_equal(patches(&f), trouble.count);
	sim_heal(f.sim);
	farm_run(&coordinator, 1, MINUTES(1));
	expect_words(&f, "Complete", "True AllNodesDone: 4 of 4 nodes are done, 0 failed");
	end(&f, &coordinator);
}

// Somebody wrote the object in between: it is read, and what was to be said is said of the newer one. No trouble.
static void a_conflict_is_retried(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct trouble trouble = { 0 };
	begin(&f, &coordinator, one);
	coordinator.c.o.callbacks.trouble = hear;
	coordinator.c.o.callbacks.ctx = &trouble;
	const struct sim_fault *late = sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
									     .resource = "driverrollouts",
									     .verb = "patch",
									     .status = 409,
									     .nth = 2,
									     .times = 3 });
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
	farm_run(&coordinator, 1, MINUTES(1));
	assert_int_equal(late->hits, 3);
	assert_int_equal(trouble.count, 0);
	expect_words(&f, "Complete", "True AllNodesDone: 4 of 4 nodes are done, 0 failed");
	end(&f, &coordinator);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_and_words_of_two_pools),
		cmocka_unit_test(a_condition_keeps_the_time_of_its_last_change),
		cmocka_unit_test(refusals_are_reported),
		cmocka_unit_test(undone_targets_are_reported),
		cmocka_unit_test(nothing_is_in_force),
		cmocka_unit_test(no_nodes_are_not_complete),
		cmocka_unit_test(each_halt_is_reported),
		cmocka_unit_test(a_status_that_cannot_be_written),
		cmocka_unit_test(a_conflict_is_retried),
	};
	return cmocka_run_group_tests_name("conditions", tests, NULL, NULL);
}
