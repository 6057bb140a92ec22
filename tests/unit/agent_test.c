// SPDX-License-Identifier: Apache-2.0
// What the agent of a node does next, one situation a row; names begin with the scenarios of upgrade-design 3. And
// the life of an order from its acceptance to its end, across boots.
#include "cluster/agent/decide.h"
#include "tests/unit/test.h"

enum { NOTHING, OLD, NEW, OTHER };
static const struct target_hash sides[] = { { 0 }, { 1, 0 }, { 2, 0 }, { 3, 0 } };
static const struct target_hash new_options = { 2, 7 };

struct row {
	const char *name;
	// what is journaled: an order of seq 1.5 for NEW, its step, in which boot it was begun, how often
	enum verb verb;
	enum agent_step step;
	const char *boot; // NULL = this one
	unsigned boots, tries;
	int previous, current;
	const char *revived;
	unsigned revivals;
	// what stands on the Node: 0 = the same order
	unsigned n; // 1.n
	enum verb ordered;
	bool deleted, unread, paused, uncordoned, running, meaningless;
	enum node_phase phase;
	unsigned waited;
	// what is so
	bool blind, foreign, unstored, options; // options: of what is loaded
	int loaded;
	// how a child ended
	bool ended, crashed;
	enum failing failing;
	// what has to follow
	enum agent_act act;
	enum result result;
	enum failing as;
	const char *code;
};

static const struct target meant = { .driver = "2", .target_hash = { 2, 0 } };
static const struct target old = { .driver = "1", .target_hash = { 1, 0 } };

static void check(const struct row *w)
{
	struct agent_journal j = { .order = { { 1, 5 }, w->verb, w->verb ? sides[NEW] : TARGET_HASH_NONE },
				   .step = w->step,
				   .boots = w->boots,
				   .tries = w->tries,
				   .previous = sides[w->previous],
				   .current = sides[w->current] };
	struct target known[] = { meant, old };
	j.known = known;
	j.known_count = ARRAY_SIZE(known);
	snprintf(j.boot, sizeof(j.boot), "%s", w->boot ? w->boot : w->boots ? "b3" : "");
	j.revivals = w->revivals;
	snprintf(j.revived, sizeof(j.revived), "%s", w->revived ? w->revived : "");
	struct agent_facts f = { .is_known = !w->blind,
				 .is_foreign = w->foreign,
				 .is_empty = !w->loaded && !w->foreign,
				 .loaded = w->options ? new_options : sides[w->loaded],
				 .store = { sides[OLD], w->unstored ? TARGET_HASH_NONE : sides[NEW] } };
	struct agent_end end = {
		.is_ok = !w->crashed && !w->failing, .is_crash = w->crashed, .failing = w->failing, .code = "E_OF_CHILD"
	};
	struct agent_view v = { .journal = &j,
				.facts = &f,
				.end = w->ended ? &end : NULL,
				.boot = "b3",
				.is_read = !w->unread,
				.go = w->n       ? (struct order){ { 1, w->n }, w->ordered, sides[OTHER] } :
				      w->deleted ? (struct order){ { 0, 0 }, VERB_NONE, { 0, 0 } } :
						   j.order,
				.phase = w->phase,
				.is_paused = w->paused,
				.is_cordoned = !w->uncordoned,
				.is_running = w->running,
				.is_meant = !w->meaningless,
				.is_back_meant = agent_known(&j, &j.previous) != NULL,
				.waited_s = w->waited };
	struct agent_choice c;
	agent_choose(&v, &c);
	if (c.act != w->act || c.result != w->result || c.failing != w->as ||
	    !str_eq(c.code ? c.code : "", w->code ? w->code : ""))
		fail_msg("%s: act %d, %s, %s:%s, by '%s'", w->name, (int)c.act, result_names[c.result],
			 failing_names[c.failing], c.code ? c.code : "", c.rule ? c.rule : "no row");
}

