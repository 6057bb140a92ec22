// SPDX-License-Identifier: Apache-2.0
// A rollout beside NVIDIA's GPU Operator, in the three arrangements that are supported and in those that are not: who
// cordons, evicts and uncordons (kmodsmith-operator(7)).
#include "tests/sim/nvidia.h"
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";
static const char mirrored[] =
	"{'mirror':true,'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";

static bool is_held(const struct farm *f, unsigned node)
{
	return str_eq(farm_state(f, node), "held") &&
	       str_starts(farm_note(f, node, "kmodsmith.io/reason"), "foreign-controller");
}

static bool has_pod(const struct farm *f, const char *name)
{
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/%s", name);
	return sim_get(f->sim, path) != NULL;
}

static void end(struct farm *f, struct farm_coordinator *coordinator)
{
	lawful(f);
	farm_coordinator_kill(coordinator);
	farm_end(f);
}

// What the operator says of a node is an annotation; a label of that name is honoured, too.
static void a_node_of_the_operator_is_held(void **state)
{
	(void)state;
	static const char *const parts[] = { "annotations", "labels" };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		farm_begin(&f, 2, plain);
		sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'%s':{'" NVIDIA_ENABLED "':'true'}}}", parts[i]);
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
		assert_true(is_held(&f, 0));
		assert_false(farm_is_cordoned(&f, 0));
		assert_string_equal(farm_note(&f, 0, "kmodsmith.io/go"), "");
		assert_string_equal(nvidia_word(&f, 0), "");
		sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'%s':{'" NVIDIA_ENABLED "':'false'}}}", parts[i]);
		assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(30)));
		end(&f, &coordinator);
	}
}

// First arrangement: the operator drives the driver's image, and a policy takes its nodes all the same.
static void the_operator_drives_and_ours_touches_nothing(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct nvidia theirs;
	farm_begin(&f, 2, mirrored);
	farm_pod(&f, 0, "train-0");
	nvidia_begin(&f, &theirs, true, true);
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, MINUTES(60));
	assert_true(is_held(&f, 0) && is_held(&f, 1));
	assert_true(has_pod(&f, "train-0"));
	assert_int_equal(theirs.cordons + theirs.evictions + theirs.uncordons, 0);
	for (unsigned i = 0; i < f.count; i++)
		assert_string_equal(nvidia_word(&f, i), "upgrade-done");
	theirs.config++; // its own upgrade is its own
	farm_run(&coordinator, 1, MINUTES(60));
	assert_int_equal(theirs.cordons, 2);
	assert_int_equal(theirs.evictions, 1);
	assert_int_equal(theirs.restarts, 2);
	assert_int_equal(theirs.uncordons, 2);
	assert_int_equal(sim_count(f.sim, "boss", "evict"), 0);
	assert_true(is_held(&f, 0) && is_held(&f, 1));
	end(&f, &coordinator);
}

// A template that changed without its configuration: cordoned, and only the driver pod goes.
static void the_operator_restarts_a_pod_and_ours_touches_nothing(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct nvidia theirs;
	farm_begin(&f, 1, mirrored);
	farm_pod(&f, 0, "train-0");
	nvidia_begin(&f, &theirs, true, true);
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, MINUTES(10));
	theirs.labels++;
	bool was_cordoned = false;
	for (int i = 0; i < 600 && !theirs.uncordons; i++) {
		farm_run(&coordinator, 1, 500);
		was_cordoned = was_cordoned || farm_is_cordoned(&f, 0);
		assert_true(is_held(&f, 0));
	}
	assert_true(was_cordoned && has_pod(&f, "train-0"));
	assert_int_equal(theirs.evictions, 0);
	assert_int_equal(theirs.restarts, 1);
	assert_int_equal(theirs.uncordons, 1);
	assert_string_equal(nvidia_word(&f, 0), "upgrade-done");
	end(&f, &coordinator);
}

