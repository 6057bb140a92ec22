// SPDX-License-Identifier: Apache-2.0
// Making and copying signatures: their encodings, and where a layout keeps them.
//
// cosign's older encoding ("simple signing"): the manifest under the tag sha256-HEX.sig has one layer per signature. A
// layer is exactly the signed statement; the signature is an annotation of its descriptor. The newer one, the sigstore
// bundle v0.3: an in-toto statement in a DSSE envelope, in a manifest whose subject is the package.
#include "precompiled/trust/signature_internal.h"

#include "base/core/date.h"
#include "base/crypto/base64.h"
#include "precompiled/repository/artifact.h"
#include "precompiled/trust/statement.h"

#include <stdio.h>

static const char COSIGN_NOTE[] = "dev.cosignproject.cosign/signature";
static const char COSIGN_TYPE[] = "cosign container image signature";
static const char KIND[] = "kind", KIND_SIGNATURES[] = "dev.cosignproject.cosign/sigs",
		  KIND_IMAGE[] = "dev.cosignproject.cosign/image";
static const char PREDICATE[] = "https://sigstore.dev/cosign/sign/v1";
static const char PAYLOAD_TYPE[] = "application/vnd.in-toto+json";
static const char STATEMENT[] = "https://in-toto.io/Statement/v1",
		  STATEMENT_OLD[] = "https://in-toto.io/Statement/v0.1";

static bool is_claim_by(const struct signature_claim *c, const struct key *key, const char *manifest_hex)
{
	return strv_has(&c->digests, manifest_hex) &&
	       key_verify(key, c->text, c->text_len, c->signature, c->signature_len);
}

int signature_cosign_claim(const struct oci_descriptor *d, const char *data, size_t len, struct signature_claim *ret,
			   struct err *err)
{
	auto_str char *name = str_fmt("signature sha256:%s", d->digest);
	auto_json json_t *json = NULL;
	auto_signature_claim struct signature_claim c = { 0 };
	char hex[DIGEST_HEX + 1];
	const char *digest = NULL, *type = NULL, *signature = oci_descriptor_annotation(d, COSIGN_NOTE);
	if (oci_json(data, len, name, &json, err) < 0)
		return -1;
	if (json_unpack(json, "{s:{s:{s:s}, s:s}}", "critical", "image", "docker-manifest-digest", &digest, "type",
			&type) < 0 ||
	    !str_eq(type, COSIGN_TYPE) || !oci_digest_parse(digest, hex))
		return err_set(err, E_MANIFEST, "'%s' is not a statement about an image", name);
	if (!signature || !base64_parse(signature, &c.signature, &c.signature_len))
		return err_set(err, E_MANIFEST, "'%s' has no base64 signature", name);
	strv_add(&c.digests, str_dup(hex));
	c.text = mem_alloc(len + 1);
	memcpy(c.text, data, len);
	c.text_len = len;
	*ret = c;
	c = (struct signature_claim){ 0 };
	return 0;
}

// Reads what the layout has under that tag; nothing is an empty manifest.
static int read_cosign_manifest(const struct layout *l, const struct oci_index *x, const char *tag,
				struct oci_manifest *ret, struct err *err)
{
	int at = oci_index_find(x, tag);
	return at < 0 ? 0 : layout_manifest(l, &x->items[at], tag, ret, err);
}

static bool has_layer(const struct oci_manifest *m, const struct oci_descriptor *d)
{
	for (size_t i = 0; i < m->count; i++)
		if (str_eq(m->layers[i].digest, d->digest) &&
		    str_eq(oci_descriptor_annotation(&m->layers[i], COSIGN_NOTE),
			   oci_descriptor_annotation(d, COSIGN_NOTE)))
			return true;
	return false;
}

