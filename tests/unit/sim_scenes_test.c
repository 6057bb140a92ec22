// SPDX-License-Identifier: Apache-2.0
// Rollouts on the simulated API server, one scene each, in which pods and calls behave as they do in the field. T10,
// T11, T53, T56, T78, T79.
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";
static const char all[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','drain':{'evict':'all','force':true},'"
			  "target':{'driver':'535.2'}}]}";

static const json_t *pod_of(const struct farm *f, const char *name)
{
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/%s", name);
	return sim_get(f->sim, path);
}

// T10: a StatefulSet, whose only pod is there again, under its name, as soon as it has gone.
struct set {
	struct farm *f;
	unsigned births;
	long asked_ms; // when the eviction was sent that comes too late
};

static void keep_set(void *ctx)
{
	struct set *s = ctx;
	unsigned at = 0;
	if (s->f->is_over)
		return;
	while (at < s->f->count && farm_is_cordoned(s->f, at))
		at++;
	if (!pod_of(s->f, "db-0") && at < s->f->count) {
		farm_pod(s->f, at, "db-0");
		s->births++;
	}
	sim_after(1000, keep_set, s);
}

static void note_time(void *ctx)
{
	struct set *s = ctx;
	s->asked_ms = sim_now_ms();
}

static void a_pod_of_the_same_name_is_another_one(void **state)
{
	(void)state;
	enum { LATE_MS = 55000 };
	struct farm f;
	struct farm_coordinator coordinator;
	struct set set = { .f = &f };
	farm_begin(&f, 2, plain);
	sim_after(1, keep_set, &set);
	farm_coordinator_begin(&f, &coordinator, "boss");
	sim_fault(f.sim,
		  &(struct sim_fault){
			  .what = SIM_LINGER, .verb = "evict", .late_ms = LATE_MS, .hit = note_time, .ctx = &set });
	assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(5)));
	while (!set.asked_ms || sim_now_ms() < set.asked_ms + LATE_MS - 1000)
		farm_run(&coordinator, 1, 500);
	const json_t *pod = pod_of(&f, "db-0");
	auto_str char *uid = str_dup(sim_text(pod, "metadata uid"));
	assert_string_equal(sim_text(pod, "spec nodeName"), "n01"); // the first one has gone, by a second request
	assert_int_equal(set.births, 2);
	farm_run(&coordinator, 1, 5000);
	pod = pod_of(&f, "db-0");
	assert_string_equal(sim_text(pod, "metadata uid"), uid);
	assert_null(sim_at(pod, "metadata deletionTimestamp"));
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(30)));
	assert_int_equal(set.births, 3); // once for each node
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// T11: who has a claim of ours goes first, and what serves claims last; who has a claim of others stays.
static void claims(const struct farm *f, const char *name, const char *driver)
{
	sim_make(f->sim, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
		 "{'metadata':{'name':'%s-claim','namespace':'default'},'status':{'allocation':{'devices':{'results':[{"
		 "'driver':'%s'}]}}}}",
		 name, driver);
	sim_make(
		f->sim, "/api/v1/namespaces/default/pods",
		"{'metadata':{'name':'%s','namespace':'default','ownerReferences':[{'apiVersion':'apps/v1','kind':"
		"'ReplicaSet','name':'x','uid':'x','controller':true}]},'spec':{'nodeName':'n00','containers':[{'name':"
		"'c','image':'i'}],'resourceClaims':[{'name':'gpu','resourceClaimName':'%s-claim'}]}}",
		name, name);
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/%s/status", name);
	sim_merge(f->sim, path, "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}}");
}

static bool has_plugin(const struct farm *f)
{
	const json_t *labels = sim_at(sim_get(f->sim, "/api/v1/nodes/n00"), "metadata labels");
	return str_eq(json_string_value(json_object_get(labels, "nvidia.com/gpu.deploy.dra-driver")), "true");
}

