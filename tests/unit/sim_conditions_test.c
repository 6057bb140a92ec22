// SPDX-License-Identifier: Apache-2.0
// What a node's own Node says about its driver: two conditions, and the taint of new nodes that goes once the driver is
// ready. On a simulated API server; tests/cluster/report.bats asks a real one.
#include "cluster/node_state/node_report.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

#include <stdio.h>

static const char NODE[] = "/api/v1/nodes/n1", READY[] = "NvidiaDriverReady", NEXT[] = "NvidiaDriverNextKernel";
#define DRIVER "'driver':{'version':'1.2','flavour':'open'},'kernel':{'release':'6.1'}"
#define ERROR "'error':{'code':'E_BUILD','text':'it says no','next':'look for a newer driver'}"
static const char READY_FILE[] = "{'state':'READY','run':null,'last_run':{'error':null}," DRIVER "}";

static json_t *parse(const char *text)
{
	auto_str char *json = quoted(text);
	json_t *ret = json_loads(json, 0, NULL);
	assert_non_null(ret);
	return ret;
}

// A Node of a kubelet, with a condition of its own.
static void make_node(struct sim *s, const char *taints)
{
	sim_make(s, "/api/v1/nodes", "{'metadata':{'name':'n1'},'spec':{'taints':%s}}", taints);
	sim_merge(s, "/api/v1/nodes/n1/status",
		  "{'status':{'conditions':[{'type':'Ready','status':'True'}],'phase':'Running'}}");
}

static const json_t *condition(struct sim *s, const char *type)
{
	size_t i;
	const json_t *entry, *ret = NULL;
	json_array_foreach(sim_at(sim_get(s, NODE), "status conditions"), i, entry)
	{
		if (str_eq(sim_text(entry, "type"), type)) {
			assert_null(ret); // twice
			ret = entry;
		}
	}
	return ret;
}

static int tell(struct kube *k, const char *status, const struct kernel_report *kernels, struct err *err)
{
	auto_json json_t *file = status ? parse(status) : NULL;
	auto_node_report struct node_report report = { 0 };
	node_report_make(file, kernels, &report);
	return node_report_write(k, "n1", &report, err);
}

static const struct row {
	const char *file; // status.json; NULL = none of this boot
	const char *status, *reason, *message;
} rows[] = {
	{ NULL, "Unknown", "NoRunYet", "no run of kmodsmith has ended since the boot" },
	{ "{'state':'NOT_READY','run':{'step':'compile'},'last_run':null}", "False", "DriverInstalling",
	  "an install is under way" },
	{ "{'state':'CHANGING','run':{'step':'load'},'last_run':null}", "False", "DriverChanging",
	  "modules are being loaded or unloaded" },
	{ READY_FILE, "True", "DriverReady", "driver 1.2 (open) in kernel 6.1" },
	{ "{'state':'READY','run':null,'last_run':{" ERROR "}," DRIVER "}", "True", "DriverReady",
	  "driver 1.2 (open) in kernel 6.1; the last run failed: E_BUILD: it says no; next step: look for a newer "
	  "driver" },
	{ "{'state':'NOT_READY','run':null,'last_run':null,'checks':[{'name':'gpus','pass':true,'evidence':'8 of 8'},"
	  "{'name':'nodes','pass':false,'evidence':'7 of 8'}]}",
	  "False", "DriverNotReady", "nodes: 7 of 8" },
	{ "{'state':'NOT_READY','run':null,'last_run':null,'next':'make them','checks':[{'name':'nodes','pass':false,"
	  "'evidence':'7 of 8'}]}",
	  "False", "DriverNotReady", "nodes: 7 of 8; next step: make them" },
	{ "{'state':'FAILED','run':null,'last_run':{" ERROR "}}", "False", "BuildFailed",
	  "E_BUILD: it says no; next step: look for a newer driver" },
	{ "{'state':'NO_GPU','run':null,'last_run':null}", "False", "NoGPU", "no NVIDIA function on this machine" },
};

static void each_state(void **state)
{
	(void)state;
	struct err err;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	make_node(s, "[]");
	for (const struct row *r = rows; r < rows + ARRAY_SIZE(rows); r++) {
		sim_pass(5000);
		assert_int_equal(tell(k, r->file, NULL, &err), 1);
		const json_t *c = condition(s, READY);
		assert_string_equal(sim_text(c, "message"), r->message);
		assert_string_equal(sim_text(c, "reason"), r->reason);
		assert_string_equal(sim_text(c, "status"), r->status);
		size_t written = sim_count(s, NULL, "patch");
		assert_int_equal(tell(k, r->file, NULL, &err), 1); // the same again is not written
		assert_int_equal(sim_count(s, NULL, "patch"), written);
	}
	assert_string_equal(sim_text(condition(s, "Ready"), "status"), "True");
	assert_string_equal(sim_text(sim_get(s, NODE), "status phase"), "Running");
	assert_null(condition(s, NEXT)); // nobody looks for kernels
}

// The time of a transition is that of the status, not of its reason.
static void transition_time(void **state)
{
	(void)state;
	struct err err;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	make_node(s, "[]");
	assert_int_equal(tell(k, rows[1].file, NULL, &err), 1);
	auto_str char *since = str_dup(sim_text(condition(s, READY), "lastTransitionTime"));
	sim_pass(60000);
	assert_int_equal(tell(k, rows[2].file, NULL, &err), 1);
	assert_string_equal(sim_text(condition(s, READY), "lastTransitionTime"), since);
	assert_string_not_equal(sim_text(condition(s, READY), "lastHeartbeatTime"), since);
	assert_int_equal(tell(k, READY_FILE, NULL, &err), 1);
	assert_string_not_equal(sim_text(condition(s, READY), "lastTransitionTime"), since);
}

