// SPDX-License-Identifier: Apache-2.0
// cosign's newer encoding, the sigstore bundle v0.3: an in-toto statement in a DSSE envelope, in a manifest whose
// subject is the package. CMS signatures use manifests of the same form.
#include "precompiled/trust/signature_internal.h"

#include "base/crypto/base64.h"

#include <stdio.h>

static const char PAYLOAD_TYPE[] = "application/vnd.in-toto+json";
static const char STATEMENT[] = "https://in-toto.io/Statement/v1",
		  STATEMENT_OLD[] = "https://in-toto.io/Statement/v0.1";
static const char EMPTY[] = "{}";

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

// The id as the base64 of its bytes, which cosign calls the hint.
static char *hint_text(const char *id)
{
	unsigned char raw[DIGEST_HEX / 2];
	for (size_t i = 0; i < sizeof(raw); i++) {
		unsigned byte = 0;
		sscanf(id + 2 * i, "%2x", &byte);
		raw[i] = (unsigned char)byte;
	}
	return base64_text(raw, sizeof(raw));
}

static void hint_parse(const char *hint, char ret[DIGEST_HEX + 1])
{
	auto_str char *raw = NULL;
	size_t len = 0;
	if (!hint || !base64_parse(hint, &raw, &len) || len != DIGEST_HEX / 2)
		return;
	for (size_t i = 0; i < len; i++)
		snprintf(ret + 2 * i, 3, "%02x", (unsigned char)raw[i]);
}

// 1 = a signature of images, 0 = another statement about them.
static int read_statement(const char *data, size_t len, const char *name, struct strv *ret, struct err *err)
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
	if (!str_eq(predicate, SIGNATURE_PREDICATE))
		return 0;
	json_array_foreach(subjects, i, subject)
	{
		if (i < SIGNATURE_COUNT_MAX && json_unpack(subject, "{s:{s:s}}", "digest", "sha256", &digest) == 0 &&
		    digest_is_hex(digest))
			strv_add(ret, str_dup(digest));
	}
	return ret->count ? 1 : err_set(err, E_MANIFEST, "'%s' has no SHA-256 digest", name);
}

int sigstore_bundle_claim(const char *data, size_t len, const char *name, struct signature_claim *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	auto_signature_claim struct signature_claim c = { 0 };
	auto_str char *payload = NULL;
	const char *type = NULL, *text = NULL, *signature = NULL, *hint = NULL;
	json_t *signatures = NULL;
	size_t payload_len = 0;
	if (oci_json(data, len, name, &json, err) < 0)
		return -1;
	if (json_unpack(json, "{s:{s:s, s:s, s:o}}", "dsseEnvelope", "payloadType", &type, "payload", &text,
			"signatures", &signatures) < 0 ||
	    !str_eq(type, PAYLOAD_TYPE) || json_array_size(signatures) != 1 ||
	    json_unpack(json_array_get(signatures, 0), "{s:s}", "sig", &signature) < 0 ||
	    !base64_parse(text, &payload, &payload_len) || !base64_parse(signature, &c.signature, &c.signature_len))
		return err_set(err, E_MANIFEST, "'%s' is not a bundle with one DSSE signature", name);
	int r = read_statement(payload, payload_len, name, &c.digests, err);
	if (r <= 0)
		return r;
	if (json_unpack(json, "{s:{s:{s:s}}}", "verificationMaterial", "publicKey", "hint", &hint) == 0)
		hint_parse(hint, c.hint);
	c.text = envelope_text(type, payload, payload_len, &c.text_len);
	*ret = c;
	c = (struct signature_claim){ 0 };
	return 1;
}

