// SPDX-License-Identifier: Apache-2.0
#include "base/crypto/base64.h"
#include "precompiled/trust/signature_internal.h"
#include "tests/unit/vouch.h"

static void edit(const struct vouch *v, void (*change)(struct oci_index *x, void *ctx), void *ctx)
{
	struct err err;
	auto_oci_index struct oci_index x = { 0 };
	assert_int_equal(layout_index(&v->l, &x, &err), 0);
	change(&x, ctx);
	assert_int_equal(layout_index_write(&v->l, &x, &err), 0);
}

static void drop(struct oci_index *x, void *ctx)
{
	int at = oci_index_find(x, ctx);
	assert_true(at >= 0);
	oci_index_remove(x, (size_t)at);
}

static struct oci_descriptor put_blob(const struct vouch *v, const char *media_type, const char *text)
{
	struct err err;
	struct oci_descriptor d = { .media_type = str_dup(media_type), .size = strlen(text) };
	assert_int_equal(layout_blob_put(&v->l, text, strlen(text), d.digest, &err), 0);
	return d;
}

// A document under a tag, whatever is under it now.
static void put_tagged(const struct vouch *v, const char *tag, const char *media_type, const char *text)
{
	struct err err;
	auto_oci_descriptor struct oci_descriptor d = put_blob(v, media_type, text);
	assert_int_equal(layout_publish(&v->l, &d, tag, &err), 0);
}

static char *text_of(const struct vouch *v, const char *tag)
{
	struct err err;
	auto_oci_index struct oci_index x = { 0 };
	char *text = NULL;
	size_t len = 0;
	assert_int_equal(layout_index(&v->l, &x, &err), 0);
	int at = oci_index_find(&x, tag);
	assert_true(at >= 0);
	assert_int_equal(layout_blob_read(&v->l, &x.items[at], &text, &len, &err), 0);
	return text;
}

static void signatures_of(const struct vouch *v, struct oci_manifest *ret)
{
	struct err err;
	auto_str char *tag = signature_cosign_tag(v->package.digest), *text = text_of(v, tag);
	assert_int_equal(oci_manifest_parse(text, strlen(text), tag, ret, &err), 0);
}

static void referrers_of(const struct vouch *v, struct oci_index *ret)
{
	struct err err;
	auto_str char *tag = str_fmt("sha256-%s", v->package.digest), *text = text_of(v, tag);
	assert_int_equal(oci_index_parse(text, strlen(text), tag, ret, &err), 0);
}

// A bundle around any statement.
static char *bundle_of(const struct key *key, const char *statement, const char *hint_id)
{
	struct err err;
	auto_str char *text = str_fmt("DSSEv1 28 application/vnd.in-toto+json %zu %s", strlen(statement), statement);
	auto_str char *signature = NULL, *payload64 = base64_text(statement, strlen(statement));
	char raw[DIGEST_HEX / 2 + 1] = "";
	size_t len = 0;
	assert_int_equal(key_sign(key, text, strlen(text), &signature, &len, &err), 0);
	for (size_t i = 0; i < DIGEST_HEX / 2; i++) {
		unsigned byte = 0;
		assert_int_equal(sscanf(hint_id + 2 * i, "%2x", &byte), 1);
		raw[i] = (char)byte;
	}
	auto_str char *signature64 = base64_text(signature, len), *hint = base64_text(raw, DIGEST_HEX / 2);
	return str_fmt("{\"mediaType\":\"" SIGNATURE_BUNDLE
		       "\",\"verificationMaterial\":{\"publicKey\":{\"hint\":\"%s\"}},"
		       "\"dsseEnvelope\":{\"payload\":\"%s\",\"payloadType\":\"application/vnd.in-toto+json\","
		       "\"signatures\":[{\"sig\":\"%s\"}]}}",
		       hint, payload64, signature64);
}

