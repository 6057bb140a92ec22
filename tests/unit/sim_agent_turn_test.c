// SPDX-License-Identifier: Apache-2.0
// What an agent does with an order on its Node, from reading it until the Node has its result: which worker it starts
// with which driver, what it reports and when, and what it does by itself after a boot.
#include "tests/unit/agent_fixture.h"

static const struct row {
	const char *text, *verb, *driver;
	const char *loaded; // "" = nothing
	bool is_stored;     // the driver is on the disk
	const char *code;   // of the child's end; "" = it worked; NULL = no child is started
	enum failing failing;
	const char *log, *ack;
} rows[] = {
	{ "a driver is fetched", "stage", "2.0", "1.0", false, "", 0,
	  "did order 1.1: stage\ndid stage: starting the worker\nbegin stage 2.0\ndid stage: done: the target is "
	  "staged\n",
	  "1.1:stage:done" },
	{ "the target is staged already", "stage", "2.0", "1.0", true, NULL, 0,
	  "did order 1.1: stage\ndid stage: done: the target is staged already\n", "1.1:stage:done" },
	{ "it cannot be fetched", "stage", "2.0", "1.0", false, "E_NO_PACKAGE", FAILING_TRANSIENT,
	  "did order 1.1: stage\ndid stage: starting the worker\nbegin stage 2.0\n"
	  "did stage: failed E_NO_PACKAGE: the worker failed\n",
	  "1.1:stage:failed:transient:E_NO_PACKAGE" },
	{ "a driver is replaced", "replace", "2.0", "1.0", true, "", 0,
	  "did order 1.1: replace\ndid replace: starting the worker\nbegin swap 2.0\n"
	  "did replace: done: the target is loaded\n",
	  "1.1:replace:done" },
	{ "it is in use", "replace", "2.0", "1.0", true, "E_IN_USE", FAILING_BUSY,
	  "did order 1.1: replace\ndid replace: starting the worker\nbegin swap 2.0\n"
	  "did replace: failed E_IN_USE: the worker failed\n",
	  "1.1:replace:failed:busy:E_IN_USE" },
	{ "nothing is unloaded for a target that is not staged", "replace", "2.0", "1.0", false, NULL, 0,
	  "did order 1.1: replace\n"
	  "did replace: failed not-staged: the target is not staged: nothing is unloaded\n",
	  "1.1:replace:failed:transient:not-staged" },
	{ "a driver is loaded where there is none", "load", "2.0", "", true, "", 0,
	  "did order 1.1: load\ndid load: starting the worker\nbegin swap 2.0\ndid load: done: the target is loaded\n",
	  "1.1:load:done" },
	{ "a load order does not unload a driver", "load", "2.0", "1.0", true, NULL, 0,
	  "did order 1.1: load\ndid load: failed not-empty: a load order does not unload a driver\n",
	  "1.1:load:failed:transient:not-empty" },
	{ "the driver of before comes back", "restore", "2.0", "", true, "", 0,
	  "did order 1.1: restore\ndid restore: starting the worker\nbegin swap 2.0\n"
	  "did restore: done: the target is loaded\n",
	  "1.1:restore:done" },
	{ "the loaded target is measured", "validate", "2.0", "2.0", true, "", 0,
	  "did order 1.1: validate\ndid validate: starting the worker\nbegin probe 2.0\ndid validate: done: "
	  "validated\n",
	  "1.1:validate:done" },
	{ "the loaded target does not work", "validate", "2.0", "2.0", true, "E_NOT_READY", FAILING_PERMANENT,
	  "did order 1.1: validate\ndid validate: starting the worker\nbegin probe 2.0\n"
	  "did validate: failed E_NOT_READY: the worker failed\n",
	  "1.1:validate:failed:permanent:E_NOT_READY" },
};

static void make_machine(struct fixture *s, const struct row *w)
{
	fixture_begin(s);
	s->facts.is_empty = !*w->loaded;
	s->facts.loaded = *w->loaded ? fixture_target_hash(w->loaded) : TARGET_HASH_NONE;
	s->facts.store[1] = w->is_stored ? fixture_target_hash(w->driver) : TARGET_HASH_NONE;
	s->found = str_eq(w->loaded, "1.0") ? "1.0" : NULL;
}