// Adds to the signatures in the manifest under the tag. 1 = changed.
static int merge_cosign_layers(const struct layout *l, struct oci_index *x, const char *manifest_hex,
			       const struct oci_descriptor *layers, size_t count, struct err *err)
{
	auto_str char *tag = signature_cosign_tag(manifest_hex);
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_oci_descriptor struct oci_descriptor d = { 0 };
	if (read_cosign_manifest(l, x, tag, &m, err) < 0)
		return -1;
	size_t before = m.count;
	for (size_t i = 0; i < count; i++) {
		if (has_layer(&m, &layers[i]))
			continue;
		if (m.count >= SIGNATURE_COUNT_MAX)
			return err_set(err, E_TOO_LARGE, "'%s': already %zu signatures under '%s'", l->root.name,
				       m.count, tag);
		m.layers = mem_grow(m.layers, m.count + 1, sizeof(*m.layers));
		oci_descriptor_copy(&layers[i], &m.layers[m.count++]);
	}
	if (m.count == before)
		return 0;
	// A normal image configuration, because cosign treats the manifest as an image.
	json_t *diffs = json_array();
	for (size_t i = 0; i < m.count; i++) {
		auto_str char *digest = oci_digest_text(m.layers[i].digest);
		json_array_append_new(diffs, json_text(digest));
	}
	auto_json json_t *json =
		json_pack("{s:s, s:s, s:s, s:{}, s:{s:s, s:o}}", "architecture", "", "os", "", "created",
			  "0001-01-01T00:00:00Z", "config", "rootfs", "type", "layers", "diff_ids", diffs);
	auto_str char *config = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	oci_descriptor_done(&m.config);
	if (layout_document_put(l, OCI_CONFIG, config, &m.config, err) < 0)
		return -1;
	auto_str char *text = oci_manifest_text(&m);
	if (layout_document_put(l, OCI_MANIFEST, text, &d, err) < 0)
		return -1;
	oci_index_drop(x, tag);
	d.annotations = json_pack("{s:s}", KIND, KIND_SIGNATURES);
	oci_index_put(x, &d, tag);
	return 1;
}

static int make_cosign(const struct layout *l, struct oci_index *x, const char *manifest_hex,
		       const struct signature_maker *maker, struct err *err)
{
	auto_str char *tag = signature_cosign_tag(manifest_hex), *signature = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_oci_descriptor struct oci_descriptor d = { 0 };
	size_t len = 0;
	if (read_cosign_manifest(l, x, tag, &m, err) < 0)
		return -1;
	// ECDSA signatures differ each time, so check whether this key has a valid signature.
	for (size_t i = 0; i < m.count; i++) {
		auto_str char *data = NULL;
		auto_signature_claim struct signature_claim c = { 0 };
		struct err ignored;
		if (layout_blob_read(l, &m.layers[i], &data, &len, &ignored) == 0 &&
		    signature_cosign_claim(&m.layers[i], data, len, &c, &ignored) == 0 &&
		    is_claim_by(&c, maker->key, manifest_hex))
			return 0;
	}
	// Members in this order and without blanks, as cosign writes them.
	auto_json json_t *reference = json_text(maker->reference);
	auto_str char *quoted = json_dumps(reference, JSON_ENCODE_ANY);
	auto_str char *text =
		str_fmt("{\"critical\":{\"identity\":{\"docker-reference\":%s},"
			"\"image\":{\"docker-manifest-digest\":\"sha256:%s\"},\"type\":\"%s\"},\"optional\":null}",
			quoted, manifest_hex, COSIGN_TYPE);
	if (key_sign(maker->key, text, strlen(text), &signature, &len, err) < 0 ||
	    layout_document_put(l, SIGNATURE_COSIGN_TAG, text, &d, err) < 0)
		return -1;
	auto_str char *encoded = base64_text(signature, len);
	d.annotations = json_pack("{s:s}", COSIGN_NOTE, encoded);
	return merge_cosign_layers(l, x, manifest_hex, &d, 1, err);
}

