// SPDX-License-Identifier: Apache-2.0
// What a coordinator records, reads again and puts off, and when: the status of the rollout, the cluster as a whole,
// the lead. T51, T53, T78, T83.
#include "tests/unit/heard.h"

#define LEASE "/apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator"
#define STATUS MAPS "/" ROLLOUT_STATUS_NAME
static const char slow[] = "{'pools':[{'name':'gpus','maxUnavailable':'100%','deadlines':{'evict':'7m'},"
			   "'target':{'driver':'535.2'}}]}";

static void turns(void *ctx)
{
	((struct heard *)ctx)->turns++;
}

static size_t calls(const struct farm *f, const char *client, const char *verb, const char *path, long status)
{
	size_t count, found = 0;
	const struct sim_call *log = sim_log(f->sim, &count);
	for (size_t i = 0; i < count; i++)
		found += str_eq(log[i].client, client) && str_eq(log[i].verb, verb) && str_starts(log[i].path, path) &&
			 (!status || log[i].status == status);
	return found;
}

static void until_done(struct farm *f, struct farm_coordinator *coordinator, struct heard *h)
{
	farm_begin(f, 2, plain);
	begin(f, coordinator, h);
	assert_true(farm_until(f, coordinator, 1, "done", 2, MINUTES(30)));
	farm_run(coordinator, 1, MINUTES(1));
}

// With the policy that it was granted by, which agents read there; and once, as long as nothing changes.
static void the_status_is_written_when_it_changes(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	until_done(&f, &coordinator, &h);
	assert_string_equal(sim_text(sim_get(f.sim, STATUS), "data policy.kind"), "ConfigMap");
	assert_null(sim_text(sim_get(f.sim, STATUS), "data undone.json"));
	auto_str char *version = str_dup(sim_text(sim_get(f.sim, STATUS), "metadata resourceVersion"));
	farm_run(&coordinator, 1, MINUTES(10));
	assert_string_equal(sim_text(sim_get(f.sim, STATUS), "metadata resourceVersion"), version);
	farm_policy(&f, slow);
	farm_run(&coordinator, 1, SECONDS(10));
	assert_non_null(strstr(sim_text(sim_get(f.sim, STATUS), "data policy.json"), "\"evict\": \"7m\""));
	assert_string_not_equal(sim_text(sim_get(f.sim, STATUS), "metadata resourceVersion"), version);
	assert_string_equal(h.troubles, "");
	end(&f, &coordinator, &h);
}

static void change_policy(struct farm *f)
{
	sim_merge(f->sim, STATUS, "{'data':{'policy.json':'{}'}}");
}
static void change_status(struct farm *f)
{
	sim_merge(f->sim, STATUS, "{'data':{'status.json':null}}");
}
static void note_undone(struct farm *f)
{
	sim_merge(f->sim, STATUS, "{'data':{'undone.json':'{}'}}");
}
static void delete_it(struct farm *f)
{
	sim_delete(f->sim, STATUS);
}

