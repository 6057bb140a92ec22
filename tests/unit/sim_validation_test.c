// SPDX-License-Identifier: Apache-2.0
// A job of the user's own as the last word: its pod runs on the cordoned node when all else is back, and its end
// decides. The kubelets here are scripted: what each does with the pod of its node.
#include "base/core/date.h"
#include "cluster/rollout/undo.h"
#include "tests/sim/farm.h"
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define NOTE(f, node) farm_note(f, node, "kmodsmith.io/reason")
#define SPACE "/api/v1/namespaces/kmodsmith-validation"
#define PODS SPACE "/pods"
#define CONTAINERS "'containers':[{'name':'c','image':'i'}]"
enum { NODES = 3, GPUS = 8, KUBELET_MS = 1000, STARTS_MS = 10000, TAKES_MS = 90000 };
#define POLICY_OF(driver, more) \
	"{'pools':[{'name':'gpus','maxUnavailable':'100%'," more "'target':{'driver':'" driver "'}}]}"
#define POLICY(more) POLICY_OF("535.2", "'validation':{'template':'nccl','deadline':'5m'}," more)

enum habit { PASSES, FAILS, HANGS, NEVER_STARTS, REFUSES };
struct kubelets {
	struct farm *farm;
	enum habit habit;
	unsigned made; // pods that were seen
	char last[80]; // name of the last one
	unsigned most; // at the same time on one node
};

static void set_status(const struct kubelets *k, const json_t *pod, const char *status)
{
	auto_str char *path = str_fmt(PODS "/%s/status", sim_text(pod, "metadata name"));
	sim_merge(k->farm->sim, path, "{'status':%s}", status);
}

static const char *node_of(const json_t *pod)
{
	const json_t *terms = sim_at(pod, "spec affinity nodeAffinity requiredDuringSchedulingIgnoredDuringExecution "
					  "nodeSelectorTerms");
	const json_t *fields = json_object_get(json_array_get(terms, 0), "matchFields");
	const json_t *values = json_object_get(json_array_get(fields, 0), "values");
	return json_string_value(json_array_get(values, 0));
}

static void run_pod(struct kubelets *k, const json_t *pod)
{
	const char *phase = sim_text(pod, "status phase"), *name = sim_text(pod, "metadata name");
	auto_str char *begun = date_text((time_t)(SIM_EPOCH + sim_now_ms() / 1000));
	time_t start = 0;
	if (!phase || str_eq(phase, "Pending")) {
		k->made += !str_eq(k->last, name);
		snprintf(k->last, sizeof(k->last), "%s", name);
		if (k->habit == NEVER_STARTS) {
			set_status(k, pod,
				   "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False',"
				   "'message':'0/3 nodes are available: 3 Insufficient nvidia.com/gpu.'}]}");
			return;
		}
		auto_str char *path = str_fmt(PODS "/%s", name);
		sim_merge(k->farm->sim, path, "{'spec':{'nodeName':'%s'}}", node_of(pod));
		auto_str char *runs = str_fmt("{'phase':'Running','startTime':'%s','conditions':null,"
					      "'containerStatuses':[{'name':'c','state':{'running':{}}}]}",
					      begun);
		set_status(k, pod,
			   k->habit == REFUSES ? "{'phase':'Failed','reason':'UnexpectedAdmissionError',"
						 "'message':'Allocate failed'}" :
						 runs);
		return;
	}
	date_parse(sim_text(pod, "status startTime") ? sim_text(pod, "status startTime") : "", &start);
	long ran_ms = (long)(SIM_EPOCH + sim_now_ms() / 1000 - start) * 1000;
	if (!str_eq(phase, "Running") || (k->habit != HANGS && ran_ms < TAKES_MS))
		return;
	if (k->habit == PASSES)
		set_status(k, pod,
			   "{'phase':'Succeeded','containerStatuses':[{'name':'c','state':{'terminated':{"
			   "'exitCode':0}}}]}");
	else if (k->habit == FAILS)
		set_status(k, pod,
			   "{'phase':'Failed','containerStatuses':[{'name':'c','state':{'terminated':{"
			   "'exitCode':3,'reason':'Error','message':'lots of lines\\n"
			   "that nobody reads\\nNCCL WARN GPU 5: unhandled cuda error\\n'}}}]}");
	else if (ran_ms >= 1000 * json_integer_value(sim_at(pod, "spec activeDeadlineSeconds")))
		set_status(k, pod,
			   "{'phase':'Failed','reason':'DeadlineExceeded','containerStatuses':[{'name':'c',"
			   "'state':{'terminated':{'exitCode':137,'reason':'Error'}}}]}");
}

