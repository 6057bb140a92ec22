// SPDX-License-Identifier: Apache-2.0
// What the pod of a silent agent waits for, in the words of Kubernetes: the scheduler's, the kubelet's, and the last
// ones of a container that ended. T73.
#include "cluster/coordinator/agent_pod.h"
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

#define PODS "/api/v1/namespaces/kmodsmith/pods"
#define NONE "no pod of an agent in the namespace kmodsmith is for this node"
#define ON_N00 "'nodeName':'n00'"
#define MEANT_FOR_N00                                                                                                \
	"'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{'match" \
	"Expressions':[{'key':'kmodsmith.io/builder','operator':'DoesNotExist'}],'matchFields':[{'key':'metadata."   \
	"name','operator':'In','values':['n00']}]}]}}}"
#define CONTAINER(state) "'phase':'Pending','containerStatuses':[{'name':'driver'," state "}]"

static void make_pod(struct farm *f, const char *name, const char *label, const char *spec, const char *status)
{
	auto_str char *path = str_fmt(PODS "/%s/status", name);
	sim_make(f->sim, PODS,
		 "{'metadata':{'name':'%s','namespace':'kmodsmith','labels':{'app.kubernetes.io/name':'%s'}},'spec':{"
		 "'containers':[{'name':'driver','image':'i'}],%s}}",
		 name, label, spec);
	sim_merge(f->sim, path, "{'status':{%s}}", status);
}
static void assert_said(struct farm *f, const char *expected)
{
	struct err err = { 0 };
	auto_str char *text = NULL;
	auto_kube struct kube *kube = sim_client(f->sim, "boss");
	expect(agent_pod_text(kube, "kmodsmith", "n00", &text, &err) == 0, err.text);
	assert_string_equal(text, expected);
}

static void the_words_of_kubernetes(void **state)
{
	static const struct {
		const char *label, *spec, *status, *said;
	} rows[] = {
		{ "kmodsmith-agent", ON_N00,
		  CONTAINER("'state':{'waiting':{'reason':'ImagePullBackOff','message':'Back-off pulling image i'}}"),
		  "kmodsmith/a: driver: ImagePullBackOff: Back-off pulling image i" },
		{ "kmodsmith-builder", ON_N00, CONTAINER("'state':{'waiting':{'reason':'ContainerCreating'}}"),
		  "kmodsmith/a: driver: ContainerCreating" },
		{ "kmodsmith-agent", MEANT_FOR_N00,
		  "'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False','reason':'Unschedulable',"
		  "'message':'0/3 nodes are available: 1 Insufficient memory.'}]",
		  "kmodsmith/a: Pending: Unschedulable: 0/3 nodes are available: 1 Insufficient memory." },
		{ "kmodsmith-agent", ON_N00,
		  CONTAINER(
			  "'state':{'waiting':{'reason':'CrashLoopBackOff','message':'back-off 5m0s'}},'lastState':{"
			  "'terminated':{'exitCode':1,'reason':'Error','message':'E_RIGHTS: no\\nnext: run as root'}}"),
		  "kmodsmith/a: driver: CrashLoopBackOff: E_RIGHTS: no next: run as root" },
		{ "kmodsmith-agent", ON_N00, CONTAINER("'state':{'terminated':{'exitCode':137,'reason':'OOMKilled'}}"),
		  "kmodsmith/a: driver: OOMKilled" },
		{ "kmodsmith-agent", ON_N00,
		  "'phase':'Pending','initContainerStatuses':[{'name':'old','state':{'terminated':{'exitCode':0}}},"
		  "{'name':'new','state':{'waiting':{'reason':'ErrImagePull'}}}],'containerStatuses':[{'name':'driver',"
		  "'state':{'waiting':{'reason':'PodInitializing'}}}]",
		  "kmodsmith/a: new: ErrImagePull" },
		{ "kmodsmith-agent", ON_N00,
		  "'phase':'Failed','reason':'Evicted','message':'The node was low on resource: memory.'",
		  "kmodsmith/a: Failed: Evicted: The node was low on resource: memory." },
		{ "kmodsmith-agent", ON_N00,
		  "'phase':'Running','containerStatuses':[{'name':'driver','state':{'running':{}}}]",
		  "kmodsmith/a: Running" },
		{ "kmodsmith-agent", "'nodeName':'n01'", "'phase':'Running'", NONE },
		{ "kmodsmith-coordinator", ON_N00, "'phase':'Running'", NONE },
		{ "kmodsmith-agent", "'nodeSelector':{}", "'phase':'Pending'", NONE },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		farm_begin(&f, 1, "{'pools':[{'name':'gpus','target':{'driver':'535.2'}}]}");
		make_pod(&f, "a", rows[i].label, rows[i].spec, rows[i].status);
		assert_said(&f, rows[i].said);
		farm_end(&f);
	}
}

// A pod that ended stays beside the one that its DaemonSet made in its place.
static void one_that_has_ended_counts_last(void **state)
{
	struct farm f;
	(void)state;
	farm_begin(&f, 1, "{'pools':[{'name':'gpus','target':{'driver':'535.2'}}]}");
	assert_said(&f, NONE);
	make_pod(&f, "a", "kmodsmith-agent", ON_N00, "'phase':'Failed','reason':'Evicted'");
	make_pod(&f, "b", "kmodsmith-agent", ON_N00, "'phase':'Running'");
	make_pod(&f, "c", "kmodsmith-agent", ON_N00, "'phase':'Failed','reason':'Shutdown'");
	assert_said(&f, "kmodsmith/b: Running");
	farm_end(&f);
}

static void a_refusal_is_an_error(void **state)
{
	struct farm f;
	struct err err = { 0 };
	char *text = NULL;
	(void)state;
	farm_begin(&f, 1, "{'pools':[{'name':'gpus','target':{'driver':'535.2'}}]}");
	sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS, .verb = "list", .status = 403, .times = 1 });
	auto_kube struct kube *kube = sim_client(f.sim, "boss");
	assert_true(agent_pod_text(kube, "kmodsmith", "n00", &text, &err) < 0);
	assert_int_equal(err.code, E_AUTH);
	assert_null(text);
	farm_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_words_of_kubernetes),
		cmocka_unit_test(one_that_has_ended_counts_last),
		cmocka_unit_test(a_refusal_is_an_error),
	};
	return cmocka_run_group_tests_name("agentpod", tests, NULL, NULL);
}