// It is read, all is planned anew, and what has to stand there is written again: with the next change of its own, and
// where there is none as soon as all is read again.
static void a_foreign_status_is_overwritten(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		void (*change)(struct farm *f); // NULL: nobody
		bool is_late;                   // nothing changes any more
		size_t refused, created;        // writes of the leader
		bool is_lost;                   // what was known to work: halted, until people say so
	} rows[] = {
		{ "as it has to be", NULL, false, 0, 1, false },
		{ "another policy", change_policy, false, 1, 1, false },
		{ "undone", note_undone, false, 1, 1, false },
		{ "no status", change_status, false, 1, 1, true },
		{ "deleted", delete_it, false, 0, 2, true },
		{ "another policy, at rest", change_policy, true, 0, 1, false },
		{ "undone, at rest", note_undone, true, 0, 1, false },
		{ "no status, at rest", change_status, true, 0, 1, true },
		{ "deleted, at rest", delete_it, true, 0, 2, true },
	};
	auto_str char *status = NULL, *policy = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct heard h;
		farm_begin(&f, 1, plain);
		begin(&f, &coordinator, &h);
		expect(farm_until(&f, &coordinator, 1, rows[i].is_late ? "done" : "staging", 1, MINUTES(30)),
		       rows[i].name);
		if (rows[i].is_late)
			farm_run(&coordinator, 1, MINUTES(1));
		if (rows[i].change)
			rows[i].change(&f);
		farm_run(&coordinator, 1, rows[i].is_late ? MINUTES(31) : MINUTES(5));
		expect(!coordinator.is_dead && str_eq(h.troubles, ""), h.troubles);
		const json_t *now = sim_get(f.sim, STATUS);
		expect(now && !sim_text(now, "data undone.json"), rows[i].name);
		if (!status) {
			status = str_dup(sim_text(now, "data status.json"));
			policy = str_dup(sim_text(now, "data policy.json"));
		}
		const char *text = sim_text(now, "data status.json");
		expect(rows[i].is_lost ? strstr(text, "\"status-lost\"") != NULL : str_eq(text, status), rows[i].name);
		expect(str_eq(sim_text(now, "data policy.json"), policy), rows[i].name);
		expect(calls(&f, "boss", "update", STATUS, 409) == rows[i].refused, rows[i].name);
		expect(calls(&f, "boss", "create", MAPS, 201) == rows[i].created, rows[i].name);
		end(&f, &coordinator, &h);
	}
	assert_non_null(strstr(status, "\"stable\""));
}

// Where it cannot be read then, nothing is decided by what was known before.
static void a_failed_reread_of_the_status_is_retried(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	farm_begin(&f, 1, plain);
	begin(&f, &coordinator, &h);
	assert_true(farm_until(&f, &coordinator, 1, "staging", 1, MINUTES(5)));
	change_policy(&f);
	const struct sim_fault *no = sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
									   .client = "boss",
									   .verb = "get",
									   .resource = "configmaps",
									   .name = ROLLOUT_STATUS_NAME,
									   .status = 403,
									   .message = "not now" });
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	farm_run(&coordinator, 1, MINUTES(1));
	assert_int_equal(no->hits, 1);
	assert_string_equal(h.troubles, "a step of the rollout: GET http://sim" STATUS ": status 403: not now\n");
	assert_non_null(strstr(sim_text(sim_get(f.sim, STATUS), "data policy.json"), "535.2"));
	end(&f, &coordinator, &h);
}

// Every 30 minutes all is listed again, whatever the watches say; every 5 s it is decided anew.
static void at_rest_it_resyncs_periodically(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	until_done(&f, &coordinator, &h);
	size_t lists = calls(&f, "boss", "list", "/api/v1/nodes", 0);
	unsigned rests = h.rests;
	farm_run(&coordinator, 1, MINUTES(5));
	assert_in_range(h.rests - rests, 59, 61);
	farm_run(&coordinator, 1, MINUTES(56));
	assert_int_equal(calls(&f, "boss", "list", "/api/v1/nodes", 0) - lists, 2);
	end(&f, &coordinator, &h);
}

// It is tried again after 2 s, a step when the next one is due, and the Lease is kept meanwhile.
static void failed_reads_are_retried(void **state)
{
	(void)state;
	static const struct {
		const char *name, *verb, *resource, *words;
		unsigned least, most; // in a minute
	} rows[] = {
		{ "the nodes", "list", "nodes", "reading the cluster: GET http://sim/api/v1/nodes: ", 28, 31 },
		{ "the policy", "list", "configmaps", "reading the cluster: GET http://sim" MAPS ": ", 28, 31 },
		{ "the record", "create", "configmaps", "a step of the rollout: POST http://sim" MAPS ": ", 10, 14 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct heard h;
		farm_begin(&f, 1, plain);
		const struct sim_fault *no = sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
										   .client = "boss",
										   .verb = rows[i].verb,
										   .resource = rows[i].resource,
										   .status = 403,
										   .message = "not yet",
										   .times = 1000 });
		begin(&f, &coordinator, &h);
		farm_run(&coordinator, 1, MINUTES(1));
		expect(str_starts(h.troubles, rows[i].words), rows[i].name);
		expect(no->hits >= rows[i].least && no->hits <= rows[i].most, rows[i].name);
		expect(!coordinator.is_dead && h.leads == 1, rows[i].name);
		expect(str_eq(farm_state(&f, 0), ""), rows[i].name);
		sim_heal(f.sim);
		expect(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)), rows[i].name);
		end(&f, &coordinator, &h);
	}
}

