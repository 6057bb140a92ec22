// SPDX-License-Identifier: Apache-2.0
// Pods in the way of a driver manager: named before anything is done if nothing would end them, and evicted once,
// whatever happens to the API server meanwhile.
#include "tests/unit/evacuation.h"

// Nobody is disturbed for what could not be ended.
static void a_protected_pod_is_named_before_anything_is_done(void **state)
{
	(void)state;
	static const struct {
		const char *name, *owner, *spec, *annotation; // NULL = none
		bool may_evict, is_forced, deletes_empty_dir;
		const char *why; // NULL = it may
	} rows[] = {
		{ "a pod of a job", OF_JOB, GPU, NULL, true, false, false, NULL },
		{ "a bare pod", "", GPU, NULL, true, false, false, "default/train: no controller would recreate it" },
		{ "a bare pod by force", "", GPU, NULL, true, true, false, NULL },
		{ "an emptyDir", OF_JOB, GPU ",'volumes':[{'name':'v','emptyDir':{}}]", NULL, true, false, false,
		  "default/train: its emptyDir would be lost" },
		{ "an emptyDir that may be lost", OF_JOB, GPU ",'volumes':[{'name':'v','emptyDir':{}}]", NULL, true,
		  false, true, NULL },
		{ "no eviction here", OF_JOB, GPU, NULL, false, false, false, "nothing allows to evict them" },
		{ "no pod uses a GPU", OF_JOB, NO_GPU, NULL, false, false, false, NULL },
		{ "the operator evicts", OF_JOB, GPU, "true", true, false, false, "nothing allows to evict them" },
		{ "the operator does not", OF_JOB, GPU, "false", true, false, false, NULL },
		{ "a DaemonSet's pod", OF_SET, GPU, NULL, true, false, false, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, PLAIN);
		if (rows[i].annotation)
			sim_merge(s.sim, NODE, "{'metadata':{'annotations':{'" EVACUATE_UPGRADES "':'%s'}}}",
				  rows[i].annotation);
		make_pod(&s, "train", rows[i].owner, rows[i].spec);
		s.e.may_evict = rows[i].may_evict;
		s.e.is_forced = rows[i].is_forced;
		s.e.deletes_empty_dir = rows[i].deletes_empty_dir;
		expect(evacuate_begin(&s.e, &err) == 0, rows[i].name);
		int r = evacuate_check(&s.e, &err);
		if (rows[i].why ? r == 0 || err.code != E_IN_USE || !strstr(err.text, rows[i].why) : r < 0)
			fail_msg("%s: %d %s", rows[i].name, r, err.text);
		assert_int_equal(sim_count(s.sim, "manager", "patch"), 0);
		end(&s);
	}
}

static void the_finalizer_ends(void *ctx)
{
	sim_merge(((struct scene *)ctx)->sim, PODS "/slow", "{'metadata':{'finalizers':null}}");
}

// No eviction ends the pod of a DaemonSet, and no label ends one that is none of the operands'.
static void a_pod_that_nothing_would_end_is_named_before_anything_is_done(void **state)
{
	(void)state;
	static const struct {
		const char *owner, *selector;
		bool is_ended;
	} rows[] = {
		{ OF_SET, "", false },
		{ ",'ownerReferences':[{'kind':'Node','name':'n00','uid':'3','apiVersion':'v1','controller':true}]", "",
		  false },
		{ OF_SET, "'nvidia.com/gpu.deploy.dcgm':'false'", false },
		{ OF_SET, "'nvidia.com/gpu.deploy.device-plugin':'true'", true },
		{ OF_SET, "'site/gpu-user':'yes'", true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, PLAIN);
		auto_str char *spec = str_fmt("'nodeSelector':{%s}," NO_GPU, rows[i].selector);
		make_pod(&s, "exporter", rows[i].owner, spec);
		make_pod(&s, "train", OF_JOB, GPU);
		auto_str char *holders = str_fmt("1 0 %s", sim_text(sim_get(s.sim, PODS "/exporter"), "metadata uid"));
		s.e.holders = holders;
		s.e.may_drain = true;
		s.e.label = "site/gpu-user";
		int r = evacuate_check(&s.e, &err);
		if (rows[i].is_ended ? r < 0 : r == 0 || err.code != E_IN_USE || !strstr(err.text, "default/exporter"))
			fail_msg("%s %s: %d %s", rows[i].owner, rows[i].selector, r, err.text);
		assert_int_equal(sim_count(s.sim, "manager", "patch"), 0);
		end(&s);
	}
}

