// SPDX-License-Identifier: Apache-2.0
// Which pods have to go before a driver is replaced, and which stay whatever happens. T07 to T12, T77, T79.
#include "cluster/coordinator/pods.h"
#include "tests/unit/test.h"

static json_t *parse(const char *text)
{
	auto_str char *json = quoted(text);
	json_t *value = json_loads(json, 0, NULL);
	expect(value != NULL, text);
	return value;
}

#define META "'metadata':{'name':'p','namespace':'ns','uid':'u1'"
#define OWNED ",'ownerReferences':[{'kind':'ReplicaSet','controller':true}]"
#define OF(kind) ",'ownerReferences':[{'kind':'" kind "','controller':true}]"
#define GPU "'spec':{'containers':[{'resources':{'limits':{'nvidia.com/gpu':'1'}}}]}"
#define PLAIN "'spec':{'containers':[{'resources':{}}]}"
#define DISK \
	"'spec':{'containers':[{'resources':{'requests':{'nvidia.com/mig-1g.5gb':'1'}}}],'volumes':[{'emptyDir':{}}]}"
#define MEMORY                                                       \
	"'spec':{'containers':[{'resources':{'limits':{'nvidia.com/" \
	"gpu':'8'}}}],'volumes':[{'emptyDir':{'medium':'Memory'}}]}"

