// SPDX-License-Identifier: Apache-2.0
// The policy as a DriverRollout: it comes before the ConfigMap, its conditions say what came of it, and where the kind
// is not installed nothing is missed.
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define MAPS "/api/v1/namespaces/kmodsmith/configmaps"
#define KINDS "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#define OBJECTS "/apis/kmodsmith.io/v1alpha1/namespaces/kmodsmith/driverrollouts"
#define OBJECT OBJECTS "/" POLICY_NAME
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";
static const char next[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.3'}}]}";
enum { NODES = 3 };

static void install(struct farm *f)
{
	sim_make(f->sim, KINDS, "{'metadata':{'name':'driverrollouts.kmodsmith.io'}}");
}

static void make(struct farm *f, const char *spec)
{
	sim_make(f->sim, OBJECTS, "{'metadata':{'name':'" POLICY_NAME "'},'spec':%s}", spec);
}

static void begin(struct farm *f, bool has_map)
{
	farm_begin(f, NODES, plain);
	if (!has_map)
		sim_delete(f->sim, MAPS "/" POLICY_NAME);
}

// "True Reason": what stands there; of the generation that the object has.
static void expect_condition(const struct farm *f, const char *type, const char *want)
{
	const json_t *object = sim_get(f->sim, OBJECT), *list = sim_at(object, "status conditions");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *k = json_array_get(list, i);
		if (!str_eq(sim_text(k, "type"), type))
			continue;
		auto_str char *text = str_fmt("%s %s", sim_text(k, "status"), sim_text(k, "reason"));
		if (!str_eq(text, want))
			fail_msg("%s: '%s', not '%s': %s", type, text, want, sim_text(k, "message"));
		assert_true(json_equal(sim_at(k, "observedGeneration"), sim_at(object, "metadata generation")));
		return;
	}
	fail_msg("there is no condition %s", type);
}

static long number(const struct farm *f, const char *keys)
{
	return (long)json_integer_value(sim_at(sim_get(f->sim, OBJECT), keys));
}

static void all_done(struct farm *f, struct farm_coordinator *coordinator, const char *spec)
{
	struct target_hash target =
		farm_target(str_eq(spec, plain) ? "{'pools':[{'name':'gpus','target':{'driver':'535.2'}}]}" :
						  "{'pools':[{'name':'gpus','target':{'driver':'535.3'}}]}");
	bool is_done = false;
	for (int minute = 0; minute < 30 && !is_done; minute++) {
		farm_run(coordinator, 1, MINUTES(1));
		is_done = true;
		for (unsigned i = 0; i < NODES; i++)
			is_done = is_done && target_hash_eq(&f->nodes[i].loaded, &target) &&
				  str_eq(farm_state(f, i), "done");
	}
	assert_true(is_done);
	if (f->laws->count)
		fail_msg("%zu laws were broken, first: %s", f->laws->count, f->laws->items[0]);
}

static unsigned lists(const struct farm *f, const char *what)
{
	size_t count;
	unsigned found = 0;
	const struct sim_call *calls = sim_log(f->sim, &count);
	for (size_t i = 0; i < count; i++)
		found += str_eq(calls[i].verb, "list") && strstr(calls[i].path, what);
	return found;
}

