// SPDX-License-Identifier: Apache-2.0
#include "precompiled/bundle/bundle_manifest.h"

#include "base/core/date.h"
#include "precompiled/package/fetch.h"
#include "precompiled/repository/artifact.h"

// One table for writing and reading.
static const struct {
	const char *key;
	size_t offset;
	bool is_required;
} fields[] = {
	{ "kind", offsetof(struct bundle_entry, kind), true },
	{ "driver", offsetof(struct bundle_entry, driver), false },
	{ "flavour", offsetof(struct bundle_entry, flavour), false },
	{ "kernel", offsetof(struct bundle_entry, kernel), false },
	{ "arch", offsetof(struct bundle_entry, arch), true },
	{ "tag", offsetof(struct bundle_entry, tag), true },
};

static char **entry_field(const struct bundle_entry *p, size_t i)
{
	return (char **)((char *)(uintptr_t)p + fields[i].offset);
}

void bundle_manifest_done(struct bundle_manifest *p)
{
	for (size_t k = 0; k < p->count; k++)
		for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
			free(*entry_field(&p->items[k], i));
	free(p->items);
	strv_done(&p->images);
	*p = (struct bundle_manifest){ 0 };
}

struct bundle_entry *bundle_manifest_add(struct bundle_manifest *p)
{
	p->items = mem_grow(p->items, p->count + 1, sizeof(*p->items));
	p->items[p->count] = (struct bundle_entry){ 0 };
	return &p->items[p->count++];
}

char *bundle_entry_text(const struct bundle_entry *p)
{
	char *ret = NULL;
	const char *const parts[] = { p->kind, p->driver, p->flavour, p->kernel, p->arch };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i])
			str_add(&ret, "%s%s", ret ? " " : "", parts[i]);
	return ret;
}

bool bundle_image_is_pinned(const char *ref)
{
	char hex[DIGEST_HEX + 1];
	const char *at = strchr(ref, '@');
	return at && at > ref && oci_digest_parse(at + 1, hex);
}

json_t *bundle_manifest_json(const struct bundle_manifest *p)
{
	auto_str char *created = date_text(p->created), *expires = date_text(p->expires);
	json_t *list = json_array();
	for (size_t k = 0; k < p->count; k++) {
		auto_str char *digest = oci_digest_text(p->items[k].digest);
		json_t *item = json_pack("{s:s}", "digest", digest);
		for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
			json_object_set_new(item, fields[i].key, json_text(*entry_field(&p->items[k], i)));
		json_array_append_new(list, item);
	}
	return json_pack("{s:s, s:s, s:o, s:o}", "created", created, "expires", expires, "promises", list, "images",
			 json_strv(&p->images));
}

static int read_bundle_entry(const json_t *json, const char *name, struct bundle_manifest *p, struct err *err)
{
	struct bundle_entry *item = bundle_manifest_add(p);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *text = json_string_value(json_object_get(json, fields[i].key));
		*entry_field(item, i) = str_dup(text);
		if (fields[i].is_required && (!text || !*text))
			return err_set(err, E_MANIFEST, "'%s': entry %zu has no '%s'", name, p->count, fields[i].key);
	}
	if (!oci_digest_parse(json_string_value(json_object_get(json, "digest")), item->digest))
		return err_set(err, E_MANIFEST, "'%s': entry %zu has no digest", name, p->count);
	return 0;
}

int bundle_manifest_parse(const char *data, size_t len, const char *name, struct bundle_manifest *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	auto_bundle_manifest struct bundle_manifest p = { 0 };
	if (oci_json(data, len, name, &json, err) < 0)
		return -1;
	const json_t *list = json_object_get(json, "promises"), *images = json_object_get(json, "images");
	if (!json_is_array(list) || !json_is_array(images) ||
	    !date_parse(json_string_value(json_object_get(json, "created")), &p.created) ||
	    !date_parse(json_string_value(json_object_get(json, "expires")), &p.expires))
		return err_set(err, E_MANIFEST,
			       "'%s': not a bundle manifest: needs promises, images, created and expires", name);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (read_bundle_entry(json_array_get(list, i), name, &p, err) < 0)
			return -1;
	for (size_t i = 0; i < json_array_size(images); i++) {
		const char *ref = json_string_value(json_array_get(images, i));
		if (!ref || !bundle_image_is_pinned(ref))
			return err_set(err, E_MANIFEST, "'%s': image %zu is not pinned by digest", name, i + 1);
		strv_add(&p.images, str_dup(ref));
	}
	*ret = p;
	p = (struct bundle_manifest){ 0 };
	return 0;
}