static const struct {
	const char *name, *pod, *holders, *own;
	enum evict evict;
	bool is_forced, deletes_disk, claims;
	enum pod_verdict verdict;
	const char *why; // part of it; NULL = none
} pods[] = {
	{ "asks for a GPU", "{" META OWNED "}," GPU "}", NULL, NULL, EVICT_GPU, 0, 0, 0, POD_GOES, NULL },
	{ "asks for nothing", "{" META OWNED "}," PLAIN "}", NULL, NULL, EVICT_GPU, 0, 0, 0, POD_STAYS, NULL },
	{ "asks for none", "{" META OWNED "},'spec':{'containers':[{'resources':{'limits':{'nvidia.com/gpu':'0'}}}]}}",
	  NULL, NULL, EVICT_GPU, 0, 0, 0, POD_STAYS, NULL },
	{ "an init container asks",
	  "{" META OWNED "},'spec':{'initContainers':[{'resources':{'limits':{'nvidia.com/gpu':'1'}}}]}}", NULL, NULL,
	  EVICT_GPU, 0, 0, 0, POD_GOES, NULL },
	{ "T08: holds without asking", "{" META OWNED "}," PLAIN "}", "2 7 u0 u1", NULL, EVICT_GPU, 0, 0, 0, POD_GOES,
	  NULL },
	{ "another one holds", "{" META OWNED "}," PLAIN "}", "1 7 u10", NULL, EVICT_GPU, 0, 0, 0, POD_STAYS, NULL },
	{ "T12: by a claim", "{" META OWNED "}," PLAIN "}", NULL, NULL, EVICT_GPU, 0, 0, 1, POD_GOES, NULL },
	{ "T09: asks, and holds nothing", "{" META OWNED "}," GPU "}", "0 7", NULL, EVICT_HOLDERS, 0, 0, 0, POD_STAYS,
	  NULL },
	{ "T09: holds", "{" META OWNED "}," GPU "}", "1 7 u1", NULL, EVICT_HOLDERS, 0, 0, 0, POD_GOES, NULL },
	{ "all go", "{" META OWNED "}," PLAIN "}", NULL, NULL, EVICT_ALL, 0, 0, 0, POD_GOES, NULL },
	{ "none goes", "{" META OWNED "}," GPU "}", "1 7 u1", NULL, EVICT_NOTHING, 0, 0, 0, POD_STAYS, NULL },
	{ "T08: of a DaemonSet, and a holder", "{" META OF("DaemonSet") "}," GPU "}", "1 7 u1", NULL, EVICT_ALL, 1, 1,
	  0, POD_FIXED, "ns/p: has the GPU open, and no gpu.deploy label ends it" },
	{ "T08: an operand, and a holder",
	  "{" META OF("DaemonSet") "},'spec':{'nodeSelector':{'nvidia.com/gpu.deploy.dcgm':'true'}}}", "1 7 u1", NULL,
	  EVICT_GPU, 0, 0, 0, POD_HOLDS, "its operand is paused" },
	{ "a site's own where the operand is off, and a holder",
	  "{" META OF("DaemonSet") "},'spec':{'nodeSelector':{'nvidia.com/gpu.deploy.dcgm':'false'}}}", "1 7 u1", NULL,
	  EVICT_GPU, 0, 0, 0, POD_FIXED, "no gpu.deploy label ends it" },
	{ "T08: static, and a holder", "{" META OF("Node") "}," PLAIN "}", "1 7 u1", NULL, EVICT_NOTHING, 0, 0, 0,
	  POD_FIXED, "no gpu.deploy label" },
	{ "of a DaemonSet", "{" META OF("DaemonSet") "}," GPU "}", "1 7 u2", NULL, EVICT_ALL, 1, 1, 0, POD_STAYS,
	  NULL },
	{ "static", "{" META OF("Node") "}," GPU "}", NULL, NULL, EVICT_ALL, 1, 1, 0, POD_STAYS, NULL },
	{ "a mirror", "{" META ",'annotations':{'kubernetes.io/config.mirror':'x'}}," GPU "}", NULL, NULL, EVICT_ALL, 1,
	  1, 0, POD_STAYS, NULL },
	{ "over", "{" META OWNED "}," GPU ",'status':{'phase':'Succeeded'}}", NULL, NULL, EVICT_ALL, 0, 0, 0, POD_STAYS,
	  NULL },
	{ "T07: memory", "{" META OWNED "}," MEMORY "}", NULL, NULL, EVICT_GPU, 0, 0, 0, POD_GOES, NULL },
	{ "a disk", "{" META OWNED "}," DISK "}", NULL, NULL, EVICT_GPU, 0, 0, 0, POD_STUCK, "ns/p: its emptyDir" },
	{ "a disk that may go", "{" META OWNED "}," DISK "}", NULL, NULL, EVICT_GPU, 0, 1, 0, POD_GOES, NULL },
	{ "nobody's", "{" META "}," GPU "}", NULL, NULL, EVICT_GPU, 0, 0, 0, POD_STUCK,
	  "no controller would recreate it" },
	{ "nobody's, by force", "{" META "}," GPU "}", NULL, NULL, EVICT_GPU, 1, 0, 0, POD_GOES, NULL },
	{ "protected in other words", "{" META OWNED ",'labels':{'kmodsmith.io/drain-skip':'yes'}}," GPU "}", "1 7 u1",
	  NULL, EVICT_GPU, 0, 0, 0, POD_STUCK, "its label forbids the eviction" },
	{ "not protected, in so many words", "{" META OWNED ",'labels':{'kmodsmith.io/drain-skip':'false'}}," GPU "}",
	  "1 7 u1", NULL, EVICT_GPU, 0, 0, 0, POD_GOES, NULL },
	{ "protected, idle", "{" META OWNED ",'labels':{'kmodsmith.io/drain-skip':'true'}}," GPU "}", "0 1", NULL,
	  EVICT_GPU, 0, 0, 0, POD_STAYS, NULL },
	{ "protected, and a holder",
	  "{" META OWNED ",'labels':{'nvidia.com/gpu-driver-upgrade-drain.skip':'true'}}," GPU "}", "1 1 u1", NULL,
	  EVICT_GPU, 0, 0, 0, POD_STUCK, "label forbids" },
	{ "T10b: ends, and a finalizer", "{" META OWNED ",'deletionTimestamp':'x','finalizers':['f/x']}," GPU "}", NULL,
	  NULL, EVICT_GPU, 0, 0, 0, POD_LEAVING, "ns/p: waits for f/x" },
	{ "ends", "{" META OWNED ",'deletionTimestamp':'x'}," GPU "}", NULL, NULL, EVICT_GPU, 0, 0, 0, POD_LEAVING,
	  "is ending" },
	{ "T77: the coordinator itself", "{" META OWNED "}," GPU "}", NULL, "u1", EVICT_ALL, 0, 0, 0, POD_STAYS, NULL },
	{ "another one is the coordinator", "{" META OWNED "}," GPU "}", NULL, "u2", EVICT_ALL, 0, 0, 0, POD_GOES,
	  NULL },
	{ "over, and failed", "{" META OWNED "}," GPU ",'status':{'phase':'Failed'}}", "1 7 u1", NULL, EVICT_ALL, 0, 0,
	  0, POD_STAYS, NULL },
	{ "the second container asks, and has no limits",
	  "{" META OWNED "},'spec':{'containers':[{},{'resources':{'requests':{'cpu':'1','nvidia.com/gpu':'1'}}}]}}",
	  NULL, NULL, EVICT_GPU, 0, 0, 0, POD_GOES, NULL },
	{ "asks for something of others",
	  "{" META OWNED "},'spec':{'containers':[{'resources':{'limits':{'amd.com/gpu':'1'}}}]}}", NULL, NULL,
	  EVICT_GPU, 0, 0, 0, POD_STAYS, NULL },
	{ "an owner that does not control it", "{" META ",'ownerReferences':[{'kind':'ReplicaSet'}]}," GPU "}", NULL,
	  NULL, EVICT_GPU, 0, 0, 0, POD_STUCK, "ns/p: no controller would recreate it; see drain.force" },
	{ "the second owner controls it",
	  "{" META ",'ownerReferences':[{'kind':'DaemonSet'},{'kind':'ReplicaSet','controller':true}]}," GPU "}", NULL,
	  NULL, EVICT_GPU, 0, 0, 0, POD_GOES, NULL },
	{ "the second volume is a disk",
	  "{" META OWNED
	  "},'spec':{'containers':[{'resources':{'limits':{'nvidia.com/gpu':'1'}}}],'volumes':[{'emptyDir':{"
	  "'medium':'Memory'}},{'emptyDir':{}}]}}",
	  NULL, NULL, EVICT_GPU, 0, 0, 0, POD_STUCK, "ns/p: its emptyDir would be lost; see drain.deleteEmptyDir" },
	{ "ends, and is in nobody's way", "{" META OWNED ",'deletionTimestamp':'x'}," PLAIN "}", NULL, NULL, EVICT_GPU,
	  0, 0, 0, POD_STAYS, NULL },
	{ "the second name of those who hold", "{" META OWNED "}," PLAIN "}", "3 7 u9 u1 u8", NULL, EVICT_HOLDERS, 0, 0,
	  0, POD_GOES, NULL },
	{ "no pod at all", "{}", "1 1 u1", NULL, EVICT_GPU, 0, 0, 0, POD_STAYS, NULL },
	{ "of wrong types", "{'metadata':[],'spec':{'containers':{'a':1},'volumes':3}}", "", "", EVICT_GPU, 0, 0, 0,
	  POD_STAYS, NULL },
};

