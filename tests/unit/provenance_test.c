// SPDX-License-Identifier: Apache-2.0
// How a package came into a store, and whether that still counts. The same on a machine: tests/cli/revoked.bats.
#include "precompiled/trust/provenance.h"
#include "tests/unit/vouch.h"

static const char SOURCE[] = "docker://reg.example/drivers";

static void put(struct vouch *v, enum provenance_origin origin, time_t taken)
{
	struct err err;
	struct provenance p = { .origin = origin, .taken = taken };
	v->l.is_store = true;
	if (origin == PROVENANCE_FETCHED) {
		p.source = str_dup(SOURCE);
		strv_add(&p.names, str_dup("alice"));
		strv_add(&p.ids, str_dup(v->keys[0].key->id));
	}
	assert_int_equal(provenance_write(&v->l, &v->package, &p, &err), 0);
	provenance_done(&p);
}

// Borrows the keys: release with forget().
static struct trust_now trusting(const struct vouch *v, size_t count)
{
	struct trust_now now = { .trust = { .place = (char *)(uintptr_t) "trust", .count = count } };
	now.trust.keys = mem_alloc((count + 1) * sizeof(*now.trust.keys));
	for (size_t i = 0; i < count; i++)
		now.trust.keys[i] = v->keys[i];
	return now;
}

static void forget(struct trust_now *now)
{
	free(now->trust.keys);
}

// 0, or the code.
static int check(const struct vouch *v, const struct trust_now *now, char **ret_text)
{
	struct err err = { 0 };
	int r = provenance_check(&v->l, v->package.digest, now, NULL, &err);
	if (ret_text) {
		free(*ret_text);
		*ret_text = str_dup(err.text);
	}
	return r < 0 ? err.code : 0;
}