// Second: driver.enabled=false. The operator sees no driver pod, so it sees no node.
static void ours_drives_and_the_operator_touches_nothing(void **state)
{
	(void)state;
	static const char *const policies[] = { plain, mirrored };
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct nvidia theirs;
		farm_begin(&f, 2, policies[i]);
		farm_pod(&f, 0, "train-0");
		nvidia_begin(&f, &theirs, false, true);
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(30)));
		assert_false(has_pod(&f, "train-0"));
		assert_int_equal(sim_count(f.sim, "boss", "evict"), 1);
		assert_int_equal(theirs.cordons + theirs.evictions + theirs.uncordons, 0);
		assert_false(farm_is_cordoned(&f, 0) || farm_is_cordoned(&f, 1));
		assert_string_equal(nvidia_word(&f, 0), i ? "upgrade-done" : "");
		theirs.auto_upgrade = false; // the operator takes the word away, and it is not written again
		farm_run(&coordinator, 1, MINUTES(2));
		size_t writes = sim_count(f.sim, "boss", "patch");
		farm_run(&coordinator, 1, MINUTES(60));
		assert_string_equal(nvidia_word(&f, 0), "");
		assert_true(sim_count(f.sim, "boss", "patch") < writes + 400); // only the Lease's
		end(&f, &coordinator);
	}
}

// Third: nobody is beside us. The policy's mirror says upgrade-done where that is so, and nothing meanwhile.
static void ours_alone(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2, mirrored);
	farm_coordinator_begin(&f, &coordinator, "boss");
	for (int i = 0; i < 2000 && farm_in(&f, "done") < 2; i++) {
		farm_run(&coordinator, 1, 500);
		for (unsigned n = 0; n < f.count; n++)
			assert_int_equal(*nvidia_word(&f, n), str_eq(farm_state(&f, n), "done") ? 'u' : '\0');
	}
	assert_int_equal(farm_in(&f, "done"), 2);
	farm_policy(&f, "{'mirror':true,'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.3'}}]}");
	assert_true(farm_until(&f, &coordinator, 1, "staging", 1, MINUTES(5)));
	assert_string_equal(nvidia_word(&f, str_eq(farm_state(&f, 0), "staging") ? 0 : 1), "");
	end(&f, &coordinator);
}

// The bad ones. A budget keeps a drain of ours open while the operator takes the node over.
static void begin_drain(struct farm *f, struct farm_coordinator *coordinator)
{
	farm_begin(f, 1, plain);
	farm_pod(f, 0, "train-0");
	sim_make(f->sim, "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
		 "{'metadata':{'name':'all','namespace':'default'},'spec':{'maxUnavailable':0,'selector':{'matchLabels'"
		 ":{"
		 "'app':'train-0'}}}}");
	farm_coordinator_begin(f, coordinator, "boss");
	assert_true(farm_until(f, coordinator, 1, "evicting", 1, MINUTES(10)));
	assert_true(farm_is_cordoned(f, 0));
}

static bool is_paused(const struct farm *f)
{
	const json_t *labels = sim_at(f->objects[0], "metadata labels");
	return !str_eq(json_string_value(json_object_get(labels, "nvidia.com/gpu.deploy.dcgm")), "true");
}

static void the_operator_comes_into_a_drain(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct nvidia theirs;
	begin_drain(&f, &coordinator);
	nvidia_begin(&f, &theirs, true, true);
	farm_run(&coordinator, 1, MINUTES(1));
	assert_true(is_held(&f, 0));
	assert_false(farm_is_cordoned(&f, 0) || is_paused(&f));
	assert_true(has_pod(&f, "train-0"));
	assert_int_equal(theirs.cordons + theirs.evictions + theirs.uncordons, 0);
	farm_run(&coordinator, 1, MINUTES(30));
	assert_true(is_held(&f, 0));
	end(&f, &coordinator);
}