// The bytes that a DSSE signature covers.
static char *envelope_text(const char *type, const char *payload, size_t len, size_t *ret_len)
{
	char *text = str_fmt("DSSEv1 %zu %s %zu ", strlen(type), type, len);
	size_t head = strlen(text);
	text = mem_grow(text, head + len + 1, 1);
	memcpy(text + head, payload, len);
	text[head + len] = '\0';
	*ret_len = head + len;
	return text;
}

// 1 = a statement with this predicate, which must be one of ours if it says how a package was built; 0 = another one.
static int read_statement(const char *data, size_t len, const char *name, const char *wanted, struct strv *ret,
			  struct err *err)
{
	auto_json json_t *json = NULL;
	json_t *subjects = NULL, *subject;
	size_t i;
	const char *type = NULL, *predicate = NULL, *digest = NULL;
	if (oci_json(data, len, name, &json, err) < 0)
		return -1;
	if (json_unpack(json, "{s:s, s:s, s:o}", "_type", &type, "predicateType", &predicate, "subject", &subjects) <
		    0 ||
	    (!str_eq(type, STATEMENT) && !str_eq(type, STATEMENT_OLD)))
		return err_set(err, E_MANIFEST, "'%s' is not an in-toto statement", name);
	if (!str_eq(predicate, wanted) || (str_eq(wanted, STATEMENT_PREDICATE) && !statement_is_ours(json)))
		return 0;
	json_array_foreach(subjects, i, subject)
	{
		if (i < SIGNATURE_COUNT_MAX && json_unpack(subject, "{s:{s:s}}", "digest", "sha256", &digest) == 0 &&
		    digest_is_hex(digest))
			strv_add(ret, str_dup(digest));
	}
	return ret->count ? 1 : err_set(err, E_MANIFEST, "'%s' has no SHA-256 digest", name);
}

static int parse_bundle(const char *data, size_t len, const char *name, const char *predicate,
			struct signature_claim *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	auto_signature_claim struct signature_claim c = { 0 };
	auto_str char *payload = NULL, *id = NULL;
	const char *type = NULL, *text = NULL, *signature = NULL, *hint = NULL;
	json_t *signatures = NULL;
	size_t payload_len = 0, id_len = 0;
	if (oci_json(data, len, name, &json, err) < 0)
		return -1;
	if (json_unpack(json, "{s:{s:s, s:s, s:o}}", "dsseEnvelope", "payloadType", &type, "payload", &text,
			"signatures", &signatures) < 0 ||
	    !str_eq(type, PAYLOAD_TYPE) || json_array_size(signatures) != 1 ||
	    json_unpack(json_array_get(signatures, 0), "{s:s}", "sig", &signature) < 0 ||
	    !base64_parse(text, &payload, &payload_len) || !base64_parse(signature, &c.signature, &c.signature_len))
		return err_set(err, E_MANIFEST, "'%s' is not a bundle with one DSSE signature", name);
	int r = read_statement(payload, payload_len, name, predicate, &c.digests, err);
	if (r <= 0)
		return r;
	// cosign's hint is the base64 of the id's bytes.
	if (json_unpack(json, "{s:{s:{s:s}}}", "verificationMaterial", "publicKey", "hint", &hint) == 0 &&
	    base64_parse(hint, &id, &id_len) && id_len == DIGEST_HEX / 2)
		for (size_t i = 0; i < id_len; i++)
			snprintf(c.hint + 2 * i, 3, "%02x", (unsigned char)id[i]);
	c.text = envelope_text(type, payload, payload_len, &c.text_len);
	c.payload = TAKE(payload);
	c.payload_len = payload_len;
	*ret = c;
	c = (struct signature_claim){ 0 };
	return 1;
}

int signature_bundle_claim(const char *data, size_t len, const char *name, struct signature_claim *ret, struct err *err)
{
	return parse_bundle(data, len, name, PREDICATE, ret, err);
}

