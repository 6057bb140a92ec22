// SPDX-License-Identifier: Apache-2.0
// Who coordinates (upgrade-design 5.1, 5.6): the Lease kmodsmith-coordinator between two of them, to the second, and
// how often it is asked for. T51, T58, T60.
#include "cluster/coordinator/leader_election.h"
#include "cluster/rollout/rollout_status.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

static const char LEASE[] = "/apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator";
static const char SLOTS[] = "metadata annotations kmodsmith.io/slots";

struct scene {
	struct sim *sim;
	struct kube *a_kube, *b_kube;
	struct leader a, b;
};

static void begin(struct scene *s)
{
	*s = (struct scene){ .sim = sim_new(NULL) };
	s->a_kube = sim_client(s->sim, "a");
	s->b_kube = sim_client(s->sim, "b");
	leader_init(s->a_kube, "kmodsmith", "pod-a", &s->a);
	leader_init(s->b_kube, "kmodsmith", "pod-b", &s->b);
}

static void end(struct scene *s)
{
	leader_done(&s->a);
	leader_done(&s->b);
	kube_free(s->a_kube);
	kube_free(s->b_kube);
	sim_free(s->sim);
}

static const char *says(const struct scene *s, const char *keys)
{
	const char *text = sim_text(sim_get(s->sim, LEASE), keys);
	return text ? text : "";
}

static int try(struct leader *l)
{
	struct err err;
	struct slot_ledger ledger = { 0 };
	int r = leader_try(l, &ledger, &err);
	scheduler_ledger_done(&ledger);
	return r;
}

static int keep(struct leader *l)
{
	struct err err;
	return leader_keep(l, &err);
}

// So long as a coordinator does: its turns are a fifth of a second apart, and it hears what comes meanwhile.
static int try_for(struct leader *l, long ms)
{
	struct err err;
	for (long until = sim_now_ms() + ms; sim_now_ms() < until;) {
		int r = try(l);
		if (r != 0)
			return r;
		kube_step(l->lease.kube, 200, &err);
	}
	return 0;
}

static void the_first_one_leads(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	assert_false(leader_is_sure(&s.a));
	assert_int_equal(try(&s.a), 1);
	assert_true(s.a.is_leading && leader_is_sure(&s.a));
	assert_int_equal(leader_epoch(&s.a), 1);
	assert_true(str_starts(says(&s, "spec holderIdentity"), "pod-a_"));
	assert_int_equal(json_integer_value(sim_at(sim_get(s.sim, LEASE), "spec leaseDurationSeconds")), 30);
	assert_int_equal(try(&s.b), 0);
	assert_false(s.b.is_leading);
	assert_int_equal(keep(&s.b), 0); // of what it does not have
	end(&s);
}

static void it_is_renewed_every_five_seconds(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	assert_int_equal(try(&s.a), 1);
	size_t calls = sim_count(s.sim, "a", NULL);
	for (int i = 0; i < 600; i++) {
		sim_pass(100);
		assert_int_equal(keep(&s.a), 1);
	}
	assert_in_range(sim_count(s.sim, "a", NULL) - calls, 11, 12);
	assert_int_equal(leader_epoch(&s.a), 1);
	end(&s);
}

// It stops to act ten seconds before anybody else may begin to.
static void without_renewal_it_leads_for_twenty_seconds(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	assert_int_equal(try(&s.a), 1);
	assert_int_equal(try(&s.b), 0);
	long start = sim_now_ms();
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .client = "a", .times = 1000 });
	sim_pass(19900);
	assert_int_equal(keep(&s.a), -1);
	assert_true(s.a.is_leading && leader_is_sure(&s.a));
	sim_pass(200);
	assert_true(s.a.is_leading);
	assert_false(leader_is_sure(&s.a));
	while (try(&s.b) == 0) {
		struct err err;
		kube_step(s.b_kube, 100, &err);
	}
	assert_in_range(sim_now_ms() - start, 30000, 30500);
	assert_int_equal(leader_epoch(&s.b), 2);
	sim_heal(s.sim);
	assert_int_equal(keep(&s.a), 0); // lost, for good
	assert_false(s.a.is_leading);
	assert_int_equal(leader_epoch(&s.b), 2);
	end(&s);
}