static void claims_go_first_and_their_plugin_last(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	bool was_paused = false;
	farm_begin(&f, 1, plain);
	sim_merge(f.sim, "/api/v1/nodes/n00", "{'metadata':{'labels':{'nvidia.com/gpu.deploy.dra-driver':'true'}}}");
	claims(&f, "train", "gpu.nvidia.com");
	claims(&f, "net", "nic.example.org");
	farm_coordinator_begin(&f, &coordinator, "boss");
	for (int i = 0; i < 600 && !str_eq(farm_state(&f, 0), "done"); i++) {
		farm_run(&coordinator, 1, 500);
		if (pod_of(&f, "train"))
			assert_true(has_plugin(&f));
		if (str_eq(farm_state(&f, 0), "replacing"))
			assert_false(has_plugin(&f));
		was_paused = was_paused || !has_plugin(&f);
	}
	assert_string_equal(farm_state(&f, 0), "done");
	assert_true(was_paused && has_plugin(&f));
	assert_null(pod_of(&f, "train"));
	assert_non_null(pod_of(&f, "net"));
	assert_true(sim_now_ms() < MINUTES(3)); // nothing was waited for in vain
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// T53: all events of all nodes come twice, in another order, and others write on the nodes all the time: each node
// makes its steps once, one after the other.
static void write_labels(void *ctx)
{
	struct farm *f = ctx;
	if (f->is_over)
		return;
	for (unsigned i = 0; i < f->count; i++) {
		auto_str char *path = api_node(f->nodes[i].name);
		sim_merge(f->sim, path, "{'metadata':{'labels':{'a':'%ld'}}}", sim_now_ms());
		sim_merge(f->sim, path, "{'metadata':{'labels':{'b':'%ld'}}}", sim_now_ms());
	}
	sim_after(300, write_labels, f);
}

static size_t patches_that_counted(const struct farm *f)
{
	size_t count, patches = 0;
	const struct sim_call *log = sim_log(f->sim, &count);
	for (size_t i = 0; i < count; i++)
		patches += str_eq(log[i].client, "boss") && str_eq(log[i].verb, "patch") && log[i].status == 200;
	return patches;
}

static void events_of_one_node_come_together(void **state)
{
	(void)state;
	enum { NODES = 4 };
	size_t patches[2];
	for (int is_storm = 0; is_storm <= 1; is_storm++) {
		struct farm f;
		struct farm_coordinator coordinator;
		farm_begin(&f, NODES, plain);
		farm_coordinator_begin(&f, &coordinator, "boss");
		if (is_storm) {
			sim_after(1, write_labels, &f);
			sim_fault(f.sim, &(struct sim_fault){ .what = SIM_WATCH_TWICE, .times = 1000000, .one_in = 2 });
			sim_fault(f.sim, &(struct sim_fault){ .what = SIM_WATCH_SWAP, .times = 1000000, .one_in = 2 });
		}
		assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(30)));
		farm_run(&coordinator, 1, MINUTES(1) / 2);
		patches[is_storm] = patches_that_counted(&f);
		lawful(&f);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
	assert_int_equal(patches[1], patches[0]);
}

