// SPDX-License-Identifier: Apache-2.0
// What a coordinator tells: Events on the Node, where `kubectl describe node` looks, and whoever logs and counts. T74.
#include "tests/unit/heard.h"

static const char *event_text(const json_t *event, const char *keys)
{
	const char *text = sim_text(event, keys);
	return text ? text : "";
}

// "TYPE REASON MESSAGE" of each, in any order: their names are dice.
static void events_of(const struct farm *f, const char *node, struct strv *ret)
{
	auto_json json_t *list = sim_ask(f->sim, "GET", "/api/v1/namespaces/default/events", NULL);
	const json_t *items = json_object_get(list, "items");
	auto_str char *path = api_node(node);
	const char *uid = sim_text(sim_get(f->sim, path), "metadata uid");
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *event = json_array_get(items, i);
		if (!str_eq(event_text(event, "involvedObject name"), node))
			continue;
		assert_string_equal(event_text(event, "involvedObject kind"), "Node");
		assert_string_equal(event_text(event, "involvedObject uid"), uid);
		assert_string_equal(event_text(event, "source component"), "kmodsmith-coordinator");
		strv_add(ret, str_fmt("%s %s %s", event_text(event, "type"), event_text(event, "reason"),
				      event_text(event, "message")));
	}
}

static void expect_events(const struct farm *f, const char *node, const char *const *rows, size_t count)
{
	auto_strv struct strv told = { 0 };
	events_of(f, node, &told);
	for (size_t i = 0; i < count; i++)
		expect(strv_has(&told, rows[i]), rows[i]);
	for (size_t i = 0; i < told.count; i++) // nothing else, and nothing twice
		expect(told.count == count, told.items[i]);
}

static void each_state_is_reported_once(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"Normal RolloutStaging idle -> staging: the target is not staged: staged first, without a disruption",
		"Normal RolloutQueued staging -> queued: the target is staged: queued",
		"Normal RolloutCordoned queued -> cordoned: a slot is granted: cordoned",
		"Normal RolloutEvicting cordoned -> evicting: it has a work slot: pods are evicted, operands paused",
		"Normal RolloutReplacing evicting -> replacing: no holder and no pod is left: the driver is replaced",
		"Normal RolloutValidating replacing -> validating: the target is loaded: validated, operands restored",
		"Normal RolloutReleasing validating -> releasing: validated: uncordoned",
		"Normal RolloutDone releasing -> done: the release is confirmed: the attempt is over",
	};
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	farm_begin(&f, 1, plain);
	begin(&f, &coordinator, &h);
	farm_pod(&f, 0, "a");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	farm_run(&coordinator, 1, MINUTES(1));
	expect_events(&f, "n00", rows, ARRAY_SIZE(rows));
	assert_string_equal(h.moves, "n00: idle -> staging, nobody knows when it began\n"
				     "n00: staging -> queued\n"
				     "n00: queued -> cordoned\n"
				     "n00: cordoned -> evicting\n"
				     "n00: evicting -> replacing\n"
				     "n00: replacing -> validating\n"
				     "n00: validating -> releasing\n"
				     "n00: releasing -> done\n");
	assert_string_equal(h.troubles, "");
	assert_int_equal(h.leads, 1);
	assert_int_equal(h.blind, 0);
	end(&f, &coordinator, &h);
}

// With the agent's code, and what to do about it.
static void a_failure_is_a_warning_with_the_next_step(void **state)
{
	(void)state;
#define WHY " (replace-failed E_LOAD; next: see the agent's error code; fix the target)"
	static const char *const rows[] = {
		"Warning RolloutRestoring replacing -> restoring: the target cannot be loaded: the previous driver is "
		"restored" WHY,
		"Normal RolloutReleasing restoring -> releasing: the previous driver is validated: uncordoned" WHY,
		"Warning RolloutRolledback releasing -> rolledback: the release is confirmed: the attempt is over" WHY,
	};
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	auto_strv struct strv told = { 0 };
	farm_begin(&f, 1, plain);
	f.bad = farm_target(plain);
	begin(&f, &coordinator, &h);
	assert_true(farm_until(&f, &coordinator, 1, "rolledback", 1, MINUTES(30)));
	events_of(&f, "n00", &told);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(strv_has(&told, rows[i]), rows[i]);
	assert_non_null(strstr(h.moves, "n00: replacing -> restoring, the order had failed\n"));
	assert_non_null(strstr(h.moves, "n00: restoring -> releasing\n"));
	end(&f, &coordinator, &h);
}

// Where the record of our cordon was deleted, people have to decide.
static void a_node_that_is_held_is_a_warning(void **state)
{
	(void)state;
	static const char row[] =
		"Warning RolloutHeld evicting -> held: the record of our cordon is gone: the node is held and stays as "
		"it is (receipt-missing; next: uncordon the node by hand when it may be used, then "
		"`kmodsmith rollout retry NODE`)";
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	auto_strv struct strv told = { 0 };
	farm_begin(&f, 1, plain);
	begin(&f, &coordinator, &h);
	farm_pod_that_stays(&f, 0, "stays");
	assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(30)));
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'kmodsmith.io/cordon':null}}}");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_string_equal(farm_state(&f, 0), "held");
	events_of(&f, "n00", &told);
	assert_true(strv_has(&told, row));
	end(&f, &coordinator, &h);
}

