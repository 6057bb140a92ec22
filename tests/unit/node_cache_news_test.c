// SPDX-License-Identifier: Apache-2.0
// What becomes of what is known of a Node when there is news of it: another version, another object of its name, an
// object that means nothing, an answer about a Node that is gone, a list without it. T59, T70, T71, T73.
#include "cluster/coordinator/node_cache.h"
#include "tests/unit/test.h"

static const struct policy policy;

static json_t *node(const char *name, const char *uid, const char *version, const char *holders)
{
	return json_pack("{s:{s:s*, s:s*, s:s*, s:{s:s*}}}", "metadata", "name", name, "uid", uid, "resourceVersion",
			 version, "annotations", "kmodsmith.io/agent.holders", holders);
}
static bool put(struct node_cache *f, const char *name, const char *uid, const char *version, const char *holders)
{
	auto_json json_t *object = node(name, uid, version, holders);
	return node_cache_put(f, object, &policy);
}
static void take(struct node_cache *f, void (*what)(struct node_cache *f, const json_t *node), const char *name,
		 const char *uid)
{
	auto_json json_t *object = node(name, uid, "9", NULL);
	what(f, object);
}
static void renew(struct node_cache *f, const json_t *object)
{
	node_cache_renew(f, object, &policy);
}

static void begin(struct node_cache *f) // two of them, and the first was looked at
{
	*f = NODE_CACHE_NONE;
	assert_true(put(f, "a", "u-a", "5", "0 1"));
	assert_true(put(f, "b", "u-b", "6", "0 1"));
	struct pods_seen *seen = &f->nodes[0].facts.seen;
	*seen = (struct pods_seen){ .stay = node_state_stay(&f->nodes[0]), .pods = 3, .jobs = 1 };
	f->nodes[0].facts.is_ours = true;
	f->entries[0].failures = 2;
	f->entries[0].retry_ms = 77;
	f->entries[0].looked.since = 11;
}

static const struct {
	const char *name, *uid, *version, *holders;
	bool is_news;    // something that is kept changed
	bool is_moved;   // indices mean something else
	bool is_kept;    // what was seen of its pods, and that its writes failed
	const char *now; // version that is known of it
} rows[] = {
	{ "the same again", "u-a", "5", "0 1", false, false, true, "5" },
	{ "a later version", "u-a", "7", "0 1", false, false, true, "7" },
	{ "a later version, and another holder", "u-a", "7", "0 2", true, false, true, "7" },
	{ "a later version, and no word of holders", "u-a", "7", NULL, true, false, true, "7" },
	{ "an earlier version, and another holder", "u-a", "4", "0 2", false, false, true, "5" },
	{ "a version with more digits", "u-a", "10", "0 1", false, false, true, "10" },
	{ "a version that is no number", "u-a", "x", "0 1", false, false, true, "x" },
	{ "no version", "u-a", NULL, "0 1", false, false, true, NULL },
	{ "another Node of its name", "u-c", "8", "0 1", true, true, false, "8" },
	{ "another Node of its name, which is older", "u-c", "4", "0 1", false, false, true, "5" },
};

static void news_of_a_node(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_cache f;
		begin(&f);
		unsigned long moves = f.moves;
		bool is_news = put(&f, "a", rows[i].uid, rows[i].version, rows[i].holders);
		expect(is_news == rows[i].is_news, rows[i].name);
		expect((f.moves != moves) == rows[i].is_moved, rows[i].name);
		expect(f.count == 2, rows[i].name);
		const struct cache_entry *w = &f.entries[0];
		expect(rows[i].now ? str_eq(w->version, rows[i].now) : !w->version, rows[i].name);
		expect((w->failures == 2 && w->retry_ms == 77 && w->looked.since == 11) == rows[i].is_kept,
		       rows[i].name);
		expect(rows[i].is_kept || (!w->failures && !w->retry_ms && !w->looked.since), rows[i].name);
		const struct node_facts *facts = &f.nodes[0].facts;
		expect((facts->seen.pods == 3 && facts->seen.jobs == 1 && facts->is_ours) == rows[i].is_kept,
		       rows[i].name);
		node_cache_done(&f);
	}
}