static char *statement_of(const char *type, const char *predicate, const char *hex)
{
	return str_fmt(
		"{\"_type\":\"https://in-toto.io/Statement/%s\",\"predicateType\":\"%s\",\"predicate\":{},"
		"\"subject\":[{\"name\":\"x\",\"digest\":{\"sha512\":\"00\"}},{\"digest\":{\"sha256\":\"%s\"}}]}",
		type, predicate, hex);
}

// A manifest with one blob of that type, listed for the package; artifact_type: what the list says.
static void list_referrer(const struct vouch *v, const char *type, const char *artifact_type, const char *blob)
{
	auto_oci_manifest struct oci_manifest m = { .artifact_type = str_dup(type), .count = 1 };
	auto_oci_index struct oci_index x = { 0 };
	m.config = put_blob(v, OCI_EMPTY, "{}");
	m.layers = mem_alloc(sizeof(*m.layers));
	m.layers[0] = put_blob(v, type, blob);
	oci_descriptor_copy(&v->package, &m.subject);
	auto_str char *text = oci_manifest_text(&m), *tag = str_fmt("sha256-%s", v->package.digest);
	auto_oci_descriptor struct oci_descriptor d = put_blob(v, OCI_MANIFEST, text);
	d.artifact_type = str_dup(artifact_type);
	oci_index_put(&x, &d, NULL);
	auto_str char *list = oci_index_text(&x);
	put_tagged(v, tag, OCI_INDEX, list);
}

static void test_made_and_checked(void **state)
{
	(void)state;
	for (size_t key = 0; key < 3; key++) {
		auto_vouch struct vouch v;
		vouch_make(&v);
		struct trust_rule rule = vouch_rule(&v, 3, 1);
		auto_signature_verdict struct signature_verdict verdict = { 0 };
		struct err err;
		expect(vouch_check(&v, &rule, NULL) == E_UNSIGNED, v.keys[key].name);
		expect(vouch_sign(&v, &v.package, key) == 1, v.keys[key].name);
		expect(signature_check(v.r, v.package.digest, &rule, &verdict, &err) == 0, v.keys[key].name);
		expect(verdict.ids.count == 1 && str_eq(verdict.names.items[0], v.keys[key].name), v.keys[key].name);
		expect(str_eq(verdict.ids.items[0], v.keys[key].key->id), v.keys[key].name);
		expect(!verdict.is_unsigned_accepted, v.keys[key].name);
	}
}

// What cosign, skopeo and openssl read: byte for byte.
static void test_exact_form(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_oci_manifest struct oci_manifest m = { 0 }, b = { 0 };
	auto_oci_index struct oci_index refs = { 0 }, x = { 0 };
	auto_str char *payload = NULL, *text = NULL;
	struct err err;
	size_t len = 0;
	vouch_make(&v);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
	signatures_of(&v, &m);
	assert_int_equal(m.count, 1);
	assert_string_equal(m.config.media_type, OCI_CONFIG);
	assert_string_equal(m.layers[0].media_type, "application/vnd.dev.cosign.simplesigning.v1+json");
	assert_int_equal(layout_blob_read(&v.l, &m.layers[0], &payload, &len, &err), 0);
	auto_str char *wanted = str_fmt("{\"critical\":{\"identity\":{\"docker-reference\":\"reg.example/drivers\"},"
					"\"image\":{\"docker-manifest-digest\":\"sha256:%s\"},"
					"\"type\":\"cosign container image signature\"},\"optional\":null}",
					v.package.digest);
	assert_string_equal(payload, wanted);
	referrers_of(&v, &refs);
	assert_int_equal(refs.count, 1);
	assert_string_equal(refs.items[0].artifact_type, SIGNATURE_BUNDLE);
	assert_int_equal(layout_blob_read(&v.l, &refs.items[0], &text, &len, &err), 0);
	assert_int_equal(oci_manifest_parse(text, len, "bundle", &b, &err), 0);
	assert_string_equal(b.artifact_type, SIGNATURE_BUNDLE);
	assert_string_equal(b.config.media_type, OCI_EMPTY);
	assert_string_equal(b.layers[0].media_type, SIGNATURE_BUNDLE);
	assert_string_equal(b.subject.digest, v.package.digest);
	assert_string_equal(b.subject.media_type, OCI_MANIFEST);
	assert_int_equal(b.subject.size, v.package.size);
	const struct oci_descriptor notes = { .annotations = b.annotations };
	assert_string_equal(oci_descriptor_annotation(&notes, "dev.sigstore.bundle.content"), "dsse-envelope");
	assert_string_equal(oci_descriptor_annotation(&notes, "dev.sigstore.bundle.predicateType"),
			    "https://sigstore.dev/cosign/sign/v1");
	assert_string_equal(oci_descriptor_annotation(&notes, OCI_CREATED), "2027-01-15T08:00:00Z");
	assert_int_equal(layout_index(&v.l, &x, &err), 0);
	auto_str char *tag = signature_cosign_tag(v.package.digest);
	assert_string_equal(oci_descriptor_annotation(&x.items[oci_index_find(&x, "package")], "kind"),
			    "dev.cosignproject.cosign/image");
	assert_string_equal(oci_descriptor_annotation(&x.items[oci_index_find(&x, tag)], "kind"),
			    "dev.cosignproject.cosign/sigs");
	assert_null(oci_descriptor_annotation(&x.items[oci_index_find(&x, "other")], "kind"));
}

