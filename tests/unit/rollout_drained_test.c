// SPDX-License-Identifier: Apache-2.0
// From the cordon to the last moment at which nothing has been unloaded: what exactly is written in each case.
// T04, T06, T11, T23, T25, T82.
#include "tests/unit/rollout_said.h"

#define DRAIN(phase_) .phase = PHASE_##phase_, OURS, .loaded = OLD
#define BARE(phase_) .phase = PHASE_##phase_, .receipt = true, .previous = OLD, .loaded = OLD // without a slot

static void upgraded_behind_us(struct view *v)
{
	served_by_a_set(v);
	m.facts.has_initial_cordon = true;
	m.facts.upgrade = UPGRADE_REQUIRED;
}
static void upgraded_and_cordoned(struct view *v)
{
	upgraded_behind_us(v);
	m.facts.upgrade = UPGRADE_POD_RESTART;
}
static void upgraded_over_our_cordon(struct view *v)
{
	upgraded_and_cordoned(v);
	m.facts.has_initial_cordon = false;
}
static void done_behind_us(struct view *v)
{
	upgraded_behind_us(v);
	m.facts.upgrade = UPGRADE_DONE;
}
static void behind_us_for_an_hour(struct view *v)
{
	upgraded_behind_us(v);
	m.record.receipt.until = NOW;
	m.record.since = NOW - 3600;
}
static void behind_us_for_less(struct view *v)
{
	behind_us_for_an_hour(v);
	m.record.since = NOW - 3599;
}
static void behind_us_in_its_time(struct view *v)
{
	behind_us_for_an_hour(v);
	m.record.receipt.until = NOW + 1;
}
static void blocked_by_a_pod(struct view *v)
{
	(void)v;
	m.facts.seen.blocker = (struct reason){ REASON_PDB_BLOCKED, "default/db" };
	m.facts.seen.blocker_since = NOW - 5;
	m.facts.seen.blocked_since = NOW - 5;
}
static void protected_pod(struct view *v)
{
	(void)v;
	m.facts.seen.blocker = (struct reason){ REASON_HOLDER_PROTECTED, "default/db" };
	m.facts.seen.blocker_since = NOW;
}
static void protected_pod_for_a_minute(struct view *v)
{
	protected_pod(v);
	m.facts.seen.blocker_since = NOW - 60;
}
static void processes_for_two_minutes(struct view *v)
{
	(void)v;
	m.facts.seen.blocker = (struct reason){ REASON_HOLDERS, "processes outside any pod on this node" };
	m.facts.seen.blocker_since = NOW - 120;
}
static void protected_pod_is_told(struct view *v)
{
	protected_pod(v);
	m.record.reason = m.facts.seen.blocker;
}
static void pods_left(struct view *v)
{
	(void)v;
	m.facts.seen.blocker = (struct reason){ REASON_PODS_LEFT, "default/db" };
	m.facts.seen.blocker_since = NOW - 119;
}
static void pods_left_for_long(struct view *v)
{
	pods_left(v);
	m.facts.seen.blocker_since = NOW - 120;
}
static void another_pod_is_left(struct view *v)
{
	pods_left(v);
	m.record.reason = (struct reason){ REASON_PODS_LEFT, "default/web" };
	m.facts.seen.blocker_since = NOW - 60;
}
static void another_pod_is_left_since_now(struct view *v)
{
	another_pod_is_left(v);
	m.facts.seen.blocker_since = NOW - 59;
}
static void nobody_is_in_the_way_any_more(struct view *v)
{
	(void)v;
	m.record.reason = (struct reason){ REASON_PODS_LEFT, "default/web" };
	m.record.reason_since = NOW - 300;
	m.facts.seen.blocker_since = NOW - 60;
}
static void budget_let_one_go(struct view *v)
{
	blocked_by_a_pod(v);
	m.facts.seen.blocked_since = 0;
}
static void nobody_looked(struct view *v)
{
	(void)v;
	m.record.reason = (struct reason){ REASON_PDB_BLOCKED, "default/web" };
	m.facts.seen.pods = m.facts.seen.jobs = PODS_UNSEEN;
}
static void jobs_run(struct view *v)
{
	static char wait_for[] = "job";
	(void)v;
	pool.wait_for = wait_for;
	m.facts.seen.jobs = m.facts.seen.pods = 1;
	m.facts.seen.blocker = (struct reason){ REASON_JOBS, "default/train" };
	m.facts.seen.blocker_since = NOW;
}
static void jobs_run_and_nobody_was_told(struct view *v)
{
	jobs_run(v);
	m.record.reason.code = REASON_JOBS;
}
static void jobs_run_and_another_was_told(struct view *v)
{
	jobs_run(v);
	m.record.reason = (struct reason){ REASON_JOBS, "default/other" };
}
static void jobs_unknown(struct view *v)
{
	jobs_run(v);
	m.facts.seen.jobs = m.facts.seen.pods = PODS_UNSEEN;
}
static void wait_then_evict(struct view *v)
{
	jobs_run(v);
	m.record.reason = m.facts.seen.blocker;
	pool.on_wait_timeout = WAIT_EVICT;
}
static void wait_then_release(struct view *v)
{
	jobs_run(v);
	m.record.reason = m.facts.seen.blocker;
	pool.on_wait_timeout = WAIT_RELEASE;
}
static void jobs_unknown_and_release(struct view *v)
{
	wait_then_release(v);
	m.facts.seen.jobs = m.facts.seen.pods = PODS_UNSEEN;
}
static void no_jobs_and_release(struct view *v)
{
	wait_then_release(v);
	m.facts.seen.jobs = m.facts.seen.pods = 0;
}
static void has_plugin_and_pods(struct view *v)
{
	has_plugin(v);
	m.facts.seen.pods = 1;
}
static void receipt_ends_soon(struct view *v)
{
	(void)v;
	m.record.receipt.until = NOW + 7;
}
static void stored_as_loaded(struct view *v)
{
	(void)v;
	m.report.loaded = (struct target_hash){ sides[NEW].payload, 7 };
}

