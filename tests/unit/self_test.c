// SPDX-License-Identifier: Apache-2.0
// Mode self: all steps of a node by its own orders, every step from the disk alone. The test plays the agent.
#include "cluster/agent/single_node.h"
#include "cluster/node_state/annotations.h"
#include "tests/unit/test.h"

#define POLICY(driver) "{\"mode\": \"self\", \"pools\": [{\"name\": \"n\", \"target\": {\"driver\": \"" driver "\"}}]}"

struct fixture {
	struct folder folder;
	struct single_node self;
	struct policy policy;
	struct node_facts people;
	struct agent_annotations words;
	int64_t now;
	unsigned steps;
	char moves[512]; // states that it went to, by a blank
	struct target_hash old, new;
};

static void say(struct fixture *n, enum agent_key key, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(struct fixture *n, enum agent_key key, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(n->words.value[key], AGENT_VALUE, format, args);
	va_end(args);
}

static void request(struct fixture *n, const char *text)
{
	struct err err;
	policy_done(&n->policy);
	expect(policy_parse(text, strlen(text), &n->policy, &err) == 0, err.text);
}

static void say_loaded(struct fixture *n, const struct target_hash *target_hash)
{
	char text[TARGET_HASH_TEXT];
	target_hash_text(target_hash, text);
	say(n, AGENT_LOADED, "%s 1.0", text);
}

static void say_stored(struct fixture *n)
{
	char old[TARGET_HASH_TEXT], new[TARGET_HASH_TEXT];
	target_hash_text(&n->old, old);
	target_hash_text(&n->new, new);
	say(n, AGENT_STORE, "%s,%s", old, new);
}

static void make(struct fixture *n)
{
	*n = (struct fixture){ .now = INT64_C(1800000000) };
	folder_make(&n->folder);
	request(n, POLICY("1.0"));
	n->old = n->policy.pools[0].target.target_hash;
	request(n, POLICY("2.0"));
	n->new = n->policy.pools[0].target.target_hash;
	say_loaded(n, &n->old);
}

static void done(struct fixture *n)
{
	single_node_done(&n->self);
	policy_done(&n->policy);
	folder_done(&n->folder);
}

// Each step is one of a new process.
static enum node_phase go_on(struct fixture *n)
{
	struct single_node_step step;
	struct err err;
	int r = 1;
	for (int i = 0; r > 0; i++) {
		auto_str char *why = NULL;
		assert_true(i < 32);
		single_node_done(&n->self);
		assert_true(single_node_read(&n->folder.root, &n->self, &why, &err) >= 0 && !why);
		r = single_node_step(&n->self, &n->folder.root, &n->policy, &n->words, &n->people, n->now, &step, &err);
		expect(r >= 0, err.text);
		n->steps += r > 0;
		size_t len = strlen(n->moves);
		if (step.is_move)
			snprintf(n->moves + len, sizeof(n->moves) - len, "%s%s%s ", node_phase_info(step.to)->name,
				 step.reason.code == REASON_NONE ? "" : ":",
				 step.reason.code == REASON_NONE ? "" : node_reason_info(step.reason.code)->code);
	}
	return n->self.m.record.phase;
}

// What the agent does: the order that stands is carried out, or fails.
static void answer(struct fixture *n, enum verb verb, const struct target_hash *target_hash, const char *result)
{
	char text[TARGET_HASH_TEXT];
	const struct order *go = &n->self.m.record.go;
	assert_int_equal(go->verb, verb);
	assert_true(target_hash_eq(&go->target_hash, target_hash));
	target_hash_text(target_hash, text);
	say(n, AGENT_ACK, "%u.%u:%s:%s", go->seq.epoch, go->seq.n, verb_names[verb], result);
	if (!str_eq(result, "done"))
		return;
	if (verb == VERB_STAGE)
		say_stored(n);
	else if (verb == VERB_VALIDATE)
		say(n, AGENT_HEALTH, "%s:ok", text);
	else
		say_loaded(n, target_hash);
}

static void to_the_change(struct fixture *n)
{
	assert_int_equal(go_on(n), PHASE_STAGING);
	answer(n, VERB_STAGE, &n->new, "done");
	assert_int_equal(go_on(n), PHASE_EVICTING);
	say(n, AGENT_HOLDERS, "0 1");
	assert_int_equal(go_on(n), PHASE_REPLACING);
}

static void from_one_driver_to_the_next(void **state)
{
	(void)state;
	struct fixture n;
	make(&n);
	to_the_change(&n);
	answer(&n, VERB_REPLACE, &n.new, "done");
	assert_int_equal(go_on(&n), PHASE_VALIDATING);
	answer(&n, VERB_VALIDATE, &n.new, "done");
	assert_int_equal(go_on(&n), PHASE_DONE);
	assert_string_equal(n.moves,
			    "staging queued cordoned evicting replacing validating releasing done "); // each once
	assert_false(n.self.m.facts.is_unschedulable);
	n.steps = 0; // I11: and then nothing is written
	n.now += 86400;
	assert_int_equal(go_on(&n), PHASE_DONE);
	assert_int_equal(n.steps, 0);
	// A booted node has it loaded without a drain.
	say(&n, AGENT_LOADED, "none");
	assert_int_equal(go_on(&n), PHASE_LOADING);
	answer(&n, VERB_LOAD, &n.new, "done");
	assert_int_equal(go_on(&n), PHASE_DONE);
	done(&n);
}

static void holders_keep_their_driver(void **state)
{
	(void)state;
	struct fixture n;
	make(&n);
	assert_int_equal(go_on(&n), PHASE_STAGING);
	answer(&n, VERB_STAGE, &n.new, "done");
	say(&n, AGENT_HOLDERS, "1 1 pod");
	assert_int_equal(go_on(&n), PHASE_EVICTING);
	n.now += 29 * 60;
	assert_int_equal(go_on(&n), PHASE_EVICTING);
	n.now += 2 * 60; // the drain is given up, and tried again later
	enum node_phase phase = go_on(&n);
	assert_true(phase == PHASE_IDLE || phase == PHASE_QUEUED);
	assert_false(n.self.m.record.receipt.is_there);
	n.now += 3600;
	assert_int_equal(go_on(&n), PHASE_QUEUED);
	answer(&n, VERB_STAGE, &n.new, "done"); // before each drain
	assert_int_equal(go_on(&n), PHASE_EVICTING);
	// T15: busy at the last moment is no failure.
	say(&n, AGENT_HOLDERS, "0 2");
	assert_int_equal(go_on(&n), PHASE_REPLACING);
	say(&n, AGENT_HOLDERS, "1 3 pod");
	answer(&n, VERB_REPLACE, &n.new, "failed:busy:E_IN_USE");
	assert_int_equal(go_on(&n), PHASE_EVICTING);
	assert_int_equal(n.self.m.record.attempts, 0);
	done(&n);
}

static void a_bad_target_is_undone_and_not_tried_again(void **state)
{
	(void)state;
	struct fixture n;
	make(&n);
	to_the_change(&n);
	say(&n, AGENT_LOADED, "none");
	answer(&n, VERB_REPLACE, &n.new, "failed:permanent:E_LOAD");
	assert_int_equal(go_on(&n), PHASE_RESTORING);
	answer(&n, VERB_RESTORE, &n.old, "done");
	assert_int_equal(go_on(&n), PHASE_RESTORING);
	answer(&n, VERB_VALIDATE, &n.old, "done");
	assert_int_equal(go_on(&n), PHASE_ROLLEDBACK);
	assert_true(target_hash_eq(&n.self.m.record.failed, &n.new));
	n.steps = 0;
	n.now += 7 * 86400;
	assert_int_equal(go_on(&n), PHASE_ROLLEDBACK);
	assert_int_equal(n.steps, 0);
	n.people.retry = 77; // somebody has annotated kmodsmith.io/retry: once more, and the halt is lifted
	assert_int_equal(go_on(&n), PHASE_QUEUED);
	answer(&n, VERB_STAGE, &n.new, "done");
	assert_int_equal(go_on(&n), PHASE_REPLACING);
	// What was asked for is asked for once: when it fails again, the same annotation moves nothing.
	say(&n, AGENT_LOADED, "none");
	answer(&n, VERB_REPLACE, &n.new, "failed:permanent:E_LOAD");
	assert_int_equal(go_on(&n), PHASE_RESTORING);
	answer(&n, VERB_RESTORE, &n.old, "done");
	assert_int_equal(go_on(&n), PHASE_RESTORING);
	answer(&n, VERB_VALIDATE, &n.old, "done");
	assert_int_equal(go_on(&n), PHASE_ROLLEDBACK);
	n.now += 86400;
	assert_int_equal(go_on(&n), PHASE_ROLLEDBACK);
	n.people.retry = 78;
	assert_int_equal(go_on(&n), PHASE_QUEUED);
	answer(&n, VERB_STAGE, &n.new, "done");
	assert_int_equal(go_on(&n), PHASE_REPLACING);
	answer(&n, VERB_REPLACE, &n.new, "done");
	done(&n);
}

static void users_annotations_count(void **state)
{
	(void)state;
	struct fixture n;
	make(&n);
	n.people.is_skipped = true;
	assert_int_equal(go_on(&n), PHASE_IDLE);
	n.people = (struct node_facts){ .is_paused = true };
	assert_int_equal(go_on(&n), PHASE_IDLE);
	n.people = (struct node_facts){ .is_pinned = true };
	assert_int_equal(go_on(&n), PHASE_DONE);
	n.people = (struct node_facts){ 0 };
	assert_int_equal(go_on(&n), PHASE_STAGING);
	request(&n, POLICY("1.0")); // and back again before it cost anything
	assert_int_equal(go_on(&n), PHASE_DONE);
	done(&n);
}

static void what_cannot_be_written_does_not_happen(void **state)
{
	(void)state;
	struct fixture n;
	struct single_node_step step;
	struct err err;
	auto_str char *why = NULL;
	make(&n);
	folder_file(&n.folder, "agent", "a file where the folder has to be");
	assert_int_equal(single_node_read(&n.folder.root, &n.self, &why, &err), 0);
	assert_true(single_node_step(&n.self, &n.folder.root, &n.policy, &n.words, &n.people, n.now, &step, &err) < 0);
	assert_int_equal(n.self.m.record.go.verb, VERB_NONE);
	assert_null(n.self.doc);
	done(&n);
}

// A later version wrote it, and this one is what people went back to: it orders nothing, and the file stays as it is.
static void a_record_of_a_later_version_is_left_alone(void **state)
{
	(void)state;
	struct fixture n;
	struct single_node_step step;
	struct err err = { 0 };
	auto_str char *why = NULL, *text = NULL;
	make(&n);
	assert_int_equal(go_on(&n), PHASE_STAGING);
	assert_int_equal(root_read(&n.folder.root, "agent/self.json", &text, NULL, &err), 1);
	auto_json json_t *doc = json_loads(text, 0, NULL);
	json_object_set_new(doc, "status", json_pack("{s:i}", "schema", 99));
	auto_str char *later = json_dumps(doc, 0);
	folder_file(&n.folder, "agent/self.json", later);
	single_node_done(&n.self);
	answer(&n, VERB_STAGE, &n.new, "done");
	assert_int_equal(single_node_read(&n.folder.root, &n.self, &why, &err), 1);
	assert_int_equal(single_node_step(&n.self, &n.folder.root, &n.policy, &n.words, &n.people, n.now, &step, &err),
			 -1);
	assert_int_equal(err.code, E_CONFIG);
	assert_non_null(strstr(err.text, "schema 99 of the rollout's status is newer than"));
	folder_expect(&n.folder, "agent/self.json", later);
	done(&n);
}

static void a_damaged_record_starts_over(void **state)
{
	(void)state;
	static const char *const texts[] = { "{\"schema\": 1, \"cord", "[]", "{\"schema\": 2}", "" };
	static const char *const words[] = { "agent/self.json", "agent/self.json", "unknown schema",
					     "agent/self.json" };
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct fixture n;
		struct err err;
		auto_str char *why = NULL;
		make(&n);
		folder_dir(&n.folder, "agent");
		folder_file(&n.folder, "agent/self.json", texts[i]);
		expect(single_node_read(&n.folder.root, &n.self, &why, &err) == 0, texts[i]);
		expect(why && strstr(why, words[i]) && !n.self.doc, why);
		folder_expect(&n.folder, "agent/self.damaged", texts[i]);
		done(&n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_one_driver_to_the_next),
		cmocka_unit_test(holders_keep_their_driver),
		cmocka_unit_test(a_bad_target_is_undone_and_not_tried_again),
		cmocka_unit_test(users_annotations_count),
		cmocka_unit_test(what_cannot_be_written_does_not_happen),
		cmocka_unit_test(a_record_of_a_later_version_is_left_alone),
		cmocka_unit_test(a_damaged_record_starts_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
