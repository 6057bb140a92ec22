// SPDX-License-Identifier: Apache-2.0
// What the agent writes: on its Node, read back by the coordinator's own parser; and on its disk, read back by the
// agent, also damaged, or cut off by a kill. T36, T57, T76, I9.
#include "cluster/agent/agent_annotations.h"
#include "cluster/agent/agent_journal.h"
#include "tests/unit/test.h"

static const char DIGEST[] = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static struct agent_journal full(void)
{
	struct agent_journal j = { .order = { { 7, 41 }, VERB_REPLACE, { 0x123456789abcdef0, 1 } },
				   .node = "5e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f",
				   .step = AGENT_FAILED,
				   .failing = FAILING_BUSY,
				   .code = "E_IN_USE",
				   .boot = "6e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f",
				   .boots = 2,
				   .tries = 3,
				   .previous = { 3, UINT64_MAX },
				   .current = { 4, 5 },
				   .revivals = 2,
				   .revived = "7e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f",
				   .probed = { 6, 7 },
				   .probe = RESULT_FAILED,
				   .probe_code = "E_NOT_READY" };
	struct target t = { .driver = "535.261.03",
			    .flavour = "open",
			    .package = str_dup(DIGEST),
			    .parameters = str_dup("nvidia:NVreg_A=1\nnvidia:NVreg_B=\"a b\"") };
	struct target other = { .driver = "535.216.03", .parameters = str_dup("") };
	target_name(&t);
	target_name(&other);
	agent_learn(&j, &t);
	agent_learn(&j, &other);
	target_done(&t);
	target_done(&other);
	return j;
}

static struct node_state read_back(const struct agent_annotations *w)
{
	struct node_state m;
	node_state_init(&m, "n", "u");
	for (int i = 0; i < AGENT_KEYS; i++) {
		assert_true(strlen(w->value[i]) <= KEY_VALUE_MOST);
		if (*w->value[i])
			node_state_annotation(&m, agent_key_names[i], w->value[i]);
	}
	return m;
}

static const char BOOT[] = "6e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f";

static void acknowledgements(void **state)
{
	(void)state;
	for (enum verb verb = VERB_STAGE; verb < VERB_COUNT; verb++)
		for (enum agent_step step = AGENT_ACCEPTED; step < AGENT_STEPS; step++)
			for (enum failing failing = FAILING_TRANSIENT; failing < FAILING_COUNT; failing++) {
				struct agent_journal j = { .order = { { 7, 41 }, verb, { 2, 1 } },
							   .step = step,
							   .failing = failing,
							   .code = "E_HEADERS_NOT_FOUND" };
				struct agent_facts f = { 0 };
				struct agent_holders h = { 0 };
				struct agent_annotations w;
				agent_annotations(&j, &f, &h, BOOT, &w);
				struct node_state m = read_back(&w);
				assert_int_equal(node_seq_cmp(m.report.ack.seq, j.order.seq), 0);
				assert_int_equal(m.report.ack.verb, verb);
				assert_int_equal(m.report.ack.result, step == AGENT_DONE   ? RESULT_DONE :
								      step == AGENT_FAILED ? RESULT_FAILED :
											     RESULT_ACCEPTED);
				assert_int_equal(m.report.ack.failing, step == AGENT_FAILED ? failing : FAILING_NONE);
				assert_string_equal(m.report.ack.code, step == AGENT_FAILED ? j.code : "");
			}
}

static void unknown_facts_give_no_annotation(void **state)
{
	(void)state;
	struct agent_journal j = { 0 };
	struct agent_facts f = { 0 };
	struct agent_holders h = { 0 };
	struct agent_annotations w;
	agent_annotations(&j, &f, &h, BOOT, &w);
	struct node_state m = read_back(&w);
	assert_int_equal(m.report.ack.result, RESULT_NONE);
	assert_false(m.report.has_loaded);
	assert_false(target_hash_is_set(&m.report.store[0]));
	assert_int_equal(m.report.holders, HOLDERS_UNPUBLISHED);
	assert_int_equal(m.report.health.result, RESULT_NONE);
	struct agent_annotations later;
	agent_annotations(&j, &f, &h, "another", &later);
	struct node_state again = read_back(&later);
	assert_true(again.report.boot != m.report.boot);
}

