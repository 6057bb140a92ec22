// SPDX-License-Identifier: Apache-2.0
// A policy that means nothing leaves the last good one in force, at once and after a restart. T83.
#include "cluster/rollout/undo.h"
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define MAPS "/api/v1/namespaces/kmodsmith/configmaps"
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";
static const char typo[] = "{'pools':[{'name':'gpus','maxUnavailabel':'50%','target':{'driver':'535.3'}}]}";
static const char later[] = "{'schema':2,'fleet':{},'pools':[{'name':'gpus','target':{'driver':'535.3'}}]}";
enum { NODES = 3 };

// Of those about the policy: how many have that reason, and the text of the last one.
static unsigned events(const struct farm *f, const char *reason, char ret_text[512])
{
	unsigned count = 0;
	auto_json json_t *list = sim_ask(f->sim, "GET", "/api/v1/namespaces/kmodsmith/events", NULL);
	const json_t *items = json_object_get(list, "items");
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *event = json_array_get(items, i);
		if (!str_eq(sim_text(event, "reason"), reason))
			continue;
		assert_string_equal(sim_text(event, "involvedObject kind"), "ConfigMap");
		assert_string_equal(sim_text(event, "involvedObject name"), POLICY_NAME);
		snprintf(ret_text, 512, "%s", sim_text(event, "message"));
		count++;
	}
	return count;
}

static void all_done(struct farm *f, struct farm_coordinator *coordinator, const struct target_hash *target, long ms)
{
	assert_true(farm_until(f, coordinator, 1, "done", NODES, ms));
	for (unsigned i = 0; i < NODES; i++)
		expect(target_hash_eq(&f->nodes[i].loaded, target) && !farm_is_cordoned(f, i), f->nodes[i].name);
	lawful(f);
}

// It is cordoned and drained under the good one, and goes on as if nothing had been written.
static void a_typo_while_a_node_is_replaced(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash target = farm_target(plain);
	char text[512];
	farm_begin(&f, NODES, plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	farm_policy(&f, typo);
	long since = sim_now_ms();
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(5)));
	assert_int_equal(events(&f, "PolicyRefused", text), 1);
	assert_non_null(strstr(
		text,
		"pools[0].maxUnavailabel: unknown field; did you mean 'maxUnavailable'?; the last good policy stays"));
	all_done(&f, &coordinator, &target, MINUTES(20) - (sim_now_ms() - since));
	farm_run(&coordinator, 1, MINUTES(90)); // through resyncs
	assert_int_equal(events(&f, "PolicyRefused", text), 1);
	assert_int_equal(events(&f, "PolicyAccepted", text), 0);
	farm_policy(&f, plain);
	farm_run(&coordinator, 1, MINUTES(1));
	assert_int_equal(events(&f, "PolicyAccepted", text), 1);
	all_done(&f, &coordinator, &target, MINUTES(1));
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// Whoever leads next knows the policy by what was kept of it, and the status is not that of another one.
static void a_restart_with_an_invalid_policy(void **state)
{
	(void)state;
	static const char *const texts[] = { typo, later, "{'pools':[", "" };
	static const char key[] = "data status.json";
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct farm f;
		struct farm_coordinator coordinator, next;
		struct target_hash target = farm_target(plain);
		char text[512];
		farm_begin(&f, NODES, plain);
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
		farm_coordinator_kill(&coordinator);
		farm_policy(&f, texts[i]);
		farm_coordinator_begin(&f, &next, "boss2");
		for (int seconds = 0; seconds < 120; seconds++) {
			farm_run(&next, 1, 1000);
			assert_non_null(
				strstr(sim_text(sim_get(f.sim, MAPS "/" ROLLOUT_STATUS_NAME), key), "\"gpus\""));
		}
		assert_int_equal(events(&f, "PolicyRefused", text), 1);
		all_done(&f, &next, &target, MINUTES(30));
		farm_run(&next, 1, MINUTES(120));
		all_done(&f, &next, &target, MINUTES(1));
		assert_non_null(strstr(sim_text(sim_get(f.sim, MAPS "/" ROLLOUT_STATUS_NAME), key), "\"gpus\""));
		farm_coordinator_kill(&next);
		farm_end(&f);
	}
}

