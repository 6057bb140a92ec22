// SPDX-License-Identifier: Apache-2.0
// Which of two nodes that need the same compiles (R-A9): the Lease is taken once, renewed during the compile,
// released with its outcome, and taken over from a dead holder.
#include "base/file/digest.h"
#include "cluster/shared_build/build_lease.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

enum { DURATION_S = 40 };
static const char KEY[] = "535.261.03 open 6.1.0-56-cloud-amd64";

struct scene {
	struct sim *sim;
	struct kube *a_kube, *b_kube;
	struct build_lease a, b;
	char path[128];
};

static void begin(struct scene *s)
{
	char digest[DIGEST_HEX + 1];
	*s = (struct scene){ .sim = sim_new(NULL) };
	s->a_kube = sim_client(s->sim, "a");
	s->b_kube = sim_client(s->sim, "b");
	build_lease_init(s->a_kube, BUILD_LEASE_NAMESPACE, KEY, "n1", DURATION_S, &s->a);
	build_lease_init(s->b_kube, BUILD_LEASE_NAMESPACE, KEY, "n2", DURATION_S, &s->b);
	digest_data(KEY, strlen(KEY), digest);
	snprintf(s->path, sizeof(s->path),
		 "/apis/coordination.k8s.io/v1/namespaces/kmodsmith-compile/leases/kmodsmith-compile-%.24s", digest);
}

static void end(struct scene *s)
{
	build_lease_done(&s->a);
	build_lease_done(&s->b);
	kube_free(s->a_kube);
	kube_free(s->b_kube);
	sim_free(s->sim);
}

static const char *says(const struct scene *s, const char *keys)
{
	const char *text = sim_text(sim_get(s->sim, s->path), keys);
	return text ? text : "";
}

static json_int_t counts(const struct scene *s, const char *keys)
{
	return json_integer_value(sim_at(sim_get(s->sim, s->path), keys));
}

static void it_is_taken_once(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	assert_int_equal(build_lease_read(&s.b, &err), 0);
	assert_null(sim_get(s.sim, s.path)); // looking takes nothing
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	assert_true(s.a.is_held);
	assert_string_equal(says(&s, "metadata annotations kmodsmith.io/compile"), KEY);
	assert_true(str_starts(says(&s, "spec holderIdentity"), "n1_"));
	assert_int_equal(strlen(says(&s, "spec holderIdentity")), strlen("n1_") + 16);
	assert_int_equal(counts(&s, "spec leaseDurationSeconds"), DURATION_S);
	assert_int_equal(counts(&s, "spec leaseTransitions"), 0);
	assert_string_equal(says(&s, "spec acquireTime"), says(&s, "spec renewTime"));
	assert_int_equal(build_lease_read(&s.b, &err), 1);
	assert_int_equal(build_lease_try(&s.b, &err), 0);
	assert_false(s.b.is_held);
	assert_string_equal(s.b.lease.other, s.a.lease.holder);
	assert_null(s.a.lease.other);
	assert_int_equal(build_lease_read(&s.a, &err), 0); // its own is nobody else's
	assert_int_equal(sim_count(s.sim, "b", "create") + sim_count(s.sim, "b", "update"), 0);
	end(&s);
}

// Who is one node twice, started again, is another one: the first may still compile.
static void the_same_name_is_not_the_same_holder(void **state)
{
	(void)state;
	struct scene s;
	struct build_lease again;
	struct err err = { 0 };
	begin(&s);
	build_lease_init(s.b_kube, BUILD_LEASE_NAMESPACE, KEY, "n1", DURATION_S, &again);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	assert_int_equal(build_lease_try(&again, &err), 0);
	build_lease_done(&again);
	end(&s);
}

