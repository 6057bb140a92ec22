// SPDX-License-Identifier: Apache-2.0
// What the operator's init container reads from its own pod: whether the image that will load the driver is ours and
// of this version, its environment, and where its module parameters are on the host.
#include "cluster/coordinator/drain.h"
#include "cluster/driver_manager/driver_pod.h"
#include "tests/unit/test.h"

static json_t *pod_of(const char *text)
{
	json_error_t error;
	auto_str char *json = quoted(text);
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
		{ "kmodsmith-driver:580.95.05", "kmodsmith-driver", "580.95.05", 0 },
		{ "k:1", "other:580.95.05-rhel9", NULL, E_CONFIG },
		{ "r/k:580.95.05", "r/k:580.95.05.1-ubuntu24.04", "580.95.05", E_CONFIG },
		{ "r/k:580.95.05", "r/k:58-ubuntu24.04", "580.95.05", E_CONFIG },
		{ "r/k:580.95.05", "r/k:580.95-ubuntu24.04", "580.95.05", E_CONFIG },
		{ "r/k:580.95.05", "r/k:vendor-595.45.04", "580.95.05", 0 }, // somebody's own name
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_json json_t *pod = pod_with_images(rows[i].manager, rows[i].driver);
		int r = driver_pod_check(pod, rows[i].carried, &err);
		if (rows[i].code ? r == 0 || err.code != rows[i].code : r < 0)
			fail_msg("%s: %d %s", rows[i].driver, r, err.text);
	}
}