static void held_for_a_set(struct view *v)
{
	(void)v;
	memcpy(m.record.reason.object, "gpu-operator/gone", sizeof("gpu-operator/gone"));
}
static void held_for_another_set(struct view *v)
{
	held_for_a_set(v);
	served_by_a_set(v);
}
static void held_for_this_set(struct view *v)
{
	served_by_a_set(v);
	memcpy(m.record.reason.object, "nvidia-driver-daemonset", sizeof("nvidia-driver-daemonset"));
}

static const struct said_row called_off[] = {
	{ { .name = "upgraded by NVIDIA behind our cordon", DRAIN(EVICTING) },
	  upgraded_behind_us,
	  "nothing, waits: foreign-controller nvidia-driver-daemonset" },
	{ { .name = "upgraded by NVIDIA, further on", DRAIN(EVICTING) },
	  upgraded_and_cordoned,
	  "nothing, waits: foreign-controller nvidia-driver-daemonset" },
	{ { .name = "NVIDIA's upgrade is over", DRAIN(EVICTING) },
	  done_behind_us,
	  "releasing, for foreign-controller nvidia-driver-daemonset, then idle, uncordoned, no receipt, deadline "
	  "+600s" },
	{ { .name = "NVIDIA's upgrade never ends", DRAIN(EVICTING) },
	  behind_us_for_an_hour,
	  "releasing, for foreign-controller nvidia-driver-daemonset, then idle, uncordoned, no receipt, deadline "
	  "+600s" },
	{ { .name = "NVIDIA's upgrade lasts not yet an hour", DRAIN(EVICTING) },
	  behind_us_for_less,
	  "nothing, waits: foreign-controller nvidia-driver-daemonset" },
	{ { .name = "nor as long as the drain may", DRAIN(EVICTING) },
	  behind_us_in_its_time,
	  "nothing, waits: foreign-controller nvidia-driver-daemonset" },
	{ { .name = "upgraded by NVIDIA, which cordoned first", DRAIN(EVICTING) },
	  upgraded_over_our_cordon,
	  "releasing, for foreign-controller nvidia-driver-daemonset, then idle, no receipt, deadline +600s" },
	{ { .name = "a failed node that NVIDIA upgrades behind our cordon", BROKEN, .loaded = OLD },
	  upgraded_behind_us,
	  "nothing, waits: working" },
	{ { .name = "a DaemonSet of NVIDIA's serves it", DRAIN(CORDONED) },
	  served_by_a_set,
	  "releasing, for foreign-controller nvidia-driver-daemonset, then idle, uncordoned, no receipt, deadline "
	  "+600s" },
#define HELD_FOREIGN AT(HELD), .loaded = OLD, .was = REASON_FOREIGN_CONTROLLER
	{ { .name = "held for a DaemonSet that is gone, and the annotation is left", HELD_FOREIGN, .foreign = true },
	  held_for_a_set,
	  "as before, for foreign-controller nvidia.com/gpu-driver-upgrade-enabled" },
	{ { .name = "held for a DaemonSet, and by now another one serves it", HELD_FOREIGN, .foreign = true },
	  held_for_another_set,
	  "as before, for foreign-controller nvidia-driver-daemonset" },
	{ { .name = "held for the DaemonSet that serves it", HELD_FOREIGN, .foreign = true },
	  held_for_this_set,
	  "nothing, waits: foreign-controller nvidia-driver-daemonset" },
	{ { .name = "held for a DaemonSet that is gone, and excluded", HELD_FOREIGN, .foreign = true, .skip = true },
	  held_for_a_set,
	  "nothing, waits: foreign-controller gpu-operator/gone" },
	{ { .name = "NVIDIA's annotation is on it", DRAIN(CORDONED), .foreign = true },
	  NULL,
	  "releasing, for foreign-controller nvidia.com/gpu-driver-upgrade-enabled, then idle, uncordoned, no receipt, "
	  "deadline +600s" },
	{ { .name = "skipped", DRAIN(WAITING), .skip = true, .go = VERB_STAGE },
	  four_drains,
	  "releasing, for skipped, then idle, order taken back, uncordoned, no receipt, deadline +600s" },
	{ { .name = "skipped after an order", DRAIN(EVICTING), .skip = true, .touched = true },
	  NULL,
	  "restoring, for skipped, deadline +600s" },
	{ { .name = "the policy is gone", DRAIN(CORDONED), .no_pool = true },
	  four_drains,
	  "releasing, for policy-gone, then idle, uncordoned, no receipt, deadline +600s" },
	{ { .name = "halted", DRAIN(CORDONED), .halted = true },
	  four_drains,
	  "releasing, for halted, then idle, uncordoned, no receipt, deadline +600s" },
	{ { .name = "aborted", DRAIN(CORDONED), .aborted = true },
	  four_drains,
	  "releasing, for aborted, then idle, uncordoned, no receipt, deadline +600s" },
	{ { .name = "halted, and it has the target: proven", AT(EVICTING), OURS, .loaded = NEW, .halted = true },
	  NULL,
	  "validating, order validate new, tries 1, deadline +600s" },
	{ { .name = "halted, and another target is requested",
	    DRAIN(EVICTING),
	    .halted = true,
	    .goal = OTHER,
	    .holders = 1 },
	  NULL,
	  "releasing, for target-changed, then idle, uncordoned, no receipt, deadline +600s" },
	{ { .name = "its slot is taken back", DRAIN(EVICTING), .revoked = true },
	  blocked_by_a_pod,
	  "releasing, for pdb-deadlock default/db, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "its slot is taken back, and nobody looked", DRAIN(EVICTING), .revoked = true },
	  nobody_looked,
	  "releasing, for pdb-deadlock default/web, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "uncordoned once", DRAIN(WAITING), .is_open = true }, NULL, "as before, cordoned, again 1" },
	{ { .name = "uncordoned twice", DRAIN(EVICTING), .is_open = true, .again = 1 },
	  NULL,
	  "as before, cordoned, again 2" },
	{ { .name = "uncordoned for the third time",
	    DRAIN(EVICTING),
	    .is_open = true,
	    .again = 2,
	    .go = VERB_STAGE,
	    .is_paused_operands = true },
	  NULL,
	  "held, for uncordoned-by-user, order taken back, no receipt, paused 0" },
	{ { .name = "tried as often as allowed", DRAIN(EVICTING), .attempts = 2 },
	  four_drains,
	  "releasing, for attempts-spent, then idle, uncordoned, no receipt, deadline +600s" },
	{ { .name = "no longer on the disk", DRAIN(EVICTING), .unstaged = true },
	  four_drains,
	  "releasing, for not-staged, then idle, uncordoned, no receipt, drains 5, deadline +600s" },
	{ { .name = "no longer on the disk, and drained for another before", DRAIN(EVICTING), .unstaged = true },
	  four_drains_for_another,
	  "releasing, for not-staged, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "other parameters of what is loaded need no disk", DRAIN(EVICTING), .unstaged = true },
	  stored_as_loaded,
	  "replacing, order replace new, touched, attempts 1, tries 1, deadline +600s" },
	{ { .name = "nobody says what is loaded", DRAIN(EVICTING), .unstaged = true, .mute = true, .holders = 1 },
	  NULL,
	  "nothing, waits: holders, evicts" },
	{ { .name = "nothing is loaded, and there is no slot", AT(WAITING), .receipt = true },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "nothing is loaded", AT(WAITING), .receipt = true, .slot = SLOT_WAIT },
	  NULL,
	  "replacing, order load new, touched, attempts 1, tries 1, deadline +600s" },
	{ { .name = "the window closes", DRAIN(CORDONED), .window = 29 },
	  four_drains,
	  "releasing, for window-closed, then idle, uncordoned, no receipt, deadline +600s" },
	{ { .name = "operands are given back",
	    DRAIN(CORDONED),
	    .skip = true,
	    .is_paused_operands = true,
	    .prior = true },
	  NULL,
	  "releasing, for skipped, then idle, no receipt, paused 0, deadline +600s" },
};

