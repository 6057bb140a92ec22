// SPDX-License-Identifier: Apache-2.0
// What is kept, what is given back and what is counted before anything is granted: the ledger and the nodes put
// together. Scenarios: rollout_slots_test.
#include "cluster/rollout/rollout_status.h"
#include "tests/unit/rollout_line.h"

// Who keeps its slot is decided by its state; what the ledger says counts where that says nothing.
static void slots_that_are_kept(void **state)
{
	(void)state;
	static const struct {
		const char *word, *want;
	} rows[] = {
		{ "unknown+slot", "S" }, // nobody can say what it does
		{ "unknown+wait", "W" },
		{ "unknown", "-" },
		{ "cordoned+ours", "S" },
		{ "waiting+ours+jobs", "W" },
		{ "waiting+ours+wait+jobs", "W" },
		{ "waiting+ours+slot", "S" },
		{ "waiting+ours+slot+jobs", "W" }, // one more has come
		{ "waiting+ours+slot+jobs+over", "S" },
		{ "evicting+ours+wait", "W" }, // as it was granted
		{ "evicting+ours+wait+jobs", "W" },
		{ "evicting+ours+slot+jobs", "S" },
		{ "replacing+ours+slot", "S" },
		{ "validating+ours", "S" },
		{ "restoring+ours+slot", "S" },
		{ "releasing+ours+slot", "S" },
		{ "done+slot", "-" },
		{ "failed+ours+slot", "-" },
		{ "rolledback+slot", "-" },
		{ "held+slot", "-" },
		{ "staging+slot", "-" },
		{ "loading+slot", "-" },
		{ "idle+slot+well", "-" },
		{ "idle+slot+unlabelled", "S" }, // its keys were deleted: it is rebuilt first
		{ "idle+unlabelled", "-" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_slots(rows[i].word, rows[i].want);
	pools[0].parallel.value = 1; // and it has to be nobody's: none is asked for anew
	expect_slots("waiting+ours+slot evicting+ours+slot", "SS");
}

// A grant that was written is kept, unless something speaks against it now.
static void grants_that_are_taken_back(void **state)
{
	(void)state;
	static const struct {
		const char *line, *want;
		enum reason_code why; // of the first
	} rows[] = {
		{ "queued+slot", "S", REASON_NONE },
		{ "queued+wait", "W", REASON_NONE },
		{ "queued+slot+down", "-", REASON_NOT_READY },
		{ "queued+slot+cordon", "-", REASON_FOREIGN_CORDON },
		{ "queued+slot+paused", "-", REASON_NODE_PAUSED },
		{ "queued+slot+skip", "-", REASON_SKIPPED },
		// Nobody of a group begins before all were looked at, and nobody where one must not be drained.
		{ "queued+slot+ga queued+slot+ga", "SS", REASON_NONE },
		{ "queued+slot+ga queued+slot+ga+dark", "SS", REASON_PODS_UNKNOWN },
		{ "queued+slot+ga queued+slot+ga+protected", "SS", REASON_PODS_UNKNOWN },
		{ "queued+slot+ga queued+slot+gb+dark", "SS", REASON_NONE },
		{ "queued+slot+ga held+ga+protected", "--", REASON_GROUP_INCOMPLETE },
		{ "queued+slot+ga held+ga", "S-", REASON_NONE },
		{ "queued+slot+ga done+ga+protected", "S-", REASON_NONE },
		{ "queued+slot+ga queued+slot+ga+dark held+ga+protected", "---", REASON_GROUP_INCOMPLETE },
		{ "queued+slot+ga held+ga+protected queued+slot+ga+dark", "---", REASON_GROUP_INCOMPLETE },
		{ "queued+slot+ga queued+slot+ga+unheard", "SS", REASON_AGENT_ASKED },
		{ "queued+slot+ga+unheard queued+slot+ga", "SS", REASON_NONE },
		{ "queued+slot+ga queued+slot+ga+unheard+well", "SS", REASON_NONE },
		{ "queued+slot+ga queued+slot+gb+unheard", "SS", REASON_NONE },
		{ "queued+slot+ga held+ga+silent", "--", REASON_GROUP_INCOMPLETE },
		{ "queued+slot+ga staging+ga", "--", REASON_GROUP_INCOMPLETE },
		// Once one of them is under way that is settled.
		{ "queued+slot+ga evicting+ours+slot+ga+dark", "SS", REASON_NONE },
		{ "queued+slot+ga held+ga+protected evicting+ours+slot+ga", "S-S", REASON_NONE },
		{ "queued+slot+ours+ga queued+slot+ga+dark", "SS", REASON_NONE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		setup(NULL);
		pools[0].parallel.value = pools[0].unavailable.value = 9;
		plan(rows[i].line);
		expect_letters(rows[i].line, rows[i].want);
		auto_str char *row =
			str_fmt("%s: %s", rows[i].line, node_reason_info(slots.node_plans[0].refused)->code);
		expect(slots.node_plans[0].refused == rows[i].why, row);
	}
}

// Pods of a mate that has no slot are looked at when it has one.
static void a_mate_without_a_slot_is_not_waited_for(void **state)
{
	(void)state;
	pools[0].parallel.value = 1;
	expect_slots("queued+slot+ga queued+ga+dark", "S-");
	assert_int_equal(slots.node_plans[0].refused, REASON_NONE);
}

static void what_is_counted(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		unsigned total, used, waiting, unavailable, others;
	} rows[] = {
		{ "idle+well idle+well", 2, 0, 0, 0, 0 },
		{ "idle+well+skip idle+well", 1, 0, 0, 0, 0 },
		{ "idle+well+skip+down idle+well", 1, 0, 0, 1, 1 },
		{ "done+down", 1, 0, 0, 1, 1 },
		{ "done+cordon", 1, 0, 0, 1, 1 },
		{ "done+cordon+down", 1, 0, 0, 1, 1 },
		{ "unknown", 1, 0, 0, 1, 1 },
		{ "unknown+slot", 1, 1, 0, 1, 0 },
		{ "evicting+ours+slot", 1, 1, 0, 1, 0 },
		{ "evicting+ours+slot+down", 1, 1, 0, 1, 0 },
		{ "waiting+ours+wait+jobs", 1, 0, 1, 1, 0 },
		{ "queued+slot", 1, 1, 0, 1, 0 }, // what is granted is as good as gone
		{ "failed+ours", 1, 0, 0, 1, 1 },
		{ "evicting+ours+slot replacing+ours+slot waiting+ours+wait+jobs done+down done", 5, 2, 1, 4, 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		plan(rows[i].line);
		const struct sum *s = &slots.sums[0];
		auto_str char *row = str_fmt("%s: %u %u %u %u %u", rows[i].line, s->total, s->used, s->waiting,
					     s->unavailable, s->others);
		expect(s->total == rows[i].total && s->used == rows[i].used && s->waiting == rows[i].waiting &&
			       s->unavailable == rows[i].unavailable && s->others == rows[i].others,
		       row);
	}
}

// Parts are of the nodes that were there when the rollout began, or of those that are left of them.
static void parts_are_of_the_set_that_was_there(void **state)
{
	(void)state;
	static const struct {
		unsigned frozen, total, limit;
	} rows[] = { { 0, 4, 2 }, { 2, 2, 1 }, { 4, 4, 2 }, { 8, 4, 2 } };
	pools[0].parallel = pools[0].unavailable = (struct limit){ 50, true };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		rollouts[0].frozen = rows[i].frozen;
		plan("done done done done");
		assert_int_equal(slots.sums[0].total, rows[i].total);
		assert_int_equal(slots.sums[0].parallel_limit, rows[i].limit);
		assert_int_equal(slots.sums[0].unavailable_limit, rows[i].limit);
	}
}

// In flight without a pool: it takes room of where it is at home, else of the cluster alone.
static void whom_no_pool_has_is_counted_where_it_is_at_home(void **state)
{
	(void)state;
	static const struct {
		const char *line; // of the first the pool is gone
		unsigned used, waiting, unavailable;
		size_t granted;
	} rows[] = {
		{ "evicting+ours+slot queued+A queued+A", 1, 0, 1, 1 },
		{ "waiting+ours+wait+jobs queued+A queued+A", 0, 1, 1, 2 },
		{ "evicting+ours queued+A queued+A", 1, 0, 1, 2 }, // granted: it is added to the ledger
	};
	for (size_t is_home = 0; is_home < 2; is_home++)
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			setup(NULL);
			pools[0].terms = 1;
			policy.parallel.value = 2;
			pools[0].unavailable.value = 9;
			auto_str char *row = str_fmt("%s, at home %zu", rows[i].line, is_home);
			plan(rows[i].line);
			memcpy(nodes[0].record.pool, "gone", 5);
			nodes[0].facts.terms = is_home;
			plan_again();
			const struct sum *at = is_home ? &slots.sums[0] : &slots.strays;
			const struct sum *not_at = is_home ? &slots.strays : &slots.sums[0];
			unsigned grants = (unsigned)slots.granted - (i == 2);
			expect(slots.node_plans[0].pool == -1 && slots.node_plans[0].home == (int)is_home - 1, row);
			if (is_home) {
				expect(at->used + at->waiting == rows[i].used + rows[i].waiting + grants, row);
				expect(!not_at->used && !not_at->waiting && !not_at->unavailable, row);
			} else {
				expect(at->used == rows[i].used && at->waiting == rows[i].waiting &&
					       at->unavailable == rows[i].unavailable,
				       row);
				expect(not_at->used == grants && !not_at->waiting, row);
			}
			expect(slots.granted == rows[i].granted, row);
		}
}

// What the coordinator of another namespace leads is none of ours, until that one leads no more.
static void nodes_that_another_coordinator_leads(void **state)
{
	(void)state;
	static const struct {
		const char *leader, *on_node;
		bool is_gone, is_ours;
	} rows[] = {
		{ NULL, "theirs", false, true },    { "ours", "", false, true },      { "ours", "ours", false, true },
		{ "ours", "theirs", false, false }, { "ours", "theirs", true, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv gone = { 0 };
		auto_str char *row = str_fmt("row %zu", i);
		setup(NULL);
		strv_add(&gone, str_dup(rows[i].is_gone ? "theirs" : "others"));
		plan("evicting+ours+slot+blocked evicting+ours+slot+blocked queued");
		memcpy(nodes[0].record.leader, rows[i].on_node, strlen(rows[i].on_node));
		cluster.leader = rows[i].leader;
		cluster.gone = &gone;
		plan_again();
		expect_letters(row, rows[i].is_ours ? "SS-" : "-SS");
		expect(slots.node_plans[0].pool == (rows[i].is_ours ? 0 : -1), row);
		expect(slots.sums[0].total == (rows[i].is_ours ? 3 : 2), row);
		struct view v = scheduler_view(&cluster, &slots, 0);
		expect(v.is_led_elsewhere == !rows[i].is_ours, row);
		expect(slots.node_plans[1].is_revoked == rows[i].is_ours, row); // theirs blocks nobody of ours
		cluster.gone = NULL;
		plan_again();
		expect((slots.node_plans[0].pool == 0) == (rows[i].is_ours && !rows[i].is_gone), row);
	}
}

// Of drains that block each other the youngest gives way; of two that are as old the last by name.
static void the_youngest_of_blocked_drains_gives_way(void **state)
{
	(void)state;
	static const struct {
		int64_t since[3], blocked[3]; // seconds ago; blocked 0: it is not
		int revoked;                  // -1 = nobody
	} rows[] = {
		{ { 900, 800, 700 }, { 601, 601, 601 }, 2 },  { { 700, 800, 900 }, { 601, 601, 601 }, 0 },
		{ { 900, 700, 800 }, { 601, 601, 601 }, 1 },  { { 900, 900, 900 }, { 601, 601, 601 }, 2 },
		{ { 700, 700, 900 }, { 601, 601, 601 }, 1 },  { { 900, 800, 700 }, { 600, 600, 600 }, 2 },
		{ { 900, 800, 700 }, { 601, 599, 601 }, -1 }, { { 900, 800, 700 }, { 601, 0, 601 }, -1 },
	};
	pools[0].parallel.value = pools[0].unavailable.value = 9;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *row = str_fmt("row %zu", i);
		plan("evicting+ours+slot evicting+ours+slot evicting+ours+slot");
		for (int n = 0; n < 3; n++) {
			nodes[n].record.since = NOW - rows[i].since[n];
			nodes[n].facts.seen.stay = node_state_stay(&nodes[n]);
			nodes[n].facts.seen.blocked_since = rows[i].blocked[n] ? NOW - rows[i].blocked[n] : 0;
		}
		plan_again();
		for (int n = 0; n < 3; n++)
			expect(slots.node_plans[n].is_revoked == (n == rows[i].revoked), row);
	}
	plan("evicting+ours+slot+blocked replacing+ours+slot"); // whoever is past its drain holds nobody up
	assert_false(slots.node_plans[0].is_revoked || slots.node_plans[1].is_revoked);
}

// What is written is who has a slot, whatever stood there; who is gone, and who gave back, are told as freed.
static void the_ledger_that_is_written(void **state)
{
	(void)state;
	static const struct {
		const char *line, *want;
		size_t granted, freed;
	} rows[] = {
		{ "idle+well done", "", 0, 0 },
		{ "queued queued queued", "work uid-0,uid-1", 2, 0 },
		{ "queued evicting+ours+slot done+slot", "work uid-0,uid-1", 1, 1 },
		{ "waiting+ours+wait evicting+ours", "work uid-0,uid-1", 2, 0 }, // a slot for work is a new one
		{ "waiting+ours+slot+jobs evicting+ours+slot", "work uid-1;wait uid-0", 0, 0 },
		{ "unknown+wait replacing+ours+slot", "work uid-1;wait uid-0", 0, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		plan(rows[i].line);
		auto_str char *text = scheduler_ledger_text(&slots.ledger);
		auto_str char *row = str_fmt("%s: '%s', %zu and %zu", rows[i].line, text, slots.granted, slots.freed);
		expect(str_eq(text, rows[i].want) && slots.granted == rows[i].granted && slots.freed == rows[i].freed,
		       row);
	}
}

// In whatever order the ledger names them, and with names of nodes that are gone between them.
static void a_ledger_in_any_order(void **state)
{
	(void)state;
	struct ledger_entry mixed[] = { { "uid-9", SLOT_WORK }, { "uid-2", SLOT_WAIT },  { "gone-b", SLOT_WORK },
					{ "uid-0", SLOT_WORK }, { "gone-a", SLOT_WAIT }, { "uid-11", SLOT_WORK } };
	struct slot_ledger l = { mixed, ARRAY_SIZE(mixed) };
	plan("unknown unknown unknown unknown unknown unknown unknown unknown unknown unknown unknown unknown");
	cluster.ledger = &l;
	plan_again();
	expect_letters("a ledger in any order", "S-W------S-S");
	assert_int_equal(slots.freed, 2);
	assert_int_equal(slots.granted, 0);
	// What transition() sees is what was written, not what is granted now.
	struct view v = scheduler_view(&cluster, &slots, 2);
	assert_int_equal(v.slot, SLOT_WAIT);
	plan("queued");
	v = scheduler_view(&cluster, &slots, 0);
	assert_true(slots.node_plans[0].has == SLOT_WORK && v.slot == SLOT_NONE);
}

// Its wait is over, and no pool says what is to come: it keeps the slot that it has.
static void whoever_waited_and_has_no_pool_any_more(void **state)
{
	(void)state;
	plan("waiting+ours+wait");
	memcpy(nodes[0].record.pool, "gone", 5);
	plan_again();
	expect_letters("a wait without a pool", "W");
	assert_int_equal(slots.node_plans[0].refused, REASON_NONE);
}

static void a_cluster_without_nodes(void **state)
{
	(void)state;
	struct slot_ledger none = { 0 };
	struct ledger_entry gone[] = { { "gone", SLOT_WORK } };
	struct slot_ledger one = { gone, 1 };
	cluster = (struct cluster){ &policy, rollouts, NULL, 0, &none, 1, NOW, NULL, NULL, false, 0, NULL, 0 };
	plan_again();
	assert_true(!slots.granted && !slots.freed && !slots.ledger.count && slots.sums[0].total == 0);
	cluster.ledger = &one;
	plan_again();
	assert_int_equal(slots.freed, 1);
	policy.pool_count = 0;
	plan_again();
	assert_int_equal(slots.freed, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(slots_that_are_kept),
		T(grants_that_are_taken_back),
		T(a_mate_without_a_slot_is_not_waited_for),
		T(what_is_counted),
		T(parts_are_of_the_set_that_was_there),
		T(whom_no_pool_has_is_counted_where_it_is_at_home),
		T(nodes_that_another_coordinator_leads),
		T(the_youngest_of_blocked_drains_gives_way),
		T(the_ledger_that_is_written),
		T(a_ledger_in_any_order),
		T(whoever_waited_and_has_no_pool_any_more),
		T(a_cluster_without_nodes),
	};
	return cmocka_run_group_tests_name("seats", tests, NULL, NULL);
}