int signature_attestation_claim(const char *data, size_t len, const char *name, struct signature_claim *ret,
				struct err *err)
{
	return parse_bundle(data, len, name, STATEMENT_PREDICATE, ret, err);
}

static char *signature_statement(const char *manifest_hex)
{
	auto_json json_t *json = json_pack("{s:s, s:s, s:{}, s:[{s:{s:s}}]}", "_type", STATEMENT, "predicateType",
					   PREDICATE, "predicate", "subject", "digest", "sha256", manifest_hex);
	return json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
}

static int bundle_text(const char *payload, const struct key *key, char **ret, struct err *err)
{
	auto_str char *signature = NULL;
	size_t text_len = 0, len = 0;
	unsigned char id[DIGEST_HEX / 2];
	for (size_t i = 0; i < sizeof(id); i++) {
		unsigned byte = 0;
		sscanf(key->id + 2 * i, "%2x", &byte);
		id[i] = (unsigned char)byte;
	}
	auto_str char *text = envelope_text(PAYLOAD_TYPE, payload, strlen(payload), &text_len);
	if (key_sign(key, text, text_len, &signature, &len, err) < 0)
		return -1;
	auto_str char *payload64 = base64_text(payload, strlen(payload)), *signature64 = base64_text(signature, len),
		      *hint = base64_text(id, sizeof(id));
	auto_json json_t *bundle =
		json_pack("{s:s, s:{s:{s:s}}, s:{s:s, s:s, s:[{s:s}]}}", "mediaType", SIGNATURE_BUNDLE,
			  "verificationMaterial", "publicKey", "hint", hint, "dsseEnvelope", "payload", payload64,
			  "payloadType", PAYLOAD_TYPE, "signatures", "sig", signature64);
	*ret = json_dumps(bundle, JSON_COMPACT);
	return 0;
}

bool signature_is_bundle(const struct oci_manifest *m)
{
	// Not by artifactType: some clients write a different one.
	return m->count == 1 && str_eq(m->layers[0].media_type, SIGNATURE_BUNDLE);
}

// What goes with a package wherever it goes: its signatures, and the documents about it. NULL = anything else.
static const char *companion_type(const struct oci_manifest *m)
{
	static const char *const types[] = { SIGNATURE_BUNDLE, STATEMENT_TYPE, SPDX_TYPE };
	for (size_t i = 0; i < ARRAY_SIZE(types) && m->count == 1; i++)
		if (str_eq(m->layers[0].media_type, types[i]))
			return types[i];
	return NULL;
}

// The signatures that the layout lists for a manifest.
static int read_referrers(const struct layout *l, const struct oci_index *x, const char *manifest_hex,
			  struct oci_index *ret, struct err *err)
{
	auto_str char *tag = str_fmt("sha256-%s", manifest_hex), *data = NULL;
	int at = oci_index_find(x, tag);
	size_t len = 0;
	if (at < 0)
		return 0;
	return layout_blob_read(l, &x->items[at], &data, &len, err) < 0 ? -1 :
									  oci_index_parse(data, len, tag, ret, err);
}

// Adds a manifest to that list. 1 = changed.
static int merge_referrer(const struct layout *l, struct oci_index *x, const char *manifest_hex, const char *text,
			  struct err *err)
{
	auto_str char *tag = str_fmt("sha256-%s", manifest_hex);
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_oci_index struct oci_index refs = { 0 };
	auto_oci_descriptor struct oci_descriptor d = { 0 }, all = { 0 };
	if (oci_manifest_parse(text, strlen(text), "signature", &m, err) < 0 ||
	    read_referrers(l, x, manifest_hex, &refs, err) < 0 ||
	    layout_document_put(l, OCI_MANIFEST, text, &d, err) < 0)
		return -1;
	d.artifact_type = str_dup(companion_type(&m));
	d.annotations = json_deep_copy(m.annotations);
	auto_str char *ref = oci_digest_text(d.digest);
	if (oci_index_find(&refs, ref) >= 0)
		return 0;
	oci_index_put(&refs, &d, NULL);
	auto_str char *listing = oci_index_text(&refs);
	if (layout_document_put(l, OCI_INDEX, listing, &all, err) < 0)
		return -1;
	oci_index_drop(x, tag);
	oci_index_put(x, &all, tag);
	return 1;
}

