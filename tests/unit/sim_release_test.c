// SPDX-License-Identifier: Apache-2.0
// Release only what can be used: a node is uncordoned when what was allocatable at its cordon is back; what comes late,
// in part or never, under each policy. The device plugin here obeys its label and offers what the loaded driver allows.
#include "tests/sim/farm_agent.h"
#include "tests/unit/lawful.h"

#define SECONDS(n) ((n)*1000L)
#define MINUTES(n) ((n)*60 * 1000L)
#define NOTE(f, node) farm_note(f, node, "kmodsmith.io/reason")
enum { NODES = 2, GPUS = 8, KUBELET_MS = 1000 };
#define POLICY(more) "{'pools':[{'name':'gpus','maxUnavailable':'50%'," more "'target':{'driver':'535.2'}}]}"

struct plugins {
	struct farm *farm;
	unsigned with_new, with_old; // GPUs that are offered
	long late_ms;                // after its label is back
	long since_ms[NODES];        // that it has run
	int offers[NODES];
};

static void offer(struct plugins *p, unsigned i, int gpus)
{
	auto_str char *path = str_fmt("/api/v1/nodes/n%02u/status", i);
	if (p->offers[i] != gpus)
		sim_merge(p->farm->sim, path, "{'status':{'allocatable':{'cpu':'8','nvidia.com/gpu':'%d'}}}", gpus);
	p->offers[i] = gpus;
}

static void run_plugins(void *ctx)
{
	struct plugins *p = ctx;
	if (p->farm->is_over)
		return;
	for (unsigned i = 0; i < NODES; i++) {
		const struct farm_node *n = &p->farm->nodes[i];
		const json_t *labels = sim_at(p->farm->objects[i], "metadata labels");
		const char *label = json_string_value(json_object_get(labels, "nvidia.com/gpu.deploy.device-plugin"));
		bool runs = str_eq(label, "true") && target_hash_is_set(&n->loaded);
		p->since_ms[i] = !runs ? 0 : p->since_ms[i] ? p->since_ms[i] : sim_now_ms();
		bool is_old = target_hash_eq(&n->loaded, &p->farm->old);
		bool is_up = runs && (is_old || sim_now_ms() >= p->since_ms[i] + p->late_ms);
		offer(p, i, !is_up ? 0 : (int)(is_old ? p->with_old : p->with_new));
	}
	sim_after(KUBELET_MS, run_plugins, p);
}

static void begin(struct farm *f, struct farm_coordinator *coordinator, struct plugins *p, const char *policy)
{
	farm_begin(f, NODES, policy);
	p->farm = f;
	for (unsigned i = 0; i < NODES; i++) {
		auto_str char *path = api_node(f->nodes[i].name);
		sim_merge(f->sim, path, "{'metadata':{'labels':{'nvidia.com/gpu.deploy.device-plugin':'true'}}}");
		p->offers[i] = -1;
		offer(p, i, GPUS);
	}
	run_plugins(p);
	farm_coordinator_begin(f, coordinator, "boss");
}

static void end(struct farm *f, struct farm_coordinator *coordinator)
{
	lawful(f);
	farm_coordinator_kill(coordinator);
	farm_end(f);
}

// "TYPE REASON MESSAGE" of an Event of that node.
static bool has_event(const struct farm *f, const char *node, const char *wanted)
{
	auto_json json_t *list = sim_ask(f->sim, "GET", "/api/v1/namespaces/default/events", NULL);
	const json_t *items = json_object_get(list, "items");
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *event = json_array_get(items, i);
		auto_str char *text = str_fmt("%s %s %s", sim_text(event, "type"), sim_text(event, "reason"),
					      sim_text(event, "message"));
		if (str_eq(sim_text(event, "involvedObject name"), node) && strstr(text, wanted))
			return true;
	}
	return false;
}

static unsigned first_in(const struct farm *f, const char *name)
{
	return str_eq(farm_state(f, 0), name) ? 0 : 1;
}

