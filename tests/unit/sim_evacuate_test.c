// SPDX-License-Identifier: Apache-2.0
// What the driver manager does to a Node and its pods, on the simulated API server: operands paused and resumed with
// the operator's values, others' cordons kept, evictions only where they are allowed, and everything undone on each
// exit path, or by the next run if this one was killed.
#include "tests/unit/evacuation.h"

static void test_words(void **state)
{
	(void)state;
	static const struct {
		const char *value, *paused, *resumed; // NULL = it stays
	} rows[] = {
		{ NULL, NULL, NULL },           { "", NULL, NULL },
		{ "false", NULL, NULL },        { "true", PAUSED, NULL },
		{ "dgx", "dgx_" PAUSED, NULL }, { PAUSED, NULL, "true" },
		{ "dgx_" PAUSED, NULL, "dgx" }, { PAUSED "_dgx", NULL, "dgx" },
		{ "_", "__" PAUSED, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *paused = operand_pause(rows[i].value), *resumed = operand_resume(rows[i].value);
		const char *row = rows[i].value ? rows[i].value : "absent";
		expect(rows[i].paused ? str_eq(paused, rows[i].paused) : !paused, row);
		expect(rows[i].resumed ? str_eq(resumed, rows[i].resumed) : !resumed, row);
	}
}

static void evacuated_and_restored(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_plugin(&s);
	make_pod(&s, "train", OF_JOB, GPU);
	make_pod(&s, "web", OF_JOB,
		 "'nodeSelector':{'nvidia.com/gpu.deploy.device-plugin':'true'}," NO_GPU); // no operand
	s.e.label = "site/gpu-user";
	expect(evacuate_begin(&s.e, &err) == 0 && evacuate_check(&s.e, &err) == 0, err.text);
	assert_false(cordoned(&s)); // a look changes nothing
	expect(evacuate_run(&s.e, &err) == 0, err.text);
	assert_true(cordoned(&s));
	assert_string_equal(mark(&s), "true");
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.device-plugin"), PAUSED);
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.dcgm"), "false");
	assert_string_equal(label(&s, "site/gpu-user"), "yes_" PAUSED);
	assert_null(label(&s, "nvidia.com/gpu.deploy.mig-manager")); // no label that was not there
	assert_false(is_there(&s, "plugin"));
	assert_false(is_there(&s, "train"));
	assert_true(is_there(&s, "web"));
	assert_non_null(strstr(s.said, "evicted default/train"));
	assert_int_equal(evacuate_restore(&s.e, &err), 1);
	assert_false(cordoned(&s));
	assert_null(mark(&s));
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.device-plugin"), "true");
	assert_string_equal(label(&s, "site/gpu-user"), "yes");
	assert_int_equal(evacuate_restore(&s.e, &err), 0); // and nothing is left to do
	end(&s);
}

static void a_cordon_by_others_stays(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	sim_merge(s.sim, NODE, "{'spec':{'unschedulable':true}}");
	expect(evacuate_run(&s.e, &err) == 0 && evacuate_restore(&s.e, &err) == 1, err.text);
	assert_true(cordoned(&s));
	assert_null(mark(&s));
	end(&s);
}

// Killed at any request: the next run, which has nothing to do by itself, gives all of it back.
static void the_next_run_restores_what_a_killed_one_left(void **state)
{
	(void)state;
	for (unsigned nth = 1; nth < 24; nth++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, PLAIN);
		make_plugin(&s);
		make_pod(&s, "train", OF_JOB, GPU);
		sim_fault(s.sim, &(struct sim_fault){ .what = nth % 2 ? SIM_DIE_BEFORE : SIM_DIE_AFTER,
						      .client = "manager",
						      .nth = (nth + 1) / 2 });
		evacuate_run(&s.e, &err);
		kube_free(s.kube);
		sim_heal(s.sim);
		s.e.kube = s.kube = sim_client(s.sim, "next");
		expect(evacuate_restore(&s.e, &err) >= 0, err.text);
		assert_false(cordoned(&s));
		assert_null(mark(&s));
		assert_string_equal(label(&s, "nvidia.com/gpu.deploy.device-plugin"), "true");
		end(&s);
	}
}

static void a_process_with_the_gpu_open_counts_for_its_pod(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_pod(&s, "hidden", OF_JOB, NO_GPU);
	auto_str char *holders = str_fmt("1 0 %s", sim_text(sim_get(s.sim, PODS "/hidden"), "metadata uid"));
	s.e.holders = holders;
	expect(evacuate_run(&s.e, &err) == 0, err.text);
	assert_false(is_there(&s, "hidden"));
	end(&s);
}

static void a_budget_blocks_until_the_deadline_then_all_is_restored(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_pod(&s, "train", OF_JOB, GPU);
	sim_make(s.sim, "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
		 "{'metadata':{'name':'b','namespace':'default'},'spec':{'minAvailable':1,'selector':{'matchLabels':{"
		 "'app':'train'}}}}");
	s.e.timeout_s = 60;
	long begun = sim_now_ms();
	assert_true(evacuate_run(&s.e, &err) < 0);
	assert_int_equal(err.code, E_IN_USE);
	assert_non_null(strstr(err.text, "default/train"));
	assert_non_null(strstr(err.text, "disruption budget"));
	assert_in_range(sim_now_ms() - begun, 60000, 75000);
	assert_true(is_there(&s, "train"));
	expect(evacuate_restore(&s.e, &err) == 1, err.text);
	assert_false(cordoned(&s));
	end(&s);
}