#define TAKEN(verb_) .verb = VERB_##verb_, .step = AGENT_ACCEPTED
#define BEGUN(verb_) .verb = VERB_##verb_, .step = AGENT_BEGUN
#define ENDS_WELL .act = AGENT_FINISH, .result = RESULT_DONE
#define FAILS(as_, code_) .act = AGENT_FINISH, .result = RESULT_FAILED, .as = FAILING_##as_, .code = code_
static const struct row rows[] = {
	{ "nothing was ever ordered", .n = 0, .act = AGENT_WAIT },
	{ "an order", .n = 6, .ordered = VERB_STAGE, .act = AGENT_TAKE },
	{ "an order is taken back", TAKEN(STAGE), .n = 6, .ordered = VERB_NONE, .act = AGENT_TAKE },
	{ "T15 an older order", .verb = VERB_STAGE, .step = AGENT_DONE, .n = 4, .ordered = VERB_REPLACE,
	  .act = AGENT_WAIT },
	{ "T15 an older order in place of this one, before it began", TAKEN(REPLACE), .n = 4, .ordered = VERB_STAGE,
	  .loaded = OLD, .act = AGENT_WAIT },
	{ "T62 the order is deleted before it starts", TAKEN(REPLACE), .n = 0, .deleted = true, .loaded = OLD,
	  .act = AGENT_WAIT },
	{ "T57 accepted, not begun, and the API cannot be reached", TAKEN(REPLACE), .unread = true, .loaded = OLD,
	  .act = AGENT_WAIT },
	{ "T23 accepted, not begun, and the node was uncordoned: pods may have come", TAKEN(REPLACE),
	  .uncordoned = true, .loaded = OLD, FAILS(BUSY, "not-cordoned") },
	{ "T23 uncordoned once it was begun: it ends first", BEGUN(REPLACE), .boots = 1, .tries = 1, .uncordoned = true,
	  .loaded = OLD, .act = AGENT_RUN },
	{ "T23 a load into an empty kernel needs no cordon", TAKEN(LOAD), .uncordoned = true, .act = AGENT_RUN },
	{ "T23 a restore goes on", TAKEN(RESTORE), .uncordoned = true, .loaded = OLD, .act = AGENT_RUN },
	{ "another order with the same number", TAKEN(STAGE), .n = 5, .ordered = VERB_REPLACE, .loaded = OLD,
	  .act = AGENT_WAIT },
	{ "the same order again, after its end", .verb = VERB_REPLACE, .step = AGENT_DONE, .loaded = OLD,
	  .act = AGENT_WAIT },
	{ "T15 a newer order while a worker is running", BEGUN(REPLACE), .running = true, .n = 6, .ordered = VERB_STAGE,
	  .act = AGENT_WAIT },
	{ "T15 a newer order, and a change was cut off: it ends first", BEGUN(REPLACE), .boots = 1, .tries = 1, .n = 6,
	  .ordered = VERB_STAGE, .loaded = OLD, .act = AGENT_RUN },
	{ "T15 a newer order, and a stage was cut off", BEGUN(STAGE), .boots = 1, .tries = 1, .n = 6,
	  .ordered = VERB_REPLACE, .act = AGENT_TAKE },
	// staging
	{ "stage", TAKEN(STAGE), .unstored = true, .loaded = OLD, .act = AGENT_RUN },
	{ "staged already", TAKEN(STAGE), .loaded = OLD, ENDS_WELL },
	{ "T44 staging was cut off by a boot", BEGUN(STAGE), .boot = "b2", .boots = 1, .tries = 1, .unstored = true,
	  .loaded = OLD, .act = AGENT_RUN },
	{ "staged", BEGUN(STAGE), .ended = true, .loaded = OLD, ENDS_WELL },
	{ "T42 staged for another kernel", BEGUN(STAGE), .ended = true, .unstored = true, .loaded = OLD,
	  FAILS(TRANSIENT, "not-staged") },
	{ "T02 it cannot be had", BEGUN(STAGE), .ended = true, .failing = FAILING_PERMANENT, .unstored = true,
	  FAILS(PERMANENT, "E_OF_CHILD") },
	{ "T41 the policy is not there yet", TAKEN(STAGE), .meaningless = true, .unstored = true, .waited = 60,
	  .act = AGENT_WAIT },
	{ "T41 the policy does not come", TAKEN(STAGE), .meaningless = true, .unstored = true, .waited = 120,
	  FAILS(TRANSIENT, "unknown-aim") },
	{ "paused by people", TAKEN(STAGE), .paused = true, .unstored = true, .act = AGENT_WAIT },
	{ "paused, and then unpaused", TAKEN(STAGE), .unstored = true, .waited = 9999, .act = AGENT_RUN },
	// replacing
	{ "replace", TAKEN(REPLACE), .loaded = OLD, .act = AGENT_RUN },
	{ "replace, not staged", TAKEN(REPLACE), .loaded = OLD, .unstored = true, FAILS(TRANSIENT, "not-staged") },
	{ "T38 only options differ", TAKEN(REPLACE), .options = true, .unstored = true, .act = AGENT_RUN },
	{ "T36 it is loaded already", TAKEN(REPLACE), .loaded = NEW, .unstored = true, ENDS_WELL },
	{ "a foreign driver is loaded", TAKEN(REPLACE), .foreign = true, .act = AGENT_RUN },
	{ "paused before it began", TAKEN(REPLACE), .paused = true, .loaded = OLD, .act = AGENT_WAIT },
	{ "paused, but this brings the node back", TAKEN(RESTORE), .paused = true, .loaded = OLD, .act = AGENT_RUN },
	{ "replaced", BEGUN(REPLACE), .ended = true, .loaded = NEW, ENDS_WELL },
	{ "T54 reported as replaced, but it is not loaded", BEGUN(REPLACE), .ended = true, .loaded = OLD,
	  FAILS(PERMANENT, "drift") },
	{ "T08 in use", BEGUN(REPLACE), .ended = true, .failing = FAILING_BUSY, .loaded = OLD,
	  FAILS(BUSY, "E_OF_CHILD") },
	{ "it loads, and does not work", BEGUN(REPLACE), .ended = true, .failing = FAILING_TRANSIENT, .loaded = NEW,
	  FAILS(TRANSIENT, "E_OF_CHILD") },
	{ "the child was killed", BEGUN(REPLACE), .tries = 1, .ended = true, .crashed = true, .loaded = OLD,
	  .act = AGENT_RUN },
	{ "the child was killed again and again", BEGUN(REPLACE), .tries = 3, .ended = true, .crashed = true,
	  .failing = FAILING_TRANSIENT, .loaded = OLD, FAILS(TRANSIENT, "E_OF_CHILD") },
	{ "T57 the agent was killed before the unload", BEGUN(REPLACE), .boots = 1, .tries = 1, .loaded = OLD,
	  .act = AGENT_RUN },
	{ "T57 killed between unload and load", BEGUN(REPLACE), .boots = 1, .tries = 1, .act = AGENT_RUN },
	{ "T57 killed after the load", BEGUN(REPLACE), .boots = 1, .tries = 1, .loaded = NEW, ENDS_WELL },
	{ "T57 the API cannot be reached: it ends all the same", BEGUN(REPLACE), .unread = true, .boots = 1, .tries = 1,
	  .act = AGENT_RUN },
	{ "T57 and no other order is begun", .verb = VERB_STAGE, .step = AGENT_DONE, .unread = true, .n = 6,
	  .ordered = VERB_REPLACE, .loaded = OLD, .act = AGENT_WAIT },
	{ "T76 booted while it was replaced: once more", BEGUN(REPLACE), .boot = "b2", .boots = 1, .tries = 1,
	  .previous = OLD, .act = AGENT_RUN },
	{ "T76 booted twice: the way back", BEGUN(REPLACE), .boot = "b2", .boots = 2, .tries = 1, .previous = OLD,
	  .act = AGENT_REVERT },
	{ "T76 booted twice, and the module loaded itself", BEGUN(REPLACE), .boot = "b2", .boots = 2, .tries = 1,
	  .previous = OLD, .loaded = NEW, ENDS_WELL },
	{ "T76 booted twice, and there is no way back", BEGUN(LOAD), .boot = "b2", .boots = 2, .tries = 1,
	  FAILS(PERMANENT, "boot-loop") },
	{ "T76 booted twice, and the previous driver is unknown", BEGUN(REPLACE), .boot = "b2", .boots = 2, .tries = 1,
	  .previous = OTHER, FAILS(PERMANENT, "boot-loop") },
	{ "T76 booted twice, and the old one is there", BEGUN(REPLACE), .boot = "b2", .boots = 2, .tries = 1,
	  .previous = OLD, .loaded = OLD, FAILS(PERMANENT, "boot-loop") },
	{ "T76 two tries in this boot are no loop", BEGUN(REPLACE), .boots = 2, .tries = 2, .previous = OLD,
	  .act = AGENT_RUN },
	{ "T76 the agent ends three times", BEGUN(REPLACE), .boots = 1, .tries = 3, .previous = OLD,
	  .act = AGENT_REVERT },
	{ "T76 the way back has worked", .verb = VERB_REPLACE, .step = AGENT_BACK, .boots = 3, .tries = 1,
	  .previous = OLD, .ended = true, .loaded = OLD, FAILS(PERMANENT, "boot-loop") },
	{ "T76 the way back was cut off", .verb = VERB_REPLACE, .step = AGENT_BACK, .boots = 3, .tries = 1,
	  .previous = OLD, .act = AGENT_REVERT },
	{ "T76 the way back was cut off too often", .verb = VERB_REPLACE, .step = AGENT_BACK, .boot = "b2", .boots = 4,
	  .tries = 1, .previous = OLD, FAILS(PERMANENT, "boot-loop") },
	// loading
	{ "load", TAKEN(LOAD), .act = AGENT_RUN },
	{ "T54 load, and something else is loaded", TAKEN(LOAD), .loaded = OLD, FAILS(TRANSIENT, "not-empty") },
	{ "T54 load, and a foreign driver is loaded", TAKEN(LOAD), .foreign = true, FAILS(TRANSIENT, "not-empty") },
	// validating
	{ "validate", TAKEN(VALIDATE), .loaded = NEW, .act = AGENT_RUN },
	{ "T54 validate a target that is not loaded", TAKEN(VALIDATE), .loaded = OLD, FAILS(PERMANENT, "drift") },
	{ "validate, and the policy forgot it", TAKEN(VALIDATE), .loaded = OLD, .meaningless = true,
	  FAILS(PERMANENT, "drift") },
	{ "valid", BEGUN(VALIDATE), .ended = true, .loaded = NEW, ENDS_WELL },
	{ "valid, but replaced by another driver", BEGUN(VALIDATE), .ended = true, .loaded = OLD,
	  FAILS(PERMANENT, "drift") },
	{ "T35 not valid", BEGUN(VALIDATE), .ended = true, .failing = FAILING_TRANSIENT, .loaded = NEW,
	  FAILS(TRANSIENT, "E_OF_CHILD") },
	{ "a probe that ends the agent", BEGUN(VALIDATE), .boots = 1, .tries = 3, .loaded = NEW,
	  FAILS(TRANSIENT, "crash-loop") },
	// a node that cannot be read, a boot
	{ "nothing is decided blindly", TAKEN(REPLACE), .blind = true, .act = AGENT_WAIT },
	{ "T76 booted: the last good driver is loaded", .current = OLD, .act = AGENT_REVIVE },
	{ "T76 booted, and the API cannot be reached", .current = OLD, .unread = true, .waited = 30,
	  .act = AGENT_REVIVE },
	{ "T76 booted, and the API may answer yet", .current = OLD, .unread = true, .waited = 29, .act = AGENT_WAIT },
	{ "T76 booted, and it was tried in this boot", .current = OLD, .revived = "b3", .act = AGENT_WAIT },
	{ "T57 T76 booted, and the worker that loaded it was killed", .current = OLD, .revived = "b3", .revivals = 1,
	  .act = AGENT_REVIVE },
	{ "T57 T76 booted, and the worker that loads it is killed again and again", .current = OLD, .revived = "b3",
	  .revivals = 3, .act = AGENT_WAIT },
	{ "T76 booted, and it was tried in another boot", .current = OLD, .revived = "b2", .act = AGENT_REVIVE },
	{ "T76 booted while it was drained: the coordinator loads", .current = OLD, .phase = PHASE_EVICTING,
	  .act = AGENT_WAIT },
	{ "T76 booted while it was loaded: the coordinator loads", .current = OLD, .phase = PHASE_LOADING,
	  .act = AGENT_WAIT },
	{ "T71 a new node has nothing to load", .act = AGENT_WAIT },
	{ "T37 restarted with a driver in the kernel", .current = OLD, .loaded = OLD, .act = AGENT_WAIT },
	{ "T37 restarted with another driver in the kernel", .current = OLD, .loaded = OTHER, .act = AGENT_WAIT },
};