static void a_node_is_uncordoned_when_its_gpus_are_back(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct plugins plugins = { .with_new = GPUS, .with_old = GPUS, .late_ms = MINUTES(5) };
	begin(&f, &coordinator, &plugins, POLICY(""));
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(5)));
	unsigned first = first_in(&f, "releasing");
	assert_string_equal(farm_note(&f, first, "kmodsmith.io/baseline"), "gpu=8");
	assert_string_equal(NOTE(&f, first), "waits-for-allocatable nvidia.com/gpu 0 of 8");
	farm_run(&coordinator, 1, MINUTES(4));
	assert_true(farm_is_cordoned(&f, first));
	assert_int_equal(f.nodes[!first].life.cordons, 0);
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(15)));
	for (unsigned i = 0; i < NODES; i++) {
		assert_false(farm_is_cordoned(&f, i));
		assert_string_equal(farm_note(&f, i, "kmodsmith.io/baseline"), "");
		assert_string_equal(NOTE(&f, i), "");
	}
	end(&f, &coordinator);
}

// It is there when the driver is validated: one patch releases the node, as ever.
static void who_is_back_in_time_costs_no_write(void **state)
{
	(void)state;
	size_t patches[2];
	for (int has_plugins = 0; has_plugins <= 1; has_plugins++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct plugins plugins = { .with_new = GPUS, .with_old = GPUS };
		if (has_plugins) {
			begin(&f, &coordinator, &plugins, POLICY(""));
		} else { // no device plugin at all
			farm_begin(&f, NODES, POLICY(""));
			farm_coordinator_begin(&f, &coordinator, "boss");
		}
		assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
		assert_string_equal(farm_note(&f, first_in(&f, "replacing"), "kmodsmith.io/baseline"),
				    has_plugins ? "gpu=8" : "");
		assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(10)));
		patches[has_plugins] = sim_count(f.sim, "boss", "patch");
		end(&f, &coordinator);
	}
	assert_int_equal(patches[0], patches[1]);
}

static void hold_stops_the_wave_until_they_are_back(void **state)
{
	(void)state;
	static const unsigned offers[] = { 0, GPUS - 1 };
	for (size_t i = 0; i < ARRAY_SIZE(offers); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct plugins plugins = { .with_new = offers[i], .with_old = GPUS };
		auto_str char *why = str_fmt("waits-for-allocatable nvidia.com/gpu %u of 8", offers[i]);
		begin(&f, &coordinator, &plugins, POLICY(""));
		assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
		unsigned first = first_in(&f, "releasing");
		farm_run(&coordinator, 1, MINUTES(180));
		assert_string_equal(farm_state(&f, first), "releasing");
		assert_true(farm_is_cordoned(&f, first));
		assert_string_equal(NOTE(&f, first), why);
		assert_true(has_event(&f, f.nodes[first].name, why));
		assert_true(has_event(&f, f.nodes[first].name,
				      "Warning RolloutReleasing releasing -> releasing: not back"));
		assert_int_equal(f.nodes[!first].life.cordons, 0);
		size_t patches = sim_count(f.sim, "boss", "patch");
		farm_run(&coordinator, 1, MINUTES(180));
		assert_int_equal(sim_count(f.sim, "boss", "patch"), patches);
		plugins.with_new = GPUS;
		assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(20)));
		end(&f, &coordinator);
	}
}

// It cures a driver with which the plugin never comes back.
static void another_target_ends_the_hold(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct plugins plugins = { .with_new = 0, .with_old = GPUS };
	begin(&f, &coordinator, &plugins, POLICY(""));
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	farm_run(&coordinator, 1, MINUTES(30));
	plugins.with_new = GPUS;
	plugins.late_ms = MINUTES(1);
	for (unsigned i = 0; i < NODES; i++)
		plugins.since_ms[i] = sim_now_ms() + MINUTES(600); // not with the driver that is loaded
	farm_policy(&f, "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.3'}}]}");
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(60)));
	for (unsigned i = 0; i < NODES; i++)
		assert_false(farm_is_cordoned(&f, i));
	end(&f, &coordinator);
}