static void invalid_nodes_are_dropped(void **state)
{
	(void)state;
	static const struct {
		const char *what, *name, *uid;
		size_t left;
	} bad[] = {
		{ "no name", NULL, "u-a", 2 },
		{ "no uid", "a", NULL, 1 },
		{ "an empty uid", "a", "", 1 },
		{ "a uid that is none", "a", "0123456789012345678901234567890123456789", 1 },
		{ "no uid, of a new one", "c", NULL, 2 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct node_cache f;
		begin(&f);
		expect(put(&f, bad[i].name, bad[i].uid, "7", NULL), bad[i].what);
		expect(f.count == bad[i].left, bad[i].what);
		expect(node_cache_find(&f, "b", "u-b") == f.count - 1, bad[i].what);
		expect(node_cache_find(&f, "c", "") == f.count, bad[i].what);
		node_cache_done(&f);
	}
}

// Nobody comes back by an answer, and nobody goes by a word about another one.
static void nodes_are_added_and_removed(void **state)
{
	(void)state;
	struct node_cache f;
	begin(&f);
	take(&f, renew, "c", "u-c");
	assert_int_equal(f.count, 2);
	take(&f, renew, "b", "u-b");
	assert_string_equal(f.entries[1].version, "9");
	take(&f, node_cache_remove, "a", "u-other");
	take(&f, node_cache_remove, "c", "u-c");
	take(&f, node_cache_remove, NULL, "u-a");
	assert_int_equal(f.count, 2);
	assert_int_equal(node_cache_find(&f, "a", "u-a"), 0);
	assert_int_equal(node_cache_find(&f, "a", "u-other"), 2);
	unsigned long moves = f.moves;
	take(&f, node_cache_remove, "a", "u-a");
	assert_true(f.moves > moves);
	assert_int_equal(f.count, 1);
	assert_int_equal(node_cache_find(&f, "a", "u-a"), 1);
	assert_int_equal(node_cache_find(&f, "b", "u-b"), 0);
	node_cache_done(&f);
	struct node_cache none = NODE_CACHE_NONE;
	assert_int_equal(node_cache_find(&none, "a", "u-a"), 0);
	take(&none, renew, "a", "u-a");
	assert_int_equal(none.count, 0);
	node_cache_done(&none);
}

// A list is the truth, also where versions have gone back: etcd was restored from a backup.
static void nodes_missing_in_a_list_are_removed(void **state)
{
	(void)state;
	struct node_cache f;
	begin(&f);
	assert_true(put(&f, "c", "u-c", "7", NULL));
	f.nodes[node_cache_find(&f, "b", "u-b")].facts.seen = (struct pods_seen){ .pods = 0, .jobs = 0 };
	node_cache_list_begin(&f);
	assert_true(put(&f, "b", "u-b", "1", "0 1"));
	put(&f, "d", "u-d", "8", NULL);
	node_cache_list_end(&f);
	assert_int_equal(f.count, 2);
	assert_true(node_cache_find(&f, "b", "u-b") < f.count && node_cache_find(&f, "d", "u-d") < f.count);
	assert_string_equal(f.entries[node_cache_find(&f, "b", "u-b")].version, "1");
	assert_int_equal(f.nodes[node_cache_find(&f, "b", "u-b")].facts.seen.pods,
			 PODS_UNSEEN);                 // of a history that is gone
	assert_false(put(&f, "d", "u-d", "5", "0 1")); // a late event still is
	node_cache_list_begin(&f);
	node_cache_list_end(&f);
	assert_int_equal(f.count, 0);
	node_cache_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(news_of_a_node),
		cmocka_unit_test(invalid_nodes_are_dropped),
		cmocka_unit_test(nodes_are_added_and_removed),
		cmocka_unit_test(nodes_missing_in_a_list_are_removed),
	};
	return cmocka_run_group_tests_name("fleet_news", tests, NULL, NULL);
}