// It upgrades at once, finds the node cordoned and will leave it so: our cordon stays until it has ended, and then
// goes.
static void the_operator_upgrades_behind_our_cordon(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct nvidia theirs;
	begin_drain(&f, &coordinator);
	farm_policy(&f, "{'besideOperator':'allow','pools':[{'name':'gpus','target':{'driver':'535.2'}}]}");
	nvidia_begin(&f, &theirs, true, false);
	theirs.auto_upgrade = true;
	theirs.config++;
	size_t evictions = sim_count(f.sim, "boss", "evict");
	bool was_behind = false;
	for (int i = 0; i < 600 && !is_held(&f, 0); i++) {
		farm_run(&coordinator, 1, 500);
		bool is_behind = str_eq(nvidia_word(&f, 0), "pod-restart-required");
		assert_true(!is_behind || farm_is_cordoned(&f, 0));
		was_behind = was_behind || is_behind;
	}
	assert_true(was_behind && is_held(&f, 0));
	assert_int_equal(theirs.evictions, 1);
	assert_int_equal(theirs.restarts, 1);
	assert_int_equal(theirs.uncordons, 0);
	assert_int_equal(sim_count(f.sim, "boss", "evict"), evictions);
	assert_string_equal(nvidia_word(&f, 0), "upgrade-done");
	assert_false(farm_is_cordoned(&f, 0) || is_paused(&f));
	end(&f, &coordinator);
}

// The same, where the driver has been replaced already and is being proven: its proof is kept until then.
static void the_operator_upgrades_behind_a_proof(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct nvidia theirs;
	farm_begin(&f, 1, "{'besideOperator':'allow','pools':[{'name':'gpus','target':{'driver':'535.2'}}]}");
	nvidia_begin(&f, &theirs, true, false);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	theirs.auto_upgrade = true;
	theirs.config++;
	bool was_proven = false;
	for (int i = 0; i < 600 && !is_held(&f, 0); i++) {
		farm_run(&coordinator, 1, 500);
		bool is_behind = str_eq(nvidia_word(&f, 0), "validation-required");
		assert_true(!is_behind || (farm_is_cordoned(&f, 0) && str_eq(farm_state(&f, 0), "validating")));
		was_proven = was_proven || is_behind;
	}
	assert_true(was_proven && is_held(&f, 0));
	assert_int_equal(theirs.uncordons, 0);
	assert_false(farm_is_cordoned(&f, 0) || is_paused(&f));
	end(&f, &coordinator);
}

// The agent's last words: the order failed for good, and another driver is loaded.
static void say_theirs_is_loaded(struct farm *f)
{
	auto_str char *go = str_dup(farm_note(f, 0, "kmodsmith.io/go"));
	const char *colon = strchr(go, ':'), *end = colon ? strchr(colon + 1, ':') : NULL;
	f->nodes[0].is_silent = true;
	if (end)
		sim_merge(f->sim, "/api/v1/nodes/n00",
			  "{'metadata':{'annotations':{'kmodsmith.io/agent.ack':'%.*s:failed:permanent:E_LOAD'}}}",
			  (int)(end - go), go);
	sim_merge(f->sim, "/api/v1/nodes/n00",
		  "{'metadata':{'annotations':{'kmodsmith.io/agent.loaded':'foreign 550.1 - 6.1'}}}");
}

// Its driver is in the kernel where ours was to be: the node works for it, and nothing of us stays on it. That is no
// failure of our target.
static void the_operators_driver_comes_into_a_replacement(void **state)
{
	(void)state;
	static const char *const phases[] = { "replacing", "restoring", "failed" };
	for (size_t i = 0; i < ARRAY_SIZE(phases); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct nvidia theirs;
		bool is_late = !str_eq(phases[i], "replacing");
		farm_begin(&f, 2, plain);
		sim_merge(f.sim, "/api/v1/nodes/n00",
			  "{'metadata':{'labels':{'nvidia.com/gpu.deploy.dcgm':'true','kmodsmith.io/wave':'first'}}}");
		f.bad = is_late ? farm_target(plain) : TARGET_HASH_NONE;
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, is_late ? "restoring" : "replacing", 1, MINUTES(10)));
		if (!str_eq(farm_state(&f, 0), is_late ? "restoring" : "replacing")) {
			farm_coordinator_kill(&coordinator);
			farm_end(&f);
			fail_msg("the other node began");
		}
		if (str_eq(phases[i], "failed")) {
			f.nodes[0].is_silent = true; // with nothing in the kernel
			sim_merge(f.sim, "/api/v1/nodes/n00",
				  "{'metadata':{'annotations':{'kmodsmith.io/agent.loaded':'none'}}}");
			assert_true(farm_until(&f, &coordinator, 1, "failed", 1, MINUTES(60)));
			assert_true(farm_is_cordoned(&f, 0));
		}
		nvidia_begin(&f, &theirs, true, true);
		say_theirs_is_loaded(&f);
		farm_run(&coordinator, 1, MINUTES(3));
		expect(is_held(&f, 0) && !farm_is_cordoned(&f, 0) && !is_paused(&f), phases[i]);
		assert_int_equal(theirs.cordons + theirs.evictions + theirs.uncordons, 0);
		end(&f, &coordinator);
	}
}