static void release_gives_the_node_back_with_a_warning(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct plugins plugins = { .with_new = GPUS - 1, .with_old = GPUS };
	begin(&f, &coordinator, &plugins, POLICY("'onReleaseTimeout':'release','deadlines':{'release':'3m'},"));
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "releasing");
	farm_run(&coordinator, 1, SECONDS(170));
	assert_true(farm_is_cordoned(&f, first));
	farm_run(&coordinator, 1, SECONDS(30));
	assert_string_equal(farm_state(&f, first), "done");
	assert_false(farm_is_cordoned(&f, first));
	assert_true(
		has_event(&f, f.nodes[first].name,
			  "Warning RolloutReleasing releasing -> releasing: not back in time, and onReleaseTimeout is "
			  "release: uncordoned without it (waits-for-allocatable nvidia.com/gpu 7 of 8;"));
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(20)));
	end(&f, &coordinator);
}

// With the previous driver they are back: the node is in service, and the rollout is halted.
static void fail_undoes_the_target_and_the_breaker_counts(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct plugins plugins = { .with_new = GPUS - 1, .with_old = GPUS };
	begin(&f, &coordinator, &plugins, POLICY("'onReleaseTimeout':'fail',"));
	assert_true(farm_until(&f, &coordinator, 1, "rolledback", 1, MINUTES(30)));
	unsigned first = first_in(&f, "rolledback");
	assert_false(farm_is_cordoned(&f, first));
	assert_true(target_hash_eq(&f.nodes[first].loaded, &f.old));
	assert_string_equal(NOTE(&f, first), "waits-for-allocatable nvidia.com/gpu 7 of 8");
	farm_run(&coordinator, 1, MINUTES(60));
	assert_int_equal(f.nodes[!first].life.cordons, 0);
	const json_t *map = sim_get(f.sim, "/api/v1/namespaces/kmodsmith/configmaps/" ROLLOUT_STATUS_NAME);
	assert_non_null(strstr(sim_text(map, "data " ROLLOUT_STATUS_KEY), "\"halted\": true"));
	end(&f, &coordinator);
}

// Nor with the previous one: it was no driver's fault, and the node stays out of service until they are.
static void fail_keeps_a_node_that_has_them_with_neither(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct plugins plugins = { .with_new = 0, .with_old = GPUS };
	begin(&f, &coordinator, &plugins, POLICY("'onReleaseTimeout':'fail',"));
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "releasing");
	plugins.with_old = GPUS - 2;
	assert_true(farm_until(&f, &coordinator, 1, "failed", 1, MINUTES(40)));
	assert_true(target_hash_eq(&f.nodes[first].loaded, &f.old));
	assert_string_equal(NOTE(&f, first), "waits-for-allocatable nvidia.com/gpu 6 of 8");
	farm_run(&coordinator, 1, MINUTES(120));
	assert_string_equal(farm_state(&f, first), "failed");
	assert_true(farm_is_cordoned(&f, first));
	plugins.with_old = GPUS;
	farm_run(&coordinator, 1, MINUTES(10));
	assert_false(farm_is_cordoned(&f, first));
	end(&f, &coordinator);
}

static void set_mig(const struct farm *f, unsigned node, const char *mig_state)
{
	auto_str char *path = api_node(f->nodes[node].name);
	sim_merge(f->sim, path,
		  "{'metadata':{'labels':{'nvidia.com/mig.config':'all-1g.10gb','nvidia.com/mig.config.state':'%s'}}}",
		  mig_state);
}

static void mig_manager_has_to_succeed(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct plugins plugins = { .with_new = GPUS, .with_old = GPUS };
	begin(&f, &coordinator, &plugins, POLICY(""));
	set_mig(&f, 0, "success");
	set_mig(&f, 1, "failed"); // before us: nobody waits for it
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	if (first_in(&f, "replacing") != 0)
		assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(10)));
	while (!str_eq(farm_state(&f, 0), "replacing"))
		farm_run(&coordinator, 1, 500);
	set_mig(&f, 0, "pending");
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(5)));
	assert_string_equal(farm_note(&f, 0, "kmodsmith.io/baseline"), "gpu=8,mig-manager");
	assert_string_equal(NOTE(&f, 0), "waits-for-mig is not success yet");
	set_mig(&f, 0, "failed");
	farm_run(&coordinator, 1, MINUTES(60));
	assert_true(farm_is_cordoned(&f, 0));
	assert_string_equal(NOTE(&f, 0), "waits-for-mig is failed");
	set_mig(&f, 0, "success");
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(20)));
	end(&f, &coordinator);
}