// Where no policy was ever understood nothing is done, and whoever shows it is told that nothing is known.
static void no_policy(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	farm_begin(&f, 1, "{'pools':7}");
	begin(&f, &coordinator, &h);
	farm_run(&coordinator, 1, MINUTES(1));
	assert_true(h.blind > 0 && h.blind == h.rests);
	assert_null(sim_get(f.sim, STATUS));
	assert_string_equal(farm_state(&f, 0), "");
	farm_policy(&f, plain);
	unsigned blind = h.blind;
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	assert_true(h.blind == blind && h.rests > blind);
	end(&f, &coordinator, &h);
}

static void another_one_takes_it(void *ctx)
{
	sim_merge(((struct farm *)ctx)->sim, LEASE, "{'spec':{'holderIdentity':'another','leaseTransitions':7}}");
}

// Whoever lost the lead says so, and asks for nothing more: what it knows may be old.
static void a_lost_lease_ends_the_process(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	struct err err;
	until_done(&f, &coordinator, &h);
	another_one_takes_it(&f);
	int r = 1;
	for (int i = 0; i < 100 && r > 0; i++)
		r = coordinator_turn(&coordinator.c, 500, &err);
	assert_int_equal(r, -1);
	assert_int_equal(err.code, E_CONFLICT);
	assert_non_null(
		strstr(err.text, "another coordinator leads now, or this one could not renew its Lease in time"));
	size_t count;
	sim_log(f.sim, &count);
	assert_int_equal(coordinator_turn(&coordinator.c, 500, &err), -1);
	size_t after;
	sim_log(f.sim, &after);
	assert_int_equal(after, count);
	end(&f, &coordinator, &h);
}

// Who follows waits where the Lease is, and asks for nothing else.
static void a_standby_waits(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator, next;
	struct heard h, other;
	struct err err;
	until_done(&f, &coordinator, &h);
	other = (struct heard){ .troubles = str_dup("") };
	farm_coordinator_begin(&f, &next, "next");
	next.c.o.callbacks = (struct coordinator_callbacks){
		.trouble = heard_trouble, .leads = heard_lead, .turns = turns, .rests = heard_rest, .ctx = &other
	};
	long begun = sim_now_ms();
	for (int i = 0; i < 20; i++) {
		assert_int_equal(coordinator_turn(&next.c, 500, &err), 0);
		coordinator_turn(&coordinator.c, 0, &err);
	}
	assert_true(sim_now_ms() - begun >= SECONDS(5));
	assert_int_equal(other.leads + other.rests, 0);
	assert_true(other.turns >= 20);
	assert_int_equal(sim_count(f.sim, "next", NULL), 0);
	assert_true(sim_count(f.sim, "next-lease", NULL) > 0);
	assert_int_equal(coordinator_leave(&coordinator.c, &err), 0);
	for (int i = 0; i < 100 && !other.leads; i++)
		assert_true(coordinator_turn(&next.c, 500, &err) >= 0);
	assert_int_equal(other.leads, 1);
	assert_string_equal(other.troubles, "");
	farm_coordinator_kill(&next);
	free(other.troubles);
	end(&f, &coordinator, &h);
}

