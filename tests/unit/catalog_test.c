// SPDX-License-Identifier: Apache-2.0
#include "precompiled/bundle/catalog_publish.h"
#include "tests/unit/vouch.h"

#include <sys/wait.h>

enum { DAY = 24 * 60 * 60 };

struct source { // a publisher's layout and a machine that looks at it
	struct vouch v;
	struct root state;
};

static void source_make(struct source *s)
{
	struct err err;
	vouch_make(&s->v);
	s->state = ROOT_NONE;
	folder_dir(&s->v.folder, "state");
	assert_int_equal(root_sub(&s->v.folder.root, "state", &s->state, &err), 0);
}

static void source_done(struct source *s)
{
	root_done(&s->state);
	vouch_done(&s->v);
}
#define auto_source __attribute__((cleanup(source_done)))

// The number of the new one.
static uint64_t publish(const struct source *s, size_t key, time_t now)
{
	struct err err = { 0 };
	auto_catalog struct catalog c = { 0 };
	struct signature_maker maker = vouch_maker(&s->v, key);
	int r = catalog_publish(&s->v.l, 30, now, &maker, 1, &c, &err);
	expect(r == 0, err.text);
	return c.number;
}

// What catalog_check says: 1, 0, or the code of the error.
static int look(const struct source *s, const struct trust_rule *rule, time_t now, struct catalog *ret)
{
	struct err err = { 0 };
	auto_catalog struct catalog c = { 0 };
	int r = catalog_check(s->v.r, rule, &s->state, now, &c, &err);
	if (r > 0 && ret) {
		*ret = c;
		c = (struct catalog){ 0 };
	}
	return r < 0 ? err.code : r;
}

static char *index_text_of(const struct source *s)
{
	struct err err;
	char *text = NULL;
	assert_int_equal(root_read(&s->v.l.root, "index.json", &text, NULL, &err), 1);
	return text;
}

static void put_index(const struct source *s, const char *text)
{
	struct err err;
	assert_int_equal(root_write(&s->v.l.root, "index.json", text, strlen(text), 0644, &err), 0);
}

static void test_made_and_checked(void **state)
{
	(void)state;
	auto_source struct source s;
	auto_catalog struct catalog c = { 0 };
	source_make(&s);
	struct trust_rule rule = vouch_rule(&s.v, 1, 1);
	assert_int_equal(vouch_sign(&s.v, &s.v.package, 0), 1);
	assert_int_equal(publish(&s, 0, VOUCH_NOW), 1);
	assert_int_equal(look(&s, &rule, VOUCH_NOW + 1, &c), 1);
	assert_int_equal(c.number, 1);
	assert_int_equal(c.created, VOUCH_NOW);
	assert_int_equal(c.expires, VOUCH_NOW + 30 * DAY);
	assert_int_equal(c.count, 2); // the packages, and neither their signatures nor itself
	assert_string_equal(catalog_digest(&c, "package"), s.v.package.digest);
	assert_string_equal(catalog_digest(&c, "other"), s.v.other.digest);
	assert_null(catalog_digest(&c, "absent"));
	assert_null(catalog_digest(&c, CATALOG_TAG));
}

static void test_numbers_grow_without_leftovers(void **state)
{
	(void)state;
	auto_source struct source s;
	auto_oci_index struct oci_index x = { 0 };
	struct err err;
	source_make(&s);
	struct trust_rule rule = vouch_rule(&s.v, 1, 1);
	for (uint64_t i = 1; i <= 4; i++) {
		assert_int_equal(publish(&s, 0, VOUCH_NOW), i);
		assert_int_equal(look(&s, &rule, VOUCH_NOW, NULL), 1);
		assert_int_equal(look(&s, &rule, VOUCH_NOW, NULL), 1); // the same number again is not a rollback
	}
	assert_int_equal(layout_index(&s.v.l, &x, &err), 0);
	assert_int_equal(x.count, 2 + 3); // packages, catalogue, its signatures in two encodings
}

