// SPDX-License-Identifier: Apache-2.0
// What is recorded of rollouts comes back as it was, and what means nothing is refused or is as if it were not there:
// the ledger on the Lease, the status, and what people say beside the policy. T03, T29, T60, T83.
#include "cluster/rollout/operator_requests.h"
#include "cluster/rollout/rollout_status.h"
#include "tests/unit/test.h"

#define NOW INT64_C(1800000000)
static const char policy_text[] =
	"{\"pools\":[{\"name\":\"a\",\"selector\":{\"x\":\"y\"},\"waves\":[{\"name\":\"one\",\"count\":1},"
	"{\"name\":\"two\",\"count\":2,\"approval\":\"manual\"}],\"target\":{\"driver\":\"535.1\",\"flavour\":\"open\","
	"\"parameters\":{\"b\":\"2\",\"a\":\"1=1\"}}},{\"name\":\"b\",\"target\":{\"driver\":\"470.1\"}}]}";

static void read_policy(struct policy *ret)
{
	struct err err = { 0 };
	expect(policy_parse(policy_text, strlen(policy_text), ret, &err) == 0, err.text);
}

static void ledgers(void **state)
{
	(void)state;
	static const struct {
		const char *text, *again; // NULL: it means nothing
		size_t count;
	} rows[] = {
		{ "", "", 0 },
		{ "work u1", "work u1", 1 },
		{ "work u2,u1;wait u3", "work u1,u2;wait u3", 3 },
		{ "wait u3", "wait u3", 1 },
		{ "play u3", NULL, 0 },
		{ "work", NULL, 0 },
		{ "work ", NULL, 0 },
		{ "work u1,", NULL, 0 },
		{ "work u 1", NULL, 0 },
		{ "work u1;", NULL, 0 },
		{ "work 0123456789012345678901234567890123456789", NULL, 0 }, // longer than a uid
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct slot_ledger l;
		expect(scheduler_ledger_parse(rows[i].text, &l) == (rows[i].again != NULL), rows[i].text);
		expect(l.count == rows[i].count, rows[i].text);
		auto_str char *again = scheduler_ledger_text(&l);
		expect(str_eq(again, rows[i].again ? rows[i].again : ""), rows[i].text);
		scheduler_ledger_done(&l);
	}
	struct slot_ledger none;
	assert_true(scheduler_ledger_parse(NULL, &none));
	assert_int_equal(none.count, 0);
}

static void a_ledger_is_limited(void **state)
{
	(void)state;
	auto_str char *text = str_dup("work u");
	for (int i = 0; i < LEDGER_MOST; i++)
		str_add(&text, ",u%d", i);
	struct slot_ledger l;
	assert_false(scheduler_ledger_parse(text, &l));
}

static void round_trip(void **state)
{
	(void)state;
	auto_policy struct policy p = POLICY_NONE;
	struct err err = { 0 };
	struct rollout back[2];
	read_policy(&p);
	const struct rollout rollouts[2] = {
		{ .target = p.pools[0].target.target_hash,
		  .stable = { 7, 8 },
		  .is_halted = true,
		  .is_aborted = true,
		  .halt = { REASON_WAVE_FAILURES, "n1 n2" },
		  .halted_since = NOW,
		  .frozen = 12,
		  .wave = 1,
		  .soak_since = NOW - 5,
		  .approved = 1,
		  .resumed = NOW - 9 },
		{ .wave = 0 },
	};
	auto_json json_t *doc = rollout_status_make(&p, rollouts, NULL, 1);
	expect(rollout_status_read(doc, &p, back, &err) == 0, err.text);
	auto_json json_t *again = rollout_status_make(&p, back, doc, 1);
	assert_true(json_equal(doc, again));
	assert_true(target_hash_eq(&back[0].stable, &rollouts[0].stable));
	assert_int_equal(back[0].halt.code, REASON_WAVE_FAILURES);
	assert_int_equal(back[0].halted_since, NOW);
	assert_false(target_hash_is_set(&back[1].target));
}

// A target that the policy no longer has keeps its words, for `rollout undo`.
static void words_stay(void **state)
{
	(void)state;
	auto_policy struct policy p = POLICY_NONE;
	read_policy(&p);
	struct rollout rollouts[2] = { { .target = p.pools[0].target.target_hash } };
	auto_json json_t *before = rollout_status_make(&p, rollouts, NULL, 1);
	rollouts[0].stable = rollouts[0].target;
	p.pools[0].target.target_hash = rollouts[0].target = (struct target_hash){ 3, 3 };
	auto_json json_t *after = rollout_status_make(&p, rollouts, before, 1);
	const json_t *pool = json_array_get(json_object_get(after, "pools"), 0);
	const json_t *as = json_object_get(json_object_get(pool, "stable"), "as");
	auto_str char *text = json_dumps(as, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text,
			    "{\"driver\":\"535.1\",\"flavour\":\"open\",\"parameters\":{\"a\":\"1=1\",\"b\":\"2\"}}");
}