static void test_twice_changes_nothing(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_str char *before = NULL, *after = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_oci_index struct oci_index refs = { 0 }, x = { 0 };
	struct err err;
	vouch_make(&v);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
	assert_int_equal(vouch_sign(&v, &v.package, 1), 1);
	assert_int_equal(root_read(&v.l.root, "index.json", &before, NULL, &err), 1);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 0);
	assert_int_equal(vouch_sign(&v, &v.package, 1), 0);
	assert_int_equal(root_read(&v.l.root, "index.json", &after, NULL, &err), 1);
	assert_string_equal(before, after);
	signatures_of(&v, &m);
	referrers_of(&v, &refs);
	assert_int_equal(m.count, 2);
	assert_int_equal(refs.count, 2);
	assert_int_equal(layout_index(&v.l, &x, &err), 0);
	assert_int_equal(x.count, 4); // packages, and one under each tag: what was merged is not left behind
}

static void test_each_encoding_alone(void **state)
{
	(void)state;
	for (int which = 0; which < 2; which++) {
		auto_vouch struct vouch v;
		vouch_make(&v);
		struct trust_rule rule = vouch_rule(&v, 1, 1);
		assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
		auto_str char *tag =
			which ? signature_cosign_tag(v.package.digest) : str_fmt("sha256-%s", v.package.digest);
		edit(&v, drop, tag);
		assert_int_equal(vouch_check(&v, &rule, NULL), 0);
		assert_int_equal(vouch_sign(&v, &v.package, 0), 1); // a missing encoding is created again
		assert_int_equal(vouch_sign(&v, &v.package, 0), 0);
	}
}

static void test_threshold(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_str char *text = NULL;
	vouch_make(&v);
	struct trust_rule one = vouch_rule(&v, 3, 1), two = vouch_rule(&v, 3, 2), few = vouch_rule(&v, 1, 2);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 1); // in both encodings, and still one key
	assert_int_equal(vouch_check(&v, &one, NULL), 0);
	assert_int_equal(vouch_check(&v, &two, &text), E_UNTRUSTED);
	assert_non_null(strstr(text, "1 of 2 required signatures (by alice)"));
	assert_int_equal(vouch_sign(&v, &v.package, 2), 1);
	assert_int_equal(vouch_check(&v, &two, NULL), 0);
	assert_int_equal(vouch_check(&v, &few, NULL), E_UNTRUSTED);
}

