// SPDX-License-Identifier: Apache-2.0
// Every rollout ends: what cannot be drained, or does not last, is tried a bounded number of times and then held with
// its reason, while the others go on.
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define HOURS(n) ((n)*60 * 60 * 1000L)
enum { DRAINS = 5 }; // drain.attempts, as it is when nobody says it
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";

static void pod(struct farm *f, unsigned node, const char *more)
{
	sim_make(f->sim, "/api/v1/namespaces/default/pods",
		 "{'metadata':{'name':'pod-%u','namespace':'default'%s},'spec':{'nodeName':'%s','containers':[{'name':'"
		 "c',"
		 "'image':'i','resources':{'limits':{'nvidia.com/gpu':'1'}}}]}}",
		 node, more, f->nodes[node].name);
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/pod-%u/status", node);
	sim_merge(f->sim, path, "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}}");
}

static void held_after_so_many(const struct farm *f, unsigned node, const char *reason)
{
	const char *why = farm_note(f, node, "kmodsmith.io/reason");
	if (!str_eq(farm_state(f, node), "held") || !str_starts(why, reason) || farm_is_cordoned(f, node) ||
	    f->nodes[node].life.cordons > DRAINS)
		fail_msg("n%02u is %s: %s; cordoned %d, %u times so far", node, farm_state(f, node), why,
			 farm_is_cordoned(f, node), f->nodes[node].life.cordons);
}

// Two nodes with a pod that nothing would start again, and six that anybody may drain.
static void two_blocked_nodes_do_not_block_others(void **state)
{
	(void)state;
	enum { NODES = 8, STUCK = 2 };
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, NODES, plain);
	for (unsigned i = 0; i < STUCK; i++)
		pod(&f, i, "");
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES - STUCK, HOURS(2)));
	farm_run(&coordinator, 1, HOURS(12));
	for (unsigned i = 0; i < STUCK; i++)
		held_after_so_many(&f, i, "");
	size_t patches = sim_count(f.sim, "boss", "patch");
	farm_run(&coordinator, 1, HOURS(12));
	assert_int_equal(sim_count(f.sim, "boss", "patch"), patches);
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// A finalizer that nobody takes away; then somebody does, and asks for a retry.
static void a_pod_that_never_ends_is_given_up(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2, plain);
	pod(&f, 0,
	    ",'finalizers':['example.org/forever'],'ownerReferences':[{'apiVersion':'apps/v1','kind':'ReplicaSet',"
	    "'name':'x','uid':'x','controller':true}]");
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, HOURS(12));
	held_after_so_many(&f, 0, "drain-given-up");
	assert_int_equal(f.nodes[0].life.cordons, DRAINS);
	assert_string_equal(farm_state(&f, 1), "done");
	sim_merge(f.sim, "/api/v1/namespaces/default/pods/pod-0", "{'metadata':{'finalizers':null}}");
	farm_run(&coordinator, 1, HOURS(1));
	held_after_so_many(&f, 0, "drain-given-up");
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'kmodsmith.io/retry':'1'}}}");
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, HOURS(1)));
	assert_string_equal(farm_note(&f, 0, "kmodsmith.io/drains"), "");
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// The same, and a policy that keeps the node cordoned at the end of a drain: it is said, and not begun anew.
static void a_drain_that_is_held_stays_held(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2,
		   "{'pools':[{'name':'gpus','maxUnavailable':2,'drain':{'onTimeout':'hold'},'breaker':{'percent':100},"
		   "'target':{'driver':'535.2'}}]}");
	pod(&f, 0,
	    ",'finalizers':['example.org/forever'],'ownerReferences':[{'apiVersion':'apps/v1','kind':'ReplicaSet',"
	    "'name':'x','uid':'x','controller':true}]");
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, HOURS(12));
	assert_string_equal(farm_state(&f, 0), "failed");
	assert_true(farm_is_cordoned(&f, 0));
	assert_int_equal(f.nodes[0].life.cordons, 1);
	assert_true(str_starts(farm_note(&f, 0, "kmodsmith.io/reason"), "drain-timeout"));
	assert_string_equal(farm_state(&f, 1), "done");
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// A disk that somebody cleans whenever the node is about to be drained.
static void clean(void *ctx)
{
	struct farm *f = ctx;
	if (f->is_over)
		return;
	if (str_eq(farm_state(f, 0), "cordoned") || str_eq(farm_state(f, 0), "evicting"))
		f->nodes[0].store[0] = f->nodes[0].store[1] = f->old;
	else if (!farm_is_cordoned(f, 0) && !sim_get(f->sim, "/api/v1/namespaces/default/pods/train"))
		farm_pod(f, 0, "train"); // its ReplicaSet starts it again
	sim_after(500, clean, f);
}