static void another_compile_is_another_lease(void **state)
{
	(void)state;
	struct scene s;
	struct build_lease other;
	struct err err = { 0 };
	begin(&s);
	build_lease_init(s.b_kube, BUILD_LEASE_NAMESPACE, "something else", "n2", DURATION_S, &other);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	assert_int_equal(build_lease_try(&other, &err), 1);
	build_lease_done(&other);
	end(&s);
}

// A quarter of the time that it says: three renewals may fail before anybody takes over.
static void it_is_renewed_when_due(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	assert_int_equal(build_lease_renew(&s.a, &err), 0); // what was never taken
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	size_t calls = sim_count(s.sim, "a", NULL);
	sim_pass(DURATION_S * 1000 / 4 - 100);
	assert_int_equal(build_lease_renew(&s.a, &err), 1);
	assert_int_equal(sim_count(s.sim, "a", NULL), calls);
	auto_str char *since = str_dup(says(&s, "spec acquireTime"));
	auto_str char *version = str_dup(says(&s, "metadata resourceVersion"));
	sim_pass(100);
	assert_int_equal(build_lease_renew(&s.a, &err), 1);
	assert_int_equal(sim_count(s.sim, "a", NULL), calls + 1);
	assert_string_not_equal(says(&s, "metadata resourceVersion"), version);
	assert_string_equal(says(&s, "spec acquireTime"), since);
	assert_int_equal(counts(&s, "spec leaseTransitions"), 0);
	assert_string_equal(says(&s, "metadata annotations kmodsmith.io/compile"), KEY);
	end(&s);
}

// Nor is a server that does not answer asked at every turn of a compile.
static void a_failed_renewal_waits_until_the_next_is_due(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	sim_pass(DURATION_S * 1000 / 4);
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .client = "a" });
	assert_int_equal(build_lease_renew(&s.a, &err), -1);
	assert_true(s.a.is_held);
	size_t calls = sim_count(s.sim, "a", NULL);
	sim_pass(DURATION_S * 1000 / 4 - 100);
	assert_int_equal(build_lease_renew(&s.a, &err), 1);
	assert_int_equal(sim_count(s.sim, "a", NULL), calls);
	sim_pass(100);
	assert_int_equal(build_lease_renew(&s.a, &err), 1);
	assert_int_equal(sim_count(s.sim, "a", NULL), calls + 1);
	end(&s);
}

static void a_silent_holder_is_dead(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	assert_int_equal(build_lease_try(&s.b, &err), 0);
	sim_pass(DURATION_S * 1000 - 100); // by the observer's clock, since it saw it change
	assert_int_equal(build_lease_try(&s.b, &err), 0);
	assert_int_equal(build_lease_read(&s.b, &err), 1);
	sim_pass(200);
	assert_int_equal(build_lease_read(&s.b, &err), 0);
	assert_int_equal(build_lease_try(&s.b, &err), 1);
	assert_string_equal(says(&s, "spec holderIdentity"), s.b.lease.holder);
	assert_int_equal(counts(&s, "spec leaseTransitions"), 1);
	assert_string_equal(says(&s, "spec acquireTime"), says(&s, "spec renewTime")); // since now, and not since then
	// Who was not dead learns it, and leaves the Lease alone.
	assert_int_equal(build_lease_renew(&s.a, &err), 0);
	assert_false(s.a.is_held);
	assert_int_equal(build_lease_release(&s.a, "compiled", &err), 0);
	assert_string_equal(says(&s, "spec holderIdentity"), s.b.lease.holder);
	assert_string_equal(says(&s, "metadata annotations kmodsmith.io/outcome"), "");
	end(&s);
}

static void release_a(void *ctx)
{
	struct scene *s = ctx;
	struct err err;
	assert_int_equal(build_lease_release(&s->a, "sha256:12", &err), 0);
}

static void renew_a(void *ctx)
{
	struct scene *s = ctx;
	struct err err;
	assert_int_equal(build_lease_renew(&s->a, &err), 1);
}

static void delete_it(void *ctx)
{
	const struct scene *s = ctx;
	sim_delete(s->sim, s->path);
}