// It was under way already when our cordon came, so it will uncordon: the cordon is left to it.
static void a_cordon_of_the_operator_stays(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	begin_drain(&f, &coordinator);
	sim_merge(f.sim, "/api/v1/nodes/n00",
		  "{'metadata':{'annotations':{'" NVIDIA_ENABLED "':'true'},'labels':{'" NVIDIA_STATE
		  "':'pod-deletion-required'}}}");
	assert_true(farm_until(&f, &coordinator, 1, "held", 1, MINUTES(1)));
	assert_true(is_held(&f, 0) && farm_is_cordoned(&f, 0));
	assert_false(is_paused(&f));
	assert_string_equal(farm_note(&f, 0, "kmodsmith.io/cordon"), "");
	assert_string_equal(nvidia_word(&f, 0), "pod-deletion-required");
	end(&f, &coordinator);
}

// Words that an earlier version wrote with each state are taken away where they would start something; others stay.
static void what_an_earlier_version_wrote(void **state)
{
	(void)state;
	static const struct {
		const char *state, *word, *enabled, *then;
	} rows[] = {
		{ "held", "upgrade-required", "null", "" },
		{ "done", "upgrade-done", "null", "upgrade-done" },
		{ "rolledback", "upgrade-failed", "null", "" },
		{ "held", "upgrade-required", "'true'", "upgrade-required" },
		{ "held", "drain-required", "null", "drain-required" },
		{ "done", "upgrade-required", "null", "upgrade-required" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		farm_begin(&f, 1, "{'paused':true,'pools':[{'name':'gpus','target':{'driver':'535.2'}}]}");
		sim_merge(f.sim, "/api/v1/nodes/n00",
			  "{'metadata':{'labels':{'kmodsmith.io/state':'%s','" NVIDIA_STATE "':'%s'},'annotations':{"
			  "'kmodsmith.io/seq':'1.1','kmodsmith.io/reason':'load-failed','" NVIDIA_ENABLED "':%s}}}",
			  rows[i].state, rows[i].word, rows[i].enabled);
		farm_coordinator_begin(&f, &coordinator, "boss");
		farm_run(&coordinator, 1, MINUTES(5));
		expect(str_eq(nvidia_word(&f, 0), rows[i].then), rows[i].state);
		end(&f, &coordinator);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_of_the_operator_is_held),
		cmocka_unit_test(the_operator_drives_and_ours_touches_nothing),
		cmocka_unit_test(the_operator_restarts_a_pod_and_ours_touches_nothing),
		cmocka_unit_test(ours_drives_and_the_operator_touches_nothing),
		cmocka_unit_test(ours_alone),
		cmocka_unit_test(the_operator_comes_into_a_drain),
		cmocka_unit_test(the_operator_upgrades_behind_our_cordon),
		cmocka_unit_test(the_operator_upgrades_behind_a_proof),
		cmocka_unit_test(the_operators_driver_comes_into_a_replacement),
		cmocka_unit_test(a_cordon_of_the_operator_stays),
		cmocka_unit_test(what_an_earlier_version_wrote),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