// The blob of a referrer, if it is a bundle.
static int read_bundle(const struct layout *l, const struct oci_descriptor *referrer, char **ret, size_t *ret_len,
		       struct err *err)
{
	auto_oci_manifest struct oci_manifest m = { 0 };
	if (layout_manifest(l, referrer, "signature", &m, err) < 0 || !signature_is_bundle(&m))
		return -1;
	return layout_blob_read(l, &m.layers[0], ret, ret_len, err);
}

static int add_referrer(const struct layout *l, struct oci_index *x, const struct oci_descriptor *subject,
			const char *type, const json_t *notes, const char *data, size_t len, struct err *err)
{
	auto_oci_manifest struct oci_manifest m = { .artifact_type = str_dup(type),
						    .count = 1,
						    .annotations = json_deep_copy(notes) };
	m.layers = mem_alloc(sizeof(*m.layers));
	m.layers[0] = (struct oci_descriptor){ .media_type = str_dup(type), .size = len };
	m.subject = (struct oci_descriptor){ .media_type = str_dup(subject->media_type), .size = subject->size };
	memcpy(m.subject.digest, subject->digest, sizeof(m.subject.digest));
	if (layout_document_put(l, OCI_EMPTY, "{}", &m.config, err) < 0 ||
	    layout_blob_put(l, data, len, m.layers[0].digest, err) < 0)
		return -1;
	auto_str char *text = oci_manifest_text(&m);
	return merge_referrer(l, x, subject->digest, text, err);
}

static json_t *signing_notes(const struct signature_maker *maker, const char *predicate)
{
	auto_str char *when = date_text(maker->now);
	return json_pack("{s:s, s:s, s:s}", OCI_CREATED, when, "dev.sigstore.bundle.content", "dsse-envelope",
			 "dev.sigstore.bundle.predicateType", predicate);
}

// Signs a statement with this predicate about the manifest, unless a bundle by the key has it.
static int make_bundle_of(const struct layout *l, struct oci_index *x, const struct oci_descriptor *manifest,
			  const struct signature_maker *maker, const char *predicate, const char *payload,
			  struct err *err)
{
	auto_str char *bundle = NULL;
	auto_oci_index struct oci_index refs = { 0 };
	if (read_referrers(l, x, manifest->digest, &refs, err) < 0)
		return -1;
	for (size_t i = 0; i < refs.count; i++) {
		auto_str char *data = NULL;
		auto_signature_claim struct signature_claim c = { 0 };
		size_t len = 0;
		struct err ignored;
		// Another program may write its signature with other blanks, but says no more with them.
		if (read_bundle(l, &refs.items[i], &data, &len, &ignored) == 0 &&
		    parse_bundle(data, len, "signature", predicate, &c, &ignored) > 0 &&
		    (str_eq(predicate, PREDICATE) || str_eq(c.payload, payload)) &&
		    is_claim_by(&c, maker->key, manifest->digest))
			return 0;
	}
	if (bundle_text(payload, maker->key, &bundle, err) < 0)
		return -1;
	auto_json json_t *notes = signing_notes(maker, predicate);
	return add_referrer(l, x, manifest, SIGNATURE_BUNDLE, notes, bundle, strlen(bundle), err);
}

static int make_bundle(const struct layout *l, struct oci_index *x, const struct oci_descriptor *manifest,
		       const struct signature_maker *maker, struct err *err)
{
	auto_str char *payload = signature_statement(manifest->digest);
	return make_bundle_of(l, x, manifest, maker, PREDICATE, payload, err);
}

