// SPDX-License-Identifier: Apache-2.0
// Signatures go along with a package into a node's store, so that it can be checked again without its source. Nothing
// is judged here. First everything is read, then the index is locked and changed: a slow source keeps nobody waiting.
#include "precompiled/trust/signature_internal.h"

struct signature_set {
	struct oci_manifest legacy; // of which only the layers count
	struct strv referrers;      // texts of manifests
};

static void signature_set_done(struct signature_set *bag)
{
	oci_manifest_done(&bag->legacy);
	strv_done(&bag->referrers);
}
#define auto_signature_set __attribute__((cleanup(signature_set_done)))

// 1 = read, 0 = absent, or what is there is no manifest.
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
			   struct signature_set *bag, struct err *err)
{
	auto_str char *tag = cosign_tag_name(manifest_hex), *text = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	int r = fetch_manifest(from, tag, &m, &text, err);
	if (r <= 0)
		return r;
	bag->legacy.layers = mem_alloc(m.count * sizeof(*m.layers));
	for (size_t i = 0; i < m.count && i < SIGNATURE_COUNT_MAX; i++) {
		if (!str_eq(m.layers[i].media_type, SIGNATURE_COSIGN_TAG))
			continue;
		r = copy_blob(from, &m.layers[i], to, err);
		if (r < 0)
			return -1;
		if (r > 0)
			oci_descriptor_copy(&m.layers[i], &bag->legacy.layers[bag->legacy.count++]);
	}
	return 0;
}

static int copy_referrer(struct repository *from, const struct oci_descriptor *d, const struct layout *to,
			 struct signature_set *bag, struct err *err)
{
	auto_str char *ref = oci_digest_text(d->digest), *text = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	int r = fetch_manifest(from, ref, &m, &text, err);
	if (r <= 0 || !signature_referrer_type(&m))
		return r < 0 ? -1 : 0;
	r = copy_blob(from, &m.config, to, err);
	if (r > 0)
		r = copy_blob(from, &m.layers[0], to, err);
	if (r > 0)
		strv_add(&bag->referrers, TAKE(text));
	return r < 0 ? -1 : 0;
}

static int copy_referrers(struct repository *from, const char *manifest_hex, const struct layout *to,
			  struct signature_set *bag, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	if (repository_referrers(from, manifest_hex, &x, err) < 0)
		return err->code == E_MANIFEST ? 0 : -1;
	for (size_t i = 0; i < x.count && i < SIGNATURE_COUNT_MAX; i++)
		if (copy_referrer(from, &x.items[i], to, bag, err) < 0)
			return -1;
	return 0;
}

static int put_signatures(const struct signature_set *bag, const char *manifest_hex, const struct layout *to,
			  struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_fd int held = layout_lock(to, false, err);
	if (held < 0 || layout_index(to, &x, err) < 0)
		return -1;
	int changed = cosign_tag_merge(to, &x, manifest_hex, bag->legacy.layers, bag->legacy.count, err);
	for (size_t i = 0; i < bag->referrers.count && changed >= 0; i++) {
		const char *text = bag->referrers.items[i];
		int r = signature_referrer_merge(to, &x, manifest_hex, text, strlen(text), err);
		changed = r < 0 ? -1 : changed | r;
	}
	return changed > 0 ? layout_index_write(to, &x, err) : changed;
}

int signature_copy(struct repository *from, const char *manifest_hex, const struct layout *to, struct err *err)
{
	auto_signature_set struct signature_set bag = { 0 };
	if (copy_cosign_tag(from, manifest_hex, to, &bag, err) < 0 ||
	    copy_referrers(from, manifest_hex, to, &bag, err) < 0 || put_signatures(&bag, manifest_hex, to, err) < 0)
		return err_wrap(err, "bring the signatures of sha256:%s", manifest_hex);
	return bag.legacy.count > 0 || bag.referrers.count > 0;
}