// The Lease changes hands with the grant on its way: nobody is cordoned by it.
static void a_grant_that_is_refused_ends_the_lead(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	struct err err;
	int r = 1;
	farm_begin(&f, 1, plain);
	begin(&f, &coordinator, &h);
	assert_true(farm_until(&f, &coordinator, 1, "staging", 1, MINUTES(5)));
	sim_fault(f.sim, &(struct sim_fault){ .what = SIM_FREEZE_BEFORE, // that it is queued
					      .client = "boss",
					      .verb = "patch",
					      .resource = "nodes",
					      .late_ms = 10,
					      .hit = another_one_takes_it,
					      .ctx = &f });
	for (int i = 0; i < 100 && r > 0; i++)
		r = coordinator_turn(&coordinator.c, 500, &err);
	assert_int_equal(r, -1);
	assert_int_equal(err.code, E_CONFLICT);
	assert_string_equal(farm_state(&f, 0), "queued");
	assert_false(farm_is_cordoned(&f, 0));
	assert_int_equal(calls(&f, "boss-lease", "update", LEASE, 409), 1);
	end(&f, &coordinator, &h);
}

// `rollout status` sees what the leader sees, and writes nothing.
static void a_look_writes_nothing(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator, looker;
	struct heard h;
	struct err err;
	farm_begin(&f, 3, plain);
	begin(&f, &coordinator, &h);
	for (unsigned i = 0; i < 3; i++) {
		auto_str char *name = str_fmt("stays-%u", i);
		farm_pod_that_stays(&f, i, name);
	}
	assert_true(farm_until(&f, &coordinator, 1, "evicting", 1, MINUTES(30)));
	farm_run(&coordinator, 1, SECONDS(10));
	sim_merge(f.sim, "/api/v1/nodes/n02", "{'metadata':{'annotations':{'kmodsmith.io/coordinator':'gone'}}}");
	farm_coordinator_begin(&f, &looker, "looker");
	assert_int_equal(coordinator_look(&looker.c, &err), 0);
	assert_int_equal(looker.c.node_cache.count, 3);
	assert_int_equal(looker.c.ledger.count, coordinator.c.ledger.count);
	assert_true(target_hash_eq(&looker.c.rollouts[0].target, &coordinator.c.rollouts[0].target));
	assert_false(looker.c.has_led);
	assert_true(looker.c.others.gone.count == 1 && strv_has(&looker.c.others.gone, "gone"));
	struct cluster cl = coordinator_cluster(&looker.c);
	assert_true(cl.has_status);
	assert_int_equal(cl.count, 3);
	size_t count;
	const struct sim_call *log = sim_log(f.sim, &count);
	for (size_t i = 0; i < count; i++)
		if (str_starts(log[i].client, "looker"))
			expect(str_eq(log[i].verb, "get") || str_eq(log[i].verb, "list"), log[i].path);
	farm_coordinator_kill(&looker);

	static const char *const unreadable[] = { "leases", "nodes", "configmaps" };
	for (size_t i = 0; i < ARRAY_SIZE(unreadable); i++) {
		sim_fault(f.sim, &(struct sim_fault){ .what = SIM_STATUS,
						      .client = "looker*",
						      .resource = unreadable[i],
						      .status = 403,
						      .times = 99 });
		farm_coordinator_begin(&f, &looker, "looker");
		expect(coordinator_look(&looker.c, &err) == -1, unreadable[i]);
		expect(strstr(err.text, unreadable[i]), err.text);
		farm_coordinator_kill(&looker);
		sim_heal(f.sim);
	}
	end(&f, &coordinator, &h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_status_is_written_when_it_changes),
		cmocka_unit_test(a_foreign_status_is_overwritten),
		cmocka_unit_test(a_failed_reread_of_the_status_is_retried),
		cmocka_unit_test(at_rest_it_resyncs_periodically),
		cmocka_unit_test(failed_reads_are_retried),
		cmocka_unit_test(no_policy),
		cmocka_unit_test(a_lost_lease_ends_the_process),
		cmocka_unit_test(a_standby_waits),
		cmocka_unit_test(a_grant_that_is_refused_ends_the_lead),
		cmocka_unit_test(a_look_writes_nothing),
	};
	return cmocka_run_group_tests_name("recorded", tests, NULL, NULL);
}