static void loaded_and_stored(void **state)
{
	(void)state;
	auto_agent_journal struct agent_journal j = full();
	struct agent_holders h = { 0 };
	struct agent_annotations w;
	struct agent_facts f = { .is_known = true,
				 .loaded = { UINT64_MAX, UINT64_MAX },
				 .store = { { UINT64_MAX, 1 }, { UINT64_MAX, 2 }, { 3, 4 } },
				 .version = "535.261.03",
				 .srcversion = "ABCDEF0123456789ABCDEF0" };
	memset(f.release, 'r', sizeof(f.release) - 1);
	agent_annotations(&j, &f, &h, BOOT, &w);
	struct node_state m = read_back(&w);
	assert_true(m.report.has_loaded && !m.report.is_foreign && target_hash_eq(&m.report.loaded, &f.loaded));
	assert_string_equal(m.report.version, f.version);
	for (size_t i = 0; i < AGENT_STORED; i++)
		assert_true(target_hash_eq(&m.report.store[i], &f.store[i]));
	assert_int_equal(m.report.health.result, RESULT_FAILED);
	assert_true(target_hash_eq(&m.report.health.target_hash, &j.probed));
	f.is_foreign = true;
	memset(f.version, 0, sizeof(f.version));
	j.probe = RESULT_DONE;
	agent_annotations(&j, &f, &h, BOOT, &w);
	m = read_back(&w);
	assert_true(m.report.has_loaded && m.report.is_foreign);
	assert_int_equal(m.report.health.result, RESULT_DONE);
	f = (struct agent_facts){ .is_known = true, .is_empty = true };
	agent_annotations(&j, &f, &h, BOOT, &w);
	m = read_back(&w);
	assert_true(node_state_is_empty(&m));
}