static const struct said_row drained[] = {
	{ { .name = "cordoned, with a slot for work", DRAIN(CORDONED) },
	  has_plugin,
	  "evicting, paused 1, deadline +1800s" },
	{ { .name = "and a receipt that ends earlier", DRAIN(CORDONED) }, receipt_ends_soon, "evicting, deadline +7s" },
	{ { .name = "cordoned, with a slot to wait", BARE(CORDONED), .slot = SLOT_WAIT },
	  NULL,
	  "waiting, for jobs, deadline +7200s" },
	{ { .name = "cordoned, without a slot", BARE(CORDONED), .slot = SLOT_NONE }, NULL, "nothing, waits: working" },
	{ { .name = "cordoned for long, without a slot", BARE(CORDONED), .slot = SLOT_NONE, .late = true },
	  NULL,
	  "releasing, for no-work-slot, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "waiting, and no job is left", DRAIN(WAITING) },
	  has_plugin,
	  "evicting, paused 1, deadline +1800s" },
	{ { .name = "waiting, and jobs run", DRAIN(WAITING) },
	  jobs_run_and_nobody_was_told,
	  "as before, for jobs default/train, told +0s" },
	{ { .name = "waiting, and another job runs", DRAIN(WAITING) },
	  jobs_run_and_another_was_told,
	  "nothing, waits: jobs default/other" },
	{ { .name = "waiting, and nobody knows", DRAIN(WAITING) }, jobs_unknown, "nothing, waits: working" },
	{ { .name = "waiting, no job is left, and no slot", BARE(WAITING), .slot = SLOT_WAIT },
	  NULL,
	  "nothing, waits: working" },
	{ { .name = "waited enough: they are evicted", DRAIN(WAITING), .late = true },
	  wait_then_evict,
	  "as before, for wait-over, waited, deadline +7200s" },
	{ { .name = "waited enough, and asked for a slot in vain",
	    BARE(WAITING),
	    .slot = SLOT_WAIT,
	    .late = true,
	    .waited = true },
	  wait_then_evict,
	  "releasing, for no-work-slot, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "waited enough, and has a slot", DRAIN(WAITING), .waited = true },
	  wait_then_evict,
	  "evicting, no reason, deadline +1800s" },
	{ { .name = "waited enough: called off", DRAIN(WAITING), .late = true },
	  wait_then_release,
	  "releasing, for jobs default/train, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "waited enough, and nobody knows of jobs", DRAIN(WAITING), .late = true },
	  jobs_unknown_and_release,
	  "releasing, for jobs default/train, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "no job is left, and no slot came", BARE(WAITING), .slot = SLOT_WAIT, .late = true },
	  no_jobs_and_release,
	  "releasing, for no-work-slot, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "a job has come", DRAIN(EVICTING) },
	  jobs_run,
	  "releasing, for jobs default/train, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "a job has come after the wait", DRAIN(EVICTING), .waited = true },
	  jobs_run,
	  "as before, for jobs default/train, told +0s" },
	{ { .name = "no pod is left that needs the plugin", DRAIN(EVICTING) }, has_plugin, "as before, paused 32768" },
	{ { .name = "a pod is left that needs the plugin", DRAIN(EVICTING) },
	  has_plugin_and_pods,
	  "nothing, waits: pods-left, evicts" },
	{ { .name = "no pod is left, and no slot", BARE(EVICTING), .slot = SLOT_NONE },
	  has_plugin,
	  "nothing, waits: no-slot" },
	{ { .name = "nobody is left: replaced", DRAIN(EVICTING), .attempts = 1 },
	  NULL,
	  "replacing, order replace new, touched, attempts 2, tries 1, deadline +600s" },
	{ { .name = "a budget blocks, not yet for long", DRAIN(EVICTING), .pods = 1, .blocked = 1199 },
	  NULL,
	  "as before, for pdb-blocked" },
	{ { .name = "a budget blocks for long", DRAIN(EVICTING), .pods = 1, .blocked = 1200 },
	  NULL,
	  "releasing, for pdb-blocked, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "a budget blocks for long, and the policy holds",
	    DRAIN(EVICTING),
	    .pods = 1,
	    .blocked = 1200,
	    .on_timeout = TIMEOUT_HOLD,
	    .was = REASON_PDB_BLOCKED },
	  NULL,
	  "nothing, waits: pdb-blocked, evicts" },
	{ { .name = "too long", DRAIN(EVICTING), .pods = 1, .late = true },
	  blocked_by_a_pod,
	  "releasing, for drain-timeout default/db, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "too long, and nobody looked since the restart", DRAIN(EVICTING), .pods = 1, .late = true },
	  nobody_looked,
	  "releasing, for drain-timeout default/web, then idle, uncordoned, no receipt, drains 1, deadline +600s" },
	{ { .name = "too long, and the policy holds",
	    DRAIN(EVICTING),
	    .pods = 1,
	    .late = true,
	    .on_timeout = TIMEOUT_HOLD },
	  blocked_by_a_pod,
	  "failed, for drain-timeout default/db" },
	{ { .name = "nobody is left, and no job that is waited for", DRAIN(EVICTING) },
	  no_jobs_and_release,
	  "replacing, no reason, order replace new, touched, attempts 1, tries 1, deadline +600s" },
};