// A document that the layout lists for a manifest, by its type. 1 = found.
static int find_document(const struct layout *l, const struct oci_index *refs, const char *type, size_t *ret_at,
			 char **ret, struct err *err)
{
	for (size_t i = 0; i < refs->count; i++) {
		auto_oci_manifest struct oci_manifest m = { 0 };
		size_t len = 0;
		if (layout_manifest(l, &refs->items[i], type, &m, err) < 0)
			return -1;
		if (m.count != 1 || !str_eq(m.layers[0].media_type, type))
			continue;
		*ret_at = i;
		return layout_blob_read(l, &m.layers[0], ret, &len, err) < 0 ? -1 : 1;
	}
	return 0;
}

// As `cosign attest` does with the statement of how a package was built. One that contradicts the package is not
// signed.
static int make_attestation(const struct layout *l, struct oci_index *x, const struct oci_descriptor *manifest,
			    const struct signature_maker *maker, struct err *err)
{
	auto_str char *payload = NULL;
	auto_json json_t *json = NULL, *labels = NULL;
	auto_oci_index struct oci_index refs = { 0 };
	auto_repository struct repository *r = repository_of_layout(l);
	size_t at;
	if (read_referrers(l, x, manifest->digest, &refs, err) < 0)
		return -1;
	int found = find_document(l, &refs, STATEMENT_TYPE, &at, &payload, err);
	if (found <= 0)
		return found;
	if (oci_json(payload, strlen(payload), "statement", &json, err) < 0)
		return -1;
	found = statement_is_ours(json) ? statement_labels(r, manifest->digest, &labels, err) : 0;
	if (found <= 0)
		return found;
	auto_str char *lie = statement_contradiction(json, manifest->digest, labels);
	if (lie)
		return err_set(err, E_FORGED, "the statement of how it was built contradicts the package: %s", lie);
	return make_bundle_of(l, x, manifest, maker, STATEMENT_PREDICATE, payload, err);
}

int signature_attach(const struct layout *l, const struct oci_descriptor *manifest, const char *type,
		     const json_t *notes, const char *text, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 }, refs = { 0 };
	auto_oci_descriptor struct oci_descriptor all = { 0 };
	auto_str char *old = NULL, *tag = str_fmt("sha256-%s", manifest->digest);
	auto_fd int held = layout_lock(l, false, err);
	size_t at;
	if (held < 0 || layout_index(l, &x, err) < 0 || read_referrers(l, &x, manifest->digest, &refs, err) < 0)
		return -1;
	int found = find_document(l, &refs, type, &at, &old, err);
	if (found < 0 || str_eq(old, text))
		return found < 0 ? -1 : 0;
	if (found > 0) {
		oci_index_remove(&refs, at);
		auto_str char *listing = oci_index_text(&refs);
		if (layout_document_put(l, OCI_INDEX, listing, &all, err) < 0)
			return -1;
		oci_index_drop(&x, tag);
		oci_index_put(&x, &all, tag);
	}
	if (add_referrer(l, &x, manifest, type, notes, text, strlen(text), err) < 0)
		return -1;
	return layout_index_write(l, &x, err) < 0 ? -1 : 1;
}

// 1 = signed, 0 = all signatures of this key existed. *ret_changed: the index is another one, which is not written.
static int sign_in_index(const struct layout *l, struct oci_index *x, const struct oci_descriptor *manifest,
			 const struct signature_maker *maker, bool *ret_changed, struct err *err)
{
	auto_str char *ref = oci_digest_text(manifest->digest);
	int legacy = make_cosign(l, x, manifest->digest, maker, err);
	int bundle = legacy < 0 ? -1 : make_bundle(l, x, manifest, maker, err);
	int stated = bundle < 0 ? -1 : make_attestation(l, x, manifest, maker, err);
	if (stated < 0)
		return err_wrap(err, "sign sha256:%s", manifest->digest);
	bool is_made = legacy > 0 || bundle > 0 || stated > 0;
	int at = oci_index_find(x, ref);
	if (at >= 0 && !str_eq(oci_descriptor_annotation(&x->items[at], KIND), KIND_IMAGE)) {
		if (!x->items[at].annotations)
			x->items[at].annotations = json_object();
		json_object_set_new(x->items[at].annotations, KIND, json_text(KIND_IMAGE));
		*ret_changed = true;
	}
	*ret_changed |= is_made;
	return is_made;
}

