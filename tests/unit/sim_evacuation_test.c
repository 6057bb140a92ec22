// SPDX-License-Identifier: Apache-2.0
// What the driver manager says about a node that it empties, word by word, and how long it waits for operands, pods,
// claims, an unreachable API server, and others that change the Node.
#include "tests/unit/evacuation.h"

#define CLAIM ",'resourceClaims':[{'name':'g','resourceClaimName':'gpu-0'}]"
static const char DRA[] = "{'metadata':{'name':'n00','labels':{'nvidia.com/gpu.deploy.dra-driver':'true'}}}";

static size_t calls(struct scene *s, const char *verb)
{
	return sim_count(s->sim, "manager", verb);
}

static void make_budget(struct scene *s, const char *app)
{
	sim_make(s->sim, "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
		 "{'metadata':{'name':'b','namespace':'default'},'spec':{'minAvailable':1,'selector':{'matchLabels':{"
		 "'app':'%s'}}}}",
		 app);
}
static void make_claim(struct scene *s)
{
	sim_make(s->sim, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
		 "{'metadata':{'name':'gpu-0','namespace':'default'},'status':{'allocation':{'devices':{'results':[{"
		 "'driver':'gpu.nvidia.com'}]}}}}");
}

// The operator's own controller of upgrades evicts, or we do: never both.
static void who_evicts_is_decided_first(void **state)
{
	(void)state;
	static const struct {
		const char *name, *value;
		bool may_evict, may_drain, evicts, drains, is_said;
	} rows[] = {
		{ "no other controller", NULL, true, true, true, true, false },
		{ "switched off", "'false'", true, true, true, true, false },
		{ "the operator", "'true'", true, true, false, false, true },
		{ "the operator, and we may evict", "'true'", true, false, false, false, true },
		{ "the operator, and we may drain", "'true'", false, true, false, false, true },
		{ "the operator, and we may do neither", "'true'", false, false, false, false, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, PLAIN);
		if (rows[i].value)
			sim_merge(s.sim, NODE, "{'metadata':{'annotations':{'" EVACUATE_UPGRADES "':%s}}}",
				  rows[i].value);
		s.e.may_evict = rows[i].may_evict;
		s.e.may_drain = rows[i].may_drain;
		expect(evacuate_begin(&s.e, &err) == 0, err.text);
		expect(s.e.may_evict == rows[i].evicts && s.e.may_drain == rows[i].drains, rows[i].name);
		expect(rows[i].is_said ? str_eq(s.said, "no pod is evicted: the operator's upgrade controller does "
							"that (" EVACUATE_UPGRADES ")\n") :
					 !s.said,
		       rows[i].name);
		expect(calls(&s, "patch") == 0, rows[i].name);
		end(&s);
	}
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	s.e.node = "n77";
	assert_int_equal(evacuate_begin(&s.e, &err), -1);
	assert_string_equal(err.text, "there is no Node 'n77'; check NODE_NAME");
	end(&s);
}

static void each_step_is_reported_once(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_plugin(&s);
	make_pod(&s, "train", OF_JOB, GPU);
	expect(evacuate_run(&s.e, &err) == 0, err.text);
	assert_string_equal(s.said, "cordoned node n00\npaused the operands of node n00\nevicted default/train\n");
	expect(evacuate_run(&s.e, &err) == 0, err.text); // and nothing of it once more
	assert_string_equal(s.said, "cordoned node n00\npaused the operands of node n00\nevicted default/train\n");
	expect(evacuate_restore(&s.e, &err) == 1, err.text);
	end(&s);
}

// Somebody who uncordoned it by hand has decided: only our mark goes.
static void a_node_that_users_uncordoned_stays_uncordoned(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	expect(evacuate_run(&s.e, &err) == 0, err.text);
	sim_merge(s.sim, NODE, "{'spec':{'unschedulable':false}}");
	expect(evacuate_restore(&s.e, &err) == 1, err.text);
	assert_null(mark(&s));
	assert_false(cordoned(&s));
	end(&s);
}

static void without_permission_to_evict_nothing_is_cordoned(void **state)
{
	(void)state;
	static const struct {
		const char *name, *node;
		bool may_evict, may_drain, cordons;
	} rows[] = {
		{ "may evict", PLAIN, true, false, true },
		{ "may drain, where no plugin of DRA is", PLAIN, false, true, false },
		{ "may drain, where a plugin of DRA is", DRA, false, true, true },
		{ "a plugin of DRA, and may do neither", DRA, false, false, false },
		{ "may drain, and the plugin is switched off",
		  "{'metadata':{'name':'n00','labels':{'nvidia.com/gpu.deploy.dra-driver':'false'}}}", false, true,
		  false },
		{ "may drain, and the plugin's label is empty",
		  "{'metadata':{'name':'n00','labels':{'nvidia.com/gpu.deploy.dra-driver':''}}}", false, true, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, rows[i].node);
		s.e.may_evict = rows[i].may_evict;
		s.e.may_drain = rows[i].may_drain;
		expect(evacuate_run(&s.e, &err) == 0, err.text);
		expect(cordoned(&s) == rows[i].cordons && !mark(&s) == !rows[i].cordons, rows[i].name);
		end(&s);
	}
}