static void nonsense(void **state)
{
	(void)state;
	static const char *const changes[][2] = {
		{ "schema", "2" },       { "target", "{\"aim\":\"x\"}" },
		{ "target", "7" },       { "reason", "\"bored\"" },
		{ "object", "null" },    { "frozen", "-1" },
		{ "wave", "\"1\"" },     { "soakSince", "\"today\"" },
		{ "haltedSince", "{}" }, { "resumed", "true" },
		{ "approved", "null" },
	};
	auto_policy struct policy p = POLICY_NONE;
	struct err err = { 0 };
	read_policy(&p);
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		struct rollout back[2];
		const struct rollout rollouts[2] = { { .wave = 0 } };
		auto_json json_t *doc = rollout_status_make(&p, rollouts, NULL, 1);
		bool is_of_all = str_eq(changes[i][0], "schema");
		json_object_set_new(is_of_all ? doc : json_array_get(json_object_get(doc, "pools"), 0), changes[i][0],
				    json_loads(changes[i][1], JSON_DECODE_ANY, NULL));
		expect(rollout_status_read(doc, &p, back, &err) < 0 && err.code == E_CONFIG, changes[i][0]);
	}
}

static void gates(void **state)
{
	(void)state;
	auto_policy struct policy p = POLICY_NONE;
	char target_hash[TARGET_HASH_TEXT];
	read_policy(&p);
	target_hash_text(&p.pools[0].target.target_hash, target_hash);
	auto_str char *approve = str_fmt("b:x@y,a:two@%s", target_hash), *stale = str_fmt("a:two@%016x-%016x", 1, 2);
	auto_str char *last = str_fmt("a:rest@%s", target_hash);
	auto_str char *abort_a = str_fmt("a@%s", target_hash),
		      *wrong = str_fmt("a:nine@%s,@,a@,x:y,a:@%s", target_hash, target_hash);
	const struct {
		const char *name, *resume, *approve, *abort;
		bool is_halted, is_aborted;
		unsigned approved;
	} rows[] = {
		{ "nothing is said", NULL, NULL, NULL, true, false, 0 },
		{ "resumed", "a@2027-01-15T08:00:01Z", NULL, NULL, false, false, 0 },
		{ "said before the halt", "a@2027-01-15T07:59:59Z", NULL, NULL, true, false, 0 },
		{ "another pool", "b@2027-01-15T08:00:01Z", NULL, NULL, true, false, 0 },
		{ "no time", "a@now", NULL, NULL, true, false, 0 },
		{ "approved", NULL, approve, NULL, true, false, 1 },
		{ "approved, the last one", NULL, last, NULL, true, false, 2 },
		{ "approved for another target", NULL, stale, NULL, true, false, 0 },
		{ "of a wave that there is not", NULL, wrong, wrong, true, false, 0 },
		{ "aborted", NULL, NULL, abort_a, true, true, 0 },
		{ "all at once", "a@2027-01-15T08:00:01Z,b@2027-01-15T08:00:01Z", approve, abort_a, false, true, 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rollout r[2] = { { .target = p.pools[0].target.target_hash,
					  .is_halted = true,
					  .halt.code = REASON_POOL_FAILURES,
					  .halted_since = NOW } };
		const char *const values[GATE_COUNT] = { NULL, rows[i].resume, rows[i].approve, rows[i].abort };
		operator_requests_apply(values, &p, r);
		expect(r[0].is_halted == rows[i].is_halted && r[0].is_aborted == rows[i].is_aborted &&
			       r[0].approved == rows[i].approved,
		       rows[i].name);
		expect((r[0].halt.code == REASON_NONE) == !rows[i].is_halted, rows[i].name);
		operator_requests_apply((const char *const[GATE_COUNT]){ NULL }, &p, r);
		expect(!r[0].is_aborted, rows[i].name); // taken back
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ledgers),    cmocka_unit_test(a_ledger_is_limited),
		cmocka_unit_test(round_trip), cmocka_unit_test(words_stay),
		cmocka_unit_test(nonsense),   cmocka_unit_test(gates),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
