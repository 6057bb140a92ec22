// SPDX-License-Identifier: Apache-2.0
// What a call says when its time runs out, on a clock that nobody's load moves. The client's repetitions against a real
// socket: kube_test.
#include "tests/sim/sim.h"
#include "tests/unit/tempdir.h"

#define auto_client __attribute__((cleanup(kube_freep)))
enum { CALL_MS = 20, LEAST_MS = 500 }; // of a call; less than the latter is not enough for an answer

#define BUSY                                      \
	{                                         \
		.what = SIM_STATUS, .status = 503 \
	}
#define BUSY_FOR_EVER                                            \
	{                                                        \
		.what = SIM_STATUS, .status = 503, .times = 9999 \
	}
#define LATER                                                   \
	{                                                       \
		.what = SIM_STATUS, .status = 429, .retry_s = 1 \
	}
#define SILENT                                    \
	{                                         \
		.what = SIM_LINGER, .times = 9999 \
	}
#define CUT                            \
	{                              \
		.what = SIM_CUT_BEFORE \
	}
#define CUT_FOR_EVER                                  \
	{                                             \
		.what = SIM_CUT_BEFORE, .times = 9999 \
	}

static const struct {
	const char *name;
	struct sim_fault first, then;
	unsigned deadline_ms, calls; // calls 0 = some
	int code;                    // 0 = it is done
	const char *words;
} rows[] = {
	{ "an answer that may pass, until the time is over", BUSY_FOR_EVER, { 0 }, 0, 0, E_KUBE, "status 503: broken" },
	{ "no answer, until the time is over", SILENT, { 0 }, 3000, 1, E_TIMEOUT, "" },
	{ "an answer, then none", BUSY, SILENT, 3000, 2, E_KUBE, "status 503: broken on purpose; after a retry: " },
	{ "an answer, then no connection", BUSY, CUT_FOR_EVER, 3000, 0, E_NETWORK, "the connection ended" },
	{ "no connection, then no answer", CUT, SILENT, 3000, 2, E_TIMEOUT, "" },
	{ "a Retry-After that leaves enough", LATER, { 0 }, 2100, 2, 0, "" },
	{ "a Retry-After that leaves too little", LATER, { 0 }, 1900, 1, E_KUBE, "status 429: broken" },
	{ "a Retry-After that leaves just enough", LATER, { 0 }, 2000 + CALL_MS, 2, 0, "" },
	{ "a Retry-After that leaves a millisecond less",
	  LATER,
	  { 0 },
	  1999 + CALL_MS,
	  1,
	  E_KUBE,
	  "status 429: broken" },
	{ "a deadline that is shorter than that", { 0 }, { 0 }, 300, 1, 0, "" },
};

// The back-off is thrown with dice: whatever they say, and however long the time is.
static void run(size_t i, unsigned seed, unsigned deadline_ms)
{
	struct err err = { 0 };
	auto_sim struct sim *s = sim_new(&(struct sim_options){ .seed = seed + 1, .call_ms = CALL_MS });
	auto_client struct kube *k = sim_client(s, "a");
	auto_kube_call struct kube_call call = { .path = "/api/v1/nodes?limit=1", .deadline_ms = deadline_ms };
	sim_fault(s, &rows[i].first);
	sim_fault(s, &rows[i].then);
	int r = kube_run(k, &call, &err);
	size_t calls = 0;
	const struct sim_call *log = sim_log(s, &calls);
	auto_str char *row = str_fmt("%s, seed %u, %u ms: %d after %zu calls and %ld ms: %d %s", rows[i].name, seed,
				     deadline_ms, r, calls, sim_now_ms(), err.code, err.text);
	expect(r == (rows[i].code ? -1 : 0), row);
	expect(r == 0 || (err.code == rows[i].code && strstr(err.text, rows[i].words)), row);
	expect(calls > 0 && (!rows[i].calls || calls == rows[i].calls), row);
	expect(calls == 1 || log[calls - 1].ms <= (long)deadline_ms - LEAST_MS + CALL_MS || !log[calls - 1].status,
	       row);
	expect(sim_now_ms() <= (long)deadline_ms + CALL_MS, row);
}

static void test_the_time_runs_out(void **state)
{
	(void)state;
	enum { SEEDS = 20, FROM_MS = 300, TO_MS = 6000, STEP_MS = 37 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned from = rows[i].deadline_ms ? rows[i].deadline_ms : FROM_MS;
		unsigned to = rows[i].deadline_ms ? rows[i].deadline_ms : TO_MS;
		for (unsigned deadline = from; deadline <= to; deadline += STEP_MS)
			for (unsigned seed = 0; seed < SEEDS; seed++)
				run(i, seed, deadline);
	}
}

// A refused token is read again; what was refused stays the answer when there is no time left to show the new one.
static void test_a_refused_token_late(void **state)
{
	(void)state;
	static const struct {
		unsigned deadline_ms;
		size_t calls;
		int code;
	} times[] = { { 5000, 2, 0 }, { 1400, 2, 0 }, { 1399, 1, E_AUTH }, { 1200, 1, E_AUTH } };
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct err err = { 0 };
		auto_folder struct folder folder;
		auto_sim struct sim *s = sim_new(&(struct sim_options){ .call_ms = 400 });
		auto_client struct kube *k = NULL;
		kube_free(sim_client(s, "a")); // clients of this process reach the simulation from here on
		auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
		auto_kube_call struct kube_call before = { .path = "/api/v1/nodes" },
						call = { .path = "/api/v1/nodes", .deadline_ms = times[i].deadline_ms };
		folder_make(&folder);
		tempdir_write(&folder, "token", "old\n");
		c.server = str_dup("http://sim");
		c.token_file = str_dup("token");
		expect(root_init(&c.token_root, folder.path, &err) == 0 && kube_open(&c, &k, &err) == 0, err.text);
		expect(kube_run(k, &before, &err) == 0, err.text);
		tempdir_write(&folder, "token", "new\n");
		sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = 401, .client = "old", .times = 99 });
		int r = kube_run(k, &call, &err);
		size_t calls = sim_count(s, NULL, NULL) - 1;
		auto_str char *row = str_fmt("%u ms: %d after %zu calls: %s", times[i].deadline_ms, r, calls, err.text);
		expect(r == (times[i].code ? -1 : 0) && calls == times[i].calls, row);
		expect(r == 0 || err.code == times[i].code, row);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_time_runs_out),
		cmocka_unit_test(test_a_refused_token_late),
	};
	return cmocka_run_group_tests_name("sim_repetition", tests, NULL, NULL);
}