// In words that say what to do, before anything is done.
static void blocking_pods_are_named_first(void **state)
{
	(void)state;
#define NONE_MAY                                                    \
	"pods use the GPUs, and nothing allows to evict them here " \
	"(ENABLE_GPU_POD_EVICTION, ENABLE_AUTO_DRAIN, " EVACUATE_UPGRADES "): "
#define STUCK "a pod that uses the GPU must not be evicted: "
#define FORCE ": no controller would recreate it; see drain.force"
	static const struct {
		const char *name;
		const char *pods[3]; // 't' asks for a GPU, 'a' and has no controller, 'w' asks for none
		bool may_evict, may_drain;
		const char *said; // NULL = it may begin
	} rows[] = {
		{ "no pod", { "web" }, false, false, NULL },
		{ "one that may be evicted", { "train" }, true, false, NULL },
		{ "one that may be drained", { "train" }, false, true, NULL },
		{ "one that may not be evicted", { "web", "train" }, false, false, NONE_MAY "default/train" },
		{ "two that may not be evicted", { "train", "tune" }, false, false, NONE_MAY "default/train" },
		{ "one that would not come back", { "alone" }, true, true, STUCK "default/alone" FORCE },
		{ "behind one that may be evicted", { "train", "zalone" }, true, true, STUCK "default/zalone" FORCE },
		{ "before another one", { "alone", "zalone" }, true, true, STUCK "default/alone" FORCE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, PLAIN);
		for (size_t p = 0; p < ARRAY_SIZE(rows[i].pods) && rows[i].pods[p]; p++)
			make_pod(&s, rows[i].pods[p], strstr(rows[i].pods[p], "alone") ? "" : OF_JOB,
				 *rows[i].pods[p] == 'w' ? NO_GPU : GPU);
		s.e.may_evict = rows[i].may_evict;
		s.e.may_drain = rows[i].may_drain;
		int r = evacuate_check(&s.e, &err);
		expect(r == (rows[i].said ? -1 : 0), rows[i].name);
		if (rows[i].said) {
			expect(err.code == E_IN_USE, rows[i].name);
			expect(str_eq(err.text, rows[i].said), err.text);
		}
		expect(calls(&s, "patch") == 0 && calls(&s, "evict") == 0, rows[i].name);
		end(&s);
	}
}

// So long as is said, or as long as it is without; and then which pod it was, and why.
static void pods_have_a_deadline(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		unsigned timeout_s, seconds;
		bool has_budget, is_drain;
		const char *said;
	} rows[] = {
		{ "as long as configured", 60, 60, false, false,
		  "1 pod(s) are left after the deadline: default/train: waits "
		  "for test/stays" },
		{ "as long as it is", 0, EVACUATE_PODS_S, false, false,
		  "1 pod(s) are left after the deadline: default/train: waits for test/stays" },
		{ "a budget", 30, 30, true, false,
		  "1 pod(s) are left after the deadline: default/train: The disruption budget b needs 1 healthy pods "
		  "and "
		  "has 1 currently" },
		{ "a drain", 30, 30, true, true,
		  "1 pod(s) are left after the deadline: default/train: The disruption budget b needs 1 healthy pods "
		  "and "
		  "has 1 currently" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, PLAIN);
		make_pod(&s, "train", OF_JOB, GPU);
		if (rows[i].has_budget)
			make_budget(&s, "train");
		else
			sim_merge(s.sim, PODS "/train", "{'metadata':{'finalizers':['test/stays']}}");
		s.e.timeout_s = rows[i].timeout_s;
		long begun = sim_now_ms();
		expect((rows[i].is_drain ? evacuate_drain(&s.e, &err) : evacuate_run(&s.e, &err)) == -1, rows[i].name);
		long took = sim_now_ms() - begun;
		expect(err.code == E_IN_USE && str_eq(err.text, rows[i].said), err.text);
		expect(took >= rows[i].seconds * 1000L && took < rows[i].seconds * 1000L + 2 * EVACUATE_LOOK_MS,
		       rows[i].name);
		end(&s);
	}
}

