// SPDX-License-Identifier: Apache-2.0
// One node whose driver pod looks at what the operator wants next, on the simulated API server: what is written, and
// what happens when somebody else changes the Node or the DaemonSet meanwhile. Decisions: upgrade_hold_test.c.
#include "cluster/driver_manager/upgrade_hold.h"
#include "cluster/node_state/states.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

#define NODE "/api/v1/nodes/n00"
#define PODS "/api/v1/namespaces/gpu-operator/pods"
#define SET "/apis/apps/v1/namespaces/gpu-operator/daemonsets/driver"

#define OWNER(version, kind, uid) \
	"{'apiVersion':'" version "','kind':'" kind "','name':'driver','uid':'" uid "','controller':true}"

struct scene {
	struct sim *sim;
	struct kube *kube;
	struct upgrade_hold_request request;
	struct upgrade_hold seen;
	unsigned proofs;
	int fails;                          // proofs with this code; 0 = none
	void (*meanwhile)(struct scene *s); // during the first proof
	char image[64];                     // of what was proven last
};

static int prove(void *ctx, const json_t *own, const json_t *next, struct err *err)
{
	struct scene *s = ctx;
	assert_string_equal(sim_text(own, "metadata name"), "driver-1");
	const json_t *first = json_array_get(sim_at(next, "spec containers"), 0);
	snprintf(s->image, sizeof(s->image), "%s", sim_text(first, "image"));
	if (s->proofs++ == 0 && s->meanwhile)
		s->meanwhile(s);
	return s->fails ? err_set(err, s->fails, "nobody has it") : 0;
}

static const char TEMPLATE[] = "{'spec':{'template':{'spec':{'nodeSelector':{'nvidia.com/gpu.deploy.driver':'true'},"
			       "'containers':[{'name':'nvidia-driver-ctr','image':'%s'}]}}}}";

static void begin(struct scene *s)
{
	*s = (struct scene){ .sim = sim_new(NULL) };
	sim_make(s->sim, "/api/v1/nodes",
		 "{'metadata':{'name':'n00','labels':{'nvidia.com/gpu.deploy.driver':'true'}}}");
	sim_make(s->sim, "/apis/apps/v1/namespaces/gpu-operator/daemonsets",
		 "{'metadata':{'name':'driver','ownerReferences':[" OWNER(
			 "nvidia.com/v1", "ClusterPolicy",
			 "p") "]},'spec':{'selector':{'matchLabels':{'a':'b'}},'template':{'spec':{}}}}");
	sim_merge(s->sim, SET, TEMPLATE, "r/k:1.1-os");
	sim_make(s->sim, PODS,
		 "{'metadata':{'name':'driver-1','labels':{'app.kubernetes.io/component':'nvidia-driver'},"
		 "'ownerReferences':[" OWNER("apps/v1", "DaemonSet",
					     "%s") "]},'spec':{'nodeName':'n00','containers':[{'name':'nvidia-driver-"
						   "ctr','image':'r/k:1.1-os'}]}}",
		 sim_text(sim_get(s->sim, SET), "metadata uid"));
	s->kube = sim_client(s->sim, "driver");
	s->request = (struct upgrade_hold_request){ .kube = s->kube,
						    .node = "n00",
						    .namespace = "gpu-operator",
						    .pod = "driver-1",
						    .hold_s = 3600,
						    .prove = prove,
						    .ctx = s };
}

static void end(struct scene *s)
{
	upgrade_hold_done(&s->seen);
	kube_free(s->kube);
	sim_free(s->sim);
}

static int look(struct scene *s)
{
	struct err err = { 0 };
	upgrade_hold_done(&s->seen);
	int r = upgrade_hold_look(&s->request, &s->seen, &err);
	expect(r >= 0, err.text);
	return r;
}
static const char *value(struct scene *s, const char *of, const char *key)
{
	return json_string_value(json_object_get(sim_at(sim_get(s->sim, NODE), of), key));
}
static const char *label(struct scene *s)
{
	return value(s, "metadata labels", UPGRADE_SKIP);
}
static const char *receipt(struct scene *s)
{
	const char *text = value(s, "metadata annotations", UPGRADE_HOLD);
	return text ? text : "";
}
static size_t writes(struct scene *s)
{
	return sim_count(s->sim, "driver", "patch");
}
static void wants(struct scene *s, const char *image) // and the controller sees it
{
	sim_merge(s->sim, SET, TEMPLATE, image);
	sim_merge(s->sim, NODE, "{'metadata':{'labels':{'" UPGRADE_LABEL "':'upgrade-required'}}}");
}

static void at_rest_one_request_and_no_write(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	assert_int_equal(look(&s), 0);
	assert_string_equal(label(&s), "true");
	assert_non_null(strstr(receipt(&s), "\"pod\":\"driver-1\",\"target\":null"));
	assert_null(s.seen.target);
	size_t before;
	sim_log(s.sim, &before);
	assert_int_equal(look(&s), 0);
	size_t after;
	sim_log(s.sim, &after);
	assert_int_equal(after - before, 1);
	assert_int_equal(writes(&s), 1);
	end(&s);
}

static void a_target_that_nobody_has_is_held_until_the_deadline(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	look(&s);
	wants(&s, "r/k:2.2-os");
	s.fails = E_NOT_FOUND;
	assert_int_equal(look(&s), 1);
	assert_string_equal(label(&s), "true");
	assert_string_equal(s.seen.target, "r/k:2.2-os");
	assert_non_null(strstr(receipt(&s), "E_NOT_FOUND: nobody has it"));
	size_t before = writes(&s);
	assert_int_equal(look(&s), 1); // tried again, and nothing new
	assert_int_equal(s.proofs, 2);
	assert_int_equal(writes(&s), before);
	sim_pass(3600 * 1000L);
	assert_int_equal(look(&s), 0);
	assert_null(label(&s));
	assert_non_null(strstr(receipt(&s), "the deadline is over"));
	end(&s);
}