static void each_order_from_start_to_end(void **state)
{
	(void)state;
	for (const struct row *w = rows; w < rows + ARRAY_SIZE(rows); w++) {
		struct fixture s;
		make_machine(&s, w);
		fixture_run(&s, 1000);
		fixture_expect_log(&s, "", w->text);
		fixture_order(&s, "1.1", w->verb, w->driver);
		fixture_run(&s, 2000);
		expect(s.children == (w->code != NULL), w->text);
		if (w->code)
			fixture_child_ends(&s, w->code, w->failing);
		if (w->code && !*w->code) {
			s.facts.store[1] = fixture_target_hash(w->driver);
			if (!str_eq(w->verb, "stage"))
				s.facts = (struct agent_facts){ .is_known = true,
								.loaded = fixture_target_hash(w->driver),
								.version = "2.0" };
			s.found = NULL;
		}
		fixture_run(&s, 1000);
		fixture_expect_log(&s, w->log, w->text);
		expect(str_eq(fixture_note(&s, "ack"), w->ack), fixture_note(&s, "ack"));
		size_t patches = sim_count(s.sim, "agent", "patch");
		fixture_run(&s, 60000); // and nothing more is done or said
		fixture_expect_log(&s, "", w->text);
		expect(sim_count(s.sim, "agent", "patch") == patches, w->text);
		fixture_end(&s);
	}
}

// S5: an order that ends within ten seconds is told once; of a longer one the node says first that it has begun.
static void accepted_is_reported_only_for_long_orders(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		long ms;
		unsigned patches;
	} table[] = { { "at once", 2000, 1 }, { "nine seconds", 9000, 1 }, { "eleven seconds", 11000, 2 } };
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct fixture s;
		make_machine(&s, &rows[3]);
		fixture_run(&s, 1000);
		size_t patches = sim_count(s.sim, "agent", "patch");
		fixture_order(&s, "1.1", "replace", "2.0");
		fixture_run(&s, table[i].ms);
		expect(str_eq(fixture_note(&s, "ack"), table[i].patches > 1 ? "1.1:replace:accepted" : ""),
		       table[i].text);
		fixture_child_ends(&s, "E_LOAD", FAILING_PERMANENT);
		fixture_run(&s, 1000);
		expect(str_eq(fixture_note(&s, "ack"), "1.1:replace:failed:permanent:E_LOAD"), table[i].text);
		expect(sim_count(s.sim, "agent", "patch") == patches + table[i].patches, table[i].text);
		fixture_end(&s);
	}
}

// Somebody uncordoned the node after the order was given: pods may have come since the drain.
static void nothing_is_unloaded_on_a_node_that_is_not_cordoned(void **state)
{
	(void)state;
	struct fixture s;
	make_machine(&s, &rows[3]);
	fixture_run(&s, 1000);
	sim_merge(s.sim, SEAT_NODE, "{'spec':{'unschedulable':null}}");
	fixture_order(&s, "1.1", "replace", "2.0");
	fixture_run(&s, 2000);
	assert_string_equal(fixture_note(&s, "ack"), "1.1:replace:failed:busy:not-cordoned");
	assert_int_equal(s.children, 0);
	sim_merge(s.sim, SEAT_NODE, "{'spec':{'unschedulable':true}}");
	fixture_order(&s, "1.2", "replace", "2.0");
	fixture_run(&s, 2000);
	assert_int_equal(s.children, 1);
	fixture_end(&s);
}

static void a_worker_that_cannot_start_fails_its_order(void **state)
{
	(void)state;
	struct fixture s;
	make_machine(&s, &rows[3]);
	s.begin_code = E_LOCKED;
	fixture_order(&s, "1.1", "replace", "2.0");
	fixture_run(&s, 2000);
	fixture_expect_log(&s,
			   "did order 1.1: replace\ndid replace: starting the worker\n"
			   "trouble starting the worker: E_LOCKED no room for a child\n"
			   "did replace: failed E_LOCKED: the worker failed\n",
			   "begin");
	assert_string_equal(fixture_note(&s, "ack"), "1.1:replace:failed:transient:E_LOCKED");
	fixture_end(&s);
}