int bundle_manifest_publish(const struct layout *l, const struct bundle_manifest *p,
			    const struct signature_maker *makers, size_t count, struct err *err)
{
	auto_json json_t *json = bundle_manifest_json(p);
	return signature_publish(l, BUNDLE_MANIFEST_TYPE, BUNDLE_MANIFEST_TAG, json, makers, count, err);
}

int bundle_manifest_read(struct repository *r, const struct trust_rule *rule, struct bundle_manifest *ret,
			 struct signature_verdict *ret_verdict, struct err *err)
{
	auto_str char *manifest = NULL, *data = NULL, *name = str_fmt("%s:%s", r->name, BUNDLE_MANIFEST_TAG);
	char hex[DIGEST_HEX + 1];
	size_t manifest_len = 0, len = 0;
	int found = repository_manifest(r, BUNDLE_MANIFEST_TAG, &manifest, &manifest_len, hex, err);
	if (found == 0)
		return err_set(err, E_NOT_FOUND, "'%s' has no %s: it was not made by `kmodsmith bundle create`",
			       r->name, BUNDLE_MANIFEST_TAG);
	if (found < 0 || (rule && signature_check(r, hex, rule, ret_verdict, err) < 0) ||
	    artifact_read(r, BUNDLE_MANIFEST_TAG, BUNDLE_MANIFEST_TYPE, manifest, manifest_len, &data, &len, err) < 0 ||
	    bundle_manifest_parse(data, len, name, ret, err) < 0)
		return err_wrap(err, "bundle manifest");
	return 0;
}

static bool is_right_digest(struct repository *r, const struct bundle_entry *p, char **ret_why)
{
	auto_str char *text = NULL;
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	struct err err;
	int found = repository_manifest(r, p->tag, &text, &len, hex, &err);
	if (found > 0 && str_eq(hex, p->digest))
		return true;
	*ret_why = found < 0  ? str_dup(err.text) :
		   found == 0 ? str_fmt("not in the index: %s", p->tag) :
				str_fmt("%s is sha256:%s, the bundle manifest lists sha256:%s", p->tag, hex, p->digest);
	return false;
}

int bundle_entry_is_present(struct repository *r, const struct bundle_entry *p, char **ret_why, struct err *err)
{
	auto_str char *ref = oci_digest_text(p->digest), *text = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_candidate struct package_candidate o = CANDIDATE_NONE;
	const struct package_want want = {
		.driver = p->driver, .flavour = p->flavour, .release = p->kernel, .arch = p->arch
	};
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	int found = repository_manifest(r, ref, &text, &len, hex, err);
	if (found == 0)
		*ret_why = str_fmt("manifest %s is missing", ref);
	if (found <= 0)
		return found;
	if (!is_right_digest(r, p, ret_why))
		return 0;
	if (oci_manifest_parse(text, len, ref, &m, err) < 0)
		return -1;
	for (size_t i = 0; i <= m.count; i++) {
		const char *blob = i < m.count ? m.layers[i].digest : m.config.digest;
		found = repository_has_blob(r, blob, err);
		if (found == 0)
			*ret_why = str_fmt("blob sha256:%s is missing", blob);
		if (found <= 0)
			return found;
	}
	if (!str_eq(p->kind, BUNDLE_ENTRY_PACKAGE))
		return 1;
	found = package_candidate_read(r, ref, &o, err);
	if (found == 0)
		*ret_why = str_fmt("%s is not a package", ref);
	return found <= 0 ? found : package_fits(&o.package, &want, ret_why);
}