static void verdicts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		const struct pool pool = { .evict = pods[i].evict,
					   .is_forced = pods[i].is_forced,
					   .deletes_empty_dir = pods[i].deletes_disk };
		const struct pod_rules rules = { &pool, pods[i].holders, pods[i].own, NULL };
		char why[OBJECT_TEXT];
		auto_json json_t *pod = parse(pods[i].pod);
		expect(pod_judge(pod, &rules, pods[i].claims, why) == pods[i].verdict, pods[i].name);
		expect(pods[i].why ? strstr(why, pods[i].why) != NULL : !*why, pods[i].name);
	}
}

static void jobs(void **state)
{
	(void)state;
	static const struct {
		const char *selector, *pod;
		bool is_job;
	} rows[] = {
		{ "kind=train", "{'metadata':{'labels':{'kind':'train'}}}", true },
		{ "kind=train", "{'metadata':{'labels':{'kind':'serve'}}}", false },
		{ "kind in (train, eval)", "{'metadata':{'labels':{'kind':'train'}}}", true },
		{ "kind!=serve", "{'metadata':{'labels':{'kind':'train'}}}", true },
		{ "kind=train,team", "{'metadata':{'labels':{'kind':'train','team':'a'}}}", true },
		{ "kind=train,team", "{'metadata':{'labels':{'kind':'train'}}}", false },
		{ "kind=train", "{'metadata':{'labels':{'kind':'train'}},'status':{'phase':'Failed'}}", false },
		{ "kind=train", "{'metadata':{'labels':{'kind':'train'}" OF("DaemonSet") "}}", false },
		{ NULL, "{'metadata':{'labels':{'kind':'train'}}}", false },
		{ "kind=train", "{}", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *selector = str_dup(rows[i].selector);
		const struct pool pool = { .wait_for = selector };
		auto_json json_t *pod = parse(rows[i].pod);
		expect(pod_is_job(pod, &pool) == rows[i].is_job, rows[i].pod);
	}
}

// By label and namespace: nobody gets out of the way of a drain by the label alone.
static void a_validation_is_not_evicted(void **state)
{
	(void)state;
	static const char pod_text[] = "{" META OWNED ",'labels':{'kmodsmith.io/validation':'u9'}}," GPU "}";
	static const struct {
		const char *namespace, *holders;
		enum pod_verdict verdict;
	} rows[] = { { "ns", NULL, POD_STAYS },
		     { "ns", "1 7 u1", POD_HOLDS },
		     { "other", NULL, POD_GOES },
		     { NULL, "1 7 u1", POD_GOES } };
	const struct pool pool = { .evict = EVICT_GPU };
	auto_json json_t *pod = parse(pod_text);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct pod_rules rules = { &pool, rows[i].holders, NULL, rows[i].namespace };
		char why[OBJECT_TEXT];
		assert_int_equal(pod_judge(pod, &rules, false, why), rows[i].verdict);
	}
}

