// SPDX-License-Identifier: Apache-2.0
// The pod of a validation: what of a template is refused and what is set, and what the status of a pod says.
#include "cluster/coordinator/pods.h"
#include "cluster/coordinator/validation_pod.h"
#include "tests/unit/test.h"

enum { START = 1800000000, DEADLINE = 600 };
static const struct validation_pod here = {
	"gpu-07.rack-3.example.com", "u1", { 4, 17 }, "gpu=8,mig-1g.10gb=7", DEADLINE
};

static json_t *parse(const char *text)
{
	auto_str char *json = quoted(text);
	json_t *value = json_loads(json, 0, NULL);
	expect(value != NULL, text);
	return value;
}

static int make(const char *spec, const struct validation_pod *p, json_t **ret, struct err *err)
{
	auto_str char *text =
		str_fmt("{'template':{'metadata':{'labels':{'app':'nccl','kmodsmith.io/validation':'mine'},"
			"'annotations':{'a/b':'c'}},'spec':%s}}",
			spec);
	auto_json json_t *template = parse(text);
	return validation_pod_make(template, p, ret, err);
}

static void it_runs_on_that_node_and_no_other(void **state)
{
	(void)state;
	struct err err;
	auto_json json_t *pod = NULL;
	auto_json json_t *expected = parse(
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':'gpu-07-rack-3-example-com-NAME','labels':{'app':'"
		"nccl',"
		"'kmodsmith.io/validation':'u1'},'annotations':{'a/b':'c'}},'spec':{'restartPolicy':'Never',"
		"'automountServiceAccountToken':false,'activeDeadlineSeconds':600,'tolerations':[{'operator':'Exists'}]"
		","
		"'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':["
		"{'matchFields':[{'key':'metadata.name','operator':'In','values':['gpu-07.rack-3.example.com']}]}]}}},"
		"'serviceAccountName':'default','initContainers':[{'name':'i','terminationMessagePolicy':"
		"'FallbackToLogsOnError'}],'containers':[{'name':'a','terminationMessagePolicy':'FallbackToLogsOnError'"
		","
		"'resources':{'limits':{'cpu':'4','nvidia.com/gpu':'8','nvidia.com/mig-1g.10gb':'7'}}},{'name':'b',"
		"'terminationMessagePolicy':'FallbackToLogsOnError'}]}}");
	assert_int_equal(
		make("{'restartPolicy':'Always','automountServiceAccountToken':true,'tolerations':[],"
		     "'affinity':{'podAffinity':{}},'serviceAccountName':'default','initContainers':[{'name':'i'}],"
		     "'containers':[{'name':'a','terminationMessagePolicy':'File','resources':{'limits':{'cpu':'4'}}},"
		     "{'name':'b'}]}",
		     &here, &pod, &err),
		0);
	auto_str char *name = validation_pod_name(&here);
	assert_true(str_starts(name, "gpu-07-rack-3-example-com-") && strlen(name) == 26 + 16);
	json_object_set_new(json_object_get(expected, "metadata"), "name", json_string(name));
	auto_str char *is = json_dumps(pod, JSON_SORT_KEYS), *wanted = json_dumps(expected, JSON_SORT_KEYS);
	assert_string_equal(is, wanted);
}

static void each_attempt_has_a_name_of_its_own(void **state)
{
	(void)state;
	struct validation_pod other = here;
	auto_str char *first = validation_pod_name(&here), *same = validation_pod_name(&other);
	assert_string_equal(first, same);
	other.order.n++;
	auto_str char *second = validation_pod_name(&other);
	assert_string_not_equal(first, second);
	other = here;
	other.node = "a-name-of-two-hundred-and-fifty-letters.would.not.fit.into.the.name.of.a.pod";
	auto_str char *cut = validation_pod_name(&other);
	assert_int_equal(strlen(cut), 40 + 1 + 16);
	assert_null(strchr(cut, '.'));
}