static void test_unsigned_and_unknown_signers(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_str char *text = NULL;
	auto_signature_verdict struct signature_verdict verdict = { 0 };
	struct err err;
	vouch_make(&v);
	struct trust_rule alice = vouch_rule(&v, 1, 1), empty = vouch_rule(&v, 0, 1), lax = vouch_rule(&v, 1, 1);
	lax.is_unsigned_accepted = true;
	assert_int_equal(vouch_check(&v, &empty, &text), E_UNTRUSTED);
	assert_non_null(strstr(text, "'trust' has no key for this source"));
	assert_int_equal(vouch_check(&v, &alice, &text), E_UNSIGNED);
	auto_str char *package = str_fmt("sha256:%.12s...", v.package.digest);
	assert_non_null(strstr(text, package));
	assert_non_null(strstr(text, "alice"));
	assert_int_equal(signature_check(v.r, v.package.digest, &lax, &verdict, &err), 0);
	assert_true(verdict.is_unsigned_accepted && verdict.ids.count == 0);
	assert_int_equal(vouch_sign(&v, &v.package, 1), 1);
	assert_int_equal(vouch_check(&v, &alice, &text), E_UNTRUSTED);
	assert_non_null(strstr(text, v.keys[1].key->id));
	assert_non_null(strstr(text, "alice"));
	assert_int_equal(vouch_check(&v, &lax, NULL), 0);
	assert_int_equal(vouch_check(&v, &empty, NULL), E_UNTRUSTED);
}

// The other package's signatures, put where those of the package are looked for.
static void test_replay_is_forgery(void **state)
{
	(void)state;
	for (int which = 0; which < 2; which++) {
		auto_vouch struct vouch v;
		auto_str char *text = NULL, *why = NULL;
		vouch_make(&v);
		struct trust_rule rule = vouch_rule(&v, 1, 1), lax = vouch_rule(&v, 1, 1);
		lax.is_unsigned_accepted = true;
		assert_int_equal(vouch_sign(&v, &v.other, 0), 1);
		auto_str char *theirs = which ? signature_cosign_tag(v.other.digest) :
						str_fmt("sha256-%s", v.other.digest),
			      *ours = which ? signature_cosign_tag(v.package.digest) :
					      str_fmt("sha256-%s", v.package.digest);
		text = text_of(&v, theirs);
		put_tagged(&v, ours, which ? OCI_MANIFEST : OCI_INDEX, text);
		assert_int_equal(vouch_check(&v, &rule, &why), E_FORGED);
		auto_str char *other = str_fmt("sha256:%.12s...", v.other.digest);
		assert_non_null(strstr(why, other));
		assert_int_equal(vouch_check(&v, &lax, NULL), E_FORGED);
		assert_int_equal(vouch_sign(&v, &v.package, 0), 1); // a signature that holds is worth more
		assert_int_equal(vouch_check(&v, &rule, NULL), 0);
	}
}

static void test_bundles_by_hand(void **state)
{
	(void)state;
	static const char sign[] = "https://sigstore.dev/cosign/sign/v1", sbom[] = "https://spdx.dev/Document";
	static const struct {
		const char *row, *type, *predicate;
		size_t key, hint;
		bool is_other;
		int code;
	} rows[] = {
		{ "as cosign 3 writes it", "v1", sign, 0, 0, false, 0 },
		{ "as cosign 2 writes it", "v0.1", sign, 0, 0, false, 0 },
		{ "the hint may be wrong", "v1", sign, 0, 1, false, 0 },
		{ "a trusted hint, another key", "v1", sign, 1, 0, false, E_FORGED },
		{ "another key", "v1", sign, 1, 1, false, E_UNTRUSTED },
		{ "about another package", "v1", sign, 0, 0, true, E_FORGED },
		{ "unknown statement", "v9", sign, 0, 0, false, E_UNTRUSTED },
		{ "a list of contents is no signature", "v1", sbom, 0, 0, false, E_UNSIGNED },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_vouch struct vouch v;
		vouch_make(&v);
		struct trust_rule rule = vouch_rule(&v, 1, 1);
		auto_str char *statement = statement_of(rows[i].type, rows[i].predicate,
							rows[i].is_other ? v.other.digest : v.package.digest);
		auto_str char *bundle = bundle_of(v.keys[rows[i].key].key, statement, v.keys[rows[i].hint].key->id);
		// cosign 2.5 on a registry without the referrers API writes this type into the list
		list_referrer(&v, SIGNATURE_BUNDLE, OCI_EMPTY, bundle);
		expect(vouch_check(&v, &rule, NULL) == rows[i].code, rows[i].row);
	}
}