// What people read with kubectl, and scripts split at blanks.
static void exact_annotation_values(void **state)
{
	(void)state;
#define AIM_1 "0000000000000001-0000000000000002"
#define AIM_2 "0000000000000003-0000000000000000"
	const struct agent_facts facts = { .is_known = true,
					   .loaded = { 1, 2 },
					   .store = { { 1, 2 }, { 3, 0 } },
					   .version = "535.1",
					   .srcversion = "ABC",
					   .release = "6.1" };
	struct agent_facts bare = facts, foreign = facts, empty = facts, unknown = facts, one = facts;
	*bare.version = *bare.srcversion = '\0';
	foreign.is_foreign = true;
	empty.is_empty = true;
	unknown.is_known = false;
	one.store[1] = TARGET_HASH_NONE;
	const struct {
		const struct agent_facts *facts;
		enum agent_step step;
		enum result probe;
		const char *ack, *loaded, *store, *health;
	} rows[] = {
		{ &facts, AGENT_IDLE, RESULT_NONE, "", AIM_1 " 535.1 ABC 6.1", AIM_1 "," AIM_2, "" },
		{ &bare, AGENT_ACCEPTED, RESULT_ACCEPTED, "7.1:load:accepted", AIM_1 " unknown - 6.1", AIM_1 "," AIM_2,
		  "" },
		{ &foreign, AGENT_BEGUN, RESULT_DONE, "7.1:load:accepted", "foreign 535.1 ABC 6.1", AIM_1 "," AIM_2,
		  AIM_2 ":ok" },
		{ &empty, AGENT_BACK, RESULT_FAILED, "7.1:load:accepted", "none", AIM_1 "," AIM_2,
		  AIM_2 ":fail:E_NOT_READY" },
		{ &one, AGENT_DONE, RESULT_NONE, "7.1:load:done", AIM_1 " 535.1 ABC 6.1", AIM_1, "" },
		{ &unknown, AGENT_FAILED, RESULT_NONE, "7.1:load:failed:busy:E_IN_USE", "", "", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct agent_annotations w;
		const struct agent_holders nobody = { 0 };
		const struct agent_journal j = { .order = { { 7, 1 }, VERB_LOAD, { 1, 2 } },
						 .step = rows[i].step,
						 .failing = FAILING_BUSY,
						 .code = "E_IN_USE",
						 .probed = { 3, 0 },
						 .probe = rows[i].probe,
						 .probe_code = "E_NOT_READY" };
		agent_annotations(&j, rows[i].facts, &nobody, BOOT, &w);
		assert_string_equal(w.value[AGENT_ACK], rows[i].ack);
		assert_string_equal(w.value[AGENT_LOADED], rows[i].loaded);
		assert_string_equal(w.value[AGENT_STORE], rows[i].store);
		assert_string_equal(w.value[AGENT_HEALTH], rows[i].health);
		assert_string_equal(w.value[AGENT_HOLDERS], "");
		assert_string_equal(w.value[AGENT_TROUBLE], "");
		auto_str char *boot = str_fmt("%s %s 1", BOOT, KMODSMITH_VERSION);
		assert_string_equal(w.value[AGENT_BOOT], boot);
	}
}

// A name that just finds room is there, one byte more is not; a shorter one behind it still is.
static void as_many_pods_as_fit(void **state)
{
	(void)state;
	const struct agent_journal j = { 0 };
	const struct agent_facts f = { 0 };
	for (size_t more = 0; more < 2; more++) {
		struct agent_annotations w;
		struct agent_holders h = { .is_published = true, .count = 3, .generation = 1 };
		size_t len = KEY_VALUE_MOST - strlen("3 1 ") + more;
		char *name = mem_alloc(len + 1);
		memset(name, 'x', len);
		strv_add(&h.pods, name);
		strv_add(&h.pods, str_dup("y"));
		agent_annotations(&j, &f, &h, BOOT, &w);
		auto_str char *whole = str_fmt("3 1 %s", name);
		assert_string_equal(w.value[AGENT_HOLDERS], more ? "3 1 y" : whole);
		strv_done(&h.pods);
	}
}

static void t08_holders(void **state)
{
	(void)state;
	struct agent_journal j = { 0 };
	struct agent_facts f = { 0 };
	struct agent_annotations w;
	struct agent_holders h = { .is_published = true, .count = 12345, .generation = UINT32_MAX };
	for (int i = 0; i < 12; i++)
		strv_add(&h.pods, str_fmt("6e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e%02d", i));
	agent_annotations(&j, &f, &h, BOOT, &w);
	struct node_state m = read_back(&w);
	assert_int_equal(m.report.holders, 12345);
	assert_true(str_ends(w.value[AGENT_HOLDERS], "6e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e05")); // whole uids only
	h.is_coarse = true;
	agent_annotations(&j, &f, &h, BOOT, &w);
	assert_true(str_starts(w.value[AGENT_HOLDERS], "1 4294967295 6e0d5b0c-"));
	h.count = HOLDERS_UNKNOWN;
	agent_annotations(&j, &f, &h, BOOT, &w);
	m = read_back(&w);
	assert_int_equal(m.report.holders, HOLDERS_UNKNOWN);
	h.count = 0;
	agent_annotations(&j, &f, &h, BOOT, &w);
	m = read_back(&w);
	assert_int_equal(m.report.holders, 0);
	strv_done(&h.pods);
}

static void assert_same(const struct agent_journal *a, const struct agent_journal *b)
{
	assert_memory_equal(&a->order, &b->order, sizeof(a->order));
	assert_int_equal(a->step, b->step);
	assert_int_equal(a->failing, b->failing);
	assert_string_equal(a->code, b->code);
	assert_string_equal(a->boot, b->boot);
	assert_string_equal(a->node, b->node);
	assert_int_equal(a->boots, b->boots);
	assert_int_equal(a->tries, b->tries);
	assert_true(target_hash_eq(&a->previous, &b->previous) && target_hash_eq(&a->current, &b->current));
	assert_true(target_hash_eq(&a->probed, &b->probed) && a->probe == b->probe);
	assert_string_equal(a->probe_code, b->probe_code);
	assert_string_equal(a->revived, b->revived);
	assert_int_equal(a->revivals, b->revivals);
	assert_int_equal(a->known_count, b->known_count);
	for (size_t i = 0; a->known && b->known && i < a->known_count; i++) {
		assert_true(target_hash_eq(&a->known[i].target_hash, &b->known[i].target_hash));
		assert_string_equal(a->known[i].parameters, b->known[i].parameters);
	}
}

static void a_journal_round_trip(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	struct err err;
	auto_str char *why = NULL;
	auto_agent_journal struct agent_journal j = full(), back = { 0 }, none = { 0 }, empty = { 0 };
	assert_int_equal(agent_journal_read(&folder.root, &back, &why, &err), 0);
	assert_null(why);
	assert_int_equal(agent_journal_write(&folder.root, &none, &err), 0);
	assert_int_equal(agent_journal_read(&folder.root, &empty, &why, &err), 1);
	assert_same(&empty, &none);
	assert_int_equal(agent_journal_write(&folder.root, &j, &err), 0);
	assert_int_equal(agent_journal_read(&folder.root, &back, &why, &err), 1);
	assert_same(&back, &j);
}

// A kill between the temporary file and its rename: the journal of before is there, whole.
static void t57_an_interrupted_write(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	struct err err;
	auto_str char *why = NULL;
	auto_agent_journal struct agent_journal j = full(), back = { 0 };
	assert_int_equal(agent_journal_write(&folder.root, &j, &err), 0);
	folder_file(&folder, "agent/.journal.json.1234.tmp", "{\"schema\": 1, \"order");
	assert_int_equal(agent_journal_read(&folder.root, &back, &why, &err), 1);
	assert_same(&back, &j);
	assert_int_equal(agent_journal_write(&folder.root, &j, &err), 0);
}

static void damaged_journals(void **state)
{
	(void)state;
	static const struct {
		const char *from, *to;
	} table[] = {
		{ "\"schema\": 1", "\"schema\": 2" },
		{ "7.41:replace", "7.41:explode" },
		{ "7.41:replace:123456789abcdef0-0000000000000001", "" }, // failed, of no order
		{ "7.41:replace", "7.4100000000000:replace" },
		{ "\"failed\"", "\"begun\"" }, // with a code
		{ "\"failed\"", "\"\"" },
		{ "\"busy\"", "\"none\"" },
		{ "\"boots\": 2", "\"boots\": -1" },
		{ "\"boots\": 2", "\"boots\": \"2\"" },
		{ "\"tries\"", "\"trees\"" },
		{ "0000000000000004-0000000000000005", "0000000000000004" },
		{ "E_IN_USE", "E IN USE" },
		{ "sha256:", "sha255:" },
		{ "\"driver\": \"535.261.03\"", "\"driver\": \"\"" },
		{ "\"known\"", "\"unknown\"" },
		{ "{", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		auto_folder struct folder folder;
		folder_make(&folder);
		struct err err;
		auto_str char *why = NULL, *text = NULL;
		auto_agent_journal struct agent_journal j = full(), back = { 0 };
		assert_int_equal(agent_journal_write(&folder.root, &j, &err), 0);
		assert_int_equal(root_read(&folder.root, "agent/journal.json", &text, NULL, &err), 1);
		char *at = strstr(text, table[i].from);
		expect(at, table[i].from);
		auto_str char *bent =
			str_fmt("%.*s%s%s", (int)(at - text), text, table[i].to, at + strlen(table[i].from));
		folder_file(&folder, "agent/journal.json", bent);
		expect(agent_journal_read(&folder.root, &back, &why, &err) == 0, table[i].to);
		expect(why && strstr(why, "agent/journal.damaged"), table[i].to);
		expect(back.order.verb == VERB_NONE && !back.known_count, table[i].to);
		folder_expect(&folder, "agent/journal.damaged", bent);
		free(TAKE(why));
		expect(agent_journal_read(&folder.root, &back, &why, &err) == 0 && !why, table[i].to);
		folder_file(&folder, "agent/journal.json", "[]");
		expect(agent_journal_read(&folder.root, &back, &why, &err) == 0, table[i].to);
		expect(why && strstr(why, "agent/journal.damaged.2"), table[i].to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(acknowledgements),     cmocka_unit_test(unknown_facts_give_no_annotation),
		cmocka_unit_test(loaded_and_stored),    cmocka_unit_test(exact_annotation_values),
		cmocka_unit_test(as_many_pods_as_fit),  cmocka_unit_test(t08_holders),
		cmocka_unit_test(a_journal_round_trip), cmocka_unit_test(t57_an_interrupted_write),
		cmocka_unit_test(damaged_journals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