// A policy comes to the file of a node up to two minutes after the coordinator has read it.
static void an_unknown_target_is_waited_for(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	s.facts.store[1] = fixture_target_hash("3.0");
	fixture_run(&s, 1000);
	fixture_order(&s, "1.1", "replace", "3.0");
	fixture_run(&s, 100000);
	fixture_expect_log(&s, "did order 1.1: replace\n", "it waits");
	assert_string_equal(fixture_note(&s, "ack"), "1.1:replace:accepted");
	s.policy = SEAT_POLICY("3.0");
	s.is_policy_new = true;
	fixture_run(&s, 5500); // the file is looked at every five seconds
	fixture_expect_log(&s, "did replace: starting the worker\nbegin swap 3.0\n", "it is named");
	fixture_end(&s);
}

static void the_wait_for_an_unknown_target_ends(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	fixture_run(&s, 60000); // the wait begins with the order
	fixture_order(&s, "1.1", "stage", "3.0");
	fixture_run(&s, 119000);
	fixture_expect_log(&s, "did order 1.1: stage\n", "it waits");
	fixture_run(&s, 2500);
	fixture_expect_log(&s, "did stage: failed unknown-aim: the policy does not define the target\n",
			   "it has waited");
	assert_string_equal(fixture_note(&s, "ack"), "1.1:stage:failed:transient:unknown-aim");
	fixture_end(&s);
}

static void annotate(struct fixture *s, const char *key, const char *value)
{
	sim_merge(s->sim, SEAT_NODE, "{'metadata':{'annotations':{'kmodsmith.io/%s':'%s'}}}", key, value);
}

static void an_invalid_order_is_ignored(void **state)
{
	(void)state;
	struct fixture s;
	make_machine(&s, &rows[3]);
	annotate(&s, "go", "1.1:explode:0000000000000001-0000000000000001");
	fixture_run(&s, 5000);
	fixture_expect_log(&s, "", "no such verb");
	fixture_order(&s, "1.1", "stage", "2.0"); // it is not remembered either
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did order 1.1: stage\ndid stage: done: the target is staged already\n",
			   "its number is free");
	fixture_end(&s);
}

static void a_paused_node_starts_nothing(void **state)
{
	(void)state;
	struct fixture s;
	make_machine(&s, &rows[3]);
	annotate(&s, "pause", "true");
	fixture_order(&s, "1.1", "replace", "2.0");
	fixture_run(&s, 60000);
	fixture_expect_log(&s, "did order 1.1: replace\n", "paused");
	annotate(&s, "pause", "false");
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did replace: starting the worker\nbegin swap 2.0\n", "no more");
	fixture_end(&s);
}

static void an_order_runs_once_across_restarts(void **state)
{
	(void)state;
	struct fixture s;
	make_machine(&s, &rows[3]);
	fixture_order(&s, "1.1", "replace", "2.0");
	fixture_run(&s, 1000);
	s.log[0] = '\0';
	fixture_again(&s);
	fixture_run(&s, 1000);
	fixture_expect_log(&s, "did replace: interrupted: resuming\nbegin swap 2.0\n", "cut off");
	fixture_child_ends(&s, "E_LOAD", FAILING_PERMANENT);
	fixture_run(&s, 1000);
	s.log[0] = '\0';
	fixture_again(&s);
	fixture_run(&s, 60000);
	fixture_expect_log(&s, "", "it has ended");
	assert_string_equal(fixture_note(&s, "ack"), "1.1:replace:failed:permanent:E_LOAD");
	fixture_end(&s);
}

