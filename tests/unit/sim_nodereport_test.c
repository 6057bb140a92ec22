// SPDX-License-Identifier: Apache-2.0
// What a node reports about its next kernel (R-F1), step by step: the annotation, and an Event when it turns bad, bad
// for another reason, or good again. Without a change nothing is written.
#include "cluster/node_state/next_kernel_report.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

static const char NODE[] = "/api/v1/nodes/n1";

struct says {
	const char *release; // NULL = no newer kernel
	enum kernel_verdict verdict;
	int code;
	const char *evidence;
};

static struct kernel_report kernel_report_of(const struct says *says)
{
	struct kernel_report f = { .running = str_dup("6.1") };
	f.items = mem_alloc(sizeof(*f.items));
	f.count = 1;
	f.items[0] = (struct kernel_report_entry){ .release = str_dup(says->release ? says->release : "6.0"),
						   .where = str_dup("") };
	f.items[0].is_next = says->release != NULL;
	kernel_report_set(&f.items[0], says->verdict, says->code, says->evidence ? says->evidence : "");
	return f;
}

// "TYPE REASON MESSAGE" of the only Event there is, which is taken away; NULL = there is none.
static char *take_event(struct sim *s)
{
	auto_json json_t *list = sim_ask(s, "GET", "/api/v1/namespaces/default/events", NULL);
	const json_t *items = sim_at(list, "items"), *e = json_array_get(items, 0);
	assert_true(json_array_size(items) <= 1);
	if (!e)
		return NULL;
	assert_string_equal(sim_text(e, "involvedObject kind"), "Node");
	assert_string_equal(sim_text(e, "involvedObject name"), "n1");
	assert_string_equal(sim_text(e, "reportingComponent"), "kmodsmith");
	auto_str char *path = str_fmt("/api/v1/namespaces/default/events/%s", sim_text(e, "metadata name"));
	char *ret = str_fmt("%s %s %s", sim_text(e, "type"), sim_text(e, "reason"), sim_text(e, "message"));
	sim_delete(s, path);
	return ret;
}

static const struct step {
	const char *text;
	struct says says;
	const char *note;  // the annotation from then on; NULL = absent
	const char *event; // how it begins; NULL = there is none
	const char *next;  // how it ends
} steps[] = {
	{ "no newer kernel: nothing to report", { 0 }, NULL, NULL, NULL },
	{ "a kernel that only waits for its compile causes no Event",
	  { "6.2", KERNEL_NEEDS_BUILD, 0, "no package" },
	  "needs-build 6.2",
	  NULL,
	  NULL },
	{ "its package is there", { "6.2", KERNEL_READY, 0, "proven" }, "ready 6.2", NULL, NULL },
	{ "it cannot be served",
	  { "6.2", KERNEL_IMPOSSIBLE, E_BUILD, "it says \"no\"" },
	  "impossible 6.2 E_BUILD",
	  "Warning NextKernelUnservable 6.2 may start next: impossible: E_BUILD: it says \"no\"; next step: ",
	  "look for a newer driver or a patch for this kernel" },
	{ "the same with other evidence is no change",
	  { "6.2", KERNEL_IMPOSSIBLE, E_BUILD, "it says \"never\"" },
	  "impossible 6.2 E_BUILD",
	  NULL,
	  NULL },
	{ "another reason",
	  { "6.2", KERNEL_NEEDS_BUILD, E_HEADERS_NOT_FOUND, "tried" },
	  "needs-build 6.2 E_HEADERS_NOT_FOUND",
	  "Warning NextKernelUnservable 6.2 may start next: needs-build: E_HEADERS_NOT_FOUND: tried; next step: ",
	  "--headers-archive DIR" },
	{ "it is good again",
	  { "6.2", KERNEL_BUILDING, 0, "pid 7" },
	  "building 6.2",
	  "Normal NextKernelServable 6.2 may start next: building: pid 7",
	  "pid 7" },
	{ "it stays good", { "6.2", KERNEL_READY, 0, "proven" }, "ready 6.2", NULL, NULL },
	{ "a newer one cannot be served",
	  { "6.3", KERNEL_IMPOSSIBLE, E_SOURCE_KERNEL, "too new" },
	  "impossible 6.3 E_SOURCE_KERNEL",
	  "Warning NextKernelUnservable 6.3 may start next: impossible: E_SOURCE_KERNEL: too new; next step: ",
	  "" },
	{ "it was removed",
	  { 0 },
	  NULL,
	  "Normal NextKernelServable no kernel newer than the running one is installed",
	  "installed" },
	{ "and nothing more is reported", { 0 }, NULL, NULL, NULL },
};

