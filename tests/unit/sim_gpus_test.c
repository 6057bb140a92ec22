// SPDX-License-Identifier: Apache-2.0
// What nodes say of their GPUs, in a rollout: a driver that starts on one model alone, errors while a wave soaks, and
// nodes that were ill before.
#include "cluster/rollout/rollout_status.h"
#include "tests/unit/lawful.h"

#define MINUTES(n) ((n)*60 * 1000L)
#define GPU "0000:3b:00.0"
#define BIG "NVIDIA-H100-80GB-HBM3"
#define SMALL "NVIDIA-A2"

static void say_gpus(struct farm *f, unsigned node, const char *model, const char *faults)
{
	snprintf(f->nodes[node].gpus, FARM_TEXT, "8/8 535.1 %s%s%s", model, *faults ? " " : "", faults);
	f->nodes[node].is_told = false;
}

// "code object" of the halt; "" = it is not halted. Caller frees.
static char *halt_of(const struct farm *f)
{
	const json_t *map = sim_get(f->sim, "/api/v1/namespaces/kmodsmith/configmaps/" ROLLOUT_STATUS_NAME);
	const char *text = sim_text(map, "data " ROLLOUT_STATUS_KEY);
	auto_json json_t *status = text ? json_loads(text, 0, NULL) : NULL;
	const json_t *pool = json_array_get(json_object_get(status, "pools"), 0);
	return json_is_true(json_object_get(pool, "halted")) ?
		       str_fmt("%s %s", json_string_value(json_object_get(pool, "reason")),
			       json_string_value(json_object_get(pool, "object"))) :
		       str_dup("");
}

static void expect_halt(const struct farm *f, const char *want)
{
	auto_str char *halt = halt_of(f);
	if (!str_eq(halt, want))
		fail_msg("halted: '%s', not '%s'", halt, want);
}