static void gpus_that_it_asks_for_are_its_own_choice(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"{'containers':[{'name':'a'},{'name':'b','resources':{'limits':{'nvidia.com/gpu':'1'}}}]}",
		"{'initContainers':[{'resources':{'requests':{'nvidia.com/mig-1g.10gb':'1'}}}],'containers':[{}]}",
		"{'resourceClaims':[{'name':'gpus','resourceClaimTemplateName':'all'}],'containers':[{'name':'a'}]}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		auto_json json_t *pod = NULL;
		assert_int_equal(make(rows[i], &here, &pod, &err), 0);
		const json_t *list = json_object_get(json_object_get(pod, "spec"), "containers");
		expect(!json_object_get(json_array_get(list, 0), "resources"), rows[i]);
	}
	struct err err;
	struct validation_pod bare = here;
	auto_json json_t *pod = NULL;
	bare.allocatable = "";
	assert_int_equal(make("{'containers':[{'name':'a'}]}", &bare, &pod, &err), 0);
}

static void what_a_validation_may_not_have(void **state)
{
	(void)state;
	static const struct {
		const char *spec, *why;
	} rows[] = {
		{ "{'hostNetwork':true,'containers':[{}]}", "template.spec.hostNetwork is not allowed" },
		{ "{'hostPID':true,'containers':[{}]}", "template.spec.hostPID is not allowed" },
		{ "{'hostIPC':true,'containers':[{}]}", "template.spec.hostIPC is not allowed" },
		{ "{'nodeName':'n1','containers':[{}]}", "template.spec.nodeName is not allowed" },
		{ "{'serviceAccountName':'admin','containers':[{}]}",
		  "template.spec.serviceAccountName is not allowed" },
		{ "{'serviceAccount':'admin','containers':[{}]}", "template.spec.serviceAccount is not allowed" },
		{ "{'containers':[{},{'securityContext':{'privileged':true}}]}",
		  "template.spec.containers[1].securityContext.privileged is not allowed" },
		{ "{'containers':[{}],'initContainers':[{'securityContext':{'privileged':true}}]}",
		  "template.spec.initContainers[0].securityContext.privileged is not allowed" },
		{ "{'containers':[{}],'volumes':[{'emptyDir':{}},{'hostPath':{'path':'/'}}]}",
		  "template.spec.volumes[1].hostPath is not allowed" },
		{ "{'containers':[{}],'volumes':[{'projected':{'sources':[{'secret':{}},{'serviceAccountToken':{}}]}}]"
		  "}",
		  "template.spec.volumes[0].projected.sources.serviceAccountToken is not allowed" },
		{ "{}", "template.spec.containers: is missing" },
		{ "[]", "template.spec.containers: is missing" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_json json_t *pod = NULL;
		expect(make(rows[i].spec, &here, &pod, &err) < 0, rows[i].spec);
		if (!strstr(err.text, rows[i].why))
			fail_msg("%s: %s", rows[i].spec, err.text);
	}
}

#define ENDED(fields) "'containerStatuses':[{'state':{'terminated':{" fields "}}}]"
#define RUNNING "'startTime':'2027-01-15T08:00:00Z','containerStatuses':[{'state':{'running':{}}}]"

static void what_its_status_says(void **state)
{
	(void)state;
	static const struct {
		const char *status;
		enum job_state state;
		const char *text;
		int64_t after;
	} rows[] = {
		{ "{}", JOB_WAITS, "", 0 },
		{ "{'phase':'Pending'}", JOB_WAITS, "", 99999 },
		{ "{'phase':'Pending','conditions':[{'type':'Ready','status':'False','message':'x'},{'type':'"
		  "PodScheduled',"
		  "'status':'False','message':'0/9 nodes are available'}]}",
		  JOB_WAITS, "0/9 nodes are available", 0 },
		{ "{'phase':'Pending','containerStatuses':[{'state':{'waiting':{'reason':'ImagePullBackOff',"
		  "'message':'no such image'}}}]}",
		  JOB_WAITS, "ImagePullBackOff: no such image", 0 },
		{ "{'phase':'Pending','initContainerStatuses':[{'state':{'running':{}}}]}", JOB_RUNS, "", 0 },
		{ "{'phase':'Running'," RUNNING "}", JOB_RUNS, "", DEADLINE + 119 },
		{ "{'phase':'Unknown'," RUNNING "}", JOB_LATE, "after 600 s, and it was not ended either",
		  DEADLINE + 120 },
		{ "{'phase':'Succeeded'," ENDED("'exitCode':0") "}", JOB_PASSED, "", 0 },
		{ "{'phase':'Failed'," ENDED("'exitCode':1,'reason':'Error'") "}", JOB_FAILED, "exit 1", 0 },
		{ "{'phase':'Failed'," ENDED("'exitCode':139,'message':'a\\u001b[1mb\\u00e9\\n\\n'") "}", JOB_FAILED,
		  "exit 139: a?[1mb??", 0 },
		{ "{'phase':'Failed','initContainerStatuses':[{'state':{'terminated':{'exitCode':2,'message':'first'}}}"
		  "]," ENDED("'exitCode':3") "}",
		  JOB_FAILED, "exit 2: first", 0 },
		// as much of the end as there is room for, from the beginning of a line
		{ "{'phase':'Failed'," ENDED(
			  "'exitCode':1,'message':'0123456789 0123456789 0123456789 0123456789\\nthe last "
			  "line but one, which is here in full\\nand the last of them'") "}",
		  JOB_FAILED, "exit 1: the last line but one, which is here in full and the last of them", 0 },
		{ "{'phase':'Failed'," ENDED(
			  "'exitCode':1,'message':'one line 0123456789 0123456789 0123456789 0123456789 "
			  "0123456789 0123456789 0123456789 the end'") "}",
		  JOB_FAILED,
		  "exit 1: ne 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 the end",
		  0 },
		// the kubelet ended it at its deadline, running or not
		{ "{'phase':'Failed','reason':'DeadlineExceeded'," ENDED("'exitCode':137,'reason':'Error'") "}",
		  JOB_LATE, "after 600 s", 0 },
		{ "{'phase':'Failed','reason':'DeadlineExceeded','message':'Pod was active on the node longer "
		  "than'," ENDED("'exitCode':137,'reason':'ContainerStatusUnknown'") "}",
		  JOB_WAITS, "DeadlineExceeded: Pod was active on the node longer than", 0 },
		// no fault of the driver's
		{ "{'phase':'Failed','reason':'UnexpectedAdmissionError','message':'Allocate failed'}", JOB_WAITS,
		  "UnexpectedAdmissionError: Allocate failed", 0 },
		{ "{'phase':'Failed','reason':'Evicted','message':'low on memory'," ENDED("'exitCode':137") "}",
		  JOB_WAITS, "Evicted: low on memory", 0 },
		{ "{'phase':'Failed'," ENDED("'exitCode':255,'reason':'Unknown'") "}", JOB_WAITS,
		  "it ended without an exit status", 0 },
		{ "{'phase':'Failed'}", JOB_WAITS, "it ended without an exit status", 0 },
		{ "{'phase':[],'containerStatuses':{'a':1},'conditions':3}", JOB_WAITS, "", 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[OBJECT_TEXT];
		auto_json json_t *status = parse(rows[i].status);
		auto_json json_t *pod = json_pack("{s:{}, s:O}", "metadata", "status", status);
		enum job_state is = validation_pod_judge(pod, DEADLINE, START + rows[i].after, text);
		if (is != rows[i].state || !str_eq(text, rows[i].text))
			fail_msg("%s: %d '%s'", rows[i].status, is, text);
	}
}

static void one_that_somebody_deletes_says_nothing(void **state)
{
	(void)state;
	char text[OBJECT_TEXT];
	auto_json json_t *pod =
		parse("{'metadata':{'deletionTimestamp':'x'},'status':{'phase':'Failed'," ENDED("'exitCode':137") "}}");
	assert_int_equal(validation_pod_judge(pod, DEADLINE, START, text), JOB_WAITS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_runs_on_that_node_and_no_other),
		cmocka_unit_test(each_attempt_has_a_name_of_its_own),
		cmocka_unit_test(gpus_that_it_asks_for_are_its_own_choice),
		cmocka_unit_test(what_a_validation_may_not_have),
		cmocka_unit_test(what_its_status_says),
		cmocka_unit_test(one_that_somebody_deletes_says_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