static void run_kubelets(void *ctx)
{
	struct kubelets *k = ctx;
	if (k->farm->is_over)
		return;
	auto_json json_t *list = sim_ask(k->farm->sim, "GET", PODS, NULL);
	const json_t *items = json_object_get(list, "items");
	unsigned here = 0;
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *pod = json_array_get(items, i);
		here += str_eq(node_of(pod), "n00");
		if (!sim_at(pod, "metadata deletionTimestamp"))
			run_pod(k, pod);
	}
	k->most = here > k->most ? here : k->most;
	sim_after(KUBELET_MS, run_kubelets, k);
}

static void set_template(const struct farm *f, const char *spec)
{
	sim_make(f->sim, SPACE "/podtemplates",
		 "{'metadata':{'name':'nccl'},'template':{'metadata':{'labels':{'app':'nccl'}},'spec':{%s}}}", spec);
}

static void begin(struct farm *f, struct farm_coordinator *coordinator, struct kubelets *k, enum habit habit,
		  const char *policy)
{
	farm_begin(f, NODES, policy);
	*k = (struct kubelets){ .farm = f, .habit = habit };
	for (unsigned i = 0; i < NODES; i++) {
		auto_str char *path = str_fmt("/api/v1/nodes/n%02u/status", i);
		sim_merge(f->sim, path, "{'status':{'allocatable':{'nvidia.com/gpu':'%d'}}}", GPUS);
	}
	run_kubelets(k);
	farm_coordinator_begin(f, coordinator, "boss");
}

static void end(struct farm *f, struct farm_coordinator *coordinator)
{
	lawful(f);
	farm_coordinator_kill(coordinator);
	farm_end(f);
}

static unsigned first_in(const struct farm *f, const char *name)
{
	unsigned i = 0;
	while (i < NODES && !str_eq(farm_state(f, i), name))
		i++;
	return i;
}

static json_t *pods_left(const struct farm *f)
{
	auto_json json_t *list = sim_ask(f->sim, "GET", PODS, NULL);
	return json_incref(json_object_get(list, "items"));
}

static bool is_halted(const struct farm *f)
{
	const json_t *map = sim_get(f->sim, "/api/v1/namespaces/kmodsmith/configmaps/" ROLLOUT_STATUS_NAME);
	return strstr(sim_text(map, "data " ROLLOUT_STATUS_KEY), "\"halted\": true");
}

static void a_node_is_uncordoned_when_its_job_has_passed(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct kubelets kubelets;
	begin(&f, &coordinator, &kubelets, PASSES, POLICY(""));
	set_template(&f, CONTAINERS);
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "releasing");
	farm_run(&coordinator, 1, STARTS_MS);
	assert_string_equal(NOTE(&f, first), "waits-for-validation");
	auto_json json_t *pods = pods_left(&f);
	assert_int_equal(json_array_size(pods), 1);
	const json_t *pod = json_array_get(pods, 0), *container = json_array_get(sim_at(pod, "spec containers"), 0);
	assert_string_equal(sim_text(pod, "spec nodeName"), f.nodes[first].name);
	assert_string_equal(json_string_value(json_object_get(sim_at(container, "resources limits"), "nvidia.com/gpu")),
			    "8");
	farm_run(&coordinator, 1, TAKES_MS / 2);
	assert_true(farm_is_cordoned(&f, first));
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(30)));
	assert_int_equal(kubelets.made, NODES);
	// One more, that a request of an earlier leader made late; and one that is not ours.
	sim_make(f.sim, PODS, "{'metadata':{'name':'late','labels':{'kmodsmith.io/validation':'u'}},'spec':{%s}}",
		 CONTAINERS);
	sim_make(f.sim, PODS, "{'metadata':{'name':'theirs'},'spec':{%s}}", CONTAINERS);
	farm_run(&coordinator, 1, MINUTES(2));
	auto_json json_t *left = pods_left(&f);
	assert_int_equal(json_array_size(left), 1);
	assert_string_equal(sim_text(json_array_get(left, 0), "metadata name"), "theirs");
	end(&f, &coordinator);
}