static void set_validator(const struct farm *f, unsigned node, bool is_ready)
{
	static const char all[] = "/api/v1/namespaces/default/pods";
	auto_str char *path = str_fmt("%s/validator-%u", all, node), *status = str_fmt("%s/status", path);
	if (!sim_get(f->sim, path))
		sim_make(f->sim, all,
			 "{'metadata':{'name':'validator-%u','namespace':'default','labels':{'app':'nvidia-operator-"
			 "validator'},'ownerReferences':[{'apiVersion':'apps/"
			 "v1','kind':'DaemonSet','name':'x','uid':'x',"
			 "'controller':true}]},'spec':{'nodeName':'%s','containers':[{'name':'c','image':'i'}]}}",
			 node, f->nodes[node].name);
	sim_merge(f->sim, status, "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'%s'}]}}",
		  is_ready ? "True" : "False");
}

static void the_validator_has_to_be_ready(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct plugins plugins = { .with_new = GPUS, .with_old = GPUS };
	begin(&f, &coordinator, &plugins, POLICY(""));
	for (unsigned i = 0; i < NODES; i++)
		set_validator(&f, i, true);
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "replacing");
	assert_string_equal(farm_note(&f, first, "kmodsmith.io/baseline"), "gpu=8,operator-validator");
	set_validator(&f, first, false);
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(5)));
	farm_run(&coordinator, 1, MINUTES(5));
	assert_true(farm_is_cordoned(&f, first));
	assert_string_equal(NOTE(&f, first), "waits-for-operands operator-validator");
	set_validator(&f, first, true);
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(20)));
	end(&f, &coordinator);
}

static void set_slice(const struct farm *f, unsigned node, unsigned generation, unsigned devices)
{
	static const char all[] = "/apis/resource.k8s.io/v1/resourceslices";
	auto_str char *list = str_dup(""), *path = str_fmt("%s/s%u", all, node);
	for (unsigned i = 0; i < devices; i++)
		str_add(&list, "%s{'name':'gpu-%u'}", i ? "," : "", i);
	if (!sim_get(f->sim, path))
		sim_make(f->sim, all,
			 "{'metadata':{'name':'s%u'},'spec':{'driver':'gpu.nvidia.com','nodeName':'%s','pool':{'name':'"
			 "p',"
			 "'generation':1,'resourceSliceCount':1}}}",
			 node, f->nodes[node].name);
	sim_merge(f->sim, path, "{'spec':{'pool':{'generation':%u},'devices':[%s]}}", generation, list);
}

// With DRA no resource is allocatable: devices are published.
static void devices_of_dra_have_to_be_published(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, NODES, POLICY(""));
	for (unsigned i = 0; i < NODES; i++) {
		auto_str char *path = api_node(f.nodes[i].name);
		sim_merge(f.sim, path, "{'metadata':{'labels':{'nvidia.com/gpu.deploy.dra-driver':'true'}}}");
		set_slice(&f, i, 1, GPUS);
		sim_make(
			f.sim, "/apis/resource.k8s.io/v1/resourceslices",
			"{'metadata':{'name':'old%u'},'spec':{'driver':'gpu.nvidia.com','nodeName':'%s','pool':{'name':"
			"'p','generation':0,'resourceSliceCount':1},'devices':[{'name':'gpu-0'}]}}",
			i, f.nodes[i].name);
		sim_make(f.sim, "/apis/resource.k8s.io/v1/resourceslices",
			 "{'metadata':{'name':'nic%u'},'spec':{'driver':'nic.example.com','nodeName':'%s','pool':{'"
			 "name':"
			 "'q','generation':9,'resourceSliceCount':1},'devices':[{'name':'nic-0'}]}}",
			 i, f.nodes[i].name);
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "replacing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "replacing");
	assert_string_equal(farm_note(&f, first, "kmodsmith.io/baseline"), "devices=8");
	set_slice(&f, first, 2, GPUS - 1);
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(5)));
	farm_run(&coordinator, 1, MINUTES(5));
	assert_true(farm_is_cordoned(&f, first));
	assert_string_equal(NOTE(&f, first), "waits-for-allocatable devices of gpu.nvidia.com 7 of 8");
	set_slice(&f, first, 3, GPUS);
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(20)));
	end(&f, &coordinator);
}