// The pause is an annotation beside the document, and counts whatever stands in it.
static void a_pause_counts_beside_a_typo(void **state)
{
	(void)state;
	static const char *const off[] = { "null", "'false'" }, *const on[] = { "'true'", "'yes'" };
	for (size_t i = 0; i < ARRAY_SIZE(on); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct target_hash target = farm_target(plain);
		farm_begin(&f, NODES, plain);
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
		farm_policy(&f, typo);
		sim_merge(f.sim, MAPS "/" POLICY_NAME, "{'metadata':{'annotations':{'kmodsmith.io/pause':%s}}}", on[i]);
		farm_run(&coordinator, 1, MINUTES(120));
		assert_int_equal(farm_in(&f, "done"), 1);
		sim_merge(f.sim, MAPS "/" POLICY_NAME, "{'metadata':{'annotations':{'kmodsmith.io/pause':%s}}}",
			  off[i]);
		all_done(&f, &coordinator, &target, MINUTES(30));
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// What is deleted is deleted, also after a typo, and what was kept of it with it.
static void a_deletion_is_a_deletion(void **state)
{
	(void)state;
	for (int is_restarted = 0; is_restarted <= 1; is_restarted++) {
		struct farm f;
		struct farm_coordinator coordinator;
		farm_begin(&f, NODES, plain);
		for (unsigned i = 0; i < NODES; i++) {
			auto_str char *pod = str_fmt("stays-%u", i);
			farm_pod_that_stays(&f, i, pod);
		}
		farm_coordinator_begin(&f, &coordinator, "boss");
		assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(10)));
		farm_policy(&f, typo);
		farm_run(&coordinator, 1, MINUTES(2));
		assert_int_equal(farm_in(&f, "evicting"), 1);
		if (is_restarted) {
			farm_coordinator_kill(&coordinator);
			farm_coordinator_begin(&f, &coordinator, "boss2");
		}
		sim_delete(f.sim, MAPS "/" POLICY_NAME);
		farm_run(&coordinator, 1, MINUTES(10));
		for (unsigned i = 0; i < NODES; i++)
			expect(!farm_is_cordoned(&f, i), f.nodes[i].name);
		assert_null(sim_text(sim_get(f.sim, MAPS "/" ROLLOUT_STATUS_NAME), "data " POLICY_KEY));
		farm_policy(&f, typo);
		farm_run(&coordinator, 1, MINUTES(10));
		assert_int_equal(farm_in(&f, "evicting"), 0);
		lawful(&f);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// Its key may be policy.yaml; two of them are one too many. What agents read is JSON.
static void a_policy_in_yaml(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash target = farm_target(plain);
	char text[512];
	farm_begin(&f, NODES, plain);
	sim_merge(f.sim, MAPS "/" POLICY_NAME,
		  "{'data':{'policy.json':null,'policy.yaml':'pools:\\n- name: gpus\\n  maxUnavailable: 50%%\\n"
		  "  target: {driver: 535.2}\\n'}}");
	farm_coordinator_begin(&f, &coordinator, "boss");
	all_done(&f, &coordinator, &target, MINUTES(30));
	auto_json json_t *kept =
		json_loads(sim_text(sim_get(f.sim, MAPS "/" ROLLOUT_STATUS_NAME), "data policy.json"), 0, NULL);
	assert_string_equal(sim_text(json_array_get(json_object_get(kept, "pools"), 0), "target driver"), "535.2");
	farm_policy(&f, plain);
	farm_run(&coordinator, 1, MINUTES(1));
	assert_int_equal(events(&f, "PolicyRefused", text), 1);
	assert_non_null(strstr(text, "has both policy.json and policy.yaml"));
	sim_merge(f.sim, MAPS "/" POLICY_NAME, "{'data':null}");
	farm_run(&coordinator, 1, MINUTES(1));
	assert_int_equal(events(&f, "PolicyRefused", text), 2);
	all_done(&f, &coordinator, &target, MINUTES(1));
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// As `rollout undo` writes it: back to that of plain.
static void undo(const struct farm *f, const struct target_hash *instead)
{
	auto_json json_t *target = json_pack("{s:s}", "driver", "535.2");
	auto_str char *note = undo_note(NULL, "gpus", instead, target);
	auto_json json_t *body = json_pack("{s:{s:{s:s}}}", "metadata", "annotations", UNDO_NOTE, note);
	auto_str char *text = json_dumps(body, JSON_COMPACT);
	sim_merge(f->sim, MAPS "/" POLICY_NAME, "%s", text);
}

// The undo of a bad target is a word beside the policy: whoever puts the document back as it was committed does not
// bring the target back, nor do a restart and a lost status. Another target in the policy ends it.
static void an_undo_is_no_edit(void **state)
{
	(void)state;
	static const char bad[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.3'}}]}";
	static const char third[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.4'}}]}";
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash target = farm_target(plain), wrong = farm_target(bad), last = farm_target(third);
	farm_begin(&f, NODES, plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	all_done(&f, &coordinator, &target, MINUTES(30));
	farm_policy(&f, bad);
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	farm_run(&coordinator, 1, MINUTES(1));
	undo(&f, &wrong);
	farm_run(&coordinator, 1, MINUTES(30));
	all_done(&f, &coordinator, &target, MINUTES(1));
	assert_non_null(strstr(sim_text(sim_get(f.sim, MAPS "/" ROLLOUT_STATUS_NAME), "data policy.json"), "535.2"));
	farm_policy(&f, bad); // by a GitOps controller
	farm_coordinator_kill(&coordinator);
	sim_delete(f.sim, MAPS "/" ROLLOUT_STATUS_NAME);
	farm_coordinator_begin(&f, &coordinator, "boss2");
	farm_run(&coordinator, 1, MINUTES(60));
	all_done(&f, &coordinator, &target, MINUTES(1));
	farm_policy(&f, third);
	farm_run(&coordinator, 1, MINUTES(1));
	assert_int_equal(coordinator.c.source.undone.count, 0);
	farm_run(&coordinator, 1, MINUTES(30));
	all_done(&f, &coordinator, &last, MINUTES(1));
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// Beside a typo the undo counts for the policy that is in force, through a restart; a note that means nothing takes
// nothing back.
static void an_undo_beside_a_typo(void **state)
{
	(void)state;
	static const char bad[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.3'}}]}";
	struct farm f;
	struct farm_coordinator coordinator;
	struct target_hash target = farm_target(plain), wrong = farm_target(bad);
	farm_begin(&f, NODES, plain);
	farm_coordinator_begin(&f, &coordinator, "boss");
	all_done(&f, &coordinator, &target, MINUTES(30));
	farm_policy(&f, bad);
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	farm_policy(&f, typo);
	undo(&f, &wrong);
	farm_run(&coordinator, 1, MINUTES(30));
	all_done(&f, &coordinator, &target, MINUTES(1));
	sim_merge(f.sim, MAPS "/" POLICY_NAME, "{'metadata':{'annotations':{'kmodsmith.io/undo':'nonsense'}}}");
	farm_policy(&f, bad);
	farm_coordinator_kill(&coordinator);
	farm_coordinator_begin(&f, &coordinator, "boss2");
	farm_run(&coordinator, 1, MINUTES(60));
	assert_non_null(strstr(coordinator.c.source.refused.text, UNDO_NOTE));
	all_done(&f, &coordinator, &target, MINUTES(1));
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// A resume takes the undo back of the policy that is in force, too, here and under the next leader: what was undone is
// kept beside what is in its place.
static void a_resume_beside_a_typo(void **state)
{
	(void)state;
	static const char other[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.3'}}]}";
	for (int is_restarted = 0; is_restarted <= 1; is_restarted++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct target_hash target = farm_target(plain), undone = farm_target(other);
		farm_begin(&f, NODES, plain);
		farm_coordinator_begin(&f, &coordinator, "boss");
		all_done(&f, &coordinator, &target, MINUTES(30));
		farm_policy(&f, other);
		assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
		undo(&f, &undone);
		farm_run(&coordinator, 1, MINUTES(30));
		all_done(&f, &coordinator, &target, MINUTES(1));
		farm_policy(&f, typo);
		farm_run(&coordinator, 1, MINUTES(30));
		all_done(&f, &coordinator, &target, MINUTES(1));
		assert_int_equal(coordinator.c.source.undone.count, 1); // it is still told
		if (is_restarted) {
			farm_coordinator_kill(&coordinator);
			farm_coordinator_begin(&f, &coordinator, "boss2");
		}
		sim_merge(f.sim, MAPS "/" POLICY_NAME, "{'metadata':{'annotations':{'kmodsmith.io/undo':null}}}");
		farm_run(&coordinator, 1, MINUTES(30));
		all_done(&f, &coordinator, &undone, MINUTES(1));
		assert_int_equal(coordinator.c.source.undone.count, 0);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_typo_while_a_node_is_replaced),
		cmocka_unit_test(a_restart_with_an_invalid_policy),
		cmocka_unit_test(a_pause_counts_beside_a_typo),
		cmocka_unit_test(a_deletion_is_a_deletion),
		cmocka_unit_test(a_policy_in_yaml),
		cmocka_unit_test(an_undo_is_no_edit),
		cmocka_unit_test(an_undo_beside_a_typo),
		cmocka_unit_test(a_resume_beside_a_typo),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