// Who may not write Events still rolls out.
static void an_event_that_is_refused_stops_nothing(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	farm_begin(&f, 1, plain);
	sim_fault(f.sim,
		  &(struct sim_fault){
			  .what = SIM_STATUS, .resource = "events", .status = 403, .message = "no", .times = 99 });
	begin(&f, &coordinator, &h);
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	assert_true(str_starts(h.troubles, "an event: "));
	expect_events(&f, "n00", NULL, 0);
	end(&f, &coordinator, &h);
}

// Somebody has come behind our cordon: nobody unloads under him, and he goes as in any drain. T08, T43.
static void rollbacks_are_drained_too(void **state)
{
	(void)state;
	static const char path[] = "/api/v1/namespaces/default/pods/late";
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	farm_begin(&f, 1, plain);
	f.bad = farm_target(plain);
	f.is_sick = true;
	begin(&f, &coordinator, &h);
	assert_true(farm_until(&f, &coordinator, 1, "validating", 1, MINUTES(30)));
	farm_pod(&f, 0, "late");
	f.nodes[0].holders = 1;
	snprintf(f.nodes[0].held_by, sizeof(f.nodes[0].held_by), " %s", sim_text(sim_get(f.sim, path), "metadata uid"));
	assert_true(farm_until(&f, &coordinator, 1, "restoring", 1, MINUTES(10)));
	for (int i = 0; i < 60 && sim_get(f.sim, path); i++)
		farm_run(&coordinator, 1, 1000);
	assert_null(sim_get(f.sim, path));
	assert_false(target_hash_eq(&f.nodes[0].loaded, &f.old)); // not under the holder
	f.nodes[0].holders = 0;
	*f.nodes[0].held_by = '\0';
	assert_true(farm_until(&f, &coordinator, 1, "rolledback", 1, MINUTES(10)));
	assert_true(target_hash_eq(&f.nodes[0].loaded, &f.old));
	assert_false(farm_is_cordoned(&f, 0));
	end(&f, &coordinator, &h);
}

static size_t times_of(const struct farm *f, const char *path, long status, long *ret, size_t most)
{
	size_t count, found = 0;
	const struct sim_call *log = sim_log(f->sim, &count);
	for (size_t i = 0; i < count; i++)
		if (str_eq(log[i].client, "boss") && str_eq(log[i].verb, "patch") && str_eq(log[i].path, path) &&
		    log[i].status == status && found++ < most)
			ret[found - 1] = log[i].ms;
	return found;
}

// It is left alone for 1 s, 2 s, ... half a minute, and looked at every 5 s; the others go on meanwhile.
static void one_nodes_failure_does_not_stop_others(void **state)
{
	(void)state;
	enum { MOST = 32, DUE_MS = 5000, STEP_MS = 1000 };
	static const struct {
		const char *name, *words;
		long status;
		size_t at_once; // that are asked before it is left alone
		long first_ms;  // that it is left alone for then
	} rows[] = {
		{ "the API server refuses", "n00: ", 403, 1, 1000 },
		{ "others are always faster", "n00: its patches are refused repeatedly\n", 409, 4, 16000 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct heard h;
		long at[MOST];
		farm_begin(&f, 2, plain);
		sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
						      .client = "boss",
						      .verb = "patch",
						      .resource = "nodes",
						      .name = "n00",
						      .status = rows[i].status,
						      .times = 10000 });
		begin(&f, &coordinator, &h);
		expect(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(10)), rows[i].name);
		expect(str_eq(farm_state(&f, 1), "done"), rows[i].name);
		farm_run(&coordinator, 1, MINUTES(4));
		size_t count = times_of(&f, "/api/v1/nodes/n00", rows[i].status, at, MOST);
		expect(strstr(h.troubles, rows[i].words), h.troubles);
		long wait = rows[i].first_ms;
		for (size_t n = rows[i].at_once; n < count && n < MOST; n++) {
			long gap = at[n] - at[n - 1];
			expect(gap >= wait && gap <= wait + DUE_MS + STEP_MS, rows[i].name);
			wait = wait < 32000 ? wait * 2 : wait;
		}
		expect(count >= rows[i].at_once + 3 && wait == 32000, rows[i].name);
		sim_heal(f.sim);
		expect(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(10)), rows[i].name);
		end(&f, &coordinator, &h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_state_is_reported_once),
		cmocka_unit_test(a_failure_is_a_warning_with_the_next_step),
		cmocka_unit_test(a_node_that_is_held_is_a_warning),
		cmocka_unit_test(an_event_that_is_refused_stops_nothing),
		cmocka_unit_test(rollbacks_are_drained_too),
		cmocka_unit_test(one_nodes_failure_does_not_stop_others),
	};
	return cmocka_run_group_tests_name("told", tests, NULL, NULL);
}