// Which packages may be used: those that never had a signature are not checked; an unreadable trust directory stops
// only those that need it.
static void test_origins(void **state)
{
	(void)state;
	static const struct {
		const char *row;
		enum provenance_origin origin;
		bool is_signed;
		int trusting, nobody, unread;
	} rows[] = {
		{ "fetched", PROVENANCE_FETCHED, true, 0, E_UNTRUSTED, E_CONFIG },
		{ "fetched, and its signatures are lost", PROVENANCE_FETCHED, false, E_UNSIGNED, E_UNTRUSTED,
		  E_CONFIG },
		{ "by hand", PROVENANCE_BY_HAND, false, 0, 0, 0 },
		{ "by hand, and signed", PROVENANCE_BY_HAND, true, 0, 0, 0 },
		{ "compiled", PROVENANCE_COMPILED, true, 0, 0, 0 },
		{ "unverified", PROVENANCE_UNVERIFIED, true, 0, 0, 0 },
		{ "older, signed", PROVENANCE_UNKNOWN, true, 0, E_UNTRUSTED, E_CONFIG },
		{ "older, not signed", PROVENANCE_UNKNOWN, false, 0, 0, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_vouch struct vouch v;
		vouch_make(&v);
		if (rows[i].is_signed)
			assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
		if (rows[i].origin != PROVENANCE_UNKNOWN)
			put(&v, rows[i].origin, VOUCH_NOW);
		struct trust_now alice = trusting(&v, 1), nobody = trusting(&v, 0), unread = trusting(&v, 0);
		err_set(&unread.unread, E_CONFIG, "policy.json");
		expect(check(&v, &alice, NULL) == rows[i].trusting, rows[i].row);
		expect(check(&v, &nobody, NULL) == rows[i].nobody, rows[i].row);
		expect(check(&v, &unread, NULL) == rows[i].unread, rows[i].row);
		forget(&alice);
		forget(&nobody);
		forget(&unread);
	}
}

static void test_message(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_str char *why = NULL;
	vouch_make(&v);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
	put(&v, PROVENANCE_FETCHED, VOUCH_NOW);
	struct trust_now nobody = trusting(&v, 0);
	assert_int_equal(check(&v, &nobody, &why), E_UNTRUSTED);
	auto_str char *who = str_fmt("kept from %s, signed by alice (key %.16s): sha256:%.12s...", SOURCE,
				     v.keys[0].key->id, v.package.digest);
	expect(strstr(why, who), why);
	forget(&nobody);
}

static size_t records(const struct layout *l)
{
	auto_oci_index struct oci_index x = { 0 };
	struct err err;
	size_t count = 0;
	assert_int_equal(layout_index(l, &x, &err), 0);
	for (size_t i = 0; i < x.count; i++)
		count += str_eq(x.items[i].artifact_type, PROVENANCE_TYPE);
	return count;
}

// The last way that it came is what counts, and the index has one record of it.
static void test_latest_origin_counts(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	vouch_make(&v);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
	struct trust_now nobody = trusting(&v, 0);
	put(&v, PROVENANCE_FETCHED, VOUCH_NOW);
	assert_int_equal(check(&v, &nobody, NULL), E_UNTRUSTED);
	put(&v, PROVENANCE_COMPILED, VOUCH_NOW);
	assert_int_equal(check(&v, &nobody, NULL), 0);
	put(&v, PROVENANCE_FETCHED, VOUCH_NOW);
	assert_int_equal(check(&v, &nobody, NULL), E_UNTRUSTED);
	assert_int_equal(records(&v.l), 1);
	forget(&nobody);
}

static size_t blobs_of(const struct vouch *v)
{
	auto_strv struct strv names = { 0 };
	struct err err;
	assert_int_equal(root_list(&v->l.root, "blobs/sha256", &names, &err), 1);
	return names.count;
}

// A pod hands over the same package at each start, which must not fill the disk one blob at a time.
static void test_identical_record_is_not_rewritten(void **state)
{
	(void)state;
	static const enum provenance_origin origins[] = { PROVENANCE_BY_HAND, PROVENANCE_COMPILED,
							  PROVENANCE_UNVERIFIED };
	for (size_t i = 0; i < ARRAY_SIZE(origins); i++) {
		auto_vouch struct vouch v;
		vouch_make(&v);
		put(&v, origins[i], 1800000000);
		size_t before = blobs_of(&v);
		put(&v, origins[i], 1800000001);
		assert_int_equal(blobs_of(&v), before);
	}
}

static void test_only_in_a_store(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	struct err err;
	const struct provenance p = { .origin = PROVENANCE_COMPILED, .taken = VOUCH_NOW };
	vouch_make(&v);
	assert_int_equal(provenance_write(&v.l, &v.package, &p, &err), 0);
	assert_int_equal(records(&v.l), 0);
}

// A record is not a signature: it is not trusted, and it is not copied to another layout.
static void test_stays_here(void **state)
{
	(void)state;
	auto_vouch struct vouch v, other;
	struct err err;
	vouch_make(&v);
	vouch_make(&other);
	put(&v, PROVENANCE_FETCHED, VOUCH_NOW);
	assert_int_equal(signature_exists(v.r, v.package.digest, &err), 0);
	assert_int_equal(signature_copy(v.r, v.package.digest, &other.l, &err), 0);
	assert_int_equal(records(&other.l), 0);
}

static void test_remembered_once(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_provenance struct provenance p = { 0 };
	struct err err;
	vouch_make(&v);
	v.l.is_store = true;
	struct trust_now nobody = trusting(&v, 0);
	provenance_remember(&v.l, &v.package);
	assert_int_equal(records(&v.l), 1);
	assert_int_equal(vouch_sign(&v, &v.package, 1), 1); // by whomever, later
	assert_int_equal(provenance_check(&v.l, v.package.digest, &nobody, &p, &err), 0);
	assert_int_equal(p.origin, PROVENANCE_BY_HAND);
	assert_int_equal(vouch_sign(&v, &v.other, 1), 1);
	provenance_remember(&v.l, &v.other); // signed packages are checked each time
	assert_int_equal(records(&v.l), 1);
	forget(&nobody);
}

static void damage(const struct vouch *v, const char *hex)
{
	struct err err;
	auto_str char *path = layout_blob_path(hex);
	assert_int_equal(root_write(&v->l.root, path, "damage", 6, 0644, &err), 0);
}

// After disk damage, one encoding of a signature is enough, and a lost record counts as none.
static void test_damage(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_oci_index struct oci_index x = { 0 };
	struct err err;
	vouch_make(&v);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
	put(&v, PROVENANCE_FETCHED, VOUCH_NOW);
	struct trust_now alice = trusting(&v, 1), nobody = trusting(&v, 0);
	assert_int_equal(layout_index(&v.l, &x, &err), 0);
	auto_str char *legacy = str_fmt("sha256-%s.sig", v.package.digest);
	damage(&v, x.items[oci_index_find(&x, legacy)].digest);
	assert_int_equal(check(&v, &alice, NULL), 0);
	for (size_t i = 0; i < x.count; i++)
		if (str_eq(x.items[i].artifact_type, PROVENANCE_TYPE))
			damage(&v, x.items[i].digest);
	assert_int_equal(check(&v, &alice, NULL), 0);
	assert_int_equal(check(&v, &nobody, NULL), E_UNTRUSTED);
	auto_str char *referrers = str_fmt("sha256-%s", v.package.digest);
	damage(&v, x.items[oci_index_find(&x, referrers)].digest);
	for (size_t i = 0; i < x.count; i++)
		if (!oci_descriptor_annotation(&x.items[i], OCI_REF_NAME))
			damage(&v, x.items[i].digest);
	assert_int_equal(check(&v, &alice, NULL), E_UNTRUSTED); // signed, by what cannot be read any more
	forget(&alice);
	forget(&nobody);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_origins),
		cmocka_unit_test(test_message),
		cmocka_unit_test(test_latest_origin_counts),
		cmocka_unit_test(test_identical_record_is_not_rewritten),
		cmocka_unit_test(test_only_in_a_store),
		cmocka_unit_test(test_stays_here),
		cmocka_unit_test(test_remembered_once),
		cmocka_unit_test(test_damage),
	};
	return cmocka_run_group_tests_name("provenance", tests, NULL, NULL);
}