static int make_bundle(const char *manifest_hex, const struct key *key, char **ret, struct err *err)
{
	auto_json json_t *statement =
		json_pack("{s:s, s:s, s:{}, s:[{s:{s:s}}]}", "_type", STATEMENT, "predicateType", SIGNATURE_PREDICATE,
			  "predicate", "subject", "digest", "sha256", manifest_hex);
	auto_str char *payload = json_dumps(statement, JSON_COMPACT | JSON_SORT_KEYS), *signature = NULL;
	size_t text_len = 0, len = 0;
	auto_str char *text = envelope_text(PAYLOAD_TYPE, payload, strlen(payload), &text_len);
	if (key_sign(key, text, text_len, &signature, &len, err) < 0)
		return -1;
	auto_str char *payload64 = base64_text(payload, strlen(payload)), *signature64 = base64_text(signature, len),
		      *hint = hint_text(key->id);
	auto_json json_t *bundle =
		json_pack("{s:s, s:{s:{s:s}}, s:{s:s, s:s, s:[{s:s}]}}", "mediaType", SIGNATURE_BUNDLE,
			  "verificationMaterial", "publicKey", "hint", hint, "dsseEnvelope", "payload", payload64,
			  "payloadType", PAYLOAD_TYPE, "signatures", "sig", signature64);
	*ret = json_dumps(bundle, JSON_COMPACT);
	return 0;
}

const char *signature_referrer_type(const struct oci_manifest *m)
{
	// Not by artifactType: some clients write a different one.
	if (m->count != 1)
		return NULL;
	if (str_eq(m->layers[0].media_type, SIGNATURE_BUNDLE))
		return SIGNATURE_BUNDLE;
	return str_eq(m->layers[0].media_type, SIGNATURE_CMS) ? SIGNATURE_CMS : NULL;
}

char *signature_referrer_tag(const char *manifest_hex)
{
	return str_fmt("sha256-%s", manifest_hex);
}

static int read_referrers(const struct layout *l, const struct oci_index *x, const char *tag, struct oci_index *ret,
			  struct err *err)
{
	int at = oci_index_find(x, tag);
	auto_str char *data = NULL;
	size_t len = 0;
	if (at < 0)
		return 0;
	return layout_blob_read(l, &x->items[at], &data, &len, err) < 0 ? -1 :
									  oci_index_parse(data, len, tag, ret, err);
}

int signature_referrer_merge(const struct layout *l, struct oci_index *x, const char *manifest_hex, const char *text,
			     size_t len, struct err *err)
{
	auto_str char *tag = signature_referrer_tag(manifest_hex), *ref = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_oci_index struct oci_index refs = { 0 };
	if (oci_manifest_parse(text, len, "signature", &m, err) < 0 || read_referrers(l, x, tag, &refs, err) < 0)
		return -1;
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST), .size = len };
	d.artifact_type = str_dup(signature_referrer_type(&m));
	d.annotations = json_deep_copy(m.annotations);
	if (layout_blob_put(l, text, len, d.digest, err) < 0)
		return -1;
	ref = oci_digest_text(d.digest);
	if (oci_index_find(&refs, ref) >= 0)
		return 0;
	oci_index_put(&refs, &d, NULL);
	auto_str char *listing = oci_index_text(&refs);
	auto_oci_descriptor struct oci_descriptor all = { .media_type = str_dup(OCI_INDEX), .size = strlen(listing) };
	if (layout_blob_put(l, listing, strlen(listing), all.digest, err) < 0)
		return -1;
	int old = oci_index_find(x, tag);
	if (old >= 0)
		oci_index_remove(x, (size_t)old);
	oci_index_put(x, &all, tag);
	return 1;
}

// The blob of a referrer, if it has that type.
static int read_referrer_blob(const struct layout *l, const struct oci_descriptor *referrer, const char *type,
			      char **ret, size_t *ret_len, struct err *err)
{
	auto_str char *data = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	size_t len = 0;
	if (layout_blob_read(l, referrer, &data, &len, err) < 0 ||
	    oci_manifest_parse(data, len, "signature", &m, err) < 0 || !str_eq(signature_referrer_type(&m), type))
		return -1;
	return layout_blob_read(l, &m.layers[0], ret, ret_len, err);
}

static bool is_signed_by(const char *data, size_t len, const struct key *key, const char *manifest_hex)
{
	auto_signature_claim struct signature_claim c = { 0 };
	struct err ignored;
	return sigstore_bundle_claim(data, len, "signature", &c, &ignored) > 0 &&
	       signature_claim_holds(&c, key, manifest_hex);
}