static void two_at_once_have_one_each(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct kubelets kubelets;
	begin(&f, &coordinator, &kubelets, PASSES, POLICY("'maxParallel':2,"));
	set_template(&f, CONTAINERS);
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 2, MINUTES(10)));
	farm_run(&coordinator, 1, STARTS_MS);
	auto_json json_t *pods = pods_left(&f);
	assert_int_equal(json_array_size(pods), 2);
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(30)));
	assert_int_equal(kubelets.made, NODES);
	end(&f, &coordinator);
}

static void a_failed_one_undoes_the_target_and_stays_to_be_read(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct kubelets kubelets;
	begin(&f, &coordinator, &kubelets, FAILS, POLICY("'maxAttempts':1,"));
	set_template(&f, CONTAINERS);
	assert_true(farm_until(&f, &coordinator, 1, "rolledback", 1, MINUTES(20)));
	unsigned first = first_in(&f, "rolledback");
	assert_string_equal(NOTE(&f, first), "validation-job-failed exit 3: lots of lines that nobody reads NCCL WARN "
					     "GPU 5: unhandled cuda error");
	assert_false(farm_is_cordoned(&f, first));
	assert_true(target_hash_eq(&f.nodes[first].loaded, &f.old));
	farm_run(&coordinator, 1, MINUTES(60));
	assert_true(is_halted(&f));
	assert_int_equal(kubelets.made, 1);
	auto_json json_t *kept = pods_left(&f);
	assert_int_equal(json_array_size(kept), 1);
	// The cure: a template that passes, another attempt, another pod.
	kubelets.habit = PASSES;
	auto_str char *path = api_node(f.nodes[first].name);
	sim_merge(f.sim, path, "{'metadata':{'annotations':{'kmodsmith.io/retry':'1'}}}");
	farm_policy(&f, POLICY_OF("535.3", "'validation':{'template':'nccl','deadline':'5m'},"));
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
	assert_int_equal(kubelets.made, 1 + NODES);
	farm_run(&coordinator, 1, MINUTES(2));
	auto_json json_t *left = pods_left(&f);
	assert_int_equal(json_array_size(left), 0);
	end(&f, &coordinator);
}

static void one_that_hangs_fails_at_its_deadline(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct kubelets kubelets;
	begin(&f, &coordinator, &kubelets, HANGS, POLICY("'deadlines':{'release':'2m'},"));
	set_template(&f, CONTAINERS);
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "releasing");
	farm_run(&coordinator, 1, MINUTES(4)); // longer than deadlines.release
	assert_string_equal(farm_state(&f, first), "releasing");
	assert_true(farm_until(&f, &coordinator, 1, "rolledback", 1, MINUTES(5)));
	assert_string_equal(NOTE(&f, first), "validation-job-late after 300 s");
	end(&f, &coordinator);
}

