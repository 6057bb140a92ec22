// SPDX-License-Identifier: Apache-2.0
// Mode self: the agent of a cluster without a coordinator gives itself the orders, reports in its log and in Events
// of its Node what it does, and needs neither the Node nor the API server for it. The steps themselves are in
// self_test.c.
#include "tests/unit/agent_fixture.h"

#define SELF(driver) "{\"mode\": \"self\", \"pools\": [{\"name\": \"p\", \"target\": {\"driver\": \"" driver "\"}}]}"

static void self_begin(struct fixture *s)
{
	fixture_begin(s);
	s->policy = SELF("2.0");
}

// The child of the moment ends well, and the machine is as it leaves it.
static void work(struct fixture *s)
{
	if (strstr(s->log, "begin stage 2.0"))
		s->facts.store[1] = fixture_target_hash("2.0");
	if (strstr(s->log, "begin swap 2.0")) {
		s->facts.loaded = fixture_target_hash("2.0");
		s->found = NULL;
	}
	if (s->a.running)
		fixture_child_ends(s, "", 0);
}

static void go_on(struct fixture *s, unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		fixture_run(s, 1000);
		work(s);
	}
}

// "TYPE REASON MESSAGE" a line, in the order of their text.
static char *events(const struct fixture *s)
{
	size_t i;
	const json_t *e;
	auto_strv struct strv lines = { 0 };
	auto_json json_t *list = sim_ask(s->sim, "GET", "/api/v1/namespaces/default/events", NULL);
	json_array_foreach(json_object_get(list, "items"), i, e)
	{
		assert_string_equal(sim_text(e, "involvedObject name"), "n1");
		assert_string_equal(sim_text(e, "reportingComponent"), "kmodsmith-agent");
		strv_add(&lines,
			 str_fmt("%s %s %s", sim_text(e, "type"), sim_text(e, "reason"), sim_text(e, "message")));
	}
	strv_sort(&lines);
	char *ret = strv_join(&lines, "\n");
	return ret ? ret : str_dup("");
}

static const char WAY[] = "did mode self: staging\n"
			  "did order 1.1: stage\n"
			  "did stage: starting the worker\n"
			  "begin stage 2.0\n"
			  "did stage: done: the target is staged\n"
			  "did mode self: queued\n"
			  "did mode self: evicting\n"
			  "did order 1.4: none\n"
			  "did mode self: replacing\n"
			  "did order 1.5: replace\n"
			  "did replace: starting the worker\n"
			  "begin swap 2.0\n"
			  "did replace: done: the target is loaded\n"
			  "did mode self: validating\n"
			  "did order 1.6: validate\n"
			  "did validate: starting the worker\n"
			  "begin probe 2.0\n"
			  "did validate: done: validated\n"
			  "did mode self: done\n"
			  "did order 1.7: none\n";

// Nothing of cordons: there are none.
static void from_one_driver_to_the_next(void **state)
{
	(void)state;
	struct fixture s;
	self_begin(&s);
	agent_turn(&s.a, 100); // its Node is read before the first step
	s.is_policy_new = true;
	go_on(&s, 60);
	fixture_expect_log(&s, WAY, "the whole way");
	auto_str char *told = events(&s);
	assert_string_equal(told, "Normal RolloutDone mode self: done\n"
				  "Normal RolloutEvicting mode self: evicting\n"
				  "Normal RolloutQueued mode self: queued\n"
				  "Normal RolloutReplacing mode self: replacing\n"
				  "Normal RolloutValidating mode self: validating");
	size_t calls = sim_count(s.sim, "agent", NULL);
	go_on(&s, 600);
	fixture_expect_log(&s, "", "and nothing more");
	assert_int_equal(sim_count(s.sim, "agent", NULL), calls);
	fixture_end(&s);
}

static void without_an_api_server(void **state)
{
	(void)state;
	struct fixture s;
	self_begin(&s);
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_PARTITION, .client = "agent" });
	go_on(&s, 60);
	assert_true(str_starts(s.log, "did mode self: staging\n"));
	assert_true(str_ends(s.log, "did mode self: done\ndid order 1.7: none\n"));
	auto_str char *told = events(&s);
	assert_string_equal(told, "");
	fixture_end(&s);
}

// An Event that is refused is no reason to stop.
static void without_permission_to_create_events(void **state)
{
	(void)state;
	struct fixture s;
	self_begin(&s);
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .resource = "events", .times = 100 });
	go_on(&s, 60);
	assert_non_null(strstr(s.log, "trouble an event: "));
	assert_non_null(strstr(s.log, "did mode self: done\n"));
	assert_non_null(strstr(s.log, "did order 1.7: none\n"));
	fixture_end(&s);
}

static void users_of_the_driver_are_waited_for(void **state)
{
	(void)state;
	struct fixture s;
	self_begin(&s);
	s.holders = 1;
	go_on(&s, 120);
	assert_true(str_ends(s.log, "did mode self: evicting\ndid order 1.4: none\n"));
	assert_string_equal(fixture_note(&s, "holders"), "1 1 pod-0");
	s.holders = 0;
	go_on(&s, 30);
	assert_true(str_ends(s.log, "did mode self: done\ndid order 1.7: none\n"));
	fixture_end(&s);
}

#define WHY " (replace-failed E_LOAD; next: see the agent's error code; fix the target)\n"

static void a_driver_that_cannot_be_loaded_is_undone(void **state)
{
	(void)state;
	struct fixture s;
	self_begin(&s);
	go_on(&s, 1);
	for (int i = 0; i < 60 && !strstr(s.log, "begin swap 2.0"); i++) {
		fixture_run(&s, 1000);
		if (!strstr(s.log, "begin swap 2.0"))
			work(&s);
	}
	free(s.log);
	s.log = str_dup("");
	fixture_child_ends(&s, "E_LOAD", FAILING_PERMANENT);
	go_on(&s, 60);
	fixture_expect_log(&s,
			   "did replace: failed E_LOAD: the worker failed\n"
			   "did mode self: restoring" WHY "did order 1.7: validate\n"
			   "did validate: starting the worker\nbegin probe 1.0\ndid validate: done: validated\n"
			   "did mode self: rolledback" WHY "did order 1.8: none\n",
			   "the way back");
	auto_str char *told = events(&s);
	assert_non_null(strstr(told, "Warning RolloutRestoring mode self: restoring" WHY));
	assert_non_null(strstr(told, "Warning RolloutRolledback mode self: rolledback (replace-failed E_LOAD"));
	assert_non_null(strstr(told, "Normal RolloutReplacing mode self: replacing\n"));
	fixture_end(&s);
}

static void orders_on_the_node_are_ignored(void **state)
{
	(void)state;
	struct fixture s;
	self_begin(&s);
	s.policy = SELF("1.0");
	s.facts.store[1] = fixture_target_hash("2.0");
	go_on(&s, 10);
	free(s.log);
	s.log = str_dup("");
	fixture_order(&s, "9.9", "replace", "2.0");
	go_on(&s, 30);
	fixture_expect_log(&s, "", "mode self");
	assert_string_equal(fixture_note(&s, "ack"), "");
	fixture_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_one_driver_to_the_next),
		cmocka_unit_test(without_an_api_server),
		cmocka_unit_test(without_permission_to_create_events),
		cmocka_unit_test(users_of_the_driver_are_waited_for),
		cmocka_unit_test(a_driver_that_cannot_be_loaded_is_undone),
		cmocka_unit_test(orders_on_the_node_are_ignored),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