static int report(struct kube *k, const char *node, const struct says *says, struct err *err)
{
	auto_kernel_report struct kernel_report f = kernel_report_of(says);
	return next_kernel_report_write(k, node, &f, err);
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? str_eq(a, b) : a == b;
}

static void each_change_is_reported_once(void **state)
{
	(void)state;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	const char *before = NULL;
	sim_make(s, "/api/v1/nodes", "{'metadata':{'name':'n1','annotations':{'other.io/x':'1'}}}");
	for (const struct step *w = steps; w < steps + ARRAY_SIZE(steps); w++) {
		struct err err = { 0 };
		size_t written = sim_count(s, NULL, "patch");
		bool is_news = !is_same(before, w->note);
		expect(report(k, "n1", &w->says, &err) == is_news, w->text);
		expect(is_same(sim_text(sim_get(s, NODE), "metadata annotations kmodsmith.io/agent.next-kernel"),
			       w->note),
		       w->text);
		expect(sim_count(s, NULL, "patch") == written + is_news, w->text);
		auto_str char *event = take_event(s);
		expect(!event == !w->event, w->text);
		expect(!event || (str_starts(event, w->event) && str_ends(event, w->next)), event);
		before = w->note;
	}
	assert_string_equal(sim_text(sim_get(s, NODE), "metadata annotations other.io/x"), "1");
}

// The annotation has 256 bytes at most, and a release is the name of a folder.
static void a_long_release_is_cut(void **state)
{
	(void)state;
	auto_str char *release = str_dup("");
	for (int i = 0; i < 30; i++)
		str_add(&release, "0123456789");
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	struct err err = { 0 };
	sim_make(s, "/api/v1/nodes", "{'metadata':{'name':'n1'}}");
	assert_int_equal(report(k, "n1", &(struct says){ release, KERNEL_IMPOSSIBLE, E_BUILD, "x" }, &err), 1);
	auto_str char *wanted = str_fmt("impossible %.64s E_BUILD", release);
	assert_string_equal(sim_text(sim_get(s, NODE), "metadata annotations kmodsmith.io/agent.next-kernel"), wanted);
}

static void a_missing_node(void **state)
{
	(void)state;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	struct err err = { 0 };
	const struct says bad = { "6.2", KERNEL_IMPOSSIBLE, E_BUILD, "x" };
	assert_int_equal(report(k, "n1", &bad, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	assert_string_equal(err.text, "there is no Node 'n1'; check NODE_NAME");
	assert_null(take_event(s));
}

static void replace_node(void *ctx)
{
	struct sim *s = ctx;
	sim_delete(s, NODE);
	sim_make(s, "/api/v1/nodes", "{'metadata':{'name':'n1'}}");
}

// It was read, and is another machine when the annotation is written.
static void another_node_with_the_same_name_is_not_written(void **state)
{
	(void)state;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	struct err err = { 0 };
	sim_make(s, "/api/v1/nodes", "{'metadata':{'name':'n1'}}");
	sim_fault(s, &(struct sim_fault){ .what = SIM_CUT_BEFORE, .verb = "patch", .hit = replace_node, .ctx = s });
	assert_int_equal(report(k, "n1", &(struct says){ "6.2", KERNEL_READY, 0, "x" }, &err), -1);
	assert_int_equal(err.code, E_CONFLICT);
	assert_string_equal(err.text, "the Node 'n1' was replaced by another one of this name");
	assert_null(sim_text(sim_get(s, NODE), "metadata annotations kmodsmith.io/agent.next-kernel"));
}

// First the Event: with the annotation alone nobody would be told any more.
static void a_refused_event_is_tried_again(void **state)
{
	(void)state;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *k = sim_client(s, "node");
	struct err err = { 0 };
	const struct says bad = { "6.2", KERNEL_IMPOSSIBLE, E_BUILD, "x" };
	sim_make(s, "/api/v1/nodes", "{'metadata':{'name':'n1'}}");
	sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .resource = "events" });
	assert_int_equal(report(k, "n1", &bad, &err), -1);
	assert_null(sim_text(sim_get(s, NODE), "metadata annotations kmodsmith.io/agent.next-kernel"));
	assert_int_equal(report(k, "n1", &bad, &err), 1);
	auto_str char *event = take_event(s);
	assert_non_null(event);
	sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .verb = "get" });
	assert_int_equal(report(k, "n1", &bad, &err), -1);
	assert_int_equal(report(k, "n1", &bad, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_change_is_reported_once),
		cmocka_unit_test(a_long_release_is_cut),
		cmocka_unit_test(a_missing_node),
		cmocka_unit_test(another_node_with_the_same_name_is_not_written),
		cmocka_unit_test(a_refused_event_is_tried_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