static void another_node_with_the_same_name_has_no_history(void **state)
{
	(void)state;
	struct fixture s;
	make_machine(&s, &rows[1]);
	fixture_order(&s, "1.7", "stage", "2.0");
	fixture_run(&s, 1000);
	assert_string_equal(fixture_note(&s, "ack"), "1.7:stage:done");
	s.log[0] = '\0';
	sim_delete(s.sim, SEAT_NODE);
	sim_make(s.sim, "/api/v1/nodes", "{'metadata':{'name':'n1'}}");
	fixture_order(&s, "1.1", "stage", "2.0"); // a number that was lower before
	fixture_run(&s, 10000);
	fixture_expect_log(&s,
			   "did the Node n1 was replaced by another one of this name: its orders start over\ndid order "
			   "1.1: stage\n"
			   "did stage: done: the target is staged already\n",
			   "another Node");
	assert_string_equal(fixture_note(&s, "ack"), "1.1:stage:done");
	fixture_end(&s);
}

// One turn, however long the next one is away.
static void all_due_work_is_done_in_one_turn(void **state)
{
	(void)state;
	struct fixture s;
	make_machine(&s, &rows[3]);
	s.begin_code = E_LOCKED;
	fixture_order(&s, "1.1", "replace", "2.0");
	while (!s.a.node.is_read) // reading it ends a turn
		agent_turn(&s.a, 0);
	fixture_expect_log(&s, "", "it was only read");
	agent_turn(&s.a, 0);
	fixture_expect_log(&s,
			   "did order 1.1: replace\ndid replace: starting the worker\n"
			   "trouble starting the worker: E_LOCKED no room for a child\n"
			   "did replace: failed E_LOCKED: the worker failed\n",
			   "from the order to its end");
	s.begin_code = 0;
	fixture_order(&s, "1.2", "replace", "2.0");
	fixture_run(&s, 1000);
	fixture_order(&s, "1.3", "stage", "2.0");
	fixture_run(&s, 1000);
	free(s.log);
	s.log = str_dup("");
	fixture_child_ends(&s, "E_LOAD", FAILING_PERMANENT);
	agent_turn(&s.a, 0);
	fixture_expect_log(&s,
			   "did replace: failed E_LOAD: the worker failed\ndid order 1.3: stage\n"
			   "did stage: done: the target is staged already\n",
			   "from the end of one to the end of the next");
	fixture_end(&s);
}

// After a boot

static void boot(struct fixture *s)
{
	s->facts.is_empty = true;
	s->facts.loaded = TARGET_HASH_NONE;
	s->found = NULL;
	s->site.boot = "boot-2";
	fixture_again(s);
	free(s->log);
	s->log = str_dup("");
}

static const char REVIVED[] = "did boot: booted: loading the last good driver\nbegin revive 1.0\n";

static void after_a_boot_the_last_good_driver_is_loaded(void **state)
{
	(void)state;
	static const struct {
		const char *text, *phase;
		bool is_crash;
		const char *code;
		unsigned times;
	} table[] = {
		{ "it works", "idle", false, "", 1 },
		{ "it fails: not once more in this boot", "idle", false, "E_LOAD", 1 },
		{ "its child is killed again and again: three times", "done", true, "", 3 },
		{ "a coordinator that loads another one leads", "loading", false, "", 0 },
		{ "a coordinator that replaces it leads", "replacing", false, "", 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct fixture s;
		auto_str char *wanted = str_dup("");
		fixture_begin(&s);
		fixture_run(&s, 1000);
		fixture_state(&s, table[i].phase);
		boot(&s);
		for (unsigned turn = 0; turn < 5; turn++) {
			fixture_run(&s, 2000);
			fixture_child_ends(&s, table[i].code, *table[i].code ? FAILING_PERMANENT : FAILING_NONE);
			s.end.is_crash = table[i].is_crash;
			s.has_end = s.a.running != AGENT_WAIT;
			fixture_run(&s, 1000);
		}
		for (unsigned turn = 0; turn < table[i].times; turn++)
			str_add(&wanted, "%s", REVIVED);
		fixture_expect_log(&s, wanted, table[i].text);
		assert_string_equal(fixture_note(&s, "ack"), ""); // nobody ordered it
		fixture_end(&s);
	}
}

// Nobody can be asked: a coordinator that has other plans had half a minute to say so.
static void without_an_api_server_it_is_loaded_after_half_a_minute(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	fixture_run(&s, 1000);
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_PARTITION, .client = "agent", .from_ms = sim_now_ms() });
	boot(&s);
	fixture_run(&s, 20000);
	assert_int_equal(s.children, 0);
	fixture_run(&s, 25000);
	assert_int_equal(s.children, 1);
	assert_non_null(strstr(s.log, REVIVED));
	fixture_end(&s);
}