// All that it needs is on the node: neither the wait nor its deadline begins anew.
static void the_next_coordinator_goes_on(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct plugins plugins = { .with_new = GPUS - 1, .with_old = GPUS };
	begin(&f, &coordinator, &plugins, POLICY("'onReleaseTimeout':'release',"));
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "releasing");
	auto_str char *deadline = str_dup(farm_note(&f, first, "kmodsmith.io/deadline"));
	farm_run(&coordinator, 1, MINUTES(4));
	farm_coordinator_kill(&coordinator);
	sim_pass(MINUTES(2));
	farm_coordinator_begin(&f, &coordinator, "boss");
	farm_run(&coordinator, 1, MINUTES(3));
	assert_true(farm_is_cordoned(&f, first));
	assert_string_equal(farm_note(&f, first, "kmodsmith.io/deadline"), deadline);
	farm_run(&coordinator, 1, MINUTES(2));
	assert_string_equal(farm_state(&f, first), "done");
	end(&f, &coordinator);
}

// To mend the plugin, for instance. The driver is gone with the boot, and nobody is blamed for that.
static void a_reboot_while_it_waits_blames_nobody(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct farm_agent agents[NODES];
	struct plugins plugins = { .with_new = 0, .with_old = GPUS };
	begin(&f, &coordinator, &plugins, POLICY(""));
	farm_agents_begin(&f, agents);
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "releasing");
	farm_run(&coordinator, 1, MINUTES(2));
	farm_agent_die(&agents[first], FARM_AGENT_BOOTED);
	plugins.with_new = GPUS;
	assert_true(farm_until(&f, &coordinator, 1, "done", NODES, MINUTES(30)));
	struct target_hash target = farm_target(POLICY(""));
	assert_true(target_hash_eq(&f.nodes[first].loaded, &target));
	assert_string_equal(farm_note(&f, first, "kmodsmith.io/failed-target"), "");
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_agents_end(agents, NODES);
	farm_end(&f);
}

// Whoever uncordons a node that waits has decided about it.
static void a_user_may_uncordon_it(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct plugins plugins = { .with_new = 0, .with_old = GPUS };
	begin(&f, &coordinator, &plugins, POLICY(""));
	assert_true(farm_until(&f, &coordinator, 1, "releasing", 1, MINUTES(10)));
	unsigned first = first_in(&f, "releasing");
	auto_str char *path = api_node(f.nodes[first].name);
	sim_merge(f.sim, path, "{'spec':{'unschedulable':null}}");
	farm_run(&coordinator, 1, SECONDS(20));
	assert_string_equal(farm_state(&f, first), "done");
	assert_false(farm_is_cordoned(&f, first));
	end(&f, &coordinator);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_is_uncordoned_when_its_gpus_are_back),
		cmocka_unit_test(who_is_back_in_time_costs_no_write),
		cmocka_unit_test(hold_stops_the_wave_until_they_are_back),
		cmocka_unit_test(another_target_ends_the_hold),
		cmocka_unit_test(release_gives_the_node_back_with_a_warning),
		cmocka_unit_test(fail_undoes_the_target_and_the_breaker_counts),
		cmocka_unit_test(fail_keeps_a_node_that_has_them_with_neither),
		cmocka_unit_test(mig_manager_has_to_succeed),
		cmocka_unit_test(the_validator_has_to_be_ready),
		cmocka_unit_test(devices_of_dra_have_to_be_published),
		cmocka_unit_test(the_next_coordinator_goes_on),
		cmocka_unit_test(a_reboot_while_it_waits_blames_nobody),
		cmocka_unit_test(a_user_may_uncordon_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