// What cannot be read proves nothing, and does not spoil a signature that holds.
static void test_garbage_beside_a_signature(void **state)
{
	(void)state;
	static const char *const rows[] = { "", "{", "null", "{\"dsseEnvelope\":[]}" };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_vouch struct vouch v;
		auto_str char *why = NULL;
		vouch_make(&v);
		struct trust_rule rule = vouch_rule(&v, 1, 1);
		list_referrer(&v, SIGNATURE_BUNDLE, SIGNATURE_BUNDLE, rows[i]);
		expect(vouch_check(&v, &rule, &why) == E_UNTRUSTED, rows[i]);
		expect(strstr(why, "cannot be read"), why);
		expect(vouch_sign(&v, &v.package, 0) == 1 && vouch_check(&v, &rule, NULL) == 0, rows[i]);
	}
}

static void add_layers(struct oci_manifest *m, size_t count, bool is_in_front)
{
	m->layers = mem_grow(m->layers, m->count + count, sizeof(*m->layers));
	if (is_in_front)
		memmove(m->layers + count, m->layers, m->count * sizeof(*m->layers));
	for (size_t i = 0; i < count; i++) {
		struct oci_descriptor *d = &m->layers[is_in_front ? i : m->count + i];
		*d = (struct oci_descriptor){ .media_type = str_dup(SIGNATURE_COSIGN_TAG), .size = 7 };
		snprintf(d->digest, sizeof(d->digest), "%064zu", i);
	}
	m->count += count;
}

static void test_thousands_of_signatures(void **state)
{
	(void)state;
	for (int is_in_front = 0; is_in_front < 2; is_in_front++) {
		auto_vouch struct vouch v;
		auto_oci_manifest struct oci_manifest m = { 0 };
		auto_str char *why = NULL;
		vouch_make(&v);
		struct trust_rule rule = vouch_rule(&v, 1, 1);
		assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
		signatures_of(&v, &m);
		auto_str char *referrers = str_fmt("sha256-%s", v.package.digest),
			      *tag = signature_cosign_tag(v.package.digest);
		edit(&v, drop, referrers);
		add_layers(&m, 10000, is_in_front);
		auto_str char *text = oci_manifest_text(&m);
		put_tagged(&v, tag, OCI_MANIFEST, text);
		assert_int_equal(vouch_check(&v, &rule, &why), is_in_front ? E_TOO_LARGE : 0);
		assert_true(!is_in_front || strstr(why, "its first 64 signatures"));
	}
}

static void test_thousands_of_referrers(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_oci_index struct oci_index x = { 0 };
	vouch_make(&v);
	struct trust_rule rule = vouch_rule(&v, 1, 1);
	for (size_t i = 0; i < 5000; i++) {
		struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST), .size = 7 };
		snprintf(d.digest, sizeof(d.digest), "%064zu", i);
		x.items = mem_grow(x.items, x.count + 1, sizeof(*x.items));
		x.items[x.count++] = d;
	}
	auto_str char *text = oci_index_text(&x), *tag = str_fmt("sha256-%s", v.package.digest);
	put_tagged(&v, tag, OCI_INDEX, text);
	assert_int_equal(vouch_check(&v, &rule, NULL), E_TOO_LARGE);
}