// Every other node has GPUs of a model that the target starts on none of. Limits on failures do not see it: nodes of
// the other model succeed in between.
static void a_driver_for_one_of_two_models(void **state)
{
	(void)state;
	enum { NODES = 10 };
	static const char policy[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','breaker':{'percent':100,"
				     "'inARow':100},'target':{'driver':'535.2'}}]}";
	struct farm f;
	struct farm_coordinator coordinator;
	unsigned touched = 0;
	farm_begin(&f, NODES, policy);
	for (unsigned i = 0; i < NODES; i++) {
		f.nodes[i].is_unfit = i % 2;
		say_gpus(&f, i, i % 2 ? SMALL : BIG, "");
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "rolledback", 1, MINUTES(60)));
	expect_halt(&f, "gpu-model n01 (E_GPU_START, " SMALL ")");
	farm_run(&coordinator, 1, MINUTES(6 * 60));
	for (unsigned i = 1; i < NODES; i += 2)
		touched += f.nodes[i].life.cordons > 0;
	assert_int_equal(touched, 1);
	assert_false(farm_is_cordoned(&f, 1));
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// It was broken before, and is begun all the same: that it is broken still is not the target's fault.
static void a_gpu_that_no_driver_cures(void **state)
{
	(void)state;
	static const char policy[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','unhealthyBefore':'replace',"
				     "'breaker':{'percent':100,'inARow':100},'target':{'driver':'535.2'}}]}";
	struct farm f;
	struct farm_coordinator coordinator;
	farm_begin(&f, 3, policy);
	f.nodes[0].is_unfit = true;
	for (unsigned i = 0; i < 3; i++)
		say_gpus(&f, i, BIG, i ? "" : GPU "=no-start");
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "done", 2, MINUTES(60)));
	assert_string_equal(farm_state(&f, 0), "rolledback");
	expect_halt(&f, "");
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

static const char before[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','target':{'driver':'535.2'}}]}";
#define SOAK(breaker)                                                                                               \
	"{'pools':[{'name':'gpus','maxUnavailable':'50%','onHalt':'rollback-all','breaker':{'percent':100,'inARow'" \
	":100" breaker "},'waves':[{'name':'a','count':3,'soak':'1h','maxFailures':0}],'target':{'driver':'535.3'}}]}"
enum { NODES = 6, WAVE = 3 };

static unsigned loaded_with(const struct farm *f, const char *policy)
{
	unsigned count = 0;
	struct target_hash target = farm_target(policy);
	for (unsigned i = 0; i < f->count; i++)
		count += target_hash_eq(&f->nodes[i].loaded, &target);
	return count;
}

// All nodes have had a driver that is known to work, and the wave of the next one is done.
static void begin_soak(struct farm *f, struct farm_coordinator *coordinator, const char *policy,
		       unsigned ret_wave[WAVE])
{
	struct target_hash target = farm_target(policy);
	unsigned count = 0;
	farm_begin(f, NODES, before);
	for (unsigned i = 0; i < NODES; i++)
		say_gpus(f, i, BIG, GPU "=xid119x3"); // the driver's before: a load forgets it
	farm_coordinator_begin(f, coordinator, "boss");
	assert_true(farm_until(f, coordinator, 1, "done", NODES, MINUTES(60)));
	farm_run(coordinator, 1, MINUTES(1));
	farm_policy(f, policy);
	for (int i = 0; i < 60 && loaded_with(f, policy) < WAVE; i++)
		farm_run(coordinator, 1, MINUTES(1));
	farm_run(coordinator, 1, MINUTES(20));
	for (unsigned i = 0; i < NODES; i++)
		if (target_hash_eq(&f->nodes[i].loaded, &target) && count < WAVE)
			ret_wave[count++] = i;
	assert_int_equal(count, WAVE);
	assert_int_equal(farm_in(f, "done"), WAVE);
}

static void errors_while_a_wave_soaks(void **state)
{
	(void)state;
	static const struct {
		const char *name, *policy;
		const char *models[2], *faults[2]; // of the first nodes of the wave
		const char *halt, *said[2];        // its reason, and of these nodes; NULL = it goes on
		unsigned moved;                    // nodes that have the target in the end
	} rows[] = {
		{ "an application's", SOAK(""), { BIG, BIG }, { GPU "=xid31x7", GPU "=xid31x1" }, NULL, { 0 }, NODES },
		{ "of hardware", SOAK(""), { BIG }, { GPU "=xid79x1" }, NULL, { 0 }, NODES },
		{ "of hardware, of two models",
		  SOAK(""),
		  { BIG, SMALL },
		  { GPU "=xid79x1", GPU "=xid79x1" },
		  NULL,
		  { 0 },
		  NODES },
		{ "of hardware, two numbers",
		  SOAK(""),
		  { BIG, BIG },
		  { GPU "=xid79x1", GPU "=xid48x1" },
		  NULL,
		  { 0 },
		  NODES },
		{ "of hardware, as many as the policy says: nothing is undone",
		  SOAK(",'hardwareErrors':2"),
		  { BIG, SMALL },
		  { GPU "=xid79x1", GPU "=gone" },
		  "hardware-errors",
		  { GPU " Xid 79, " BIG, GPU " gone, " SMALL },
		  WAVE },
		{ "of hardware, the same one on a second node of the model",
		  SOAK(""),
		  { SMALL, SMALL },
		  { GPU "=xid79x1", GPU "=xid79x2" },
		  "wave-failures",
		  { GPU " Xid 79, " SMALL, GPU " Xid 79, " SMALL },
		  0 },
		{ "of the driver's firmware",
		  SOAK(""),
		  { BIG },
		  { GPU "=xid119x1" },
		  "wave-failures",
		  { GPU " Xid 119, " BIG },
		  0 },
		{ "a GPU that does not start any more",
		  SOAK(""),
		  { BIG },
		  { GPU "=no-start" },
		  "wave-failures",
		  { GPU " no-start, " BIG },
		  0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		unsigned wave[WAVE];
		auto_str char *want = str_dup(rows[i].halt ? rows[i].halt : "");
		begin_soak(&f, &coordinator, rows[i].policy, wave);
		for (unsigned n = 0; n < 2 && rows[i].faults[n]; n++) {
			say_gpus(&f, wave[n], rows[i].models[n], rows[i].faults[n]);
			if (rows[i].said[n])
				str_add(&want, " %s (%s)", f.nodes[wave[n]].name, rows[i].said[n]);
		}
		farm_run(&coordinator, 1, 2000);
		expect_halt(&f, want);
		farm_run(&coordinator, 1, MINUTES(180));
		if (loaded_with(&f, rows[i].policy) != rows[i].moved)
			fail_msg("%s: %u nodes have the target", rows[i].name, loaded_with(&f, rows[i].policy));
		for (unsigned n = 0; n < NODES; n++)
			expect(!farm_is_cordoned(&f, n), rows[i].name);
		lawful(&f);
		farm_coordinator_kill(&coordinator);
		farm_end(&f);
	}
}

// Broken by the target, a node is not left with it: the way back is no new driver that it would be too ill for.
static void the_way_back_is_open(void **state)
{
	(void)state;
	static const char policy[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','waves':[{'name':'a','count':3,"
				     "'soak':'1h','maxFailures':0}],'target':{'driver':'535.3'}}]}";
	struct farm f;
	struct farm_coordinator coordinator;
	unsigned wave[WAVE];
	begin_soak(&f, &coordinator, policy, wave);
	say_gpus(&f, wave[0], BIG, GPU "=no-start");
	farm_run(&coordinator, 1, MINUTES(60));
	assert_int_equal(loaded_with(&f, policy), WAVE); // halted
	farm_policy(&f, before);
	farm_run(&coordinator, 1, MINUTES(60));
	assert_int_equal(loaded_with(&f, before), NODES);
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// The only node of a wave has lost its GPU: it proves nothing, and somebody has to say that it goes on all the same.
static void a_node_that_is_held_proves_nothing(void **state)
{
	(void)state;
	static const char policy[] = "{'pools':[{'name':'gpus','maxUnavailable':'50%','waves':[{'name':'a','count':1,"
				     "'soak':'1h'}],'target':{'driver':'535.2'}}]}";
	struct farm f;
	struct farm_coordinator coordinator;
	unsigned at = 0;
	farm_begin(&f, 3, policy);
	farm_coordinator_begin(&f, &coordinator, "boss");
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	while (!str_eq(farm_state(&f, at), "done"))
		at++;
	say_gpus(&f, at, BIG, GPU "=xid79x1");
	farm_run(&coordinator, 1, MINUTES(6 * 60));
	assert_int_equal(loaded_with(&f, policy), 1);
	expect_halt(&f, "");
	say_gpus(&f, at, BIG, ""); // it was repaired
	assert_true(farm_until(&f, &coordinator, 1, "done", 3, MINUTES(180)));
	lawful(&f);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

// A node with a GPU that is broken already: left as it is, or begun like any other. It keeps no wave open.
static void ill_before(void **state)
{
	(void)state;
#define ILL(more)                                                                                               \
	"{'pools':[{'name':'gpus','maxUnavailable':'50%'," more "'waves':[{'name':'a','count':2,'soak':'1h'}]," \
	"'target':{'driver':'535.2'}}]}"
	static const struct {
		const char *name, *policy, *fault;
		bool is_begun;
	} rows[] = {
		{ "hold, unless said", ILL(""), GPU "=no-start", false },
		{ "hold: gone", ILL("'unhealthyBefore':'hold',"), GPU "=gone", false },
		{ "hold: a recovery action", ILL(""), GPU "=xid154x1", false },
		{ "hold: off the bus", ILL(""), GPU "=xid79x1", false },
		{ "hold: an error that is over", ILL(""), GPU "=xid48x1", true },
		{ "replace", ILL("'unhealthyBefore':'replace',"), GPU "=no-start", true },
		{ "an agent that says nothing", ILL(""), NULL, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (unsigned ill = 0; ill < 3; ill++) { // in the first wave, or after it
			struct farm f;
			struct farm_coordinator coordinator;
			farm_begin(&f, 3, rows[i].policy);
			if (rows[i].fault)
				say_gpus(&f, ill, BIG, rows[i].fault);
			farm_coordinator_begin(&f, &coordinator, "boss");
			bool is_done = farm_until(&f, &coordinator, 1, "done", 2 + rows[i].is_begun, MINUTES(300));
			farm_run(&coordinator, 1, MINUTES(60));
			expect(is_done && farm_in(&f, "done") == 2U + rows[i].is_begun, rows[i].name);
			expect((f.nodes[ill].life.cordons > 0) == rows[i].is_begun, rows[i].name);
			expect(!farm_is_cordoned(&f, ill), rows[i].name);
			expect_halt(&f, "");
			if (!rows[i].is_begun) { // repaired, it has its turn
				say_gpus(&f, ill, BIG, "");
				expect(farm_until(&f, &coordinator, 1, "done", 3, MINUTES(60)), rows[i].name);
			}
			lawful(&f);
			farm_coordinator_kill(&coordinator);
			farm_end(&f);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_driver_for_one_of_two_models),     cmocka_unit_test(a_gpu_that_no_driver_cures),
		cmocka_unit_test(errors_while_a_wave_soaks),          cmocka_unit_test(the_way_back_is_open),
		cmocka_unit_test(a_node_that_is_held_proves_nothing), cmocka_unit_test(ill_before),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