// Nothing has to be read again because an answer was lost; it has to be after a restore from a backup, however new.
static void a_lost_answer_is_no_restore_of_etcd(void **state)
{
	(void)state;
	struct scene s;
	struct err err;
	struct ledger_entry entries[] = { { "uid-1", SLOT_WORK }, { "uid-2", SLOT_WORK } };
	const struct slot_ledger one = { entries, 1 }, two = { entries, 2 };
	begin(&s);
	assert_int_equal(try(&s.a), 1);
	for (unsigned lost = 1; lost <= 3; lost++) {
		sim_fault(s.sim,
			  &(struct sim_fault){ .what = SIM_CUT_AFTER, .client = "a", .verb = "update", .times = lost });
		assert_true(leader_write(&s.a, &one, &err) != 0);
		assert_int_equal(leader_write(&s.a, &two, &err), 1);
		sim_heal(s.sim);
		assert_int_equal(s.a.lease.resets, 0);
		assert_string_equal(says(&s, SLOTS), "work uid-1,uid-2");
	}
	uint64_t backup = sim_version(s.sim);
	for (unsigned i = 0; i < 2; i++) {
		sim_pass(5000);
		assert_int_equal(keep(&s.a), 1);
	}
	sim_restore(s.sim, backup);
	assert_int_equal(leader_write(&s.a, &one, &err), 1);
	assert_int_equal(s.a.lease.resets, 1);
	assert_string_equal(says(&s, SLOTS), "work uid-1,uid-2");
	end(&s);
}

// An answer that comes late says what was so when it was asked for.
static void a_late_answer_counts_from_its_request(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	assert_int_equal(try(&s.a), 1);
	sim_pass(5000);
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_SLOW, .client = "a", .verb = "update", .late_ms = 4000 });
	long asked = sim_now_ms();
	assert_int_equal(keep(&s.a), 1);
	assert_in_range(sim_now_ms() - asked, 4000, 4100);
	sim_pass(asked + 19990 - sim_now_ms());
	assert_true(leader_is_sure(&s.a));
	sim_pass(20);
	assert_false(leader_is_sure(&s.a));
	end(&s);
}

// S9: whoever waits takes over at once, not after half a minute; and the ledger outlives every leader.
static void a_standby_takes_over_a_released_lease(void **state)
{
	(void)state;
	struct scene s;
	struct err err;
	begin(&s);
	struct ledger_entry entries[] = { { .uid = "u-2", .slot = SLOT_WORK }, { .uid = "u-1", .slot = SLOT_WAIT } };
	const struct slot_ledger two = { entries, 2 }, none = { NULL, 0 };
	assert_int_equal(leader_write(&s.a, &two, &err), 0); // of what it does not lead
	assert_null(sim_get(s.sim, LEASE));
	assert_int_equal(leader_leave(&s.a, &err), 0);
	assert_int_equal(try(&s.a), 1);
	assert_int_equal(leader_write(&s.a, &none, &err), 1);
	assert_string_equal(says(&s, SLOTS), "");
	assert_int_equal(leader_write(&s.a, &two, &err), 1);
	assert_string_equal(says(&s, SLOTS), "work u-2;wait u-1");
	sim_pass(5000);
	assert_int_equal(keep(&s.a), 1); // with its ledger
	assert_string_equal(says(&s, SLOTS), "work u-2;wait u-1");
	assert_int_equal(try_for(&s.b, 3000), 0);
	assert_int_equal(leader_leave(&s.a, &err), 1);
	assert_false(s.a.is_leading);
	assert_string_equal(says(&s, "spec holderIdentity"), "");
	struct slot_ledger got = { 0 };
	kube_step(s.b_kube, 200, &err);
	kube_step(s.b_kube, 1000, &err);
	assert_int_equal(leader_try(&s.b, &got, &err), 1);
	assert_int_equal(got.count, 2);
	assert_string_equal(got.items[0].uid, "u-2");
	scheduler_ledger_done(&got);
	assert_int_equal(leader_epoch(&s.b), 2);
	assert_string_equal(says(&s, SLOTS), "work u-2;wait u-1");
	end(&s);
}