static void an_operand_has_its_deadline(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	make_pod(&s, "mine", OF_SET, "'nodeSelector':{'site/gpu-user':'yes'}," NO_GPU);
	make_pod(&s, "alone", "", "'nodeSelector':{'nvidia.com/gpu.deploy.device-plugin':'true'}," NO_GPU);
	expect(evacuate_run(&s.e, &err) == 0, err.text); // of a label that nobody named, and of no DaemonSet
	s.e.label = "site/gpu-user";
	long begun = sim_now_ms();
	assert_int_equal(evacuate_run(&s.e, &err), -1);
	auto_str char *said = str_fmt("operand default/mine did not end within %d s after its label was changed",
				      EVACUATE_OPERANDS_S);
	assert_string_equal(err.text, said);
	long took = sim_now_ms() - begun;
	assert_in_range(took, EVACUATE_OPERANDS_S * 1000L, EVACUATE_OPERANDS_S * 1000L + 2L * EVACUATE_LOOK_MS);
	end(&s);
}

// Who has ended holds no claim any more, whatever his object says.
static void a_finished_pod_holds_no_claim(void **state)
{
	(void)state;
	static const struct {
		const char *phase;
		bool claims;
	} rows[] = { { "Succeeded", false }, { "Failed", false }, { "Running", true }, { "Pending", true } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, DRA);
		make_pod(&s, "train", OF_JOB, NO_GPU CLAIM);
		make_claim(&s);
		sim_merge(s.sim, PODS "/train/status", "{'status':{'phase':'%s'}}", rows[i].phase);
		s.e.may_evict = false;
		long begun = sim_now_ms();
		expect(evacuate_run(&s.e, &err) == (rows[i].claims ? -1 : 0), rows[i].phase);
		long took = sim_now_ms() - begun;
		if (rows[i].claims) {
			expect(str_eq(err.text, "default/train still has a GPU claim"), err.text);
			expect(took >= EVACUATE_OPERANDS_S * 1000L, rows[i].phase);
		}
		expect(str_eq(label(&s, "nvidia.com/gpu.deploy.dra-driver"), rows[i].claims ? "true" : PAUSED),
		       rows[i].phase);
		end(&s);
	}
}

// Ten times, and not for ever.
static void others_change_the_node_all_the_time(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s, PLAIN);
	const struct sim_fault *busy = sim_fault(
		s.sim,
		&(struct sim_fault){
			.what = SIM_STATUS, .client = "manager", .verb = "patch", .times = 1000, .status = 409 });
	assert_int_equal(evacuate_mark_preinstalled(&s.e, &err), -1);
	assert_int_equal(err.code, E_CONFLICT);
	assert_string_equal(err.text, "the Node 'n00' was changed by others during each of 10 attempts");
	assert_int_equal(busy->hits, 10);
	sim_heal(s.sim);
	expect(evacuate_mark_preinstalled(&s.e, &err) == 0, err.text);
	end(&s);
}

// Who refuses is asked once, and who is away until the deadline; nothing else ends the wait.
static void an_api_server_that_does_not_answer_for_long(void **state)
{
	(void)state;
	static const struct {
		const char *name, *verb;
		enum sim_break what;
		long status;
		int code;
		bool waits;
	} rows[] = {
		{ "the list of pods is refused", "list", SIM_STATUS, 403, E_AUTH, false },
		{ "the list of pods is never answered", "list", SIM_CUT_BEFORE, 0, E_NETWORK, true },
		{ "an eviction is never answered", "evict", SIM_CUT_BEFORE, 0, E_IN_USE, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, PLAIN);
		make_pod(&s, "train", OF_JOB, GPU);
		s.e.timeout_s = 120;
		sim_fault(s.sim, &(struct sim_fault){ .what = rows[i].what,
						      .client = "manager",
						      .verb = rows[i].verb,
						      .status = rows[i].status,
						      .times = 100000 });
		long begun = sim_now_ms();
		expect(evacuate_run(&s.e, &err) == -1, rows[i].name);
		expect(err.code == rows[i].code, err.text);
		expect((sim_now_ms() - begun >= 60000) == rows[i].waits, rows[i].name);
		expect(is_there(&s, "train"), rows[i].name);
		sim_heal(s.sim);
		expect(evacuate_restore(&s.e, &err) == 1 && !cordoned(&s), err.text);
		end(&s);
	}
}