static void a_waiter_sees_the_end_at_once(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	assert_int_equal(build_lease_try(&s.b, &err), 0);
	assert_null(build_lease_outcome(&s.b));
	sim_after(12000, renew_a, &s);
	sim_after(20000, release_a, &s);
	long start = sim_now_ms();
	assert_int_equal(build_lease_wait(&s.b, 60000, &err), 1);
	assert_in_range(sim_now_ms() - start, 19900, 20100);
	assert_string_equal(build_lease_outcome(&s.b), "sha256:12");
	assert_string_equal(says(&s, "spec holderIdentity"), "");
	assert_string_equal(says(&s, "metadata annotations kmodsmith.io/compile"), KEY);
	assert_true(sim_count(s.sim, "b", "get") <= 3);           // the rest came by a watch
	assert_int_equal(build_lease_wait(&s.b, 60000, &err), 1); // what is free is not waited for
	assert_in_range(sim_now_ms() - start, 19900, 20200);
	end(&s);
}

static void a_waiter_sees_a_deletion(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	assert_int_equal(build_lease_try(&s.b, &err), 0);
	sim_after(5000, delete_it, &s);
	assert_int_equal(build_lease_wait(&s.b, 60000, &err), 1);
	assert_in_range(sim_now_ms(), 4900, 5200);
	assert_null(build_lease_outcome(&s.b));
	end(&s);
}

// The server has forgotten what was before (410): it is looked at then, and not only when the wait is over.
static void a_waiter_reads_again_when_its_watch_ends(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	assert_int_equal(build_lease_try(&s.b, &err), 0);
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_WATCH_GONE, .client = "b", .resource = "leases" });
	sim_after(8000, release_a, &s);
	assert_int_equal(build_lease_wait(&s.b, 60000, &err), 1);
	assert_in_range(sim_now_ms(), 8000, 8200);
	end(&s);
}

static void a_wait_ends_in_time(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	assert_int_equal(build_lease_try(&s.b, &err), 0);
	long start = sim_now_ms();
	assert_int_equal(build_lease_wait(&s.b, 15000, &err), 0);
	assert_in_range(sim_now_ms() - start, 15000, 15100);
	assert_true(sim_count(s.sim, "b", "get") <= 3);
	end(&s);
}

// Rights to watch are more than rights to read.
static void without_a_watch_it_is_read_once_a_second(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	assert_int_equal(build_lease_try(&s.b, &err), 0);
	sim_fault(s.sim, &(struct sim_fault){
				 .what = SIM_STATUS, .status = 403, .client = "b", .verb = "watch", .times = 1000 });
	size_t gets = sim_count(s.sim, "b", "get");
	sim_after(8500, release_a, &s);
	assert_int_equal(build_lease_wait(&s.b, 60000, &err), 1);
	assert_in_range(sim_now_ms(), 8500, 9700);
	assert_in_range(sim_count(s.sim, "b", "get") - gets, 8, 10);
	end(&s);
}

static void the_outcome_at_the_end(void **state)
{
	(void)state;
	auto_str char *text = str_dup("");
	for (int i = 0; i < 30; i++)
		str_add(&text, "0123456789");
	auto_str char *cut = str_ndup(text, 256);
	const char *const outcomes[][2] = { { "sha256:12", "sha256:12" }, { NULL, NULL }, { text, cut } };
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s);
		assert_int_equal(build_lease_release(&s.a, "never held", &err), 0);
		assert_null(sim_get(s.sim, s.path));
		assert_int_equal(build_lease_try(&s.a, &err), 1);
		assert_int_equal(build_lease_release(&s.a, outcomes[i][0], &err), 0);
		assert_false(s.a.is_held);
		assert_int_equal(build_lease_read(&s.b, &err), 0);
		const char *told = build_lease_outcome(&s.b);
		expect(outcomes[i][1] ? str_eq(told, outcomes[i][1]) : !told, told);
		assert_int_equal(build_lease_try(&s.b, &err), 1); // at once
		assert_null(build_lease_outcome(&s.b));           // of the compile before, and no longer true
		assert_int_equal(counts(&s, "spec leaseTransitions"), 1);
		end(&s);
	}
}

