// SPDX-License-Identifier: Apache-2.0
// How long a rollout still takes: by the nodes that are done, and never a number where nothing goes on.
#include "cluster/rollout/pace.h"
#include "tests/unit/rollout_line.h"

static void test_left(void **state)
{
	(void)state;
	static const struct {
		const char *name, *line;
		int first, step; // seconds before now of the first that is done, and between two
		bool is_halted;
		int64_t left;
	} rows[] = {
		{ "nothing is done", "queued queued queued", 0, 0, false, -1 },
		{ "one tells no pace", "done queued queued", 300, 0, false, -1 },
		{ "ten minutes each", "done done queued queued", 600, 600, false, 1200 },
		{ "of which some have passed", "done done queued queued", 900, 600, false, 900 },
		{ "longer than it should have taken", "done done queued", 6000, 600, false, 0 },
		{ "two at a time", "done done done queued", 600, 300, false, 300 },
		{ "failed ones are not waited for", "done done failed+failed queued", 600, 600, false, 600 },
		{ "another target's do not count", "done done+other queued queued", 600, 600, false, -1 },
		{ "all are done", "done done", 600, 600, false, -1 },
		{ "halted", "done done queued queued", 600, 600, true, -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int before = rows[i].first;
		plan(rows[i].line);
		for (size_t k = 0; k < count; k++) {
			if (nodes[k].record.phase != PHASE_DONE)
				continue;
			nodes[k].record.since = NOW - before;
			before -= rows[i].step;
			if (k > 0 && strstr(rows[i].line, "+other"))
				nodes[k].record.target = old;
		}
		rollouts[0].is_halted = rows[i].is_halted;
		plan_again();
		int64_t left = pace_seconds_left(&cluster, &slots, 0);
		auto_str char *row = str_fmt("%s: %lld", rows[i].name, (long long)left);
		expect(left == rows[i].left, row);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_left, setup, teardown) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