// What is to be changed, in words of the operator's own configuration.
static void test_words(void **state)
{
	(void)state;
	static const struct {
		const char *manager, *driver, *text;
	} rows[] = {
		{ "r/ours:1", "nvcr.io/nvidia/driver:580.95.05-rhel9",
		  "nvidia-driver-ctr has the image 'nvcr.io/nvidia/driver:580.95.05-rhel9' and k8s-driver-manager "
		  "'r/ours:1': the driver that one verifies would be loaded by the other; set driver.manager to the "
		  "image of driver" },
		{ "r/k:1", "r/k:595.45.04-rhel9",
		  "nvidia-driver-ctr has the image 'r/k:595.45.04-rhel9', but this is an image of driver 580.95.05: "
		  "set driver.manager.version to driver.version" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_json json_t *pod = pod_with_images(rows[i].manager, rows[i].driver);
		assert_int_equal(driver_pod_check(pod, "580.95.05", &err), -1);
		assert_string_equal(err.text, rows[i].text);
	}
	// By hand, without the operator's init container, there is nothing that it could differ from.
	struct err err = { 0 };
	auto_json json_t *pod = pod_of("{'spec':{'containers':[{'name':'sidecar'},{'name':'nvidia-driver-ctr','image':"
				       "'r/k:580.95.05'}]}}");
	assert_int_equal(driver_pod_check(pod, "580.95.05", &err), 0);
}

// vfio-manager and vgpu-manager have the same init container.
static void test_other_pods(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_json json_t *pod =
		pod_of("{'metadata':{'name':'vfio'},'spec':{'containers':[{'name':'nvidia-vfio-manager'}]}}");
	assert_true(driver_pod_check(pod, "580.95.05", &err) < 0);
	assert_int_equal(err.code, E_USAGE);
	assert_string_equal(err.text,
			    "pod 'vfio' has no container nvidia-driver-ctr: only a driver's pod has a next driver to "
			    "prove; for the operator's other pods take NVIDIA's k8s-driver-manager");
	auto_json json_t *empty = json_object();
	assert_true(driver_pod_check(empty, "580.95.05", &err) < 0);
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
		{ "'env':[{'name':'A','value':'1'},{'name':'A','value':'2'},{'name':'B','value':'$(A)'}]",
		  "A=1;A=2;B=2", "" },
		{ "'env':[{'name':'AB','value':'1'},{'name':'B','value':'$(A)$(AB)$(ABC)'}]", "AB=1;B=$(A)1$(ABC)",
		  "" },
		{ "'env':[{'name':'B','value':'$(A)'},{'name':'A','value':'later'}]", "B=$(A);A=later", "" },
		{ "'env':[{'name':'A','value':'1'},{'name':'B','value':'()$()$A $(A'}]", "A=1;B=()$()$A $(A", "" },
		{ "'env':[{'name':'A','value':'1'},{'name':'B','value':'$$$(A)$$'}]", "A=1;B=$1$", "" },
		{ "'env':[{'name':'M','valueFrom':{'resourceFieldRef':{'resource':'limits.memory'}}},{'name':'A'}]",
		  "A=", "" },
		{ "'envFrom':[{'prefix':'X'},{'secretRef':{}},{'configMapRef':{'name':'m'}}],'env':[{'name':'A',"
		  "'value':'1'}]",
		  "A=1", "all of ConfigMap m" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *text = str_fmt("{'spec':{'containers':[{'name':'nvidia-driver-ctr'%s%s}]}}",
					      *rows[i].container ? "," : "", rows[i].container);
		auto_json json_t *pod = pod_of(text);
		auto_strv struct strv env = { 0 }, unknown = { 0 };
		driver_pod_environment(pod, &env, &unknown);
		auto_str char *got = strv_join(&env, ";"), *left = strv_join(&unknown, ";");
		expect(str_eq(got ? got : "", rows[i].env), rows[i].container);
		expect(str_eq(left ? left : "", rows[i].unknown), rows[i].container);
	}
}

static void test_files(void **state)
{
	(void)state;
	static const struct {
		const char *text, *mount, *to, *volume, *path; // volume NULL = it is no file of the driver's
	} rows[] = {
		{ "a key of a ConfigMap", "'name':'params','mountPath':'/drivers/nvidia.conf','subPath':'nvidia.conf'",
		  "drivers/nvidia.conf", "configmap/params", "nvidia.conf" },
		{ "all of a Secret", "'name':'more','mountPath':'/drivers'", "drivers", "secret/more", NULL },
		{ "all of it, with a slash", "'name':'more','mountPath':'/drivers/'", "drivers", "secret/more", NULL },
		{ "projected from several", "'name':'both','mountPath':'/drivers'", "drivers", "projected/both", NULL },
		{ "another name than the key's", "'name':'params','mountPath':'/drivers//nvidia.conf','subPath':'a/b'",
		  "drivers//nvidia.conf", "configmap/params", "a/b" },
		{ "repoConfig for apt",
		  "'name':'params','mountPath':'/etc/apt/sources.list.d/a.list','subPath':'a.list'",
		  "etc/apt/sources.list.d/a.list", "configmap/params", "a.list" },
		{ "repoConfig for dnf", "'name':'params','mountPath':'/etc/yum.repos.d/a.repo','subPath':'a.repo'",
		  "etc/yum.repos.d/a.repo", "configmap/params", "a.repo" },
		{ "repoConfig for zypper", "'name':'params','mountPath':'/etc/zypp/repos.d'", "etc/zypp/repos.d",
		  "configmap/params", NULL },
		{ "a subscription's, of the host", "'name':'host','mountPath':'/etc/yum.repos.d/redhat.repo'", NULL,
		  NULL, NULL },
		{ "a file of the host", "'name':'host','mountPath':'/drivers/x.conf'", NULL, NULL, NULL },
		{ "beside it", "'name':'params','mountPath':'/driversx'", NULL, NULL, NULL },
		{ "elsewhere", "'name':'params','mountPath':'/etc/x'", NULL, NULL, NULL },
		{ "of no volume", "'name':'gone','mountPath':'/drivers/x'", NULL, NULL, NULL },
		{ "nonsense", "'mountPath':7", NULL, NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_driver_pod_files struct driver_pod_files files = { 0 };
		auto_str char *text = str_fmt(
			"{'metadata':{'uid':'u-1'},'spec':{'volumes':[{'name':'host','hostPath':{'path':'/drivers'}},"
			"{'name':'params','configMap':{'name':'m'}},{'name':'more','secret':{}},"
			"{'name':'both','projected':{'sources':[]}}],'containers':[{'name':'other','volumeMounts':"
			"[{'name':'params','mountPath':'/drivers'}]},{'name':'nvidia-driver-ctr','volumeMounts':"
			"[{'name':'params','mountPath':'/etc/y'},{%s}]}]}}",
			rows[i].mount);
		auto_json json_t *pod = pod_of(text);
		driver_pod_files(pod, &files);
		expect(files.count == (rows[i].volume != NULL), rows[i].text);
		if (!rows[i].volume)
			continue;
		auto_str char *volume = str_fmt("pods/u-1/volumes/kubernetes.io~%s", rows[i].volume);
		const struct driver_pod_file *f = &files.items[0];
		expect(str_eq(f->to, rows[i].to), rows[i].text);
		expect(str_eq(f->volume, volume), rows[i].text);
		expect(rows[i].path ? str_eq(f->path, rows[i].path) : !f->path, rows[i].text);
	}
}

static void test_several_files(void **state)
{
	(void)state;
	auto_driver_pod_files struct driver_pod_files files = { 0 };
	auto_json json_t *pod = pod_of(
		"{'metadata':{'uid':'u-1'},'spec':{'volumes':[{'name':'params','configMap':{}}],'containers':[{'name':"
		"'nvidia-driver-ctr','volumeMounts':[{'name':'params','mountPath':'/drivers/a.conf'},{'name':'params',"
		"'mountPath':'/drivers/b.conf'}]}]}}");
	driver_pod_files(pod, &files);
	assert_int_equal(files.count, 2);
	assert_string_equal(files.items[0].to, "drivers/a.conf");
	assert_string_equal(files.items[1].to, "drivers/b.conf");
}

// Admin access takes no GPU; while a pod ends, it counts like any other claim.
static void test_claims(void **state)
{
	(void)state;
	static const struct {
		const char *results;
		bool is_user, is_held;
	} rows[] = {
		{ "{'driver':'gpu.nvidia.com'}", true, true },
		{ "{'driver':'gpu.nvidia.com','adminAccess':false}", true, true },
		{ "{'driver':'gpu.nvidia.com','adminAccess':true}", false, true },
		{ "{'driver':'gpu.nvidia.com','adminAccess':true},{'driver':'gpu.nvidia.com'}", true, true },
		{ "{'driver':'other.example'}", false, false },
		{ "", false, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *text =
			str_fmt("{'status':{'allocation':{'devices':{'results':[%s]}}}}", rows[i].results);
		auto_json json_t *claim = pod_of(text);
		expect(drain_is_gpu_claim(claim, false) == rows[i].is_user, rows[i].results);
		expect(drain_is_gpu_claim(claim, true) == rows[i].is_held, rows[i].results);
	}
}

// What the DaemonSet asks for next, seen from a pod that it made before.
static void test_next(void **state)
{
	(void)state;
	static const struct {
		const char *own, *next, *carried;
		bool is_same_image;
		const char *version; // NULL = it does not say so
	} rows[] = {
		{ "r/k:580.95.05-rhel9", "r/k:595.45.04-rhel9", "580.95.05", true, "595.45.04" },
		{ "r/k:580.95.05-rhel9", "mirror:5000/k:595.45.04", "580.95.05", true, "595.45.04" },
		{ "r/k:580.95.05-rhel9", "r/k:595.45.04-rhel9@sha256:12", "580.95.05", true, "595.45.04" },
		{ "r/k:site-7", "r/k:site-7", "580.95.05", true, "580.95.05" }, // the same image, whatever its name
		{ "r/k@sha256:12", "r/k@sha256:12", "580.95.05", true, "580.95.05" },
		{ "r/k@sha256:12", "r/k@sha256:34", "580.95.05", true, NULL },
		{ "r/k:site-7", "r/k:site-8", "580.95.05", true, NULL },
		{ "r/k:580-6.8.0-49-generic-ubuntu24.04", "r/k:595-6.8.0-49-generic-ubuntu24.04", "580.95.05", true,
		  NULL }, // a branch is no version
		{ "r/k:580.95.05", "r/k:595.45.04beta-rhel9", "580.95.05", true, NULL },
		{ "r/k:580.95.05", "nvcr.io/nvidia/driver:595.45.04-rhel9", "580.95.05", false, "595.45.04" },
		{ "r/k:580.95.05", "r/k", NULL, true, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *version = NULL;
		auto_json json_t *own = pod_with_images(rows[i].own, rows[i].own);
		auto_json json_t *template = pod_with_images(rows[i].next, rows[i].next);
		auto_json json_t *set = json_pack("{s:{s:O}}", "spec", "template", template);
		auto_json json_t *next = driver_pod_next(own, set);
		int r = driver_pod_version(own, next, rows[i].carried, &version, &err);
		expect(driver_pod_is_same_image(own, next) == rows[i].is_same_image, rows[i].next);
		expect(rows[i].version ? r == 0 && str_eq(version, rows[i].version) : r < 0 && err.code == E_CONFIG,
		       rows[i].next);
		expect(str_eq(driver_pod_uid(next), "u-1"), rows[i].next); // its volumes are there
	}
	auto_json json_t *own = pod_with_images("r/k:1", "r/k:1"), *gone = driver_pod_next(own, NULL);
	assert_null(driver_pod_image(gone));
	assert_false(driver_pod_is_same_image(own, gone));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images),      cmocka_unit_test(test_words), cmocka_unit_test(test_other_pods),
		cmocka_unit_test(test_environment), cmocka_unit_test(test_files), cmocka_unit_test(test_several_files),
		cmocka_unit_test(test_claims),      cmocka_unit_test(test_next),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