// The site's own, where the operator's is off: no change of the label ends it, and nobody waits for that.
static void a_daemonset_where_operands_do_not_run_is_no_operand(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_pod(&s, "dcgm", OF_SET, "'nodeSelector':{'nvidia.com/gpu.deploy.dcgm':'false'}," NO_GPU);
	make_pod(&s, "train", OF_JOB, GPU);
	expect(evacuate_run(&s.e, &err) == 0, err.text);
	assert_false(is_there(&s, "train"));
	assert_true(is_there(&s, "dcgm"));
	end(&s);
}

// A minute without an answer costs nobody his pods twice: what was done stays, and it goes on.
static void an_unreachable_api_server_is_waited_for(void **state)
{
	(void)state;
	for (unsigned is_cut = 0; is_cut < 2; is_cut++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, PLAIN);
		make_plugin(&s);
		make_pod(&s, "slow", OF_JOB, GPU);
		make_pod(&s, "train", OF_JOB, GPU);
		sim_merge(s.sim, PODS "/slow", "{'metadata':{'finalizers':['test/stays']}}");
		if (is_cut) // each eviction once
			sim_fault(s.sim,
				  &(struct sim_fault){
					  .what = SIM_CUT_BEFORE, .client = "manager", .verb = "evict", .times = 2 });
		else
			sim_fault(s.sim, &(struct sim_fault){ .what = SIM_PARTITION,
							      .client = "manager",
							      .from_ms = sim_now_ms() + 8000,
							      .to_ms = sim_now_ms() + 68000 });
		sim_after(90000, the_finalizer_ends, &s);
		expect(evacuate_run(&s.e, &err) == 0, err.text);
		assert_false(is_there(&s, "train") || is_there(&s, "slow"));
		end(&s);
	}
}

static void an_invalid_selector_is_refused_before_anything_is_done(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_pod(&s, "train", OF_JOB, GPU);
	s.e.selector = "app in (train";
	expect(evacuate_check(&s.e, &err) == 0, err.text); // nobody drains
	s.e.may_drain = true;
	assert_true(evacuate_check(&s.e, &err) < 0);
	assert_non_null(strstr(err.text, "'app in (train'"));
	end(&s);
}

// As kubectl drain: all or nobody.
static void a_full_drain_starts_only_if_it_can_end(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_pod(&s, "a-web", OF_JOB, NO_GPU);
	make_pod(&s, "z-bare", "", NO_GPU);
	assert_true(evacuate_drain(&s.e, &err) < 0);
	assert_int_equal(err.code, E_IN_USE);
	assert_non_null(strstr(err.text, "default/z-bare"));
	assert_true(is_there(&s, "a-web"));
	assert_int_equal(sim_count(s.sim, "manager", "evict"), 0);
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_protected_pod_is_named_before_anything_is_done),
		cmocka_unit_test(a_pod_that_nothing_would_end_is_named_before_anything_is_done),
		cmocka_unit_test(a_daemonset_where_operands_do_not_run_is_no_operand),
		cmocka_unit_test(an_unreachable_api_server_is_waited_for),
		cmocka_unit_test(an_invalid_selector_is_refused_before_anything_is_done),
		cmocka_unit_test(a_full_drain_starts_only_if_it_can_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
