// SPDX-License-Identifier: Apache-2.0
// cosign's older encoding ("simple signing"): the manifest under the tag sha256-HEX.sig has one layer per signature.
// The layer is exactly the signed statement; the signature is an annotation of its descriptor.
#include "precompiled/trust/signature_internal.h"

#include "base/crypto/base64.h"

static const char NOTE[] = "dev.cosignproject.cosign/signature";
static const char TYPE[] = "cosign container image signature";
static const char KIND[] = "kind", KIND_SIGNATURES[] = "dev.cosignproject.cosign/sigs";

char *cosign_tag_name(const char *manifest_hex)
{
	return str_fmt("sha256-%s.sig", manifest_hex);
}

// Members in this order and without blanks, as cosign writes them.
static char *simple_signing_payload(const char *manifest_hex, const char *reference)
{
	auto_json json_t *text = json_text(reference);
	auto_str char *quoted = json_dumps(text, JSON_ENCODE_ANY);
	return str_fmt("{\"critical\":{\"identity\":{\"docker-reference\":%s},"
		       "\"image\":{\"docker-manifest-digest\":\"sha256:%s\"},\"type\":\"%s\"},\"optional\":null}",
		       quoted, manifest_hex, TYPE);
}

int cosign_tag_claim(const struct oci_descriptor *d, const char *data, size_t len, struct signature_claim *ret,
		     struct err *err)
{
	auto_str char *name = str_fmt("signature sha256:%s", d->digest);
	auto_json json_t *json = NULL;
	auto_signature_claim struct signature_claim c = { 0 };
	char hex[DIGEST_HEX + 1];
	const char *digest = NULL, *type = NULL, *signature = oci_descriptor_annotation(d, NOTE);
	if (oci_json(data, len, name, &json, err) < 0)
		return -1;
	if (json_unpack(json, "{s:{s:{s:s}, s:s}}", "critical", "image", "docker-manifest-digest", &digest, "type",
			&type) < 0 ||
	    !str_eq(type, TYPE) || !oci_digest_parse(digest, hex))
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

// 1 = the layout has signatures of the manifest, 0 = none.
static int read_tag_manifest(const struct layout *l, const struct oci_index *x, const char *tag,
			     struct oci_manifest *ret, struct err *err)
{
	int at = oci_index_find(x, tag);
	auto_str char *data = NULL;
	size_t len = 0;
	if (at < 0)
		return 0;
	if (layout_blob_read(l, &x->items[at], &data, &len, err) < 0 ||
	    oci_manifest_parse(data, len, tag, ret, err) < 0)
		return -1;
	return 1;
}

static bool has_layer(const struct oci_manifest *m, const struct oci_descriptor *d)
{
	for (size_t i = 0; i < m->count; i++)
		if (str_eq(m->layers[i].digest, d->digest) &&
		    str_eq(oci_descriptor_annotation(&m->layers[i], NOTE), oci_descriptor_annotation(d, NOTE)))
			return true;
	return false;
}

// A normal image configuration, because cosign treats the manifest as an image.
static int write_config(const struct layout *l, struct oci_manifest *m, struct err *err)
{
	json_t *diffs = json_array();
	for (size_t i = 0; i < m->count; i++) {
		auto_str char *digest = oci_digest_text(m->layers[i].digest);
		json_array_append_new(diffs, json_text(digest));
	}
	auto_json json_t *json =
		json_pack("{s:s, s:s, s:s, s:{}, s:{s:s, s:o}}", "architecture", "", "os", "", "created",
			  "0001-01-01T00:00:00Z", "config", "rootfs", "type", "layers", "diff_ids", diffs);
	auto_str char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	oci_descriptor_done(&m->config);
	m->config = (struct oci_descriptor){ .media_type = str_dup(OCI_CONFIG), .size = strlen(text) };
	return layout_blob_put(l, text, strlen(text), m->config.digest, err);
}

static int write_manifest(const struct layout *l, struct oci_index *x, const char *tag, const struct oci_manifest *m,
			  struct err *err)
{
	auto_str char *text = oci_manifest_text(m);
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST), .size = strlen(text) };
	if (layout_blob_put(l, text, strlen(text), d.digest, err) < 0)
		return -1;
	int old = oci_index_find(x, tag);
	if (old >= 0)
		oci_index_remove(x, (size_t)old);
	d.annotations = json_pack("{s:s}", KIND, KIND_SIGNATURES);
	oci_index_put(x, &d, tag);
	return 0;
}

int cosign_tag_merge(const struct layout *l, struct oci_index *x, const char *manifest_hex,
		     const struct oci_descriptor *layers, size_t count, struct err *err)
{
	auto_str char *tag = cosign_tag_name(manifest_hex);
	auto_oci_manifest struct oci_manifest m = { 0 };
	if (read_tag_manifest(l, x, tag, &m, err) < 0)
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
	return write_config(l, &m, err) < 0 || write_manifest(l, x, tag, &m, err) < 0 ? -1 : 1;
}

// ECDSA signatures differ each time, so check whether this key has a valid signature.
static bool has_signature(const struct layout *l, const struct oci_manifest *m, const char *manifest_hex,
			  const struct key *key)
{
	for (size_t i = 0; i < m->count; i++) {
		auto_str char *data = NULL;
		auto_signature_claim struct signature_claim c = { 0 };
		size_t len = 0;
		struct err ignored;
		if (layout_blob_read(l, &m->layers[i], &data, &len, &ignored) == 0 &&
		    cosign_tag_claim(&m->layers[i], data, len, &c, &ignored) == 0 &&
		    signature_claim_holds(&c, key, manifest_hex))
			return true;
	}
	return false;
}

int cosign_tag_make(const struct layout *l, struct oci_index *x, const char *manifest_hex,
		    const struct signature_maker *maker, struct err *err)
{
	auto_str char *tag = cosign_tag_name(manifest_hex), *signature = NULL;
	auto_str char *text = simple_signing_payload(manifest_hex, maker->reference);
	auto_oci_manifest struct oci_manifest m = { 0 };
	size_t len = 0;
	if (read_tag_manifest(l, x, tag, &m, err) < 0)
		return -1;
	if (has_signature(l, &m, manifest_hex, maker->key))
		return 0;
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(SIGNATURE_COSIGN_TAG),
							.size = strlen(text) };
	if (key_sign(maker->key, text, strlen(text), &signature, &len, err) < 0 ||
	    layout_blob_put(l, text, strlen(text), d.digest, err) < 0)
		return -1;
	auto_str char *encoded = base64_text(signature, len);
	d.annotations = json_pack("{s:s}", NOTE, encoded);
	return cosign_tag_merge(l, x, manifest_hex, &d, 1, err);
}