static json_t *referrer_annotations(const char *type, time_t now)
{
	char when[32];
	struct tm tm = { 0 };
	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_t *ret = json_pack("{s:s}", OCI_CREATED, when);
	if (str_eq(type, SIGNATURE_BUNDLE)) {
		json_object_set_new(ret, "dev.sigstore.bundle.content", json_text("dsse-envelope"));
		json_object_set_new(ret, "dev.sigstore.bundle.predicateType", json_text(SIGNATURE_PREDICATE));
	}
	return ret;
}

static int add_referrer(const struct layout *l, struct oci_index *x, const struct oci_descriptor *subject,
			const char *type, time_t now, const char *data, size_t len, struct err *err)
{
	auto_oci_manifest struct oci_manifest m = { .artifact_type = str_dup(type), .count = 1 };
	m.annotations = referrer_annotations(type, now);
	m.config = (struct oci_descriptor){ .media_type = str_dup(OCI_EMPTY), .size = strlen(EMPTY) };
	m.layers = mem_alloc(sizeof(*m.layers));
	m.layers[0] = (struct oci_descriptor){ .media_type = str_dup(type), .size = len };
	m.subject = (struct oci_descriptor){ .media_type = str_dup(subject->media_type), .size = subject->size };
	memcpy(m.subject.digest, subject->digest, sizeof(m.subject.digest));
	if (layout_blob_put(l, EMPTY, strlen(EMPTY), m.config.digest, err) < 0 ||
	    layout_blob_put(l, data, len, m.layers[0].digest, err) < 0)
		return -1;
	auto_str char *text = oci_manifest_text(&m);
	return signature_referrer_merge(l, x, subject->digest, text, strlen(text), err);
}

int sigstore_bundle_make(const struct layout *l, struct oci_index *x, const struct oci_descriptor *manifest,
			 const struct signature_maker *maker, struct err *err)
{
	auto_str char *tag = signature_referrer_tag(manifest->digest), *bundle = NULL;
	auto_oci_index struct oci_index refs = { 0 };
	if (read_referrers(l, x, tag, &refs, err) < 0)
		return -1;
	for (size_t i = 0; i < refs.count; i++) {
		auto_str char *data = NULL;
		size_t len = 0;
		struct err ignored;
		if (read_referrer_blob(l, &refs.items[i], SIGNATURE_BUNDLE, &data, &len, &ignored) == 0 &&
		    is_signed_by(data, len, maker->key, manifest->digest))
			return 0;
	}
	if (make_bundle(manifest->digest, maker->key, &bundle, err) < 0)
		return -1;
	return add_referrer(l, x, manifest, SIGNATURE_BUNDLE, maker->now, bundle, strlen(bundle), err);
}

// Whether a CMS signature by this certificate exists; the certificate serves as its own anchor.
static bool has_cms(const struct layout *l, const struct oci_index *refs, const struct signature_maker *maker,
		    const char *content, size_t content_len)
{
	auto_anchor struct anchor *self = NULL;
	struct err ignored;
	if (cms_anchor_parse(maker->chain, maker->chain_name, &self, &ignored) < 0)
		return false;
	for (size_t i = 0; i < refs->count; i++) {
		auto_str char *data = NULL;
		auto_cms_verdict struct cms_verdict v = { 0 };
		size_t len = 0;
		if (read_referrer_blob(l, &refs->items[i], SIGNATURE_CMS, &data, &len, &ignored) == 0 &&
		    cms_verify(self, maker->now, false, data, len, content, content_len, &v) > 0 &&
		    str_eq(v.id, maker->key->id))
			return true;
	}
	return false;
}

int signature_make_cms(const struct layout *l, struct oci_index *x, const struct oci_descriptor *manifest,
		       const struct signature_maker *maker, struct err *err)
{
	auto_str char *tag = signature_referrer_tag(manifest->digest), *content = NULL, *der = NULL;
	auto_oci_index struct oci_index refs = { 0 };
	size_t content_len = 0, len = 0;
	if (read_referrers(l, x, tag, &refs, err) < 0 || layout_blob_read(l, manifest, &content, &content_len, err) < 0)
		return -1;
	if (has_cms(l, &refs, maker, content, content_len))
		return 0;
	if (cms_sign(maker->key, maker->chain, maker->chain_name, content, content_len, &der, &len, err) < 0)
		return -1;
	return add_referrer(l, x, manifest, SIGNATURE_CMS, maker->now, der, len, err);
}
