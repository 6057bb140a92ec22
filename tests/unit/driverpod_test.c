// SPDX-License-Identifier: Apache-2.0
// What the operator's init container reads of the pod that it is in: is the image that will load the driver ours and of
// this version, with which environment, and where its module parameters lie on the host.
#include "cluster/driverpod.h"
#include "tests/unit/test.h"

static json_t *pod_of(const char *text)
{
	json_error_t error;
	auto_str char *json = str_dup(text);
	for (char *c = json; *c; c++)
		if (*c == '\'')
			*c = '"';
	json_t *pod = json_loads(json, 0, &error);
	if (!pod)
		fail_msg("%s: %s", text, error.text);
	return pod;
}

static json_t *pod_with_images(const char *manager, const char *driver)
{
	auto_str char *text = str_fmt("{'metadata':{'name':'p','uid':'u-1'},'spec':{'initContainers':[{'name':"
				      "'k8s-driver-manager','image':'%s'}],'containers':[{'name':'nvidia-driver-ctr',"
				      "'image':'%s'}]}}",
				      manager, driver);
	return pod_of(text);
}

static void test_images(void **state)
{
	(void)state;
	static const struct {
		const char *manager, *driver, *carried;
		int code; // 0 = it is ours, and of this version
	} rows[] = {
		{ "r.example/d/kmodsmith-driver:580.95.05", "r.example/d/kmodsmith-driver:580.95.05-ubuntu24.04",
		  "580.95.05", 0 },
		{ "r.example:5000/kmodsmith-driver:580.95.05-rhel9", "r.example:5000/kmodsmith-driver:580.95.05-rhel9",
		  "580.95.05", 0 },
		{ "r/k:580.95.05", "r/k:580-6.8.0-49-generic-ubuntu24.04", "580.95.05", 0 }, // precompiled
		{ "r/k:580.95.05", "other/k:580.95.05-rhel9", "580.95.05", 0 },              // a mirror of one registry
		{ "r/k@sha256:12", "r/k@sha256:12", "580.95.05", 0 },                        // no tag says anything
		{ "r/k:site-7", "r/k:site-7", "580.95.05", 0 },
		{ "r/k:580.95.05", "r/k:595.45.04-ubuntu24.04", "580.95.05", E_CONFIG },
		{ "r/k:580.95.05", "r/k:580.95.0-ubuntu24.04", "580.95.05", E_CONFIG },
		{ "r/k:580.95.05", "r/k:595.45.04-ubuntu24.04@sha256:12", "580.95.05", E_CONFIG },
		{ "r/k:580.95.05", "nvcr.io/nvidia/driver:580.95.05-ubuntu24.04", "580.95.05", E_CONFIG },
		{ "r/k:1", "r/k:595.45.04-ubuntu24.04", NULL, 0 }, // an image without a driver
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_json json_t *pod = pod_with_images(rows[i].manager, rows[i].driver);
		int r = driverpod_check(pod, rows[i].carried, &err);
		if (rows[i].code ? r == 0 || err.code != rows[i].code : r < 0)
			fail_msg("%s: %d %s", rows[i].driver, r, err.text);
	}
}

// vfio-manager and vgpu-manager have the same init container.
static void test_other_pods(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_json json_t *pod =
		pod_of("{'metadata':{'name':'vfio'},'spec':{'containers':[{'name':'nvidia-vfio-manager'}]}}");
	assert_true(driverpod_check(pod, "580.95.05", &err) < 0);
	assert_int_equal(err.code, E_USAGE);
	auto_json json_t *empty = json_object();
	assert_true(driverpod_check(empty, "580.95.05", &err) < 0);
}

static void test_environment(void **state)
{
	(void)state;
	static const struct {
		const char *container, *env, *unknown;
	} rows[] = {
		{ "", "", "" },
		{ "'env':[{'name':'A','value':'1'},{'name':'B'}]", "A=1;B=", "" },
		{ "'env':[{'name':'NODE_NAME','valueFrom':{'fieldRef':{'fieldPath':'spec.nodeName'}}}]", "", "" },
		{ "'env':[{'name':'T','valueFrom':{'secretKeyRef':{'name':'s','key':'k'}}},{'name':'A','value':'1'}]",
		  "A=1", "T" },
		{ "'envFrom':[{'secretRef':{'name':'s'}},{'configMapRef':{'name':'m'}}]", "",
		  "all of Secret s;all of ConfigMap m" },
		{ "'env':[{'name':'A','value':'1'},{'name':'B','value':'x$(A)y'}]", "A=1;B=x1y", "" },
		{ "'env':[{'name':'B','value':'$(A)$$(B)$'}]", "B=$(A)$(B)$", "" },
		{ "'env':[{'name':'B','value':'$(A'}]", "B=$(A", "" },
		{ "'env':[{'value':'1'},7,{'name':9}]", "", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *text = str_fmt("{'spec':{'containers':[{'name':'nvidia-driver-ctr'%s%s}]}}",
					      *rows[i].container ? "," : "", rows[i].container);
		auto_json json_t *pod = pod_of(text);
		auto_strv struct strv env = { 0 }, unknown = { 0 };
		driverpod_environment(pod, &env, &unknown);
		auto_str char *got = strv_join(&env, ";"), *left = strv_join(&unknown, ";");
		expect(str_eq(got ? got : "", rows[i].env), rows[i].container);
		expect(str_eq(left ? left : "", rows[i].unknown), rows[i].container);
	}
}

static void test_files(void **state)
{
	(void)state;
	auto_json json_t *pod = pod_of(
		"{'metadata':{'uid':'u-1'},'spec':{'volumes':[{'name':'params','configMap':{'name':'m'}},{'name':'more'"
		","
		"'secret':{}},{'name':'host','hostPath':{'path':'/"
		"drivers'}}],'containers':[{'name':'nvidia-driver-ctr',"
		"'volumeMounts':[{'name':'params','mountPath':'/drivers/"
		"nvidia.conf','subPath':'nvidia.conf'},{'name':'more',"
		"'mountPath':'/drivers'},{'name':'host','mountPath':'/drivers/x.conf'},{'name':'params','mountPath':"
		"'/driversx'},{'name':'params','mountPath':'/etc/x'},{'mountPath':7}]}]}}");
	auto_driverpod_files struct driverpod_files files = { 0 };
	driverpod_files(pod, &files);
	assert_int_equal(files.count, 2);
	assert_string_equal(files.items[0].name, "nvidia.conf");
	assert_string_equal(files.items[0].volume, "pods/u-1/volumes/kubernetes.io~configmap/params");
	assert_string_equal(files.items[0].path, "nvidia.conf");
	assert_null(files.items[1].name);
	assert_string_equal(files.items[1].volume, "pods/u-1/volumes/kubernetes.io~secret/more");
	assert_null(files.items[1].path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_other_pods),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