static void each_rule_applies_in_order(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

static void each_order_ends(void **state)
{
	(void)state;
	const struct order order = { { 2, 1 }, VERB_REPLACE, { 2, 0 } };
	auto_agent_journal struct agent_journal j = { 0 };
	assert_true(agent_learn(&j, &meant));
	assert_true(agent_learn(&j, &old));
	assert_false(agent_learn(&j, &old));
	agent_take(&j, &order);
	agent_begin(&j, AGENT_RUN, "b1", &sides[OLD]);
	assert_int_equal(j.step, AGENT_BEGUN);
	assert_true(target_hash_eq(&j.previous, &sides[OLD]));
	// the machine ends while it loads, twice; nothing is in the kernel after it
	struct agent_facts f = { .is_known = true, .is_empty = true, .store = { { 2, 0 }, { 1, 0 } } };
	struct agent_view v = {
		.journal = &j, .facts = &f, .go = order, .is_read = true, .is_meant = true, .is_back_meant = true
	};
	struct agent_choice c;
	v.boot = "b2";
	agent_choose(&v, &c);
	assert_int_equal(c.act, AGENT_RUN);
	agent_begin(&j, AGENT_RUN, v.boot, &TARGET_HASH_NONE);
	assert_int_equal(j.boots, 2);
	assert_true(target_hash_eq(&j.previous, &sides[OLD])); // not what the boot left
	v.boot = "b3";
	agent_choose(&v, &c);
	assert_int_equal(c.act, AGENT_REVERT);
	agent_begin(&j, AGENT_REVERT, v.boot, &TARGET_HASH_NONE);
	assert_int_equal(j.step, AGENT_BACK);
	struct agent_end end = { .is_ok = true };
	f.is_empty = false;
	f.loaded = sides[OLD];
	v.end = &end;
	agent_choose(&v, &c);
	assert_int_equal(c.act, AGENT_FINISH);
	agent_finish(&j, &c);
	assert_int_equal(j.step, AGENT_FAILED);
	assert_string_equal(j.code, "boot-loop");
	assert_false(target_hash_is_set(&j.current)); // the target is not what works here
	// and nothing more happens for that order
	v.end = NULL;
	agent_choose(&v, &c);
	assert_int_equal(c.act, AGENT_WAIT);
}

static void known_targets_are_kept(void **state)
{
	(void)state;
	auto_agent_journal struct agent_journal j = { 0 };
	j.order.target_hash = sides[OLD];
	assert_true(agent_learn(&j, &old));
	for (unsigned i = 0; i < 40; i++) {
		const struct target t = { .driver = "x", .target_hash = { 100 + i, 0 } };
		assert_true(agent_learn(&j, &t));
	}
	assert_true(j.known_count <= 16);
	assert_non_null(agent_known(&j, &sides[OLD])); // needed by the order
	assert_non_null(agent_known(&j, &(struct target_hash){ 139, 0 }));
	assert_null(agent_known(&j, &(struct target_hash){ 100, 0 }));
}

static void t71_another_node_with_the_same_name(void **state)
{
	(void)state;
	const struct order order = { { 2, 1 }, VERB_REPLACE, { 2, 0 } };
	struct agent_journal j = { 0 };
	assert_true(agent_move(&j, "u1"));
	assert_false(agent_move(&j, "u1"));
	agent_take(&j, &order);
	agent_begin(&j, AGENT_RUN, "b1", &sides[OLD]);
	assert_false(agent_move(&j, "u2")); // what was begun is ended
	agent_finish(&j, &(struct agent_choice){ .result = RESULT_DONE });
	assert_true(agent_move(&j, "u2"));
	assert_int_equal(j.order.seq.epoch, 0);
	assert_int_equal(j.step, AGENT_IDLE);
	assert_true(target_hash_eq(&j.current, &sides[NEW])); // what works here is the machine's
}

static void classes_of_errors(void **state)
{
	(void)state;
	static const struct {
		int code;
		enum failing failing;
	} table[] = { { E_IN_USE, FAILING_BUSY },          { E_NETWORK, FAILING_TRANSIENT },
		      { E_NO_PACKAGE, FAILING_TRANSIENT }, { E_LOCKED, FAILING_TRANSIENT },
		      { E_LOAD, FAILING_PERMANENT },       { E_UNTRUSTED, FAILING_PERMANENT },
		      { E_ABI, FAILING_PERMANENT },        { ENOSPC, FAILING_TRANSIENT },
		      { EROFS, FAILING_PERMANENT } };
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		expect(agent_failing(err_info(table[i].code)) == table[i].failing, err_info(table[i].code)->name);
	// Every code of ours finds room in an ack.
	for (int code = E_SYSTEM; code < E_LAST_; code++)
		expect(strlen(err_info(code)->name) < WORD_TEXT, err_info(code)->name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rule_applies_in_order), cmocka_unit_test(each_order_ends),
		cmocka_unit_test(known_targets_are_kept),     cmocka_unit_test(t71_another_node_with_the_same_name),
		cmocka_unit_test(classes_of_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