static void test_absent(void **state)
{
	(void)state;
	auto_source struct source s;
	source_make(&s);
	struct trust_rule optional = vouch_rule(&s.v, 1, 1), required = optional;
	required.catalog = TRUST_CATALOG_REQUIRED;
	assert_int_equal(look(&s, &optional, VOUCH_NOW, NULL), 0);
	assert_int_equal(look(&s, &required, VOUCH_NOW, NULL), E_UNSIGNED);
}

// A mirror that removes the tag could bring back packages that the catalogue dropped.
static void test_hidden_after_it_was_seen(void **state)
{
	(void)state;
	auto_source struct source s;
	source_make(&s);
	auto_str char *without = index_text_of(&s);
	struct trust_rule rule = vouch_rule(&s.v, 1, 1), optional = rule;
	optional.catalog = TRUST_CATALOG_OPTIONAL;
	publish(&s, 0, VOUCH_NOW);
	assert_int_equal(look(&s, &rule, VOUCH_NOW, NULL), 1);
	put_index(&s, without);
	assert_int_equal(look(&s, &rule, VOUCH_NOW, NULL), E_UNSIGNED);
	assert_int_equal(look(&s, &optional, VOUCH_NOW, NULL), 0);
	struct err err;
	assert_int_equal(root_unlink(&s.state, "catalogs.json", &err), 1); // another machine has never seen it
	assert_int_equal(look(&s, &rule, VOUCH_NOW, NULL), 0);
}

static void test_expired(void **state)
{
	(void)state;
	auto_source struct source s;
	source_make(&s);
	struct trust_rule rule = vouch_rule(&s.v, 1, 1);
	publish(&s, 0, VOUCH_NOW);
	assert_int_equal(look(&s, &rule, VOUCH_NOW + 30 * DAY - 1, NULL), 1);
	assert_int_equal(look(&s, &rule, VOUCH_NOW + 30 * DAY, NULL), E_EXPIRED);
	publish(&s, 0, VOUCH_NOW + 30 * DAY);
	assert_int_equal(look(&s, &rule, VOUCH_NOW + 30 * DAY, NULL), 1);
}

static void test_rolled_back(void **state)
{
	(void)state;
	auto_source struct source s;
	source_make(&s);
	struct trust_rule rule = vouch_rule(&s.v, 2, 1), other_keys = vouch_rule(&s.v, 3, 1);
	publish(&s, 0, VOUCH_NOW);
	auto_str char *old = index_text_of(&s);
	publish(&s, 0, VOUCH_NOW);
	auto_str char *new = index_text_of(&s);
	put_index(&s, old);
	assert_int_equal(look(&s, &rule, VOUCH_NOW, NULL), 1); // nothing newer was seen yet
	put_index(&s, new);
	assert_int_equal(look(&s, &rule, VOUCH_NOW, NULL), 1);
	put_index(&s, old);
	assert_int_equal(look(&s, &rule, VOUCH_NOW, NULL), E_ROLLBACK);
	assert_int_equal(look(&s, &other_keys, VOUCH_NOW, NULL), E_ROLLBACK);
	put_index(&s, new);
	assert_int_equal(look(&s, &rule, VOUCH_NOW, NULL), 1); // what was refused was not remembered
}