static void a_standby_takes_over_a_deleted_lease(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	assert_int_equal(try(&s.a), 1);
	assert_int_equal(try_for(&s.b, 3000), 0);
	sim_delete(s.sim, LEASE);
	assert_int_equal(try_for(&s.b, 1500), 1);
	assert_int_equal(leader_epoch(&s.b), 1);
	end(&s);
}

// While another one leads, its renewals are heard: nobody asks.
static void a_standby_costs_nothing(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool is_deaf;
		size_t gets[2]; // in two minutes
	} table[] = { { "who may watch it hears", false, { 0, 2 } }, { "who may not asks", true, { 23, 25 } } };
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct scene s;
		begin(&s);
		if (table[i].is_deaf)
			sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS,
							      .status = 403,
							      .client = "b",
							      .verb = "watch",
							      .times = 1000 });
		assert_int_equal(try(&s.a), 1);
		assert_int_equal(try(&s.b), 0);
		size_t gets = sim_count(s.sim, "b", "get");
		for (int turn = 0; turn < 120; turn++) {
			assert_int_equal(try_for(&s.b, 1000), 0);
			assert_int_equal(keep(&s.a), 1);
		}
		gets = sim_count(s.sim, "b", "get") - gets;
		expect(gets >= table[i].gets[0] && gets <= table[i].gets[1], table[i].text);
		expect(sim_count(s.sim, "b", "watch") == 1, table[i].text); // also who may not tries it once
		end(&s);
	}
}

// What is refused now may be allowed in five minutes: somebody mends the rights.
static void without_the_right_to_watch_it_polls(void **state)
{
	(void)state;
	struct scene s;
	begin(&s);
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .client = "b", .verb = "watch" });
	assert_int_equal(try(&s.a), 1);
	for (int turn = 0; turn < 290; turn++) {
		assert_int_equal(try_for(&s.b, 1000), 0);
		assert_int_equal(keep(&s.a), 1);
	}
	assert_int_equal(sim_count(s.sim, "b", "watch"), 1);
	for (int turn = 0; turn < 30; turn++) {
		assert_int_equal(try_for(&s.b, 1000), 0);
		assert_int_equal(keep(&s.a), 1);
	}
	assert_int_equal(sim_count(s.sim, "b", "watch"), 2);
	end(&s);
}

static void of_two_candidates_one_leads(void **state)
{
	(void)state;
	struct scene s;
	struct err err;
	begin(&s);
	assert_int_equal(try(&s.a), 1);
	assert_int_equal(leader_leave(&s.a, &err), 1);
	assert_int_equal(try(&s.b), 1);
	sim_pass(5000);
	assert_int_equal(try(&s.a), 0);
	assert_false(s.a.is_leading);
	assert_int_equal(leader_epoch(&s.b), 2);
	end(&s);
}

static void unreachable_is_an_error(void **state)
{
	(void)state;
	static const char *const verbs[] = { "get", "create" };
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		struct scene s;
		begin(&s);
		sim_fault(s.sim,
			  &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .client = "a", .verb = verbs[i] });
		expect(try(&s.a) == -1, verbs[i]);
		expect(!s.a.is_leading, verbs[i]);
		size_t calls = sim_count(s.sim, "a", NULL);
		expect(try(&s.a) == 0, verbs[i]); // not due
		expect(sim_count(s.sim, "a", NULL) == calls, verbs[i]);
		sim_pass(5000);
		expect(try(&s.a) == 1, verbs[i]);
		end(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_one_leads),
		cmocka_unit_test(it_is_renewed_every_five_seconds),
		cmocka_unit_test(without_renewal_it_leads_for_twenty_seconds),
		cmocka_unit_test(a_late_answer_counts_from_its_request),
		cmocka_unit_test(a_lost_answer_is_no_restore_of_etcd),
		cmocka_unit_test(a_standby_takes_over_a_released_lease),
		cmocka_unit_test(a_standby_takes_over_a_deleted_lease),
		cmocka_unit_test(a_standby_costs_nothing),
		cmocka_unit_test(without_the_right_to_watch_it_polls),
		cmocka_unit_test(of_two_candidates_one_leads),
		cmocka_unit_test(unreachable_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
