// SPDX-License-Identifier: Apache-2.0
// What `rollout undo` says beside a policy, and what becomes of it.
#include "cluster/rollout/undo.h"
#include "tests/unit/test.h"

static const char two[] = "{\"pools\":[{\"name\":\"a\",\"selector\":{\"x\":\"y\"},\"target\":{\"driver\":\"2.0\"}},"
			  "{\"name\":\"b\",\"target\":{\"driver\":\"2.0\",\"flavour\":\"open\"}}]}";

static void parse(const char *text, json_t **document, struct policy *p)
{
	struct err err = { 0 };
	expect(policy_document(text, strlen(text), document, &err) == 0 && policy_read(*document, p, &err) == 0,
	       err.text);
}

static void one_pool_and_its_target(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_policy struct policy p = POLICY_NONE, undone = POLICY_NONE, later = POLICY_NONE;
	auto_json json_t *document = NULL, *after = NULL, *replaced = json_object();
	auto_json json_t *target = json_pack("{s:s, s:{s:s}}", "driver", "1.0", "parameters", "x", "1");
	auto_strv struct strv words = { 0 };
	parse(two, &document, &p);
	auto_str char *note = undo_note(NULL, "b", &p.pools[1].target.target_hash, target);
	assert_int_equal(undo_apply(note, &p, document, &words, replaced, &err), 1);
	assert_int_equal(words.count, 1);
	assert_string_equal(words.items[0], "pool b: driver 1.0 instead of 2.0, by rollout undo");
	expect(policy_read(document, &undone, &err) == 0, err.text);
	assert_string_equal(undone.pools[0].target.driver, "2.0");
	assert_string_equal(undone.pools[1].target.driver, "1.0");
	assert_string_equal(undone.pools[1].target.parameters, "x=1");
	// Once more: what was undone is not what it forbids. And another target in the policy is its end.
	assert_int_equal(undo_apply(note, &undone, document, &words, replaced, &err), 0);
	parse("{\"pools\":[{\"name\":\"b\",\"target\":{\"driver\":\"3.0\"}}]}", &after, &later);
	assert_int_equal(undo_apply(note, &later, after, &words, replaced, &err), 0);
	assert_int_equal(words.count, 1);
	// And back.
	auto_json json_t *before = NULL;
	auto_policy struct policy first = POLICY_NONE;
	parse(two, &before, &first);
	undo_revert(document, replaced);
	assert_true(json_equal(document, before));
	assert_int_equal(json_object_size(replaced), 1);
}

// Each pool by its own word; one that the policy does not have says nothing.
static void undone_pools(void **state)
{
	(void)state;
	static const struct {
		const char *pools[3]; // that were undone
		int changed;
		const char *drivers; // of both, then
	} rows[] = {
		{ { "a" }, 1, "1.0 2.0" }, { { "b" }, 1, "2.0 1.0" },      { { "a", "b" }, 1, "1.0 1.0" },
		{ { "c" }, 0, "2.0 2.0" }, { { "a", "c" }, 1, "1.0 2.0" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_policy struct policy p = POLICY_NONE;
		auto_json json_t *document = NULL, *replaced = json_object();
		auto_json json_t *target = json_pack("{s:s}", "driver", "1.0");
		auto_strv struct strv words = { 0 };
		auto_str char *note = NULL, *drivers = NULL;
		parse(two, &document, &p);
		size_t known = 0;
		for (size_t n = 0; n < ARRAY_SIZE(rows[i].pools) && rows[i].pools[n]; n++) {
			const char *pool = rows[i].pools[n];
			char *more = undo_note(note, pool, &p.pools[*pool == 'b'].target.target_hash, target);
			free(note);
			note = more;
			known += *pool != 'c';
		}
		expect(undo_apply(note, &p, document, &words, replaced, &err) == rows[i].changed, rows[i].drivers);
		for (size_t n = 0; n < 2; n++) {
			const json_t *pool = json_array_get(json_object_get(document, "pools"), n);
			str_add(&drivers, "%s%s", n ? " " : "",
				json_string_value(json_object_get(json_object_get(pool, "target"), "driver")));
		}
		expect(str_eq(drivers, rows[i].drivers), drivers);
		expect(words.count == known && json_object_size(replaced) == known, rows[i].drivers);
	}
}

static void the_note(void **state)
{
	(void)state;
	const struct target_hash target_hash = { 1, 2 };
	auto_json json_t *target = json_pack("{s:s}", "driver", "1.0");
	auto_str char *one = undo_note(NULL, "a", &target_hash, target),
		      *both = undo_note(one, "b", &target_hash, target);
	auto_str char *other = undo_note(both, "a", NULL, NULL), *none = undo_note(other, "b", NULL, NULL);
	assert_string_equal(
		one, "{\"a\":{\"instead\":\"0000000000000001-0000000000000002\",\"target\":{\"driver\":\"1.0\"}}}");
	assert_non_null(strstr(both, "\"a\":{"));
	assert_null(strstr(other, "\"a\":{"));
	assert_non_null(strstr(other, "\"b\":{"));
	assert_null(none);
	auto_str char *mended = undo_note("{nonsense", "b", NULL, NULL);
	assert_null(mended);
}

// What means nothing is refused: to pass over it would be to go on with what was undone.
static void nonsense(void **state)
{
	(void)state;
	static const char *const notes[] = {
		"",
		"{",
		"[]",
		"{\"b\":1}",
		"{\"b\":{\"instead\":\"x\",\"target\":{}}}",
		"{\"b\":{\"instead\":\"0000000000000001-0000000000000002\"}}",
		"{\"b\":{\"instead\":\"0000000000000001-0000000000000002\",\"target\":\"1.0\"}}",
		"{\"b\":{\"target\":{}}}",
		"{\"b\":1,\"b\":1}",
	};
	auto_policy struct policy p = POLICY_NONE;
	auto_json json_t *document = NULL, *replaced = json_object();
	auto_strv struct strv words = { 0 };
	parse(two, &document, &p);
	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		struct err err = { 0 };
		expect(undo_apply(notes[i], &p, document, &words, replaced, &err) < 0 && err.code == E_CONFIG &&
			       strstr(err.text, UNDO_NOTE),
		       notes[i]);
	}
	assert_int_equal(words.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(one_pool_and_its_target), cmocka_unit_test(undone_pools),
					    cmocka_unit_test(the_note), cmocka_unit_test(nonsense) };
	return cmocka_run_group_tests_name("undo", tests, NULL, NULL);
}