// Signatures made before a failure are kept: the index has them, too.
static int sign_some(const struct layout *l, const struct oci_descriptor *manifests, size_t count,
		     const struct signature_maker *makers, size_t maker_count, bool *ret_made, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_fd int held = layout_lock(l, false, err);
	if (held < 0 || layout_index(l, &x, err) < 0)
		return -1;
	bool is_changed = false;
	int r = 0;
	for (size_t i = 0; i < count && r >= 0; i++)
		for (size_t k = 0; k < maker_count && r >= 0; k++) {
			r = sign_in_index(l, &x, &manifests[i], &makers[k], &is_changed, err);
			ret_made[i] |= r > 0;
		}
	struct err ignored;
	if (is_changed && layout_index_write(l, &x, r < 0 ? &ignored : err) < 0)
		return -1;
	return r < 0 ? -1 : 0;
}

int signature_make_all(const struct layout *l, const struct oci_descriptor *manifests, size_t count,
		       const struct signature_maker *makers, size_t maker_count, bool *ret_made, struct err *err)
{
	enum { AT_ONCE = 64 }; // the index is locked for so many, and written once for them
	for (size_t i = 0; i < count; i += AT_ONCE)
		if (sign_some(l, manifests + i, count - i < AT_ONCE ? count - i : AT_ONCE, makers, maker_count,
			      ret_made + i, err) < 0)
			return -1;
	return 0;
}

int signature_make(const struct layout *l, const struct oci_descriptor *manifest, const struct signature_maker *maker,
		   struct err *err)
{
	bool is_made = false;
	return sign_some(l, manifest, 1, maker, 1, &is_made, err) < 0 ? -1 : is_made;
}