// From the first spec to the next, with nothing but the object; our own writes of its status are no news to us.
static void an_object_alone(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, false);
	install(&f);
	make(&f, plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	expect_condition(&f, "Accepted", "True Accepted");
	expect_condition(&f, "Progressing", "True RollingOut");
	expect_condition(&f, "Complete", "False NodesLeft");
	all_done(&f, &coordinator, plain);
	expect_condition(&f, "Progressing", "False NothingToDo");
	expect_condition(&f, "Complete", "True AllNodesDone");
	expect_condition(&f, "Halted", "False NotHalted");
	assert_int_equal(number(&f, "status nodes"), NODES);
	assert_int_equal(number(&f, "status done"), NODES);
	assert_int_equal(number(&f, "status observedGeneration"), 1);
	assert_string_equal(sim_text(sim_get(f.sim, OBJECT), "status driver"), "535.2");
	assert_true(sim_now_ms() < MINUTES(25)); // before the first resync
	assert_int_equal(lists(&f, "/api/v1/nodes"), 1);
	auto_str char *version = str_dup(sim_text(sim_get(f.sim, OBJECT), "metadata resourceVersion"));
	farm_run(&coordinator, 1, MINUTES(60));
	assert_string_equal(sim_text(sim_get(f.sim, OBJECT), "metadata resourceVersion"), version);
	sim_merge(f.sim, OBJECT, "{'spec':{'pools':[{'name':'gpus','target':{'driver':'535.3'}}]}}");
	all_done(&f, &coordinator, next);
	assert_int_equal(number(&f, "status observedGeneration"), 2);
	expect_condition(&f, "Complete", "True AllNodesDone");
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// What people write between our last look and our status is a conflict of that status, and stays news, although it is
// read for that conflict before the watch tells of it.
static void write_spec(void *ctx)
{
	struct farm *f = ctx;
	sim_merge(f->sim, OBJECT, "{'spec':{'pools':[{'name':'gpus','target':{'driver':'535.3'}}]}}");
}
static void write_pause(void *ctx)
{
	struct farm *f = ctx;
	sim_merge(f->sim, OBJECT, "{'metadata':{'annotations':{'kmodsmith.io/pause':'true'}}}");
}

static void a_user_edit_during_a_status_write(void **state)
{
	(void)state;
	static void (*const words[])(void *ctx) = { write_spec, write_pause };
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		begin(&f, false);
		install(&f);
		make(&f, plain);
		sim_fault(f.sim,
			  &(struct sim_fault){ .what = SIM_WATCH_LATE, .resource = "driverrollouts", .late_ms = 3000 });
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
		sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
						      .status = 409,
						      .client = "boss",
						      .verb = "patch",
						      .resource = "driverrollouts",
						      .hit = words[i],
						      .ctx = &f });
		farm_run(&coordinator, 1, MINUTES(2)); // long before the next resync
		assert_int_equal(coordinator.c.source.policy.is_paused, words[i] == write_pause);
		assert_string_equal(coordinator.c.source.policy.pools[0].target.driver,
				    words[i] == write_spec ? "535.3" : "535.2");
		expect_condition(&f, "Complete", "False NodesLeft");
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// Who waits for the spec of now is not told that it is complete while nodes go back from it.
static void an_undo(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	char target_hash[TARGET_HASH_TEXT];
	struct target_hash target = farm_target(next);
	begin(&f, false);
	install(&f);
	make(&f, plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	all_done(&f, &coordinator, plain);
	sim_merge(f.sim, OBJECT, "{'spec':{'pools':[{'name':'gpus','target':{'driver':'535.3'}}]}}");
	all_done(&f, &coordinator, next);
	target_hash_text(&target, target_hash);
	sim_merge(f.sim, OBJECT,
		  "{'metadata':{'annotations':{'kmodsmith.io/undo':"
		  "'{\\'gpus\\':{\\'instead\\':\\'%s\\',\\'target\\':{\\'driver\\':\\'535.2\\'}}}'}}}",
		  target_hash);
	all_done(&f, &coordinator, plain);
	farm_run(&coordinator, 1, MINUTES(1));
	assert_string_equal(sim_text(sim_get(f.sim, OBJECT), "status driver"), "535.2");
	expect_condition(&f, "Accepted", "True Accepted");
	expect_condition(&f, "Progressing", "False NothingToDo");
	expect_condition(&f, "Complete", "False Undone");
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// What the API server let through, and the coordinator does not: the last good one stays, also after a restart.
static void an_invalid_object(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, false);
	install(&f);
	make(&f, plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	sim_merge(f.sim, OBJECT, "{'spec':{'pools':[{'name':'gpus','target':{'driver':'new'}}]}}");
	farm_run(&coordinator, 1, MINUTES(1));
	expect_condition(&f, "Accepted", "False InvalidPolicy");
	expect_condition(&f, "Complete", "False InvalidPolicy");
	farm_coordinator_kill(&coordinator);
	farm_coordinator_begin(&f, &coordinator, "boss2");
	all_done(&f, &coordinator, plain);
	expect_condition(&f, "Accepted", "False InvalidPolicy");
	expect_condition(&f, "Complete", "False InvalidPolicy");
	assert_int_equal(number(&f, "status done"), NODES); // of the one that is in force
	sim_merge(f.sim, OBJECT, "{'spec':{'pools':[{'name':'gpus','target':{'driver':'535.2'}}]}}");
	farm_run(&coordinator, 1, MINUTES(1));
	expect_condition(&f, "Accepted", "True Accepted");
	expect_condition(&f, "Complete", "True AllNodesDone");
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

static void a_halt_is_a_condition(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, false);
	f.bad = farm_target(plain);
	install(&f);
	make(&f, plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "rolledback", 1, MINUTES(60)));
	farm_run(&coordinator, 1, MINUTES(10));
	expect_condition(&f, "Halted", "True PoolFailures");
	expect_condition(&f, "Progressing", "False Halted");
	expect_condition(&f, "Complete", "False NodesLeft");
	assert_int_equal(number(&f, "status failed"), 1);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// The kind comes while the coordinator runs, and the object takes the ConfigMap's place; when it goes the ConfigMap is
// the policy again.
static void the_object_takes_precedence(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, true);
	farm_coordinator_begin(&f, &coordinator, "boss");
	all_done(&f, &coordinator, plain);
	install(&f);
	make(&f, next);
	farm_run(&coordinator, 1, MINUTES(3));
	all_done(&f, &coordinator, next);
	expect_condition(&f, "Complete", "True AllNodesDone");
	sim_merge(f.sim, OBJECT, "{'metadata':{'annotations':{'kmodsmith.io/pause':'true'}}}");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_true(coordinator.c.source.policy.is_paused);
	auto_json json_t *list = sim_ask(f.sim, "GET", "/api/v1/namespaces/kmodsmith/events", NULL);
	const json_t *event = json_array_get(json_object_get(list, "items"), 0);
	assert_int_equal(json_array_size(json_object_get(list, "items")), 1);
	assert_string_equal(sim_text(event, "reason"), "PolicyIgnored");
	assert_string_equal(sim_text(event, "involvedObject kind"), "ConfigMap");
	sim_delete(f.sim, OBJECT);
	all_done(&f, &coordinator, plain);
	assert_false(coordinator.c.source.policy.is_paused);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// Who may not read the object any more does not take it for deleted.
static void rights_that_are_lost(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, false);
	install(&f);
	make(&f, plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	sim_fault(f.sim, &(struct sim_fault){
				 .what = SIM_STATUS, .resource = "driverrollouts", .times = 1000000, .status = 403 });
	farm_coordinator_kill(&coordinator);
	farm_coordinator_begin(&f, &coordinator, "boss2");
	farm_run(&coordinator, 1, MINUTES(5));
	assert_non_null(strstr(sim_text(sim_get(f.sim, MAPS "/" ROLLOUT_STATUS_NAME), "data status.json"), "\"gpus\""));
	sim_heal(f.sim);
	all_done(&f, &coordinator, plain);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// And who never could has the ConfigMap.
static void rights_that_are_not_there(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin(&f, true);
	sim_fault(f.sim, &(struct sim_fault){
				 .what = SIM_STATUS, .resource = "driverrollouts", .times = 1000000, .status = 403 });
	install(&f);
	farm_coordinator_begin(&f, &coordinator, "boss");
	all_done(&f, &coordinator, plain);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_alone),
		cmocka_unit_test(a_user_edit_during_a_status_write),
		cmocka_unit_test(an_undo),
		cmocka_unit_test(an_invalid_object),
		cmocka_unit_test(a_halt_is_a_condition),
		cmocka_unit_test(the_object_takes_precedence),
		cmocka_unit_test(rights_that_are_lost),
		cmocka_unit_test(rights_that_are_not_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