static void an_operand_that_does_not_end_has_a_deadline(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_pod(&s, "plugin", OF_SET, "'nodeSelector':{'nvidia.com/gpu.deploy.device-plugin':'true'}," NO_GPU);
	make_pod(&s, "train", OF_JOB, GPU);
	assert_true(evacuate_run(&s.e, &err) < 0);
	assert_int_equal(err.code, E_IN_USE);
	assert_non_null(strstr(err.text, "operand default/plugin"));
	assert_true(is_there(&s, "train"));
	end(&s);
}

static void a_signal_ends_it_within_a_second(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_pod(&s, "plugin", OF_SET, "'nodeSelector':{'nvidia.com/gpu.deploy.device-plugin':'true'}," NO_GPU);
	s.is_ended = true;
	long begun = sim_now_ms();
	assert_true(evacuate_run(&s.e, &err) < 0);
	assert_int_equal(err.code, EINTR);
	assert_in_range(sim_now_ms() - begun, 0, 1000);
	end(&s);
}

static void a_full_drain_evicts_all_but_daemonsets(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_pod(&s, "web", OF_JOB, NO_GPU);
	make_pod(&s, "cache", OF_JOB, NO_GPU);
	make_pod(&s, "agent", OF_SET, NO_GPU);
	s.e.selector = "app=web";
	expect(evacuate_drain(&s.e, &err) == 0, err.text);
	assert_false(is_there(&s, "web"));
	assert_true(is_there(&s, "cache") && is_there(&s, "agent"));
	s.e.selector = "";
	expect(evacuate_drain(&s.e, &err) == 0, err.text);
	assert_false(is_there(&s, "cache"));
	assert_true(is_there(&s, "agent"));
	end(&s);
}

// DRA: its plugin gives back the claims of pods that end, so it stays until they have.
static void the_dra_plugin_goes_last(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, "{'metadata':{'name':'n00','labels':{'nvidia.com/gpu.deploy.dra-driver':'true',"
		  "'nvidia.com/gpu.deploy.dra-validator':'true'}}}");
	make_pod(&s, "train", OF_JOB, NO_GPU ",'resourceClaims':[{'name':'g','resourceClaimName':'gpu-0'}]");
	sim_make(s.sim, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
		 "{'metadata':{'name':'gpu-0','namespace':'default'},'status':{'allocation':{'devices':{'results':[{"
		 "'driver':'gpu.nvidia.com'}]}}}}");
	s.e.may_evict = false; // somebody else evicts, and has not
	assert_true(evacuate_run(&s.e, &err) < 0);
	assert_non_null(strstr(err.text, "default/train still has a GPU claim"));
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.dra-driver"), "true");
	s.e.may_drain = true;
	sim_merge(s.sim, PODS "/train", "{'metadata':{'finalizers':['test/stays']}}");
	assert_true(evacuate_run(&s.e, &err) < 0);
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.dra-driver"), "true");
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.dra-validator"), PAUSED);
	sim_merge(s.sim, PODS "/train", "{'metadata':{'finalizers':null}}");
	expect(evacuate_run(&s.e, &err) == 0, err.text);
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.dra-driver"), PAUSED);
	expect(evacuate_restore(&s.e, &err) == 1, err.text);
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.dra-driver"), "true");
	end(&s);
}

static void the_operator_takes_the_plugin_away(void *ctx)
{
	sim_merge(ctx, NODE, "{'metadata':{'labels':{'nvidia.com/gpu.deploy.device-plugin':'false'}}}");
}

// Between our look and our write: what was written by what we saw would come back as "true".
static void a_label_that_changes_meanwhile_is_not_overwritten(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	s.e.may_evict = false;
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_FREEZE_BEFORE,
					      .client = "manager",
					      .verb = "patch",
					      .late_ms = 10,
					      .hit = the_operator_takes_the_plugin_away,
					      .ctx = s.sim });
	expect(evacuate_run(&s.e, &err) == 0, err.text);
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.device-plugin"), "false");
	expect(evacuate_restore(&s.e, &err) == 0, err.text);
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.device-plugin"), "false");
	end(&s);
}

static void others_may_change_the_node_meanwhile(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	sim_fault(s.sim, &(struct sim_fault){
				 .what = SIM_STATUS, .client = "manager", .verb = "patch", .times = 3, .status = 409 });
	expect(evacuate_run(&s.e, &err) == 0, err.text);
	assert_string_equal(label(&s, "nvidia.com/gpu.deploy.device-plugin"), PAUSED);
	sim_delete(s.sim, NODE);
	assert_true(evacuate_restore(&s.e, &err) < 0);
	assert_int_equal(err.code, E_NOT_FOUND);
	end(&s);
}

static void a_host_driver_is_labelled(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	expect(evacuate_mark_preinstalled(&s.e, &err) == 0, err.text);
	assert_string_equal(label(&s, OPERAND_DRIVER), "pre-installed");
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(evacuated_and_restored),
		cmocka_unit_test(a_cordon_by_others_stays),
		cmocka_unit_test(the_next_run_restores_what_a_killed_one_left),
		cmocka_unit_test(a_process_with_the_gpu_open_counts_for_its_pod),
		cmocka_unit_test(a_budget_blocks_until_the_deadline_then_all_is_restored),
		cmocka_unit_test(an_operand_that_does_not_end_has_a_deadline),
		cmocka_unit_test(a_signal_ends_it_within_a_second),
		cmocka_unit_test(a_full_drain_evicts_all_but_daemonsets),
		cmocka_unit_test(the_dra_plugin_goes_last),
		cmocka_unit_test(a_label_that_changes_meanwhile_is_not_overwritten),
		cmocka_unit_test(others_may_change_the_node_meanwhile),
		cmocka_unit_test(a_host_driver_is_labelled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