// Leaving out one of two signatures must not make a machine forget; a key that is new may start at one.
static void test_who_signed_does_not_matter(void **state)
{
	(void)state;
	auto_source struct source s;
	struct err err;
	source_make(&s);
	struct trust_rule both = vouch_rule(&s.v, 2, 2), any = vouch_rule(&s.v, 2, 1), carol = vouch_rule(&s.v, 3, 1);
	struct signature_maker makers[] = { vouch_maker(&s.v, 0), vouch_maker(&s.v, 1) };
	publish(&s, 1, VOUCH_NOW);
	auto_str char *old = index_text_of(&s);
	auto_catalog struct catalog c = { 0 };
	assert_int_equal(catalog_publish(&s.v.l, 30, VOUCH_NOW, makers, 2, &c, &err), 0);
	assert_int_equal(c.number, 2);
	assert_int_equal(look(&s, &both, VOUCH_NOW, NULL), 1);
	put_index(&s, old);
	assert_int_equal(look(&s, &any, VOUCH_NOW, NULL), E_ROLLBACK);
	auto_oci_index struct oci_index x = { 0 };
	assert_int_equal(layout_index(&s.v.l, &x, &err), 0);
	oci_index_remove(&x, (size_t)oci_index_find(&x, CATALOG_TAG));
	assert_int_equal(layout_index_write(&s.v.l, &x, &err), 0);
	assert_int_equal(publish(&s, 2, VOUCH_NOW + 1), 1); // not the very list that bob signed
	assert_int_equal(look(&s, &carol, VOUCH_NOW + 1, NULL), 1);
}

static void test_signatures_are_required(void **state)
{
	(void)state;
	auto_source struct source s;
	auto_oci_index struct oci_index x = { 0 };
	struct err err;
	source_make(&s);
	struct trust_rule alice = vouch_rule(&s.v, 1, 1), lax = alice;
	lax.is_unsigned_accepted = true;
	publish(&s, 1, VOUCH_NOW);
	assert_int_equal(look(&s, &alice, VOUCH_NOW, NULL), E_UNTRUSTED);
	assert_int_equal(layout_index(&s.v.l, &x, &err), 0);
	for (size_t i = x.count; i-- > 0;)
		if (str_starts(oci_descriptor_annotation(&x.items[i], OCI_REF_NAME), "sha256-"))
			oci_index_remove(&x, i);
	assert_int_equal(layout_index_write(&s.v.l, &x, &err), 0);
	assert_int_equal(look(&s, &alice, VOUCH_NOW, NULL), E_UNSIGNED);
	assert_int_equal(look(&s, &lax, VOUCH_NOW, NULL), 1);
	assert_false(root_exists(&s.state, "catalogs.json")); // it was not signed, so nothing is remembered
}

// A package under the catalogue's tag, signed by the right key.
static void test_other_content_under_the_tag(void **state)
{
	(void)state;
	auto_source struct source s;
	struct err err;
	source_make(&s);
	struct trust_rule rule = vouch_rule(&s.v, 1, 1);
	assert_int_equal(vouch_sign(&s.v, &s.v.package, 0), 1);
	assert_int_equal(layout_publish(&s.v.l, &s.v.package, CATALOG_TAG, &err), 0);
	assert_int_equal(look(&s, &rule, VOUCH_NOW, NULL), E_MANIFEST);
}

static void test_damaged_memory(void **state)
{
	(void)state;
	static const char *const rows[] = { "{", "[]", "7" };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_source struct source s;
		source_make(&s);
		struct trust_rule rule = vouch_rule(&s.v, 1, 1);
		publish(&s, 0, VOUCH_NOW);
		folder_file(&s.v.folder, "state/catalogs.json", rows[i]);
		expect(look(&s, &rule, VOUCH_NOW, NULL) == 1, rows[i]); // and no node is without a driver for it
		folder_expect(&s.v.folder, "state/catalogs.json.damaged", rows[i]);
	}
}

enum { WRITERS = 8, EACH = 4 };

// The same layout under names of its own is another source each time.
static void look_at_many(struct source *s, int who)
{
	struct trust_rule rule = vouch_rule(&s->v, 1, 1);
	for (int i = 0; i < EACH; i++) {
		struct err err;
		auto_catalog struct catalog c = { 0 };
		struct repository *r = NULL;
		auto_str char *dir = str_fmt("%s/mirror%d.%d", s->v.folder.path, who, i);
		if (symlink("layout", dir) < 0 || repository_open_layout(dir, NULL, &r, &err) < 0 ||
		    catalog_check(r, &rule, &s->state, VOUCH_NOW, &c, &err) != 1)
			_exit(1);
		repository_free(r);
	}
	_exit(0);
}

