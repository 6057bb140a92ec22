// SPDX-License-Identifier: Apache-2.0
// What a look at the pods of a node finds out, to the word, whom it asks to go, and when it asks nobody any more: in
// each state of a drain, with jobs that are waited for, and where the API server does not answer. T04, T08, T12, T77.
#include "cluster/coordinator/drain.h"
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

#define SECONDS(n) ((n)*1000L)
#define N00 "/api/v1/nodes/n00"
#define PODS "/api/v1/namespaces/default/pods"
static const char plain[] = "{'pools':[{'name':'gpus','target':{'driver':'535.2'}}]}";
static const char waits[] = "{\"pools\":[{\"name\":\"gpus\",\"target\":{\"driver\":\"535.2\"},"
			    "\"drain\":{\"waitFor\":\"kind=job\"}}]}";
static const char simple[] = "{\"pools\":[{\"name\":\"gpus\",\"target\":{\"driver\":\"535.2\"}}]}";

struct scene {
	struct farm f;
	struct kube *kube;
	struct policy policy;
	struct node_cache node_cache;
	struct evictor drain;
};

static void renew(struct scene *s)
{
	node_cache_put(&s->node_cache, sim_get(s->f.sim, N00), &s->policy);
}

static void begin(struct scene *s, const char *policy, const char *state)
{
	struct err err = { 0 };
	*s = (struct scene){ .policy = POLICY_NONE, .node_cache = NODE_CACHE_NONE };
	farm_begin(&s->f, 1, plain);
	expect(policy_parse(policy, strlen(policy), &s->policy, &err) == 0, err.text);
	s->kube = sim_client(s->f.sim, "boss");
	s->drain = (struct evictor){ .kube = s->kube };
	sim_merge(s->f.sim, N00,
		  "{'metadata':{'labels':{'kmodsmith.io/state':'%s'},'annotations':{'kmodsmith.io/cordon':'{"
		  "\\'by\\':\\'kmodsmith\\',\\'prior\\':false,\\'touched\\':false,\\'again\\':0,"
		  "\\'until\\':1900000000}'}},'spec':{'unschedulable':true}}",
		  state);
	renew(s);
}
static void end(struct scene *s)
{
	node_cache_done(&s->node_cache);
	policy_done(&s->policy);
	kube_free(s->kube);
	farm_end(&s->f);
}

static int look(struct scene *s)
{
	struct err err = { 0 };
	return drain_check_pods(&s->drain, &s->node_cache, 0, &s->policy.pools[0], true, kube_time(s->kube), &err);
}
static const struct pods_seen *seen(const struct scene *s)
{
	return node_state_pods(&s->node_cache.nodes[0]);
}
static long due(const struct scene *s)
{
	return s->node_cache.entries[0].look_ms - kube_now_ms();
}

static void make_job(struct scene *s, const char *name)
{
	auto_str char *path = str_fmt(PODS "/%s", name);
	farm_pod(&s->f, 0, name);
	sim_merge(s->f.sim, path, "{'metadata':{'labels':{'kind':'job'}}}");
}
static bool is_leaving(struct scene *s, const char *name)
{
	auto_str char *path = str_fmt(PODS "/%s", name);
	const json_t *pod = sim_get(s->f.sim, path);
	return !pod || sim_at(pod, "metadata deletionTimestamp");
}
// Who has the GPU open, as its agent says.
static void hold(struct scene *s, const char *pod)
{
	auto_str char *path = str_fmt(PODS "/%s", pod ? pod : "");
	const char *uid = pod ? sim_text(sim_get(s->f.sim, path), "metadata uid") : "";
	sim_merge(s->f.sim, N00, "{'metadata':{'annotations':{'kmodsmith.io/agent.holders':'1 8%s%s'}}}",
		  pod ? " " : "", uid);
	renew(s);
}

// 1, 1.5, 2.25 ... ten minutes: only people can help.
static void held_nodes_are_checked_rarely(void **state)
{
	(void)state;
	static const long series[] = { 60000,  90000,  135000, 202500, 303750, 455625,
				       600000, 600000, 600000, 600000, 600000, 600000 };
	struct scene s;
	begin(&s, simple, "held");
	for (size_t i = 0; i < ARRAY_SIZE(series); i++) {
		assert_true(look(&s) >= 0);
		assert_int_equal(due(&s), series[i]);
	}
	assert_int_equal(s.drain.asked, 0);
	end(&s);
}