static void test_invalid_manifests(void **state)
{
	(void)state;
	static const char *const rows[] = { "", "{", "{}", "[]", "{\"schemaVersion\":2,\"layers\":7}" };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (int which = 0; which < 2; which++) {
			auto_vouch struct vouch v;
			auto_str char *text = NULL;
			vouch_make(&v);
			struct trust_rule rule = vouch_rule(&v, 1, 1);
			auto_str char *tag =
				which ? signature_cosign_tag(v.package.digest) : str_fmt("sha256-%s", v.package.digest);
			put_tagged(&v, tag, OCI_MANIFEST, rows[i]);
			expect(vouch_check(&v, &rule, &text) == E_UNTRUSTED, rows[i]);
		}
	}
}

// A bit that turned over in the store or on a disk is damage, not a matter of trust: with the digest, before parsing.
static void test_damage_has_the_digest(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_str char *payload = NULL, *why = NULL;
	struct err err;
	size_t len = 0;
	vouch_make(&v);
	struct trust_rule rule = vouch_rule(&v, 1, 1);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
	signatures_of(&v, &m);
	assert_int_equal(layout_blob_read(&v.l, &m.layers[0], &payload, &len, &err), 0);
	payload[20] ^= 1;
	auto_str char *path = layout_blob_path(m.layers[0].digest);
	assert_int_equal(root_write(&v.l.root, path, payload, len, 0644, &err), 0);
	assert_int_equal(vouch_check(&v, &rule, &why), E_DIGEST);
	assert_non_null(strstr(why, m.layers[0].digest));
	assert_int_equal(root_unlink(&v.l.root, path, &err), 1);
	assert_int_equal(vouch_check(&v, &rule, NULL), 0); // one encoding lost: the other is enough
}

static void test_large_blobs_are_not_read(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_str char *why = NULL;
	vouch_make(&v);
	struct trust_rule rule = vouch_rule(&v, 1, 1);
	auto_str char *blob = mem_alloc(SIGNATURE_SIZE_MAX + 2);
	memset(blob, ' ', SIGNATURE_SIZE_MAX + 1);
	list_referrer(&v, SIGNATURE_BUNDLE, SIGNATURE_BUNDLE, blob);
	assert_int_equal(vouch_check(&v, &rule, &why), E_UNTRUSTED);
	assert_non_null(strstr(why, "has 1048577 bytes"));
}

static void test_copied(void **state)
{
	(void)state;
	auto_vouch struct vouch v, store;
	auto_str char *before = NULL, *after = NULL;
	struct err err;
	vouch_make(&v);
	vouch_make(&store);
	assert_string_equal(v.package.digest, store.package.digest);
	assert_int_equal(signature_copy(v.r, v.package.digest, &store.l, &err), 0);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
	assert_int_equal(vouch_sign(&store, &store.package, 2), 1);
	struct trust_rule alice = vouch_rule(&v, 1, 1), carol = vouch_rule(&store, 3, 1);
	assert_int_equal(vouch_check(&store, &alice, NULL), E_UNTRUSTED);
	assert_int_equal(signature_copy(v.r, v.package.digest, &store.l, &err), 1);
	assert_int_equal(vouch_check(&store, &alice, NULL), 0);
	assert_int_equal(vouch_check(&store, &carol, NULL), 0); // what was there stays
	assert_int_equal(root_read(&store.l.root, "index.json", &before, NULL, &err), 1);
	assert_int_equal(signature_copy(v.r, v.package.digest, &store.l, &err), 1);
	assert_int_equal(root_read(&store.l.root, "index.json", &after, NULL, &err), 1);
	assert_string_equal(before, after);
	for (int which = 0; which < 2; which++) { // both encodings came
		auto_str char *tag =
			which ? signature_cosign_tag(v.package.digest) : str_fmt("sha256-%s", v.package.digest);
		edit(&store, drop, tag);
		assert_int_equal(vouch_check(&store, &alice, NULL), which ? E_UNSIGNED : 0);
	}
}

static void test_copied_to_itself(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	struct err err;
	vouch_make(&v);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
	assert_int_equal(signature_copy(v.r, v.package.digest, &v.l, &err), 1);
	struct trust_rule rule = vouch_rule(&v, 1, 1);
	assert_int_equal(vouch_check(&v, &rule, NULL), 0);
}