static const struct said_row told[] = {
	{ { .name = "a budget lets nobody go: at once", DRAIN(EVICTING), .pods = 1 },
	  blocked_by_a_pod,
	  "as before, for pdb-blocked default/db, told -5s" },
	{ { .name = "a budget let one go", DRAIN(EVICTING), .pods = 1 },
	  budget_let_one_go,
	  "nothing, waits: pdb-blocked default/db, evicts" },
	{ { .name = "a pod that nobody may evict: at once", DRAIN(EVICTING), .pods = 1 },
	  protected_pod,
	  "as before, for holder-protected default/db, told +0s" },
	{ { .name = "that is told already", DRAIN(EVICTING), .pods = 1 },
	  protected_pod_is_told,
	  "nothing, waits: holder-protected default/db, evicts" },
	{ { .name = "a pod is left: it may go", DRAIN(EVICTING), .pods = 1 },
	  pods_left,
	  "nothing, waits: pods-left default/db, evicts" },
	{ { .name = "a pod is left for two minutes", DRAIN(EVICTING), .pods = 1 },
	  pods_left_for_long,
	  "as before, for pods-left default/db, told -120s" },
	{ { .name = "another pod is left", DRAIN(EVICTING), .pods = 1 },
	  another_pod_is_left_since_now,
	  "nothing, waits: pods-left default/db, evicts" },
	{ { .name = "another pod is left for a minute", DRAIN(EVICTING), .pods = 1 },
	  another_pod_is_left,
	  "as before, for pods-left default/db, told -60s" },
	{ { .name = "nobody is in the way any more", DRAIN(EVICTING), .pods = 1 },
	  nobody_is_in_the_way_any_more,
	  "as before, no reason, no told" },
	{ { .name = "nobody looked yet", DRAIN(EVICTING), .pods = 1 },
	  nobody_looked,
	  "nothing, waits: pdb-blocked default/web, evicts" },
	{ { .name = "who waits for jobs tells of jobs alone",
	    BARE(WAITING),
	    .slot = SLOT_WAIT,
	    .pods = 1,
	    .was = REASON_JOBS },
	  protected_pod,
	  "nothing, waits: jobs" },
	{ { .name = "held for a pod: another one is in the way",
	    AT(HELD),
	    .loaded = OLD,
	    .pods = 1,
	    .was = REASON_HOLDER_PROTECTED },
	  protected_pod,
	  "nothing, waits: holder-protected" },
	{ { .name = "held for something else", AT(HELD), .loaded = OLD, .pods = 1, .was = REASON_STAGE_FAILED },
	  protected_pod,
	  "nothing, waits: stage-failed" },
	{ { .name = "held for a pod: another one is in the way for a minute",
	    AT(HELD),
	    .loaded = OLD,
	    .pods = 1,
	    .was = REASON_HOLDER_PROTECTED },
	  protected_pod_for_a_minute,
	  "as before, for holder-protected default/db, told -60s" },
	{ { .name = "no pod is left, and processes hold the driver", DRAIN(EVICTING), .holders = 2 },
	  processes_for_two_minutes,
	  "as before, for holders processes outside any pod on this node, told -120s" },
};

#define TEST(name)                                  \
	static void name##_(void **state)           \
	{                                           \
		(void)state;                        \
		check_said(name, ARRAY_SIZE(name)); \
	}
TEST(called_off)
TEST(drained)
TEST(told)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(called_off_),
		cmocka_unit_test(drained_),
		cmocka_unit_test(told_),
	};
	return cmocka_run_group_tests_name("drained", tests, NULL, NULL);
}