// Each of them reads what was seen, adds its source and writes all: what one has seen the others do not make forgotten.
static void test_concurrent_writers(void **state)
{
	(void)state;
	auto_source struct source s;
	auto_json json_t *seen = NULL;
	struct err err;
	source_make(&s);
	publish(&s, 0, VOUCH_NOW);
	for (int i = 0; i < WRITERS; i++)
		if (fork() == 0)
			look_at_many(&s, i);
	for (int i = 0; i < WRITERS; i++) {
		int status;
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(json_read(&s.state, "catalogs.json", &seen, &err), 1);
	assert_int_equal(json_object_size(seen), WRITERS * EACH);
}

static void test_invalid_lists(void **state)
{
	(void)state;
#define LIST(number, created, expires, packages) \
	"{\"catalog\":" number ",\"created\":\"" created "\",\"expires\":\"" expires "\",\"packages\":" packages "}"
#define DATE "2027-01-15T08:00:00Z"
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PACKAGE "{\"tag\":\"a\",\"digest\":\"sha256:" HEX64 "\",\"size\":3}"
	static const char *const rows[] = {
		"",
		"{}",
		"[]",
		LIST("0", DATE, DATE, "[]"),
		LIST("-1", DATE, DATE, "[]"),
		LIST("1.5", DATE, DATE, "[]"),
		LIST("\"1\"", DATE, DATE, "[]"),
		LIST("99999999999999999999", DATE, DATE, "[]"),
		LIST("1", "", DATE, "[]"),
		LIST("1", DATE, "2027-01-15", "[]"),
		LIST("1", DATE, "2027-02-30T08:00:00Z", "[]"),
		LIST("1", DATE, "2027-01-15T08:00:00+01:00", "[]"),
		LIST("1", DATE, DATE "x", "[]"),
		LIST("1", DATE, DATE, "{}"),
		LIST("1", DATE, DATE, "[7]"),
		LIST("1", DATE, DATE, "[{}]"),
		LIST("1", DATE, DATE, "[{\"tag\":\"a\",\"digest\":\"" HEX64 "\",\"size\":3}]"),
		LIST("1", DATE, DATE, "[{\"tag\":\"\",\"digest\":\"sha256:" HEX64 "\",\"size\":3}]"),
		LIST("1", DATE, DATE, "[{\"tag\":\"a\",\"digest\":\"sha256:" HEX64 "\",\"size\":-3}]"),
		LIST("1", DATE, DATE, "[" PACKAGE "," PACKAGE "]"),
	};
	struct err err;
	struct catalog c = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(catalog_parse(rows[i], strlen(rows[i]), "it", &c, &err) == -1 && err.code == E_MANIFEST,
		       rows[i]);
	static const char good[] = LIST("1", DATE, DATE, "[" PACKAGE "]");
	assert_int_equal(catalog_parse(good, strlen(good), "it", &c, &err), 0);
	assert_int_equal(c.created, VOUCH_NOW);
	assert_int_equal(c.items[0].size, 3);
	catalog_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_and_checked),
		cmocka_unit_test(test_numbers_grow_without_leftovers),
		cmocka_unit_test(test_absent),
		cmocka_unit_test(test_hidden_after_it_was_seen),
		cmocka_unit_test(test_expired),
		cmocka_unit_test(test_rolled_back),
		cmocka_unit_test(test_who_signed_does_not_matter),
		cmocka_unit_test(test_signatures_are_required),
		cmocka_unit_test(test_other_content_under_the_tag),
		cmocka_unit_test(test_damaged_memory),
		cmocka_unit_test(test_concurrent_writers),
		cmocka_unit_test(test_invalid_lists),
	};
	return cmocka_run_group_tests_name("catalog", tests, NULL, NULL);
}