int signature_publish(const struct layout *l, const char *type, const char *tag, const json_t *json,
		      const struct signature_maker *makers, size_t count, struct err *err)
{
	auto_oci_descriptor struct oci_descriptor d = { 0 };
	auto_oci_index struct oci_index x = { 0 };
	if (artifact_put(l, type, NULL, json, &d, err) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (signature_make(l, &d, &makers[i], err) < 0)
			return -1;
	auto_fd int held = layout_lock(l, false, err);
	if (held < 0 || layout_index(l, &x, err) < 0)
		return -1;
	int at = oci_index_find(&x, tag);
	if (at >= 0 && !str_eq(x.items[at].digest, d.digest)) {
		auto_str char *referrers = str_fmt("sha256-%s", x.items[at].digest),
			      *legacy = signature_cosign_tag(x.items[at].digest);
		oci_index_drop(&x, tag);
		oci_index_drop(&x, referrers);
		oci_index_drop(&x, legacy);
	}
	oci_index_put(&x, &d, tag);
	return layout_index_write(l, &x, err);
}

// Signatures are copied with a package into a node's store, so that it can be checked again without its source. Nothing
// is verified here. Everything is read before the index is locked, so that a slow source blocks no other process.
struct signature_set {
	struct oci_manifest legacy; // only its layers are used
	struct strv referrers;      // texts of manifests
};

static void signature_set_done(struct signature_set *set)
{
	oci_manifest_done(&set->legacy);
	strv_done(&set->referrers);
}
#define auto_signature_set __attribute__((cleanup(signature_set_done)))

// 1 = read, 0 = absent or not a manifest.
static int fetch_manifest(struct repository *from, const char *ref, struct oci_manifest *ret, char **ret_text,
			  struct err *err)
{
	auto_str char *data = NULL;
	char hex[DIGEST_HEX + 1];
	struct err ignored;
	size_t len = 0;
	int r = repository_manifest(from, ref, &data, &len, hex, err);
	if (r <= 0)
		return r;
	if (strlen(data) != len || oci_manifest_parse(data, len, ref, ret, &ignored) < 0)
		return 0;
	*ret_text = TAKE(data);
	return 1;
}

static int copy_blob(struct repository *from, const struct oci_descriptor *d, const struct layout *to, struct err *err)
{
	auto_str char *data = NULL;
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	if (d->size > SIGNATURE_SIZE_MAX)
		return 0;
	int r = repository_document(from, d, &data, &len, err);
	if (r <= 0)
		return r;
	return layout_blob_put(to, data, len, hex, err) < 0 ? -1 : 1;
}

static int copy_cosign_tag(struct repository *from, const char *manifest_hex, const struct layout *to,
			   struct signature_set *set, struct err *err)
{
	auto_str char *tag = signature_cosign_tag(manifest_hex), *text = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	int r = fetch_manifest(from, tag, &m, &text, err);
	if (r <= 0)
		return r;
	set->legacy.layers = mem_alloc(m.count * sizeof(*m.layers));
	for (size_t i = 0; i < m.count && i < SIGNATURE_COUNT_MAX; i++) {
		if (!str_eq(m.layers[i].media_type, SIGNATURE_COSIGN_TAG))
			continue;
		r = copy_blob(from, &m.layers[i], to, err);
		if (r < 0)
			return -1;
		if (r > 0)
			oci_descriptor_copy(&m.layers[i], &set->legacy.layers[set->legacy.count++]);
	}
	return 0;
}

static int copy_referrers(struct repository *from, const char *manifest_hex, const struct layout *to,
			  struct signature_set *set, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	if (repository_referrers(from, manifest_hex, &x, err) < 0)
		return err->code == E_MANIFEST ? 0 : -1;
	for (size_t i = 0; i < x.count && i < SIGNATURE_COUNT_MAX; i++) {
		auto_str char *ref = oci_digest_text(x.items[i].digest), *text = NULL;
		auto_oci_manifest struct oci_manifest m = { 0 };
		int r = fetch_manifest(from, ref, &m, &text, err);
		if (r > 0 && !companion_type(&m))
			continue;
		if (r > 0)
			r = copy_blob(from, &m.config, to, err);
		if (r > 0)
			r = copy_blob(from, &m.layers[0], to, err);
		if (r < 0)
			return -1;
		if (r > 0)
			strv_add(&set->referrers, TAKE(text));
	}
	return 0;
}

static int put_signatures(const struct signature_set *set, const char *manifest_hex, const struct layout *to,
			  struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_fd int held = layout_lock(to, false, err);
	if (held < 0 || layout_index(to, &x, err) < 0)
		return -1;
	int changed = merge_cosign_layers(to, &x, manifest_hex, set->legacy.layers, set->legacy.count, err);
	for (size_t i = 0; i < set->referrers.count && changed >= 0; i++) {
		int r = merge_referrer(to, &x, manifest_hex, set->referrers.items[i], err);
		changed = r < 0 ? -1 : changed | r;
	}
	return changed > 0 ? layout_index_write(to, &x, err) : changed;
}

int signature_copy(struct repository *from, const char *manifest_hex, const struct layout *to, struct err *err)
{
	auto_signature_set struct signature_set set = { 0 };
	if (copy_cosign_tag(from, manifest_hex, to, &set, err) < 0 ||
	    copy_referrers(from, manifest_hex, to, &set, err) < 0 || put_signatures(&set, manifest_hex, to, err) < 0)
		return err_wrap(err, "copy the signatures of sha256:%s", manifest_hex);
	return set.legacy.count > 0 || set.referrers.count > 0;
}