static void one_that_never_starts_holds_the_node(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct kubelets kubelets;
	begin(&f, &coordinator, &kubelets, NEVER_STARTS, POLICY("'maxParallel':1,"));
	set_template(&f, CONTAINERS);
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "releasing");
	farm_run(&coordinator, 1, MINUTES(120));
	assert_string_equal(farm_state(&f, first), "releasing");
	assert_true(farm_is_cordoned(&f, first));
	assert_string_equal(NOTE(&f, first),
			    "waits-for-validation 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.");
	for (unsigned i = 0; i < NODES; i++)
		assert_int_equal(f.nodes[i].life.cordons, i == first);
	assert_int_equal(kubelets.made, 1);
	kubelets.habit = PASSES;
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(30)));
	end(&f, &coordinator);
}

static void one_that_the_kubelet_refuses_is_made_again(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct kubelets kubelets;
	begin(&f, &coordinator, &kubelets, REFUSES, POLICY(""));
	set_template(&f, CONTAINERS);
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "releasing");
	farm_run(&coordinator, 1, MINUTES(3));
	assert_string_equal(NOTE(&f, first), "waits-for-validation UnexpectedAdmissionError: Allocate failed");
	kubelets.habit = PASSES;
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(30)));
	end(&f, &coordinator);
}

static void without_a_template_or_with_a_forbidden_field_nothing_runs(void **state)
{
	(void)state;
	static const struct {
		const char *spec, *why;
	} rows[] = {
		{ NULL, "waits-for-validation there is no PodTemplate kmodsmith-validation/nccl" },
		{ "'hostNetwork':true," CONTAINERS,
		  "waits-for-validation template.spec.hostNetwork is not allowed in a validation" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct kubelets kubelets;
		begin(&f, &coordinator, &kubelets, PASSES, POLICY(""));
		if (rows[i].spec)
			set_template(&f, rows[i].spec);
		assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
		unsigned first = first_in(&f, "releasing");
		farm_run(&coordinator, 1, MINUTES(30));
		assert_string_equal(farm_state(&f, first), "releasing");
		assert_string_equal(NOTE(&f, first), rows[i].why);
		assert_int_equal(kubelets.made, 0);
		if (rows[i].spec)
			sim_delete(f.sim, SPACE "/podtemplates/nccl");
		set_template(&f, CONTAINERS);
		assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
		end(&f, &coordinator);
	}
}

static void the_servers_message_is_the_reason(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct kubelets kubelets;
	begin(&f, &coordinator, &kubelets, PASSES, POLICY("'onReleaseTimeout':'release',"));
	set_template(&f, CONTAINERS);
	sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
					      .client = "boss",
					      .verb = "create",
					      .resource = "pods",
					      .times = 1000,
					      .status = 403,
					      .message = "pods \"n00-1\" is forbidden: exceeded quota: no-gpus" });
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "releasing");
	farm_run(&coordinator, 1, MINUTES(5));
	assert_string_equal(NOTE(&f, first), "waits-for-validation exceeded quota: no-gpus");
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60))); // after deadlines.release
	assert_int_equal(kubelets.made, 0);
	end(&f, &coordinator);
}