// Of a look in the middle, too: what cannot be known is no success.
static void a_refusal_halfway_ends_it(void **state)
{
	(void)state;
	static const struct {
		const char *name, *node, *verb;
		unsigned nth;
		long status;
		int code;
		const char *words;
	} rows[] = {
		{ "the list for the operands", PLAIN, "list", 1, 403, E_AUTH, "GET " },
		{ "the list for the pods", PLAIN, "list", 2, 403, E_AUTH, "GET " },
		{ "the list after the first evictions", PLAIN, "list", 3, 403, E_AUTH, "GET " },
		{ "an eviction", PLAIN, "evict", 1, 401, E_AUTH, "evict default/train: " },
		{ "the list for the claims", DRA, "list", 4, 403, E_AUTH, "GET " },
		{ "the list after the plugin", DRA, "list", 5, 403, E_AUTH, "GET " },
		{ "the cordon", PLAIN, "patch", 1, 403, E_AUTH, "PATCH " },
		{ "the labels", PLAIN, "patch", 2, 403, E_AUTH, "PATCH " },
		{ "the label of the plugin", DRA, "patch", 2, 403, E_AUTH, "PATCH " },
		{ "the Node", PLAIN, "get", 1, 403, E_AUTH, "GET " },
		{ "the Node for the cordon", PLAIN, "get", 2, 403, E_AUTH, "GET " },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s, rows[i].node);
		make_pod(&s, "train", OF_JOB, GPU);
		const struct sim_fault *no = sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS,
										   .client = "manager",
										   .verb = rows[i].verb,
										   .nth = rows[i].nth,
										   .status = rows[i].status });
		expect(evacuate_run(&s.e, &err) == -1, rows[i].name);
		expect(no->hits > 0, rows[i].name);
		expect(err.code == rows[i].code && str_starts(err.text, rows[i].words), err.text);
		sim_heal(s.sim);
		expect(evacuate_restore(&s.e, &err) >= 0 && !cordoned(&s), err.text);
		end(&s);
	}
	for (unsigned nth = 1; nth <= 2; nth++) { // and of the look before all of that: by the selector, and of all
		struct scene s;
		struct err err = { 0 };
		begin(&s, PLAIN);
		s.e.may_drain = true;
		s.e.selector = "app=web";
		sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS, .verb = "list", .nth = nth, .status = 403 });
		assert_int_equal(evacuate_check(&s.e, &err), -1);
		assert_int_equal(str_starts(err.text, "the drain's selector 'app=web': GET "), nth == 1);
		sim_heal(s.sim);
		sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS, .verb = "patch", .nth = 1, .status = 403 });
		assert_int_equal(evacuate_drain(&s.e, &err), -1); // and of the cordon of a drain
		end(&s);
	}
}

static void tell_to_end(void *ctx)
{
	((struct scene *)ctx)->is_ended = true;
}

// Whatever is waited for: a pod that is told to end has little time left.
static void a_signal_ends_every_wait(void **state)
{
	(void)state;
	static const struct {
		const char *name, *node, *owner, *spec;
		bool may_evict;
	} rows[] = {
		{ "an operand", PLAIN, OF_SET, "'nodeSelector':{'nvidia.com/gpu.deploy.device-plugin':'true'}," NO_GPU,
		  true },
		{ "a pod", PLAIN, OF_JOB, GPU, true },
		{ "a claim", DRA, OF_JOB, NO_GPU CLAIM, false },
		{ "the plugin of DRA", DRA, OF_SET,
		  "'nodeSelector':{'nvidia.com/gpu.deploy.dra-driver':'true'}," NO_GPU, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum { SOON_MS = 17300 };
		struct scene s;
		struct err err = { 0 };
		begin(&s, rows[i].node);
		make_pod(&s, "it", rows[i].owner, rows[i].spec);
		make_claim(&s);
		sim_merge(s.sim, PODS "/it", "{'metadata':{'finalizers':['test/stays']}}");
		s.e.may_evict = rows[i].may_evict;
		sim_after(SOON_MS, tell_to_end, &s);
		long begun = sim_now_ms();
		expect(evacuate_run(&s.e, &err) == -1, rows[i].name);
		expect(err.code == EINTR && str_starts(err.text, "interrupted by a signal"), err.text);
		expect(sim_now_ms() - begun >= SOON_MS && sim_now_ms() - begun <= SOON_MS + 1000, rows[i].name);
		end(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_evicts_is_decided_first),
		cmocka_unit_test(each_step_is_reported_once),
		cmocka_unit_test(a_node_that_users_uncordoned_stays_uncordoned),
		cmocka_unit_test(without_permission_to_evict_nothing_is_cordoned),
		cmocka_unit_test(blocking_pods_are_named_first),
		cmocka_unit_test(pods_have_a_deadline),
		cmocka_unit_test(an_operand_has_its_deadline),
		cmocka_unit_test(a_finished_pod_holds_no_claim),
		cmocka_unit_test(others_change_the_node_all_the_time),
		cmocka_unit_test(a_refusal_halfway_ends_it),
		cmocka_unit_test(a_signal_ends_every_wait),
		cmocka_unit_test(an_api_server_that_does_not_answer_for_long),
	};
	return cmocka_run_group_tests_name("evacuation", tests, NULL, NULL);
}