static void next_kernel(void **state)
{
	(void)state;
	struct err err;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	auto_kernel_report struct kernel_report f = { .running = str_dup("6.1") };
	f.items = mem_alloc(sizeof(*f.items));
	f.count = 1;
	f.items[0] = (struct kernel_report_entry){ .release = str_dup("6.2"), .where = str_dup(""), .is_next = true };
	make_node(s, "[]");
	kernel_report_set(&f.items[0], KERNEL_IMPOSSIBLE, E_SOURCE_KERNEL, "too new");
	assert_int_equal(tell(k, READY_FILE, &f, &err), 1);
	assert_string_equal(sim_text(condition(s, NEXT), "status"), "False");
	assert_string_equal(sim_text(condition(s, NEXT), "reason"), "DriverTooOldForKernel");
	const char *message = sim_text(condition(s, NEXT), "message");
	assert_true(str_starts(message, "6.2 may start next: impossible: E_SOURCE_KERNEL: too new; next step: "));
	f.items[0].code = 0;
	kernel_report_set(&f.items[0], KERNEL_READY, 0, "proven");
	assert_int_equal(tell(k, READY_FILE, &f, &err), 1);
	assert_string_equal(sim_text(condition(s, NEXT), "status"), "True");
	assert_int_equal(tell(k, READY_FILE, NULL, &err), 1); // after a reboot, before the first look
	assert_string_equal(sim_text(condition(s, NEXT), "status"), "Unknown");
	f.items[0].is_next = false;
	assert_int_equal(tell(k, READY_FILE, &f, &err), 1);
	assert_string_equal(sim_text(condition(s, NEXT), "reason"), "NoNewerKernel");
	assert_string_equal(sim_text(condition(s, READY), "status"), "True");
}

// Ours in each of its effects, and nobody else's.
static void startup_taint(void **state)
{
	(void)state;
	struct err err;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	make_node(s, "[{'key':'kmodsmith.io/driver-not-ready','effect':'NoSchedule'},"
		     "{'key':'nvidia.com/gpu','effect':'NoSchedule'},"
		     "{'key':'kmodsmith.io/driver-not-ready','effect':'NoExecute'}]");
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(tell(k, rows[i].file, NULL, &err), 1);
	assert_int_equal(json_array_size(sim_at(sim_get(s, NODE), "spec taints")), 3);
	assert_int_equal(tell(k, READY_FILE, NULL, &err), 1); // with the condition, in one go
	const json_t *taints = sim_at(sim_get(s, NODE), "spec taints");
	assert_int_equal(json_array_size(taints), 1);
	assert_string_equal(sim_text(json_array_get(taints, 0), "key"), "nvidia.com/gpu");
	assert_string_equal(sim_text(condition(s, READY), "status"), "True");
}

static void change_node(void *ctx)
{
	sim_merge(ctx, "/api/v1/nodes/n1/status", "{'status':{'conditions':[]}}"); // positions are others now
}

static void other_writers(void **state)
{
	(void)state;
	struct err err;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	make_node(s, "[{'key':'kmodsmith.io/driver-not-ready','effect':'NoSchedule'}]");
	assert_int_equal(tell(k, rows[1].file, NULL, &err), 1);
	sim_fault(s, &(struct sim_fault){ .what = SIM_CUT_BEFORE, .verb = "patch", .hit = change_node, .ctx = s });
	assert_int_equal(tell(k, READY_FILE, NULL, &err), 0);
	assert_int_equal(json_array_size(sim_at(sim_get(s, NODE), "status conditions")), 0);
	assert_int_equal(tell(k, READY_FILE, NULL, &err), 1);
	assert_string_equal(sim_text(condition(s, READY), "status"), "True");
	sim_delete(s, NODE);
	assert_int_equal(tell(k, READY_FILE, NULL, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	assert_string_equal(err.text, "there is no Node 'n1'; check NODE_NAME");
}

// One missing right costs what it is for.
static void missing_rights(void **state)
{
	(void)state;
	struct err err;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	make_node(s, "[{'key':'kmodsmith.io/driver-not-ready','effect':'NoSchedule'}]");
	sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .verb = "patch", .nth = 2 });
	assert_int_equal(tell(k, READY_FILE, NULL, &err), -1);
	assert_int_equal(err.code, E_AUTH);
	assert_non_null(strstr(err.text, "its conditions"));
	assert_int_equal(json_array_size(sim_at(sim_get(s, NODE), "spec taints")), 0);
	sim_merge(s, NODE, "{'spec':{'taints':[{'key':'kmodsmith.io/driver-not-ready','effect':'NoSchedule'}]}}");
	sim_heal(s);
	sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .verb = "patch" });
	assert_int_equal(tell(k, READY_FILE, NULL, &err), -1);
	assert_non_null(strstr(err.text, "its taint kmodsmith.io/driver-not-ready"));
	assert_string_equal(sim_text(condition(s, READY), "status"), "True");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_state),    cmocka_unit_test(transition_time), cmocka_unit_test(next_kernel),
		cmocka_unit_test(startup_taint), cmocka_unit_test(other_writers),   cmocka_unit_test(missing_rights),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