static void a_revival_that_cannot_start_is_tried_three_times(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	fixture_run(&s, 1000);
	boot(&s);
	s.begin_code = E_LOCKED;
	while (!*s.log)
		agent_turn(&s.a, 0);
	fixture_expect_log(&s,
			   "did boot: booted: loading the last good driver\n"
			   "trouble starting the worker: E_LOCKED no room for a child\n",
			   "once in a turn");
	fixture_run(&s, 60000);
	unsigned count = 1;
	for (const char *at = s.log; (at = strstr(at, "trouble starting the worker: E_LOCKED")); at++)
		count++;
	assert_int_equal(count, 3);
	assert_string_equal(fixture_note(&s, "ack"), "");
	fixture_end(&s);
}

static void a_running_worker_is_checked_five_times_a_second(void **state)
{
	(void)state;
	struct fixture s;
	make_machine(&s, &rows[3]);
	fixture_run(&s, 3000);
	long before = sim_now_ms();
	agent_turn(&s.a, 1000);
	assert_in_range(sim_now_ms() - before, 990, 1010);
	fixture_order(&s, "1.1", "replace", "2.0");
	fixture_run(&s, 1000);
	assert_int_equal(s.children, 1);
	before = sim_now_ms();
	agent_turn(&s.a, 1000);
	assert_in_range(sim_now_ms() - before, 190, 210);
	agent_turn(&s.a, 50); // and not later than its caller wants
	assert_in_range(sim_now_ms() - before, 240, 260);
	fixture_end(&s);
}

static void damage_is_reported_once_and_starts_over(void **state)
{
	(void)state;
	static const struct {
		const char *file, *words;
	} table[] = {
		{ "agent/journal.json", "trouble the agent's journal is damaged and ignored: E_CONFIG " },
		{ "agent/self.json", "trouble the record of the agent's own orders is lost: E_CONFIG " },
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct fixture s;
		fixture_begin(&s);
		folder_dir(&s.folder, "agent");
		folder_file(&s.folder, table[i].file, "{\"schema\": 1, \"cut");
		fixture_again(&s);
		expect(str_starts(s.log, table[i].words), s.log);
		expect(strchr(s.log, '\n') == s.log + strlen(s.log) - 1, s.log);
		fixture_end(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_order_from_start_to_end),
		cmocka_unit_test(accepted_is_reported_only_for_long_orders),
		cmocka_unit_test(nothing_is_unloaded_on_a_node_that_is_not_cordoned),
		cmocka_unit_test(a_worker_that_cannot_start_fails_its_order),
		cmocka_unit_test(an_unknown_target_is_waited_for),
		cmocka_unit_test(the_wait_for_an_unknown_target_ends),
		cmocka_unit_test(an_invalid_order_is_ignored),
		cmocka_unit_test(a_paused_node_starts_nothing),
		cmocka_unit_test(an_order_runs_once_across_restarts),
		cmocka_unit_test(another_node_with_the_same_name_has_no_history),
		cmocka_unit_test(all_due_work_is_done_in_one_turn),
		cmocka_unit_test(after_a_boot_the_last_good_driver_is_loaded),
		cmocka_unit_test(without_an_api_server_it_is_loaded_after_half_a_minute),
		cmocka_unit_test(a_revival_that_cannot_start_is_tried_three_times),
		cmocka_unit_test(a_running_worker_is_checked_five_times_a_second),
		cmocka_unit_test(damage_is_reported_once_and_starts_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