// Its write went through and the answer was lost; it is tried again, refused, and its own all the same.
static void a_lost_answer_loses_no_lease(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_CUT_AFTER, .client = "a", .verb = "create" });
	assert_int_equal(build_lease_try(&s.a, &err), -1); // what makes something is not repeated
	assert_int_equal(build_lease_try(&s.b, &err), 0);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	assert_int_equal(build_lease_release(&s.a, "x", &err), 0);
	json_int_t changes = counts(&s, "spec leaseTransitions");
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_CUT_AFTER, .client = "b", .verb = "update" });
	assert_int_equal(build_lease_try(&s.b, &err), 1);
	assert_int_equal(counts(&s, "spec leaseTransitions"), changes + 1); // it changed hands once
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_CUT_AFTER, .client = "b", .verb = "update" });
	assert_int_equal(build_lease_release(&s.b, "y", &err), 0);
	assert_string_equal(says(&s, "spec holderIdentity"), "");
	assert_string_equal(says(&s, "metadata annotations kmodsmith.io/outcome"), "y");
	end(&s);
}

static void take_b(void *ctx)
{
	struct scene *s = ctx;
	struct err err;
	assert_int_equal(build_lease_try(&s->b, &err), 1);
}

static void of_two_writers_one_wins(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	sim_fault(s.sim,
		  &(struct sim_fault){ .what = SIM_FREEZE_BEFORE, .client = "a", .verb = "create", .late_ms = 1000 });
	sim_after(500, take_b, &s);
	assert_int_equal(build_lease_try(&s.a, &err), 0);
	assert_false(s.a.is_held);
	assert_string_equal(says(&s, "spec holderIdentity"), s.b.lease.holder);
	assert_string_equal(s.a.lease.other, s.b.lease.holder);
	end(&s);
}

static void a_refusal_is_an_error(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	const struct sim_fault no = { .what = SIM_STATUS, .status = 403, .client = "a" };
	begin(&s);
	sim_fault(s.sim, &no);
	assert_int_equal(build_lease_read(&s.a, &err), -1);
	sim_fault(s.sim, &no);
	assert_int_equal(build_lease_try(&s.a, &err), -1);
	struct sim_fault write = no;
	write.verb = "create";
	sim_fault(s.sim, &write);
	assert_int_equal(build_lease_try(&s.a, &err), -1);
	assert_false(s.a.is_held);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	write.verb = "update";
	sim_fault(s.sim, &write);
	assert_int_equal(build_lease_release(&s.a, "x", &err), -1);
	assert_false(s.a.is_held); // it is not tried again: it runs out by itself
	assert_int_equal(build_lease_try(&s.b, &err), 0);
	struct sim_fault read = { .what = SIM_STATUS, .status = 403, .client = "b", .verb = "get" };
	sim_fault(s.sim, &read);
	assert_int_equal(build_lease_wait(&s.b, 3000, &err), -1);
	end(&s);
}