// Who is waited for is counted and named, and is nobody's trouble before the cordon.
static void jobs_are_counted_and_spared(void **state)
{
	(void)state;
	static const struct {
		const char *name, *state;
		unsigned jobs, others;
		bool waited;
		unsigned asked; // to go
		const char *said;
	} rows[] = {
		{ "queued, and nobody is there", "queued", 0, 0, false, 0, "" },
		{ "waiting, and nobody is there", "waiting", 0, 0, false, 0, "" },
		{ "waiting, and only others are there", "waiting", 0, 1, false, 1, "" },
		{ "waiting for one", "waiting", 1, 0, false, 0, "jobs default/job-0" },
		{ "waiting for two, and others are there", "waiting", 2, 1, false, 0, "jobs default/job-0" },
		{ "evicting, and one has come", "evicting", 1, 1, false, 0, "jobs default/job-0" },
		{ "evicting after the wait", "evicting", 1, 1, true, 2, "" },
		{ "evicting, and only others are there", "evicting", 0, 1, false, 1, "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		begin(&s, waits, rows[i].state);
		for (unsigned n = 0; n < rows[i].jobs; n++) {
			auto_str char *name = str_fmt("job-%u", n);
			make_job(&s, name);
		}
		if (rows[i].others)
			farm_pod(&s.f, 0, "web");
		s.node_cache.nodes[0].record.receipt.waited = rows[i].waited;
		expect(look(&s) == 1, rows[i].name);
		const struct reason *why = &seen(&s)->blocker;
		auto_str char *said = str_fmt("%s%s%s", why->code ? node_reason_info(why->code)->code : "",
					      *why->object ? " " : "", why->object);
		expect(str_eq(said, rows[i].said), said);
		expect((unsigned)seen(&s)->jobs == rows[i].jobs, rows[i].name);
		expect((unsigned)seen(&s)->pods == rows[i].jobs + rows[i].others, rows[i].name);
		expect(s.drain.asked == rows[i].asked, rows[i].name);
		end(&s);
	}
}

static struct scene *scene;
static void is_uncordoned(void *ctx)
{
	(void)ctx;
	sim_merge(scene->f.sim, N00, "{'spec':{'unschedulable':null}}");
	renew(scene);
}
static void has_no_receipt(void *ctx)
{
	(void)ctx;
	sim_merge(scene->f.sim, N00, "{'metadata':{'annotations':{'kmodsmith.io/cordon':null}}}");
	renew(scene);
}
static void is_in_another_state(void *ctx)
{
	(void)ctx;
	sim_merge(scene->f.sim, N00, "{'metadata':{'labels':{'kmodsmith.io/state':'held'}}}");
	renew(scene);
}
static void is_gone(void *ctx)
{
	(void)ctx;
	node_cache_forget(&scene->node_cache, 0);
}
static void is_as_before(void *ctx)
{
	(void)ctx;
}

// Evictions take their time, and what is true of the node is asked before each.
static void no_evictions_once_the_node_is_not_ours(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		void (*change)(void *ctx); // with the first eviction under way
		unsigned asked;
	} rows[] = {
		{ "it is ours", is_as_before, 3 },
		{ "somebody uncordons it", is_uncordoned, 1 },
		{ "somebody takes the record of our cordon away", has_no_receipt, 1 },
		{ "it is in another state", is_in_another_state, 1 },
		{ "it is gone", is_gone, 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		scene = &s;
		begin(&s, simple, "evicting");
		for (unsigned n = 0; n < 3; n++) {
			auto_str char *name = str_fmt("web-%u", n);
			farm_pod(&s.f, 0, name);
		}
		sim_fault(s.f.sim,
			  &(struct sim_fault){
				  .what = SIM_FREEZE_AFTER, .verb = "evict", .late_ms = 10, .hit = rows[i].change });
		expect(look(&s) >= 0, rows[i].name);
		expect(s.drain.asked == rows[i].asked, rows[i].name);
		end(&s);
	}
}

// What nobody could be asked is not known, and is asked again soon.
static void a_failed_look_changes_nothing(void **state)
{
	(void)state;
	static const struct {
		const char *name, *verb;
		enum sim_break what;
	} rows[] = {
		{ "the pods may not be listed", "list", SIM_STATUS },
		{ "nobody answers the list", "list", SIM_CUT_BEFORE },
		{ "nobody answers an eviction", "evict", SIM_CUT_BEFORE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		begin(&s, simple, "evicting");
		farm_pod(&s.f, 0, "web");
		sim_fault(s.f.sim, &(struct sim_fault){
					   .what = rows[i].what, .verb = rows[i].verb, .status = 403, .times = 1000 });
		expect(look(&s) == -1, rows[i].name);
		expect(seen(&s)->pods == PODS_UNSEEN, rows[i].name);
		expect(due(&s) == DRAIN_LOOK_MS, rows[i].name);
		expect(!drain_is_due(&s.node_cache, 0), rows[i].name);
		sim_pass(DRAIN_LOOK_MS);
		expect(drain_is_due(&s.node_cache, 0), rows[i].name);
		sim_heal(s.f.sim);
		expect(look(&s) == 1 && seen(&s)->pods == 1, rows[i].name);
		end(&s);
	}
}

// So that it is planned anew where there is news, and only there.
static void only_changes_are_reported(void **state)
{
	(void)state;
	struct scene s;
	begin(&s, waits, "waiting");
	assert_int_equal(look(&s), 1); // the first look
	assert_int_equal(look(&s), 0);
	make_job(&s, "job-0");
	assert_int_equal(look(&s), 1);
	assert_int_equal(look(&s), 0);
	make_job(&s, "job-1"); // the first is still the one who is named
	assert_int_equal(look(&s), 1);
	assert_int_equal(look(&s), 0);
	int64_t since = seen(&s)->blocker_since;
	sim_pass(SECONDS(60));
	assert_int_equal(look(&s), 0);
	assert_int_equal(seen(&s)->blocker_since, since);
	sim_merge(s.f.sim, PODS "/job-1", "{'metadata':{'labels':{'kind':null}}}"); // as many pods, fewer jobs
	assert_int_equal(look(&s), 1);
	sim_delete(s.f.sim, PODS "/job-0");
	sim_pass(SECONDS(60));
	assert_int_equal(look(&s), 1);
	assert_int_equal(seen(&s)->blocker.code, REASON_NONE);
	assert_true(seen(&s)->blocker_since > since);
	end(&s);
}

// Who has the GPU open, and what ends him.
static void a_holder_is_reported_by_what_ends_it(void **state)
{
	(void)state;
	static const struct {
		const char *name, *more, *spec; // of the pod; more NULL = there is none
		const char *said;
		bool goes;
	} rows[] = {
		{ "no pod", NULL, NULL, "holders processes outside any pod on this node", false },
		{ "a pod that asks for nothing",
		  ",'ownerReferences':[{'apiVersion':'apps/"
		  "v1','kind':'ReplicaSet','name':'x','uid':'x','controller':true}]",
		  "", "", true },
		{ "a DaemonSet's",
		  ",'ownerReferences':[{'apiVersion':'apps/"
		  "v1','kind':'DaemonSet','name':'x','uid':'x','controller':true}]",
		  "", "holder-protected default/p: has the GPU open, and no gpu.deploy label ends it", false },
		{ "an operand's",
		  ",'ownerReferences':[{'apiVersion':'apps/"
		  "v1','kind':'DaemonSet','name':'x','uid':'x','controller':true}]",
		  "'nodeSelector':{'nvidia.com/gpu.deploy.dcgm':'true'},",
		  "holders default/p: has the GPU open, and its operand is paused", false },
		{ "a pod that nothing would start again", "", "",
		  "holder-protected default/p: no controller would recreate it; see drain.force", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		begin(&s, simple, "evicting");
		if (rows[i].more)
			sim_make(s.f.sim, PODS,
				 "{'metadata':{'name':'p','namespace':'default'%s},'spec':{'nodeName':'n00',%s"
				 "'containers':[{'name':'c','image':'i'}]}}",
				 rows[i].more, rows[i].spec);
		hold(&s, rows[i].more ? "p" : NULL);
		expect(look(&s) == 1, rows[i].name);
		const struct reason *why = &seen(&s)->blocker;
		auto_str char *said = str_fmt("%s%s%s", why->code ? node_reason_info(why->code)->code : "",
					      *why->object ? " " : "", why->object);
		expect(str_eq(said, rows[i].said), said);
		expect(is_leaving(&s, "p") == (rows[i].goes || !rows[i].more), rows[i].name);
		end(&s);
	}
}

// Of a cluster of one node the coordinator is there, too, and has nowhere else to go.
static void the_only_nodes_coordinator_is_not_evicted(void **state)
{
	(void)state;
	for (unsigned nodes = 1; nodes <= 2; nodes++) {
		struct scene s;
		begin(&s, simple, "evicting");
		farm_pod(&s.f, 0, "boss");
		if (nodes == 2) {
			sim_make(s.f.sim, "/api/v1/nodes", "{'metadata':{'name':'n77'}}");
			node_cache_put(&s.node_cache, sim_get(s.f.sim, "/api/v1/nodes/n77"), &s.policy);
		}
		auto_str char *uid = str_dup(sim_text(sim_get(s.f.sim, PODS "/boss"), "metadata uid"));
		s.drain.own_uid = uid;
		assert_true(look(&s) >= 0);
		assert_int_equal(s.drain.asked, nodes - 1);
		assert_int_equal(seen(&s)->pods, nodes - 1);
		end(&s);
	}
}

// One line of plain characters that fits onto the node.
static void a_refusal_is_truncated_and_sanitized(void **state)
{
	(void)state;
	struct scene s;
	begin(&s, simple, "evicting");
	farm_pod(&s.f, 0, "web");
	sim_fault(s.f.sim,
		  &(struct sim_fault){ .what = SIM_STATUS,
				       .verb = "evict",
				       .status = 403,
				       .message = "no~\x7f!\n0123456789012345678901234567890123456789012345678901"
						  "2345678901234567890123456789",
				       .times = 9 });
	assert_true(look(&s) >= 0);
	assert_int_equal(seen(&s)->blocker.code, REASON_EVICTION_REFUSED);
	assert_string_equal(seen(&s)->blocker.object,
			    "default/web: no~?!?012345678901234567890123456789012345678901234567"
			    "8901234567890123456789012345");
	assert_int_equal(strlen(seen(&s)->blocker.object), OBJECT_TEXT - 1);
	end(&s);
}

// By a claim: of ours goes, of others stays, and what cannot be read may be one of ours.
static void a_claim_is_looked_into(void **state)
{
	(void)state;
	static const struct {
		const char *name, *driver; // NULL = the claim is not there
		bool is_refused, claims;
	} rows[] = {
		{ "of a GPU", "gpu.nvidia.com", false, true },
		{ "of a network card", "nic.example.org", false, false },
		{ "that is not there", NULL, false, true },
		{ "that may not be read", "nic.example.org", true, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		begin(&s, simple, "evicting");
		if (rows[i].driver)
			sim_make(s.f.sim, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
				 "{'metadata':{'name':'c','namespace':'default'},'status':{'allocation':{'devices':{"
				 "'results':[{'driver':'%s'}]}}}}",
				 rows[i].driver);
		if (rows[i].is_refused)
			sim_fault(s.f.sim, &(struct sim_fault){ .what = SIM_STATUS,
								.resource = "resourceclaims",
								.status = 403,
								.times = 9 });
		sim_make(s.f.sim, PODS,
			 "{'metadata':{'name':'p','namespace':'default','ownerReferences':[{'apiVersion':'apps/"
			 "v1','kind':"
			 "'ReplicaSet','name':'x','uid':'x','controller':true}]},'spec':{'nodeName':'n00','containers':"
			 "[{"
			 "'name':'c','image':'i'}],'resourceClaims':[{'name':'gpu','resourceClaimName':'c'}]}}");
		expect(look(&s) >= 0, rows[i].name);
		expect(seen(&s)->pods == rows[i].claims, rows[i].name);
		expect(s.drain.asked == rows[i].claims, rows[i].name);
		end(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(held_nodes_are_checked_rarely),
		cmocka_unit_test(jobs_are_counted_and_spared),
		cmocka_unit_test(no_evictions_once_the_node_is_not_ours),
		cmocka_unit_test(a_failed_look_changes_nothing),
		cmocka_unit_test(only_changes_are_reported),
		cmocka_unit_test(a_holder_is_reported_by_what_ends_it),
		cmocka_unit_test(the_only_nodes_coordinator_is_not_evicted),
		cmocka_unit_test(a_refusal_is_truncated_and_sanitized),
		cmocka_unit_test(a_claim_is_looked_into),
	};
	return cmocka_run_group_tests_name("looks", tests, NULL, NULL);
}
