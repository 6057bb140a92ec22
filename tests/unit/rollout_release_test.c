// SPDX-License-Identifier: Apache-2.0
// Release only what can be used: what has to be back before a node is uncordoned, when it is, and what happens when it
// is not.
#include "cluster/rollout/explain.h"
#include "tests/unit/rollout_said.h"

// nvidia.com/gpu* and nvidia.com/mig-* of a Node, and nothing else.
static void only_gpus_are_kept(void **state)
{
	(void)state;
	static const struct {
		const char *allocatable, *text;
	} rows[] = {
		{ "{}", "" },
		{ "{'cpu': '8', 'nvidia.com/gpu': '8', 'memory': '16Gi'}", "gpu=8" },
		{ "{'nvidia.com/gpu': '0', 'nvidia.com/mig-1g.10gb': '0'}", "" },
		{ "{'nvidia.com/mig-3g.40gb': '2', 'nvidia.com/gpu': '4', 'nvidia.com/mig-1g.10gb': '7'}",
		  "gpu=4,mig-1g.10gb=7,mig-3g.40gb=2" },
		{ "{'nvidia.com/gpu.shared': '1k', 'nvidia.com/mig-1g.10gb.shared': '2M'}",
		  "gpu.shared=1000,mig-1g.10gb.shared=2000000" },
		{ "{'nvidia.com/hostdev': '8', 'nvidia.com/rdma_shared': '63', 'nvidia.com/GA102GL_A10': '2', "
		  "'amd.com/gpu': '8'}",
		  "" },
		{ "{'nvidia.com/gpu': '-1', 'nvidia.com/gpu.a': '8m', 'nvidia.com/gpu.b': 8, 'nvidia.com/gpu.c': 'kk', "
		  "'nvidia.com/gpu.d': '1kk', 'nvidia.com/gpu.e': '99999999999', 'nvidia.com/gpu.f': ''}",
		  "" },
		{ "{'nvidia.com/gpu.a-name-that-nobody-would-give-to-a-resource': '1', "
		  "'nvidia.com/mig-and-another-one-that-leaves-no-room-for-more': '1', 'nvidia.com/mig-1g': '3'}",
		  "gpu.a-name-that-nobody-would-give-to-a-resource=1,mig-1g=3" },
		{ "[]", "" },
		{ "'gpu'", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[RESOURCES_TEXT];
		auto_str char *json = quoted(rows[i].allocatable);
		auto_json json_t *allocatable = json_loads(json, JSON_DECODE_ANY, NULL);
		baseline_read_resources(allocatable, text);
		if (!str_eq(text, rows[i].text))
			fail_msg("%s: '%s'", rows[i].allocatable, text);
	}
}

static void names_and_numbers(void **state)
{
	(void)state;
	static const struct {
		const char *before, *now;
		const char *missing; // NULL = it is back
	} rows[] = {
		{ "gpu=8", "gpu=8", NULL },
		{ "gpu=8", "gpu=9", NULL },
		{ "gpu=8", "gpu=7", "nvidia.com/gpu 7 of 8" },
		{ "gpu=8", "", "nvidia.com/gpu 0 of 8" },
		{ "gpu=4,mig-1g.10gb=7", "gpu=4,mig-1g.10gb=5", "nvidia.com/mig-1g.10gb 5 of 7" },
		{ "gpu=4,mig-1g.10gb=7", "gpu=4", "nvidia.com/mig-1g.10gb 0 of 7" },
		{ "gpu=4,mig-1g.10gb=7", "mig-1g.10gb=7", "nvidia.com/gpu 0 of 4" }, // the other one was there before
		// time-slicing, MPS or the MIG strategy were changed meanwhile
		{ "gpu=8", "gpu.shared=32", NULL },
		{ "gpu.shared=32", "gpu=8", NULL },
		{ "gpu=8", "mig-1g.10gb=56", NULL },
		{ "mig-1g.10gb=28,mig-3g.40gb=4", "gpu=8", NULL },
		{ "gpu=8", "gpu=7,mig-1g.10gb=7", NULL },
		{ "gpu=8", "gpu=4,mig-7g.80gb=3", "nvidia.com/gpu 4 of 8" },
		// words are not resources
		{ "gpu=8,mig-manager,operator-validator", "gpu=8", NULL },
		{ "device-plugin", "", NULL },
		{ "gpu=8,later=9,word", "gpu=8", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char missing[SHORTAGE_TEXT];
		bool is = baseline_is_allocatable(rows[i].before, rows[i].now, missing);
		if (is == (rows[i].missing != NULL) || (rows[i].missing && !str_eq(missing, rows[i].missing)))
			fail_msg("%s, then %s: %d, '%s'", rows[i].before, rows[i].now, is, missing);
	}
}

static void set_baseline(const char *baseline, const char *allocatable)
{
	snprintf(m.record.baseline, sizeof(m.record.baseline), "%s", baseline);
	snprintf(m.facts.allocatable, sizeof(m.facts.allocatable), "%s", allocatable);
}

// What is written at the cordon: what there is then.
static void the_baseline_is_what_was_there(void **state)
{
	(void)state;
	static const struct {
		const char *allocatable;
		bool has_config;
		enum mig_state mig;
		bool has_plugin, has_validator;
		const char *baseline;
	} rows[] = {
		{ "gpu=8", false, MIG_NONE, true, true, "gpu=8,operator-validator" },
		{ "gpu=8", false, MIG_NONE, true, false, "gpu=8" },
		{ "gpu=8", false, MIG_SUCCESS, false, false, "gpu=8" },
		{ "mig-1g.10gb=7", true, MIG_SUCCESS, true, true, "mig-1g.10gb=7,mig-manager,operator-validator" },
		{ "mig-1g.10gb=7", true, MIG_PENDING, true, false, "mig-1g.10gb=7,mig-manager" },
		{ "mig-1g.10gb=7", true, MIG_FAILED, true, false, "mig-1g.10gb=7" }, // it was broken before
		{ "gpu=8", true, MIG_NONE, true, false, "gpu=8" },                   // there is no MIG manager
		{ "", false, MIG_NONE, true, true, "device-plugin,operator-validator" },
		{ "", true, MIG_SUCCESS, false, true, "" }, // nothing was there to be used
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct row row = { .name = "", AT(QUEUED), SLOT(WORK), LOADED(OLD), HEARD };
		struct view v = view_of(&row);
		struct decision d;
		set_baseline("", rows[i].allocatable);
		m.facts.has_mig_config = rows[i].has_config;
		m.facts.mig = rows[i].mig;
		m.facts.seen.has_plugin = rows[i].has_plugin;
		m.facts.seen.has_validator = rows[i].has_validator;
		transition(&v, &d);
		assert_int_equal(d.next.phase, PHASE_CORDONED);
		if (!str_eq(d.next.baseline, rows[i].baseline))
			fail_msg("%s: '%s', not '%s'", rows[i].allocatable, d.next.baseline, rows[i].baseline);
	}
}

#include "tests/unit/rollout_release.def"
TEST(decisions, check_said)

// What `rollout why` says about the deadline, beside what is done then.
static void the_deadline_says_what_follows(void **state)
{
	(void)state;
	static const struct {
		enum on_release_timeout policy;
		bool is_restored;
		enum node_phase next;
		const char *text;
	} texts[] = {
		{ RELEASE_HOLD, false, PHASE_RELEASING, "the node stays cordoned until all of it is back" },
		{ RELEASE_ANYWAY, false, PHASE_RELEASING, "the node returns to service without it" },
		{ RELEASE_FAIL, false, PHASE_RESTORING, "the previous driver is restored" },
		{ RELEASE_FAIL, true, PHASE_FAILED, "the node fails and stays cordoned" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const struct row row = { WAITS, LATE };
		struct view v = view_of(&row);
		struct decision d;
		(texts[i].is_restored ? waits_restored : waits_done)(&v);
		pool.on_release_timeout = texts[i].policy;
		transition(&v, &d);
		assert_int_equal(d.next.phase, texts[i].next);
		assert_int_equal(d.warns, texts[i].next == PHASE_RELEASING);
		assert_string_equal(explain_deadline(&v), texts[i].text);
	}
	const struct row row = { AT(RELEASING), LOADED(NEW) };
	struct view v = view_of(&row);
	assert_string_equal(explain_deadline(&v), ""); // it is released
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_gpus_are_kept),
		cmocka_unit_test(names_and_numbers),
		cmocka_unit_test(the_baseline_is_what_was_there),
		cmocka_unit_test(decisions),
		cmocka_unit_test(the_deadline_says_what_follows),
	};
	return cmocka_run_group_tests_name("release", tests, NULL, NULL);
}