static unsigned long written(void) // by this process so far, in bytes
{
	unsigned long bytes = 0;
	FILE *f = fopen("/proc/self/io", "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "rchar: %*u wchar: %lu", &bytes), 1);
	fclose(f);
	return bytes;
}

// Signs so many packages in one call, in several batches. What that wrote.
static unsigned long sign_many(size_t count)
{
	auto_vouch struct vouch v;
	struct err err;
	vouch_make(&v);
	const struct signature_maker makers[] = { vouch_maker(&v, 0), vouch_maker(&v, 1) };
	struct oci_descriptor *all = mem_alloc(count * sizeof(*all));
	bool *is_made = mem_alloc(count * sizeof(*is_made));
	for (size_t i = 0; i < count; i++) {
		auto_str char *tag = str_fmt("package-%zu", i);
		all[i] = vouch_package(&v.l, tag);
	}
	unsigned long before = written();
	assert_int_equal(signature_make_all(&v.l, all, count, makers, 2, is_made, &err), 0);
	unsigned long bytes = written() - before;
	const struct trust_rule both = vouch_rule(&v, 2, 2);
	for (size_t i = 0; i < count; i++) {
		auto_signature_verdict struct signature_verdict verdict = { 0 };
		expect(is_made[i], all[i].digest);
		assert_int_equal(signature_check(v.r, all[i].digest, &both, &verdict, &err), 0);
		is_made[i] = false;
		oci_descriptor_done(&all[i]);
	}
	free(all);
	free(is_made);
	return bytes;
}

// The index is not written for each package: that would be 256 times as much for sixteen times as many.
static void test_many_at_once(void **state)
{
	(void)state;
	enum { FEW = 10, MANY = 160 };
	assert_in_range(sign_many(MANY), 1, 16 * 2 * sign_many(FEW));
}

static void test_failure_keeps_what_was_signed(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_signature_verdict struct signature_verdict verdict = { 0 };
	struct err err;
	vouch_make(&v);
	struct signature_maker makers[] = { vouch_maker(&v, 0), vouch_maker(&v, 1) };
	const struct oci_descriptor both[] = { v.package, v.other };
	bool is_made[2] = { false };
	auto_key struct key *public = NULL; // which cannot sign
	auto_str char *pem = key_pem(makers[1].key);
	assert_int_equal(key_parse(pem, "bob", &public, &err), 0);
	makers[1].key = public;
	assert_int_equal(signature_make_all(&v.l, both, 2, makers, 2, is_made, &err), -1);
	assert_true(is_made[0] && !is_made[1]);
	const struct trust_rule first = vouch_rule(&v, 1, 1);
	assert_int_equal(signature_check(v.r, v.package.digest, &first, &verdict, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_and_checked),
		cmocka_unit_test(test_exact_form),
		cmocka_unit_test(test_twice_changes_nothing),
		cmocka_unit_test(test_each_encoding_alone),
		cmocka_unit_test(test_threshold),
		cmocka_unit_test(test_unsigned_and_unknown_signers),
		cmocka_unit_test(test_replay_is_forgery),
		cmocka_unit_test(test_bundles_by_hand),
		cmocka_unit_test(test_garbage_beside_a_signature),
		cmocka_unit_test(test_thousands_of_signatures),
		cmocka_unit_test(test_thousands_of_referrers),
		cmocka_unit_test(test_invalid_manifests),
		cmocka_unit_test(test_damage_has_the_digest),
		cmocka_unit_test(test_large_blobs_are_not_read),
		cmocka_unit_test(test_copied),
		cmocka_unit_test(test_copied_to_itself),
		cmocka_unit_test(test_many_at_once),
		cmocka_unit_test(test_failure_keeps_what_was_signed),
	};
	return cmocka_run_group_tests_name("signature", tests, NULL, NULL);
}