static void a_store_that_vanishes_is_given_up(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2, plain);
	sim_after(1, clean, &f);
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, HOURS(12));
	held_after_so_many(&f, 0, "drain-given-up");
	assert_string_equal(farm_state(&f, 1), "done");
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// Another controller that loads its own driver some minutes after each proof.
static void meddle(void *ctx)
{
	enum { EVERY_MS = 10 * 60 * 1000 };
	struct farm *f = ctx;
	if (f->is_over)
		return;
	if (str_eq(farm_state(f, 0), "done"))
		f->nodes[0].loaded = f->old;
	sim_after(EVERY_MS, meddle, f);
}

static void a_driver_that_others_replace_is_given_up(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2, plain);
	sim_after(1, meddle, &f);
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, HOURS(12));
	held_after_so_many(&f, 0, "drift-repeated");
	assert_string_equal(farm_state(&f, 1), "done");
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// An agent that never answers an order to replace, and speaks again afterwards.
static void mute(void *ctx)
{
	struct farm *f = ctx;
	if (f->is_over)
		return;
	f->nodes[0].is_silent = str_eq(farm_state(f, 0), "replacing");
	sim_after(500, mute, f);
}

static void an_agent_that_forgets_its_orders_is_given_up(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 2,
		   "{'pools':[{'name':'gpus','maxUnavailable':2,'breaker':{'percent':100,'inARow':1000},"
		   "'target':{'driver':'535.2'}}]}");
	sim_after(1, mute, &f);
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, HOURS(12));
	assert_in_range(f.nodes[0].life.cordons, 1, DRAINS);
	expect(!farm_is_cordoned(&f, 0) && farm_in(&f, "held") + farm_in(&f, "rolledback") == 1, farm_state(&f, 0));
	assert_string_equal(farm_state(&f, 1), "done");
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// Two installs in two namespaces with other targets: one of the two works, the other says why not, and takes over when
// the first one is gone.
static void two_installs_do_not_fight(void **state)
{
	(void)state;
	enum { NODES = 3 };
	struct farm f;
	struct farm_coordinator coordinators[2];
	farm_begin(&f, NODES, plain);
	sim_make(f.sim, "/api/v1/namespaces/second/configmaps",
		 "{'metadata':{'name':'" POLICY_NAME "'},'data':{'" POLICY_KEY
		 "':'{\\'pools\\':[{\\'name\\':\\'gpus\\',\\'maxUnavailable\\':\\'50%%\\',\\'target\\':{\\'driver\\':"
		 "\\'535.9\\'}}]}'}}");
	farm_coordinator_begin(&f, &coordinators[0], "boss");
	farm_coordinator_begin_in(&f, &coordinators[1], "rival", "second");
	assert_true(farm_until(&f, coordinators, 2, "done", NODES, MINUTES(60)));
	farm_run(coordinators, 2, MINUTES(60));
	size_t patches = sim_count(f.sim, "boss", "patch"), rivals = sim_count(f.sim, "rival", "patch");
	bool is_first = rivals == 0 || patches > rivals;
	assert_in_range(patches + rivals, 1, 12 * NODES);
	for (unsigned i = 0; i < NODES; i++) {
		assert_string_equal(farm_state(&f, i), "done");
		expect(!farm_is_cordoned(&f, i), f.nodes[i].name);
		assert_string_equal(farm_note(&f, i, "kmodsmith.io/coordinator"), is_first ? "kmodsmith" : "second");
	}
	struct farm_coordinator *left = &coordinators[is_first], *gone = &coordinators[!is_first];
	struct cluster cl = coordinator_cluster(&left->c);
	auto_slots struct slots slots = SLOTS_NONE;
	scheduler_plan(&cl, &slots);
	struct view v = scheduler_view(&cl, &slots, 0);
	struct decision d;
	transition(&v, &d);
	assert_int_equal(d.waits.code, REASON_FOREIGN_COORDINATOR);
	assert_string_equal(d.waits.object, is_first ? "kmodsmith" : "second");
	farm_coordinator_kill(gone);
	farm_run(left, 1, MINUTES(9));
	assert_int_equal(sim_count(f.sim, "boss", "patch") + sim_count(f.sim, "rival", "patch"), patches + rivals);
	farm_run(left, 1, MINUTES(4));
	assert_true(farm_until(&f, left, 1, "done", NODES, MINUTES(60)));
	for (unsigned i = 0; i < NODES; i++)
		assert_string_equal(farm_note(&f, i, "kmodsmith.io/coordinator"), is_first ? "second" : "kmodsmith");
	lawful(&f);
	farm_coordinator_kill(left);
	farm_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_blocked_nodes_do_not_block_others),
		cmocka_unit_test(a_pod_that_never_ends_is_given_up),
		cmocka_unit_test(a_drain_that_is_held_stays_held),
		cmocka_unit_test(a_store_that_vanishes_is_given_up),
		cmocka_unit_test(a_driver_that_others_replace_is_given_up),
		cmocka_unit_test(an_agent_that_forgets_its_orders_is_given_up),
		cmocka_unit_test(two_installs_do_not_fight),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
