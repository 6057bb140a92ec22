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
#define POD(more, rest) "{" META more "}," rest "}"
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
#include "tests/unit/rollout_pods.def"
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
	static const char pod_text[] = POD(OWNED ",'labels':{'kmodsmith.io/validation':'u9'}", GPU);
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