// Killed after each call that it makes about the pod: one pod for a node all the same.
static void the_next_coordinator_finds_the_pod(void **state)
{
	(void)state;
	static const struct sim_fault rows[] = {
		{ .what = SIM_DIE_AFTER, .verb = "create", .resource = "pods" },
		{ .what = SIM_DIE_BEFORE, .verb = "create", .resource = "pods" },
		{ .what = SIM_DIE_AFTER, .verb = "get", .resource = "podtemplates" },
		{ .what = SIM_DIE_AFTER, .verb = "delete", .resource = "pods" },
		{ .what = SIM_DIE_BEFORE, .verb = "delete", .resource = "pods" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct kubelets kubelets;
		begin(&f, &coordinator, &kubelets, PASSES, POLICY(""));
		set_template(&f, CONTAINERS);
		const struct sim_fault *fault = sim_fault(f.sim, &rows[i]);
		while (!fault->hits && sim_now_ms() < MINUTES(30))
			farm_run(&coordinator, 1, 500);
		assert_true(fault->hits);
		farm_coordinator_kill(&coordinator);
		sim_heal(f.sim);
		sim_pass(MINUTES(1)); // until its Lease is over
		farm_coordinator_begin(&f, &coordinator, "heir");
		assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
		assert_int_equal(kubelets.made, NODES);
		assert_int_equal(kubelets.most, 1);
		farm_run(&coordinator, 1, MINUTES(3));
		auto_json json_t *left = pods_left(&f);
		assert_int_equal(json_array_size(left), 0);
		end(&f, &coordinator);
	}
}

// A halt calls the node back: the pod is deleted, and the previous driver needs no job.
static void a_halt_ends_the_job(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct kubelets kubelets;
	begin(&f, &coordinator, &kubelets, HANGS,
	      POLICY("'maxParallel':2,'onHalt':'rollback','breaker':{'inARow':1},"));
	set_template(&f, CONTAINERS);
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 2, MINUTES(10)));
	farm_run(&coordinator, 1, STARTS_MS);
	assert_int_equal(kubelets.made, 2);
	auto_json json_t *pods = pods_left(&f);
	auto_str char *status = str_fmt(PODS "/%s/status", sim_text(json_array_get(pods, 0), "metadata name"));
	sim_merge(f.sim, status,
		  "{'status':{'phase':'Failed','containerStatuses':[{'name':'c','state':{'terminated':{"
		  "'exitCode':1}}}]}}");
	farm_run(&coordinator, 1, MINUTES(10));
	for (unsigned i = 0; i < NODES; i++) {
		assert_false(farm_is_cordoned(&f, i));
		assert_true(target_hash_eq(&f.nodes[i].loaded, &f.old));
	}
	auto_json json_t *left = pods_left(&f);
	assert_int_equal(json_array_size(left), 1);
	assert_int_equal(kubelets.made, 2);
	end(&f, &coordinator);
}

// The way back takes no longer than it has to.
static void what_is_undone_runs_no_job(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct kubelets kubelets;
	struct target_hash instead = farm_target(POLICY(""));
	auto_json json_t *back = json_pack("{s:s}", "driver", "535.9");
	auto_str char *note = undo_note(NULL, "gpus", &instead, back);
	begin(&f, &coordinator, &kubelets, PASSES, POLICY(""));
	auto_json json_t *patch = json_pack("{s:{s:{s:s}}}", "metadata", "annotations", UNDO_NOTE, note);
	auto_str char *text = json_dumps(patch, 0);
	sim_merge(f.sim, "/api/v1/namespaces/kmodsmith/configmaps/" POLICY_NAME, "%s", text);
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(20)));
	assert_false(target_hash_eq(&f.nodes[0].loaded, &instead));
	assert_int_equal(kubelets.made, 0);
	end(&f, &coordinator);
}

static void a_policy_without_one_asks_for_nothing(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct kubelets kubelets;
	begin(&f, &coordinator, &kubelets, PASSES, POLICY_OF("535.2", ""));
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(20)));
	size_t count;
	const struct sim_call *log = sim_log(f.sim, &count);
	for (size_t i = 0; i < count; i++)
		assert_null(strstr(log[i].path, "kmodsmith-validation"));
	end(&f, &coordinator);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_is_uncordoned_when_its_job_has_passed),
		cmocka_unit_test(two_at_once_have_one_each),
		cmocka_unit_test(a_failed_one_undoes_the_target_and_stays_to_be_read),
		cmocka_unit_test(one_that_hangs_fails_at_its_deadline),
		cmocka_unit_test(one_that_never_starts_holds_the_node),
		cmocka_unit_test(one_that_the_kubelet_refuses_is_made_again),
		cmocka_unit_test(without_a_template_or_with_a_forbidden_field_nothing_runs),
		cmocka_unit_test(the_servers_message_is_the_reason),
		cmocka_unit_test(the_next_coordinator_finds_the_pod),
		cmocka_unit_test(a_halt_ends_the_job),
		cmocka_unit_test(what_is_undone_runs_no_job),
		cmocka_unit_test(a_policy_without_one_asks_for_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