static void a_proven_one_is_let_go_once(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	look(&s);
	wants(&s, "r/k:2.2-os");
	assert_int_equal(look(&s), 0);
	assert_string_equal(s.image, "r/k:2.2-os");
	assert_null(label(&s));
	assert_non_null(strstr(receipt(&s), "\"state\":\"lifted\""));
	look(&s); // it waits for its turn
	assert_int_equal(s.proofs, 1);
	wants(&s, "r/k:3.3-os");
	s.fails = E_NOT_FOUND;
	assert_int_equal(look(&s), 1);
	assert_string_equal(label(&s), "true");
	end(&s);
}

static void change_set(struct scene *s)
{
	sim_merge(s->sim, SET, TEMPLATE, "r/k:3.3-os");
}
static void change_node(struct scene *s)
{
	sim_merge(s->sim, NODE, "{'metadata':{'labels':{'site/x':'y'}}}");
}
static void take_label(struct scene *s)
{
	sim_merge(s->sim, NODE, "{'metadata':{'labels':{'" UPGRADE_SKIP "':null}}}");
}
static void change_image(struct scene *s)
{
	sim_merge(s->sim, SET, TEMPLATE, "nvcr.io/nvidia/driver:3.3-os");
}

static void what_changes_during_a_proof_counts(void **state)
{
	(void)state;
	static const struct {
		void (*meanwhile)(struct scene *s);
		unsigned proofs;
		const char *image, *said;
	} rows[] = {
		{ change_node, 1, "r/k:2.2-os", "it is proven" },
		{ change_set, 2, "r/k:3.3-os", "it is proven" },
		{ take_label, 1, "r/k:2.2-os", "somebody removed the label" },
		{ change_image, 1, "r/k:2.2-os", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		begin(&s);
		look(&s);
		wants(&s, "r/k:2.2-os");
		s.meanwhile = rows[i].meanwhile;
		assert_int_equal(look(&s), 0);
		assert_null(label(&s));
		expect(s.proofs == rows[i].proofs && str_eq(s.image, rows[i].image), rows[i].said);
		expect(*rows[i].said ? strstr(receipt(&s), rows[i].said) != NULL : !*receipt(&s), rows[i].said);
		end(&s);
	}
}

static void whose_set_it_is(void **state)
{
	(void)state;
	static const struct {
		const char *path, *patch;
	} rows[] = {
		{ SET, "{'metadata':{'ownerReferences':null}}" },
		{ SET, "{'metadata':{'ownerReferences':[" OWNER("x.io/v1", "ClusterPolicy", "p") "]}}" },
		{ NODE, "{'metadata':{'labels':{'nvidia.com/gpu.deploy.driver':'false'}}}" },
		{ PODS "/driver-1", "{'metadata':{'ownerReferences':[" OWNER("apps/v1", "DaemonSet", "another") "]}}" },
		{ PODS "/driver-1", "{'metadata':{'ownerReferences':null}}" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct scene s;
		begin(&s);
		sim_merge(s.sim, rows[i].path, "%s", rows[i].patch);
		assert_int_equal(look(&s), 0);
		expect(!label(&s) && !*receipt(&s), rows[i].patch);
		end(&s);
	}
}

// The DaemonSet goes first, then its pod is told to end; or only the pod is deleted, and has a successor.
static void a_pod_that_ends_leaves_it_for_a_successor_alone(void **state)
{
	(void)state;
	for (int is_gone = 0; is_gone < 2; is_gone++) {
		struct scene s;
		begin(&s);
		sim_merge(s.sim, PODS "/driver-1", "{'metadata':{'finalizers':['x.io/stays']}}");
		look(&s);
		if (is_gone)
			sim_delete(s.sim, SET);
		sim_delete(s.sim, PODS "/driver-1");
		s.request.when = HOLD_LEAVING;
		assert_int_equal(look(&s), 0);
		assert_true(is_gone ? !label(&s) && !*receipt(&s) : str_eq(label(&s), "true"));
		end(&s);
	}
}

static void a_killed_pods_label_goes_with_the_next_start(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	look(&s);
	wants(&s, "r/k:2.2-os");
	s.fails = E_NOT_FOUND;
	look(&s);
	s.request.pod = "driver-2"; // of the next one, which is not listed yet
	s.request.when = HOLD_STARTING;
	assert_int_equal(look(&s), 1);
	s.fails = 0;
	assert_int_equal(look(&s), 0);
	assert_null(label(&s));
	end(&s);
}

static void without_the_rights_it_says_so(void **state)
{
	(void)state;
	static const char *const resources[] = { "nodes", "daemonsets" };
	for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s);
		sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS,
						      .status = 403,
						      .verb = i ? "get" : "patch",
						      .resource = resources[i],
						      .times = 9 });
		assert_true(upgrade_hold_look(&s.request, &s.seen, &err) < 0);
		assert_int_equal(err.code, E_AUTH);
		assert_null(label(&s));
		end(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_rest_one_request_and_no_write),
		cmocka_unit_test(a_target_that_nobody_has_is_held_until_the_deadline),
		cmocka_unit_test(a_proven_one_is_let_go_once),
		cmocka_unit_test(what_changes_during_a_proof_counts),
		cmocka_unit_test(whose_set_it_is),
		cmocka_unit_test(a_pod_that_ends_leaves_it_for_a_successor_alone),
		cmocka_unit_test(a_killed_pods_label_goes_with_the_next_start),
		cmocka_unit_test(without_the_rights_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
