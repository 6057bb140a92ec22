// SPDX-License-Identifier: Apache-2.0
// Which time the client of the API believes, from the Date of answers, on a clock that stands still while code runs.
#include "cluster/kube/clock.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

#define auto_client __attribute__((cleanup(kube_freep)))
#define NODES "/api/v1/nodes"

// The time of the server, in seconds before or after our own.
static long ahead_s(const struct kube *k)
{
	return (long)(kube_time(k) - kube_wall_s());
}

struct news { // of the server's clock
	long passed_ms;
	int64_t is_ahead_s;
	long believed_s;
};
static void expect_clock(const char *name, const struct news *news, size_t count)
{
	struct err err = { 0 };
	auto_sim struct sim *s = sim_new(NULL);
	auto_client struct kube *k = sim_client(s, "a");
	assert_int_equal(ahead_s(k), 0);
	for (size_t i = 0; i < count; i++) {
		sim_pass(news[i].passed_ms);
		sim_skew(s, news[i].is_ahead_s);
		expect(api_get(k, NODES "?limit=1", NULL, &err) == 1, err.text);
		auto_str char *row = str_fmt("%s, answer %zu: %ld s", name, i, ahead_s(k));
		expect(ahead_s(k) - news[i].believed_s <= 1 && ahead_s(k) - news[i].believed_s >= -1, row);
	}
}

// Deadlines of nodes are by this clock: it follows a server that is right, and no step throws it.
static void a_step_of_the_servers_clock_ends_no_deadline(void **state)
{
	(void)state;
	static const struct news same[] = { { 0, 1, 0 }, { 60000, -1, 0 } }, other[] = { { 0, 3600, 3600 } },
				 before[] = { { 0, -3600, -3600 } },
				 step[] = { { 0, 100, 100 },
					    { 10000, 1000, 101 },  // a tenth of the time that has passed
					    { 100000, 1000, 107 }, // and of a minute at most
					    { 3600000, 1000, 113 },
					    { 60000, 115, 113 },   // near enough
					    { 60000, 118, 118 } }, // no further than it is
		back[] = { { 0, 100, 100 }, { 60000, -1000, 94 }, { 60000, -1000, 88 }, { 60000, 84, 84 } };
	expect_clock("as ours", same, ARRAY_SIZE(same));
	expect_clock("an hour ahead", other, ARRAY_SIZE(other));
	expect_clock("an hour behind", before, ARRAY_SIZE(before));
	expect_clock("it steps on", step, ARRAY_SIZE(step));
	expect_clock("it steps back", back, ARRAY_SIZE(back));
}

// A Date has whole seconds, and an answer is under way for a while: what may be the same is.
static void a_clock_close_to_ours_is_ours(void **state)
{
	(void)state;
	static const struct {
		int64_t is_ahead_s;
		long late_ms, believed_s;
	} first[] = { { 0, 0, 0 },   { 1, 0, 0 },    { 2, 0, 2 },    { -1, 0, 0 },
		      { -2, 0, -2 }, { 6, 5000, 0 }, { 7, 5000, 9 }, { 3600, 0, 3600 } };
	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		struct err err = { 0 };
		auto_sim struct sim *s = sim_new(&(struct sim_options){ .ahead_s = first[i].is_ahead_s });
		auto_client struct kube *k = sim_client(s, "a");
		if (first[i].late_ms)
			sim_fault(s, &(struct sim_fault){ .what = SIM_SLOW, .late_ms = first[i].late_ms });
		expect(api_get(k, NODES "?limit=1", NULL, &err) == 1, err.text);
		auto_str char *row = str_fmt("%ld s: %ld s", (long)first[i].is_ahead_s, ahead_s(k));
		expect(ahead_s(k) == first[i].believed_s, row);
	}
	// Of later ones, two seconds either way; a call takes two milliseconds.
	static const struct {
		long asked_ms;
		int64_t is_ahead_s;
		long believed_s;
	} later[] = { { 20000, 2, 0 }, { 19999, 2, 1 }, { 20002, -2, 0 }, { 20003, -2, -2 } };
	for (size_t i = 0; i < ARRAY_SIZE(later); i++) {
		struct err err = { 0 };
		auto_sim struct sim *s = sim_new(NULL);
		auto_client struct kube *k = sim_client(s, "a");
		expect(api_get(k, NODES "?limit=1", NULL, &err) == 1, err.text);
		sim_pass(later[i].asked_ms - sim_now_ms());
		sim_skew(s, later[i].is_ahead_s);
		expect(api_get(k, NODES "?limit=1", NULL, &err) == 1, err.text);
		auto_str char *row = str_fmt("%ld ms: %ld s", later[i].asked_ms, ahead_s(k));
		expect(ahead_s(k) == later[i].believed_s, row);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_step_of_the_servers_clock_ends_no_deadline),
					    cmocka_unit_test(a_clock_close_to_ours_is_ours) };
	return cmocka_run_group_tests_name("time", tests, NULL, NULL);
}