static void claims(void **state)
{
	(void)state;
	auto_strv struct strv names = { 0 };
	auto_json json_t *pod = parse("{'spec':{'resourceClaims':[{'name':'a','resourceClaimName':'own'},{'name':'b'},"
				      "{'name':'c'}]},'status':{'resourceClaimStatuses':[{'name':'x','"
				      "resourceClaimName':'other'},{'name':'b',"
				      "'resourceClaimName':'made-7'}]}}");
	pod_claims(pod, &names);
	auto_str char *all = strv_join(&names, " ");
	assert_string_equal(all, "own made-7");
}

// Of a DaemonSet, Ready and not ending: the operator's, the chart's, the static manifest's.
static void operands_that_are_ready(void **state)
{
	(void)state;
#define READY(status) \
	"'status':{'conditions':[{'type':'Initialized','status':'True'},{'type':'Ready','status':'" status "'}]}"
#define LABELS(labels) "{'metadata':{'labels':{" labels "}" OF("DaemonSet") "}," READY("True") "}"
	static const struct {
		const char *pod, *operand;
	} rows[] = {
		{ LABELS("'app':'nvidia-operator-validator'"), BASELINE_VALIDATOR },
		{ LABELS("'app':'nvidia-device-plugin-daemonset'"), BASELINE_PLUGIN },
		{ LABELS("'app.kubernetes.io/name':'nvidia-device-plugin'"), BASELINE_PLUGIN },
		{ LABELS("'name':'nvidia-device-plugin-ds'"), BASELINE_PLUGIN },
		{ LABELS("'app':'nvidia-dcgm-exporter'"), NULL },
		{ LABELS("'app':'nvidia-sandbox-device-plugin-daemonset'"), NULL },
		{ "{'metadata':{'labels':{'app':'nvidia-operator-validator'}" OF("DaemonSet") "}," READY("False") "}",
		  NULL },
		{ "{'metadata':{'labels':{'app':'nvidia-operator-validator'}" OF("DaemonSet") "}}", NULL },
		{ "{'metadata':{'labels':{'app':'nvidia-operator-validator'}" OF("ReplicaSet") "}," READY("True") "}",
		  NULL },
		{ "{'metadata':{'labels':{'app':'nvidia-operator-validator'},'deletionTimestamp':'now'" OF(
			  "DaemonSet") "}," READY("True") "}",
		  NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *pod = parse(rows[i].pod);
		const char *operand = pod_ready_operand(pod);
		expect(rows[i].operand ? str_eq(operand, rows[i].operand) : !operand, rows[i].pod);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(verdicts), cmocka_unit_test(jobs),
					    cmocka_unit_test(claims), cmocka_unit_test(a_validation_is_not_evicted),
					    cmocka_unit_test(operands_that_are_ready) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