// As another program wrote it: what it says of its own time counts, within reason.
static void a_lease_of_another_holder(void **state)
{
	(void)state;
	static const struct {
		const char *text, *spec;
		bool is_held; // by somebody
		long free_ms; // so long after it was seen
	} table[] = {
		{ "its own duration", "'holderIdentity':'x','leaseDurationSeconds':7", true, 7000 },
		{ "up to an hour", "'holderIdentity':'x','leaseDurationSeconds':3599", true, 3599000 },
		{ "not a day", "'holderIdentity':'x','leaseDurationSeconds':3600", true, DURATION_S * 1000 },
		{ "without a duration", "'holderIdentity':'x'", true, DURATION_S * 1000 },
		{ "it was released", "'holderIdentity':'','leaseDurationSeconds':3599", false, 0 },
		{ "it was never held", "'leaseTransitions':4", false, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct scene s;
		struct err err = { 0 };
		begin(&s);
		sim_make(s.sim, "/apis/coordination.k8s.io/v1/namespaces/kmodsmith-compile/leases",
			 "{'metadata':{'name':'%s'},'spec':{%s}}", strrchr(s.path, '/') + 1, table[i].spec);
		expect(build_lease_read(&s.a, &err) == table[i].is_held, table[i].text);
		sim_pass(table[i].is_held ? table[i].free_ms - 10 : 0);
		expect(build_lease_read(&s.a, &err) == table[i].is_held, table[i].text);
		sim_pass(20);
		expect(build_lease_read(&s.a, &err) == 0, table[i].text);
		expect(build_lease_try(&s.a, &err) == 1, table[i].text);
		expect(*says(&s, "spec acquireTime") && counts(&s, "spec leaseTransitions") == (i == 5 ? 5 : 1),
		       table[i].text);
		end(&s);
	}
}

// Somebody put a label on it, and then the renewal is of an old version: it is read, and is ours all the same.
static void a_touched_lease_is_kept(void **state)
{
	(void)state;
	struct scene s;
	struct err err = { 0 };
	begin(&s);
	assert_int_equal(build_lease_try(&s.a, &err), 1);
	sim_pass(DURATION_S * 1000 / 4);
	sim_merge(s.sim, s.path, "{'metadata':{'labels':{'x':'y'}}}");
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .client = "a", .verb = "get" });
	assert_int_equal(build_lease_renew(&s.a, &err), -1); // not known
	assert_true(s.a.is_held);
	sim_pass(DURATION_S * 1000 / 4);
	assert_int_equal(build_lease_renew(&s.a, &err), 1);
	sim_pass(DURATION_S * 1000 / 4);
	sim_delete(s.sim, s.path);
	assert_int_equal(build_lease_renew(&s.a, &err), 1); // a PUT makes it again
	assert_string_equal(says(&s, "spec holderIdentity"), s.a.lease.holder);
	sim_pass(DURATION_S * 1000 / 4);
	sim_merge(s.sim, s.path, "{'metadata':{'labels':{'x':'y'}}}");
	sim_fault(s.sim,
		  &(struct sim_fault){ .what = SIM_FREEZE_BEFORE, .client = "a", .verb = "get", .late_ms = 1000 });
	sim_after(500, delete_it, &s);
	assert_int_equal(build_lease_renew(&s.a, &err), 0); // gone after it was refused: lost, which is no error
	assert_false(s.a.is_held);
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_taken_once),
		cmocka_unit_test(the_same_name_is_not_the_same_holder),
		cmocka_unit_test(another_compile_is_another_lease),
		cmocka_unit_test(it_is_renewed_when_due),
		cmocka_unit_test(a_failed_renewal_waits_until_the_next_is_due),
		cmocka_unit_test(a_silent_holder_is_dead),
		cmocka_unit_test(a_waiter_sees_the_end_at_once),
		cmocka_unit_test(a_waiter_sees_a_deletion),
		cmocka_unit_test(a_waiter_reads_again_when_its_watch_ends),
		cmocka_unit_test(a_wait_ends_in_time),
		cmocka_unit_test(without_a_watch_it_is_read_once_a_second),
		cmocka_unit_test(the_outcome_at_the_end),
		cmocka_unit_test(a_lost_answer_loses_no_lease),
		cmocka_unit_test(of_two_writers_one_wins),
		cmocka_unit_test(a_refusal_is_an_error),
		cmocka_unit_test(a_lease_of_another_holder),
		cmocka_unit_test(a_touched_lease_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