// T56: each call takes so long that two of them outlast the time in which the Lease has to be renewed.
static void a_slow_server_does_not_cost_the_lead(void **state)
{
	(void)state;
	enum { SLOW_MS = 9000, LEASE_SLOW_MS = 4000 };
	struct farm f;
	struct farm_coordinator coordinator;
	size_t count;
	long last = 0, gap = 0;
	farm_begin(&f, 2, plain);
	farm_pod(&f, 0, "train-0");
	farm_pod(&f, 0, "train-1");
	farm_pod(&f, 0, "train-2");
	claims(&f, "claimed", "gpu.nvidia.com");
	farm_coordinator_begin(&f, &coordinator, "boss");
	sim_fault(f.sim,
		  &(struct sim_fault){ .what = SIM_SLOW, .client = "boss", .times = 1000000, .late_ms = SLOW_MS });
	sim_fault(f.sim,
		  &(struct sim_fault){
			  .what = SIM_SLOW, .client = "boss-lease", .times = 1000000, .late_ms = LEASE_SLOW_MS });
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(60)));
	assert_false(coordinator.is_dead);
	const struct sim_call *log = sim_log(f.sim, &count);
	for (size_t i = 0; i < count; i++) {
		if (!str_eq(log[i].client, "boss-lease") || str_eq(log[i].verb, "get"))
			continue;
		gap = last && log[i].ms - last > gap ? log[i].ms - last : gap;
		last = log[i].ms;
	}
	print_message("the Lease was renewed at most %ld s apart, %zu calls in %ld minutes\n", gap / 1000, count,
		      sim_now_ms() / MINUTES(1));
	assert_true(gap < LEADER_RENEW_DEADLINE_MS);
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// T77, T78, T79: in a cluster of one node the coordinator's own pod stays, whatever its labels say; in a larger one its
// node comes last, and it goes like any other.
static void one_own_pod(unsigned nodes)
{
	struct farm f;
	struct farm_coordinator coordinator;
	unsigned first_done = 0;
	farm_begin(&f, nodes, all);
	farm_pod(&f, 0, "other");
	farm_pod(&f, 0, "coordinator-0");
	auto_str char *uid = str_dup(sim_text(pod_of(&f, "coordinator-0"), "metadata uid"));
	farm_coordinator_begin(&f, &coordinator, "boss");
	coordinator.c.o.own_node = "n00";
	coordinator.c.drain.own_uid = uid;
	while (!farm_in(&f, "done") && sim_now_ms() < MINUTES(20)) {
		sim_merge(f.sim, "/api/v1/namespaces/default/pods/coordinator-0",
			  "{'metadata':{'labels':{'app':'%ld'}}}",
			  sim_now_ms()); // what would be meant to protect it drifts
		farm_run(&coordinator, 1, 1000);
	}
	while (first_done < nodes && !str_eq(farm_state(&f, first_done), "done"))
		first_done++;
	assert_int_equal(first_done, nodes == 1 ? 0 : 1);
	assert_true(farm_until(&f, &coordinator, 1, "done", nodes, MINUTES(20)));
	assert_null(pod_of(&f, "other"));
	assert_int_equal(pod_of(&f, "coordinator-0") != NULL, nodes == 1);
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

static void its_own_pod(void **state)
{
	(void)state;
	one_own_pod(1);
	one_own_pod(3);
}

static long until_it_leads(struct farm_coordinator *coordinators, size_t at)
{
	long begin = sim_now_ms();
	while (!coordinators[at].c.leader.is_leading && sim_now_ms() - begin < MINUTES(2))
		farm_run(coordinators, 2, 100);
	assert_true(coordinators[at].c.leader.is_leading);
	return sim_now_ms() - begin;
}

// The epoch of every number that is written on a node: each change of the leader counts (5.2).
static long transitions(struct farm *f)
{
	return (long)json_integer_value(sim_at(
		sim_get(f->sim, "/apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator"),
		"spec leaseTransitions"));
}

// T78, S9: who waits hears of the Lease: it leads as soon as it was given back, has run out or was deleted, and asks
// for next to nothing meanwhile.
static void a_standby_sees_events(void **state)
{
	struct err err;
	struct farm f;
	struct farm_coordinator coordinators[2] = { [1] = { .is_dead = true } };
	(void)state;
	farm_begin(&f, 2, all);
	farm_coordinator_begin(&f, &coordinators[0], "a");
	until_it_leads(coordinators, 0);
	assert_int_equal(transitions(&f), 0);
	farm_coordinator_begin(&f, &coordinators[1], "b");
	assert_true(farm_until(&f, coordinators, 2, "done", 2, MINUTES(20)));
	size_t before = sim_count(f.sim, "b-lease", NULL);
	farm_run(coordinators, 2, MINUTES(20));
	size_t calls = sim_count(f.sim, "b-lease", NULL) - before;
	assert_true(coordinator_leave(&coordinators[0].c, &err) >= 0);
	farm_coordinator_kill(&coordinators[0]);
	long given = until_it_leads(coordinators, 1);
	assert_int_equal(transitions(&f), 1);
	assert_int_equal(leader_epoch(&coordinators[1].c.leader), 2);
	farm_coordinator_begin(&f, &coordinators[0], "c");
	farm_run(coordinators, 2, MINUTES(1));
	farm_coordinator_kill(&coordinators[1]);
	long run_out = until_it_leads(coordinators, 0);
	assert_int_equal(transitions(&f), 2);
	assert_int_equal(leader_epoch(&coordinators[0].c.leader), 3);
	farm_coordinator_begin(&f, &coordinators[1], "d");
	farm_run(coordinators, 2, MINUTES(1));
	farm_coordinator_kill(&coordinators[0]);
	sim_delete(f.sim, "/apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator");
	assert_true(until_it_leads(coordinators, 1) <= 1500);
	print_message("another one leads %ld ms after the Lease was given back, %ld ms after a crash; %zu calls in 20 "
		      "minutes\n",
		      given, run_out, calls);
	assert_in_range(calls, 1, 12);
	assert_true(given <= 1500);
	assert_true(run_out <= LEADER_LEASE_S * 1000 + 1500);
	lawful(&f);
	farm_coordinator_kill(&coordinators[1]);
	farm_end(&f);
}

// The job runs for a quarter of an hour: its node is cordoned and waits, others go on, and nobody asks it to end.
static void a_job_is_waited_for(void **state)
{
	(void)state;
	static const char waits[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','drain':{'waitFor':'app=train'},'"
				    "target':{'driver':'535.2'}}]}";
	enum { NODES = 2 };
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, NODES, waits);
	farm_pod(&f, 0, "train");
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "waiting", 1, MINUTES(5)));
	farm_run(&coordinator, 1, MINUTES(15));
	assert_string_equal(farm_state(&f, 0), "waiting");
	assert_true(farm_is_cordoned(&f, 0));
	assert_int_equal(sim_count(f.sim, "boss", "evict"), 0);
	assert_true(target_hash_eq(&f.nodes[0].loaded, &f.old));
	sim_merge(f.sim, "/api/v1/namespaces/default/pods/train/status", "{'status':{'phase':'Succeeded'}}");
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(10)));
	assert_int_equal(sim_count(f.sim, "boss", "evict"), 0);
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pod_of_the_same_name_is_another_one),
		cmocka_unit_test(claims_go_first_and_their_plugin_last),
		cmocka_unit_test(events_of_one_node_come_together),
		cmocka_unit_test(a_slow_server_does_not_cost_the_lead),
		cmocka_unit_test(its_own_pod),
		cmocka_unit_test(a_standby_sees_events),
		cmocka_unit_test(a_job_is_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
