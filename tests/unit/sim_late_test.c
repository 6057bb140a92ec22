// SPDX-License-Identifier: Apache-2.0
// What was sent by a leader of before, or answered to nobody: requests that come late, answers that are lost, and the
// numbers by which a server tells who was first.
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define LEASE "/apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator"
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";
static const char later[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.3'}}]}";

static char *recorded_target(const struct farm *f)
{
	const json_t *map = sim_get(f->sim, "/api/v1/namespaces/kmodsmith/configmaps/" ROLLOUT_STATUS_NAME);
	const char *text = sim_text(map, "data " ROLLOUT_STATUS_KEY);
	auto_json json_t *status = text ? json_loads(text, 0, NULL) : NULL;
	return str_dup(sim_text(json_array_get(json_object_get(status, "pools"), 0), "target aim"));
}

static json_int_t transitions(const struct farm *f)
{
	return json_integer_value(sim_at(sim_get(f->sim, LEASE), "spec leaseTransitions"));
}

// A target that was taken back before anybody acted on it is recorded by a leader that died meanwhile.
static void a_status_of_a_leader_of_before_does_not_count(void **state)
{
	(void)state;
	enum { LATE_MS = 60000 };
	struct farm f;
	struct farm_coordinator coordinators[2];
	farm_begin(&f, 2, plain);
	farm_coordinator_begin(&f, &coordinators[0], "boss1");
	assert_true(farm_until(&f, coordinators, 1, "done", 2, MINUTES(30)));
	farm_run(coordinators, 1, MINUTES(1));
	auto_str char *before = recorded_target(&f);
	const struct sim_fault *late = sim_fault(f.sim, &(struct sim_fault){ .what = SIM_DIE_LINGER,
									     .client = "boss1",
									     .resource = "configmaps",
									     .verb = "update",
									     .late_ms = LATE_MS });
	farm_policy(&f, later);
	farm_run(coordinators, 1, MINUTES(1) / 6);
	assert_true(late->hits > 0);
	farm_coordinator_kill(&coordinators[0]);
	farm_policy(&f, plain);
	farm_coordinator_begin(&f, &coordinators[1], "boss2");
	farm_run(&coordinators[1], 1, MINUTES(5));
	auto_str char *after = recorded_target(&f);
	assert_string_equal(after, before);
	lawful(&f);
	farm_coordinator_kill(&coordinators[1]);
	farm_end(&f);
}

// Each leader has an epoch of its own, which is the first part of the number on every node that it writes.
static void every_leader_has_its_epoch(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 1, plain);
	farm_coordinator_begin(&f, &coordinator, "boss1");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	assert_int_equal(transitions(&f), 0);
	assert_true(str_starts(farm_note(&f, 0, "kmodsmith.io/seq"), "1."));
	farm_coordinator_kill(&coordinator);
	farm_coordinator_begin(&f, &coordinator, "boss2");
	farm_policy(&f, later);
	farm_run(&coordinator, 1, MINUTES(2));
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	assert_int_equal(transitions(&f), 1);
	assert_true(str_starts(farm_note(&f, 0, "kmodsmith.io/seq"), "2."));
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// The Lease was written and the answer lost: whoever asks again is told of a conflict with itself.
static void a_lost_answer_ends_no_leader(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2, plain);
	farm_coordinator_begin(&f, &coordinator, "boss1");
	assert_true(farm_until(&f, &coordinator, 1, "staging", 1, MINUTES(5)));
	const struct sim_fault *cut = sim_fault(f.sim, &(struct sim_fault){ .what = SIM_CUT_AFTER,
									    .client = "boss1-lease",
									    .resource = "leases",
									    .verb = "update",
									    .times = 3 });
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(30)));
	assert_int_equal(cut->hits, 3);
	assert_false(coordinator.is_dead);
	assert_int_equal(transitions(&f), 0);
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// A step of the server's clock is nothing that a driver did: the deadline of an order lasts as long as it was given.
static void a_step_of_the_clock_is_not_blamed_on_a_driver(void **state)
{
	(void)state;
	static const int64_t steps[] = { 900, 3600, -900, -86400 };
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		auto_str char *row = str_fmt("%lld s", (long long)steps[i]);
		farm_begin(&f, 2, plain);
		farm_coordinator_begin(&f, &coordinator, "boss1");
		expect(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(30)), row);
		sim_skew(f.sim, steps[i]);
		expect(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(30)), row);
		expect(!*farm_note(&f, 0, "kmodsmith.io/failed-target"), row);
		lawful(&f);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_status_of_a_leader_of_before_does_not_count),
		cmocka_unit_test(every_leader_has_its_epoch),
		cmocka_unit_test(a_lost_answer_ends_no_leader),
		cmocka_unit_test(a_step_of_the_clock_is_not_blamed_on_a_driver),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
