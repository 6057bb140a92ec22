// SPDX-License-Identifier: Apache-2.0
// Which pod the operator's init container takes for its own: what it requests from the API server, and which of
// several it picks. For what it then reads see driverpod_test.c.
#include "cluster/driver_manager/driver_pod.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

enum { PODS = 3 };
static const struct row {
	const char *text;
	struct {
		const char *name, *node, *role;
		bool is_ending;
	} pods[PODS];
	const char *found; // NULL = none
} rows[] = {
	{ "no pod at all", { { 0 } }, NULL },
	{ "its own, by its name",
	  { { "other", "n1", "nvidia-driver", false }, { "mine", "n1", NULL, false } },
	  "mine" },
	{ "its own, by its name, whatever order",
	  { { "mine", "n1", NULL, false }, { "zzz", "n1", "nvidia-driver", false } },
	  "mine" },
	{ "HOSTNAME is the node's with hostNetwork: then by its role",
	  { { "plugin", "n1", "nvidia-device-plugin", false }, { "driver-x", "n1", "nvidia-driver", false } },
	  "driver-x" },
	{ "one of another node is not its own, whatever its name", { { "mine", "n2", "nvidia-driver", false } }, NULL },
	{ "one that ends has made room for the next one",
	  { { "driver-a", "n1", "nvidia-driver", true }, { "driver-b", "n1", "nvidia-driver", false } },
	  "driver-b" },
	{ "the first of two",
	  { { "driver-a", "n1", "nvidia-driver", false }, { "driver-b", "n1", "nvidia-driver", false } },
	  "driver-a" },
	{ "a pod without a role is ignored", { { "plain", "n1", NULL, false } }, NULL },
};

static void make_pod(struct sim *s, const struct row *w, unsigned i)
{
	auto_str char *label =
		w->pods[i].role ? str_fmt("'app.kubernetes.io/component':'%s'", w->pods[i].role) : str_dup("");
	sim_make(s, "/api/v1/namespaces/gpu-operator/pods",
		 "{'metadata':{'name':'%s','labels':{%s},'finalizers':['x.io/stays']},'spec':{'nodeName':'%s',"
		 "'containers':[{'name':'nvidia-driver-ctr','image':'r/k:1'}]}}",
		 w->pods[i].name, label, w->pods[i].node);
	auto_str char *path = str_fmt("/api/v1/namespaces/gpu-operator/pods/%s", w->pods[i].name);
	if (w->pods[i].is_ending)
		sim_delete(s, path);
}

static void which_pod_is_read(void **state)
{
	(void)state;
	for (const struct row *w = rows; w < rows + ARRAY_SIZE(rows); w++) {
		auto_sim struct sim *s = sim_new(NULL);
		auto_kube struct kube *k = sim_client(s, "init");
		auto_json json_t *pod = NULL;
		struct err err = { 0 };
		for (unsigned i = 0; i < PODS && w->pods[i].name; i++)
			make_pod(s, w, i);
		int r = driver_pod_read(k, "gpu-operator", "n1", "mine", false, &pod, &err);
		expect(r == (w->found ? 1 : -1), w->text);
		expect(w->found || err.code == E_NOT_FOUND, w->text);
		if (!w->found)
			assert_string_equal(err.text,
					    "there is no pod 'mine' and no driver's pod on node 'n1' in namespace "
					    "'gpu-operator'; OPERATOR_NAMESPACE says where it is");
		expect(!w->found || str_eq(sim_text(pod, "metadata name"), w->found), w->text);
		expect(!w->found || str_eq(driver_pod_uid(pod), sim_text(pod, "metadata uid")), w->text);
		expect(!w->found || driver_pod_check(pod, NULL, &err) == 0, w->text); // all of it
	}
}

// The init container has rights in its namespace alone, and a node may run a hundred pods.
static void only_pods_of_this_node_and_namespace_are_listed(void **state)
{
	(void)state;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "init");
	auto_json json_t *pod = NULL;
	struct err err = { 0 };
	size_t count;
	make_pod(s, &rows[1], 0);
	assert_int_equal(driver_pod_read(k, "gpu-operator", "n1", "mine", false, &pod, &err), 1);
	const struct sim_call *calls = sim_log(s, &count);
	assert_int_equal(count, 2);
	assert_non_null(strstr(calls[0].path, "/api/v1/namespaces/gpu-operator/pods?"));
	assert_non_null(strstr(calls[0].path, "fieldSelector=spec.nodeName%3Dn1"));
	assert_string_equal(calls[1].path, "/api/v1/namespaces/gpu-operator/pods/other");
}

static void a_refusal_is_not_an_absence(void **state)
{
	(void)state;
	static const char *const verbs[] = { "list", "get" };
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		auto_sim struct sim *s = sim_new(NULL);
		auto_kube struct kube *k = sim_client(s, "init");
		auto_json json_t *pod = NULL;
		struct err err = { 0 };
		make_pod(s, &rows[1], 0);
		sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .verb = verbs[i] });
		expect(driver_pod_read(k, "gpu-operator", "n1", "mine", false, &pod, &err) == -1, verbs[i]);
		expect(err.code != E_NOT_FOUND && !pod, verbs[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_pod_is_read),
		cmocka_unit_test(only_pods_of_this_node_and_namespace_are_listed),
		cmocka_unit_test(a_refusal_is_not_an_absence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
