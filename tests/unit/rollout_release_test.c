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
		{ "{\"cpu\": \"8\", \"nvidia.com/gpu\": \"8\", \"memory\": \"16Gi\"}", "gpu=8" },
		{ "{\"nvidia.com/gpu\": \"0\", \"nvidia.com/mig-1g.10gb\": \"0\"}", "" },
		{ "{\"nvidia.com/mig-3g.40gb\": \"2\", \"nvidia.com/gpu\": \"4\", \"nvidia.com/mig-1g.10gb\": \"7\"}",
		  "gpu=4,mig-1g.10gb=7,mig-3g.40gb=2" },
		{ "{\"nvidia.com/gpu.shared\": \"1k\", \"nvidia.com/mig-1g.10gb.shared\": \"2M\"}",
		  "gpu.shared=1000,mig-1g.10gb.shared=2000000" },
		{ "{\"nvidia.com/hostdev\": \"8\", \"nvidia.com/rdma_shared\": \"63\", \"nvidia.com/GA102GL_A10\": "
		  "\"2\", "
		  "\"amd.com/gpu\": \"8\"}",
		  "" },
		{ "{\"nvidia.com/gpu\": \"-1\", \"nvidia.com/gpu.a\": \"8m\", \"nvidia.com/gpu.b\": 8, "
		  "\"nvidia.com/gpu.c\": "
		  "\"kk\", \"nvidia.com/gpu.d\": \"1kk\", \"nvidia.com/gpu.e\": \"99999999999\", \"nvidia.com/gpu.f\": "
		  "\"\"}",
		  "" },
		{ "{\"nvidia.com/gpu.a-name-that-nobody-would-give-to-a-resource\": \"1\", "
		  "\"nvidia.com/mig-and-another-one"
		  "-that-leaves-no-room-for-more\": \"1\", \"nvidia.com/mig-1g\": \"3\"}",
		  "gpu.a-name-that-nobody-would-give-to-a-resource=1,mig-1g=3" },
		{ "[]", "" },
		{ "\"gpu\"", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[RESOURCES_TEXT];
		auto_json json_t *allocatable = json_loads(rows[i].allocatable, JSON_DECODE_ANY, NULL);
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
		struct row row = { .name = "", .phase = PHASE_QUEUED, .slot = SLOT_WORK, .loaded = OLD };
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

static void seven_of_eight(struct view *v)
{
	(void)v;
	set_baseline("gpu=8", "gpu=7");
	m.facts.operands = 1;
	m.record.paused = 4;
}
static void all_eight(struct view *v)
{
	seven_of_eight(v);
	set_baseline("gpu=8", "gpu=8");
}
static void validating_for_9_s(struct view *v)
{
	all_eight(v);
	m.record.since = NOW - 9;
}
static void never_unloaded(struct view *v)
{
	seven_of_eight(v);
	m.record.receipt.touched = false;
}
static void nothing_recorded(struct view *v)
{
	seven_of_eight(v);
	set_baseline("", "");
}
static void of_another(struct view *v)
{
	seven_of_eight(v);
	m.facts.is_foreign = true;
}
static void refused(struct view *v)
{
	seven_of_eight(v);
	m.record.failed = m.record.target;
	m.record.reason.code = REASON_REPLACE_FAILED;
}
// Of a node that waits: its outcome, and what it was told before.
static void waits_done(struct view *v)
{
	seven_of_eight(v);
	m.record.paused = 0;
	m.record.outcome = PHASE_DONE;
	m.record.reason = (struct reason){ REASON_WAITS_ALLOCATABLE, "nvidia.com/gpu 7 of 8" };
}
static void back_done(struct view *v)
{
	waits_done(v);
	set_baseline("gpu=8", "gpu=8");
}
static void lost_more(struct view *v)
{
	waits_done(v);
	set_baseline("gpu=8", "");
}
static void lost_more_a_minute_ago(struct view *v)
{
	lost_more(v);
	m.record.since = NOW - 60;
}
static void booted(struct view *v)
{
	lost_more(v);
	m.report.loaded = TARGET_HASH_NONE;
	m.report.holders = HOLDERS_UNKNOWN;
}
static void ill_again(struct view *v)
{
	waits_done(v);
	m.report.health.result = RESULT_FAILED;
}
static void mig_is_pending(struct view *v)
{
	waits_done(v);
	set_baseline("mig-1g.10gb=7,mig-manager", "");
	m.facts.has_mig_config = true;
	m.facts.mig = MIG_PENDING;
}
static void mig_has_failed(struct view *v)
{
	mig_is_pending(v);
	m.facts.mig = MIG_FAILED;
}
static void mig_is_not_wanted_any_more(struct view *v)
{
	mig_is_pending(v);
	set_baseline("mig-1g.10gb=7,mig-manager", "gpu=1");
	m.facts.has_mig_config = false;
}
static void pods_unknown(struct view *v)
{
	waits_done(v);
	set_baseline("gpu=8,operator-validator", "gpu=8");
	m.facts.seen.pods = PODS_UNSEEN;
}
static void no_validator(struct view *v)
{
	pods_unknown(v);
	m.facts.seen.pods = 0;
}
static void has_validator(struct view *v)
{
	no_validator(v);
	m.facts.seen.has_validator = true;
}
static void no_device_plugin(struct view *v)
{
	no_validator(v);
	set_baseline("device-plugin", "");
}
static void devices_unknown(struct view *v)
{
	no_validator(v);
	set_baseline("devices=8", "");
	m.facts.seen.devices = DEVICES_UNKNOWN;
}
static void one_device(struct view *v)
{
	devices_unknown(v);
	m.facts.seen.devices = 1;
}
static void nine_devices(struct view *v)
{
	devices_unknown(v);
	m.facts.seen.devices = 9;
}
static void policy_fails(struct view *v)
{
	waits_done(v);
	pool.on_release_timeout = RELEASE_FAIL;
}
static void policy_releases(struct view *v)
{
	waits_done(v);
	pool.on_release_timeout = RELEASE_ANYWAY;
}
static void waits_restored(struct view *v)
{
	waits_done(v);
	m.record.outcome = PHASE_ROLLEDBACK;
	m.record.failed = m.record.target;
	m.record.reason = (struct reason){ REASON_REPLACE_FAILED, "E_LOAD" };
	m.record.go.target_hash = m.report.loaded = m.report.health.target_hash = m.record.previous;
}
static void waits_restored_and_told(struct view *v)
{
	waits_restored(v);
	m.record.tries = 1;
}
static void back_restored(struct view *v)
{
	waits_restored(v);
	set_baseline("gpu=8", "gpu=8");
}
static void restored_policy_fails(struct view *v)
{
	waits_restored(v);
	pool.on_release_timeout = RELEASE_FAIL;
}
static void restored_and_lost(struct view *v)
{
	waits_restored(v);
	m.report.loaded = TARGET_HASH_NONE;
}
static void failed_so(struct view *v)
{
	waits_done(v);
	m.record.outcome = PHASE_IDLE;
}
static void failed_so_and_back(struct view *v)
{
	back_done(v);
	m.record.outcome = PHASE_IDLE;
}
static void held_once(struct view *v)
{
	waits_done(v);
	m.record.tries = 1;
}
static void kept_by_people(struct view *v)
{
	back_done(v);
	m.facts.keeps_cordon = true;
}
static void operator_upgrades(struct view *v)
{
	of_another(v);
	m.facts.has_initial_cordon = true;
	m.facts.upgrade = UPGRADE_POD_RESTART;
}

#define PROVEN(phase_, with)                                                                           \
	.phase = PHASE_##phase_, OURS, .touched = true, .attempts = 1, .go = VERB_VALIDATE, .ago = 30, \
	.loaded = (with), .health = (with), .answer = RESULT_DONE
#define WAITS PROVEN(RELEASING, NEW)
#define SHORT "waits-for-allocatable nvidia.com/gpu 7 of 8"
#define RELEASED \
	"releasing, no reason, then done, order taken back, uncordoned, no receipt, previous nothing, deadline +600s"

static const struct said_row rows[] = {
	// at the end of the validation
	{ { .name = "all is back: uncordoned in one patch", PROVEN(VALIDATING, NEW) },
	  all_eight,
	  "releasing, then done, order taken back, uncordoned, no receipt, previous nothing, attempts 0, paused 0, "
	  "deadline "
	  "+600s" },
	{ { .name = "cordoned by an earlier version, which wrote no baseline", PROVEN(VALIDATING, NEW) },
	  nothing_recorded,
	  "releasing, then done, order taken back, uncordoned, no receipt, previous nothing, attempts 0, paused 0, "
	  "deadline "
	  "+600s" },
	{ { .name = "seven of eight: cordoned, with its operands, and the previous driver is known",
	    PROVEN(VALIDATING, NEW) },
	  seven_of_eight,
	  "releasing, for " SHORT ", then done, attempts 0, paused 0, deadline +600s" },
	{ { .name = "what the kubelet said is of before the pause", PROVEN(VALIDATING, NEW) },
	  validating_for_9_s,
	  "nothing, waits: working" },
	{ { .name = "nothing was unloaded: nothing can be missing because of us", PROVEN(VALIDATING, NEW) },
	  never_unloaded,
	  "releasing, then done, order taken back, uncordoned, no receipt, previous nothing, attempts 0, paused 0, "
	  "deadline "
	  "+600s" },
	{ { .name = "NVIDIA's operator has taken it over", PROVEN(VALIDATING, NEW) },
	  of_another,
	  "releasing, then done, order taken back, uncordoned, no receipt, previous nothing, attempts 0, paused 0, "
	  "deadline "
	  "+600s" },
	{ { .name = "restored: operands run again first", PROVEN(RESTORING, OLD) },
	  refused,
	  "releasing, for replace-failed, then rolledback, paused 0, deadline +600s" },
	// while it waits
	{ { .name = "seven of eight", WAITS }, waits_done, "nothing, waits: " SHORT },
	{ { .name = "another number is recorded", WAITS },
	  lost_more_a_minute_ago,
	  "as before, for waits-for-allocatable nvidia.com/gpu 0 of 8, then done, told +0s" },
	{ { .name = "but not at once", WAITS },
	  lost_more,
	  "nothing, waits: waits-for-allocatable nvidia.com/gpu 0 of 8" },
	{ { .name = "MIG is pending", WAITS }, mig_is_pending, "nothing, waits: waits-for-mig is not success yet" },
	{ { .name = "MIG has failed", WAITS }, mig_has_failed, "nothing, waits: waits-for-mig is failed" },
	{ { .name = "MIG is not asked for any more", WAITS }, mig_is_not_wanted_any_more, RELEASED },
	{ { .name = "its pods were not listed yet", WAITS }, pods_unknown, "nothing, waits: pods-unknown" },
	{ { .name = "the validator is not Ready", WAITS },
	  no_validator,
	  "nothing, waits: waits-for-operands operator-validator" },
	{ { .name = "the validator is Ready", WAITS }, has_validator, RELEASED },
	{ { .name = "the device plugin is not Ready, and there was nothing to count", WAITS },
	  no_device_plugin,
	  "nothing, waits: waits-for-operands device-plugin" },
	{ { .name = "ResourceSlices were not read", WAITS }, devices_unknown, "nothing, waits: pods-unknown" },
	{ { .name = "too few devices in ResourceSlices", WAITS },
	  one_device,
	  "nothing, waits: waits-for-allocatable devices of gpu.nvidia.com 1 of 8" },
	{ { .name = "more devices in ResourceSlices", WAITS }, nine_devices, RELEASED },
	{ { .name = "the kubelet is gone: what it said last does not count", WAITS, .not_ready = true },
	  back_done,
	  "nothing, waits: not-ready" },
	{ { .name = "all is back", WAITS }, back_done, RELEASED },
	{ { .name = "all is back, and somebody wants it cordoned", WAITS },
	  kept_by_people,
	  "releasing, no reason, then done, order taken back, no receipt, previous nothing, deadline +600s" },
	{ { .name = "all is back, and it was cordoned before us", WAITS, .prior = true },
	  back_done,
	  "releasing, no reason, then done, order taken back, no receipt, previous nothing, deadline +600s" },
	{ { .name = "somebody uncordoned it: who wants it gets it", WAITS, .is_open = true },
	  waits_done,
	  "releasing, no reason, then done, order taken back, no receipt, previous nothing, deadline +600s" },
	{ { .name = "NVIDIA's operator takes it over", WAITS },
	  of_another,
	  "releasing, then idle, order taken back, uncordoned, no receipt, previous nothing, paused 0, deadline "
	  "+600s" },
	{ { .name = "and upgrades it behind our cordon", WAITS },
	  operator_upgrades,
	  "nothing, waits: foreign-controller nvidia.com/gpu-driver-upgrade-enabled" },
	{ { .name = "the driver is ill by now: validated again", WAITS },
	  ill_again,
	  "validating, no reason, order validate new, tries 1, deadline +600s" },
	{ { .name = "rebooted, and no driver is loaded: loaded again", WAITS },
	  booted,
	  "replacing, no reason, order load new, attempts 2, tries 1, deadline +600s" },
	{ { .name = "rebooted, and the rollout is halted: back", WAITS, .halted = true },
	  booted,
	  "restoring, for halted, order taken back, paused 1, deadline +600s" },
	{ { .name = "rebooted with the previous driver: restored again", WAITS },
	  restored_and_lost,
	  "restoring, for replace-failed E_LOAD, order taken back, paused 1, deadline +600s" },
	{ { .name = "halted, and what is under way goes back", WAITS, .halted = true, .on_halt = HALT_ROLLBACK },
	  waits_done,
	  "restoring, for halted, order taken back, paused 1, deadline +600s" },
	{ { .name = "halted, and what is under way finishes", WAITS, .halted = true },
	  waits_done,
	  "nothing, waits: " SHORT },
	{ { .name = "its deadline was deleted", WAITS, .deadlineless = true },
	  waits_done,
	  "as before, then done, deadline +600s" },
	{ { .name = "restored and all is back: why it went back stays told", WAITS },
	  back_restored,
	  "releasing, for replace-failed E_LOAD, then rolledback, order taken back, uncordoned, no receipt, previous "
	  "nothing, "
	  "deadline +600s" },
	// the deadline is over
	{ { .name = "hold", WAITS, .late = true }, waits_done, "as before, then done, tries 1" },
	{ { .name = "hold, and that was told", WAITS, .late = true }, held_once, "nothing, waits: " SHORT },
	{ { .name = "hold, and the target was undone", WAITS, .late = true, .goal = OTHER },
	  held_once,
	  "failed, for " SHORT ", order taken back, tries 0" },
	{ { .name = "hold, and what it has by now is the target", WAITS, .late = true, .goal = OLD },
	  waits_restored_and_told,
	  "nothing, waits: " SHORT },
	{ { .name = "release", WAITS, .late = true }, policy_releases, RELEASED },
	{ { .name = "no pool has it any more: nobody would look after it", WAITS, .late = true, .no_pool = true },
	  waits_done,
	  RELEASED },
	{ { .name = "a label excludes it by now", WAITS, .late = true, .skip = true }, waits_done, RELEASED },
	{ { .name = "fail: the target is undone", WAITS, .late = true },
	  policy_fails,
	  "restoring, for " SHORT ", order taken back, failed new, paused 1, deadline +600s" },
	{ { .name = "fail, with the previous driver", WAITS, .late = true },
	  restored_policy_fails,
	  "failed, for " SHORT ", order taken back" },
	// failed for that
	{ { .name = "still short: not tried over and over", BROKEN, .loaded = NEW, .health = NEW },
	  failed_so,
	  "nothing, waits: " SHORT },
	{ { .name = "back: queued", BROKEN, .loaded = NEW, .health = NEW },
	  failed_so_and_back,
	  "queued, no reason, attempts 1" },
};

static void decisions(void **state)
{
	(void)state;
	check_said(rows, ARRAY_SIZE(rows));
}

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
		const struct row row = { WAITS, .late = true };
		struct view v = view_of(&row);
		struct decision d;
		(texts[i].is_restored ? waits_restored : waits_done)(&v);
		pool.on_release_timeout = texts[i].policy;
		transition(&v, &d);
		assert_int_equal(d.next.phase, texts[i].next);
		assert_int_equal(d.warns, texts[i].next == PHASE_RELEASING);
		assert_string_equal(explain_deadline(&v), texts[i].text);
	}
	const struct row row = { .phase = PHASE_RELEASING, .loaded = NEW };
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
