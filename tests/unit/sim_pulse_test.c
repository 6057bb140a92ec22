// SPDX-License-Identifier: Apache-2.0
// A coordinator that only waits for its API server is not taken for one that hangs: between any two signs of life is
// less time than the liveness probe of deploy/coordinator.yaml allows.
#include "tests/sim/farm.h"
#include "tests/unit/test.h"

enum { NODES = 20, STALL_MS = 60 * 1000 };
#define MINUTES(n) ((n)*60 * 1000L)
static const char plain[] = "{'pools':[{'name':'gpus','maxParallel':'50%','maxUnavailable':'50%',"
			    "'target':{'driver':'535.2'}}]}";

struct signs {
	long last_ms, longest_ms;
};

static void turns(void *ctx)
{
	struct signs *s = ctx;
	long gap = sim_now_ms() - s->last_ms;
	s->longest_ms = gap > s->longest_ms ? gap : s->longest_ms;
	s->last_ms = sim_now_ms();
}

static void begin(struct farm *f, struct farm_coordinator *coordinator, struct signs *signs)
{
	farm_coordinator_begin(f, coordinator, "boss");
	coordinator->c.o.callbacks.turns = turns;
	coordinator->c.o.callbacks.ctx = signs;
	signs->last_ms = sim_now_ms();
}

static void run(const struct sim_fault *fault, const char *row)
{
	struct farm f;
	struct farm_coordinator coordinator;
	struct signs signs = { 0 };
	farm_begin(&f, NODES, plain);
	begin(&f, &coordinator, &signs);
	farm_run(&coordinator, 1, MINUTES(2)); // it leads, and knows its nodes
	assert_true(signs.last_ms > MINUTES(1));
	sim_fault(f.sim, fault);
	for (int i = 0; i < 20 * 60; i++) {
		if (coordinator.is_dead) // a leader that loses its Lease ends, and is started again
			begin(&f, &coordinator, &signs);
		farm_run(&coordinator, 1, 1000);
	}
	turns(&signs);
	auto_str char *text = str_fmt("%s: %ld ms", row, signs.longest_ms);
	expect(signs.longest_ms < STALL_MS, text);
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
}

static void the_api_server_is_not_to_blame(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		struct sim_fault fault;
	} rows[] = {
		{ "every call takes eleven seconds", { .what = SIM_SLOW, .one_in = 1, .late_ms = 11000 } },
		{ "no call is answered", { .what = SIM_SLOW, .one_in = 1, .late_ms = 3600000 } },
		{ "every connection ends", { .what = SIM_CUT_BEFORE, .one_in = 1 } },
		{ "it is too busy, and asks for an hour",
		  { .what = SIM_STATUS, .one_in = 1, .status = 429, .retry_s = 3600 } },
		{ "it is not there", { .what = SIM_PARTITION, .client = "boss*" } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		run(&rows[i].fault, rows[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_api_server_is_not_to_blame) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
