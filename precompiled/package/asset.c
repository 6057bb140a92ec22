// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/asset.h"

#include "base/archive/archive.h"
#include "base/archive/pack.h"

#include <errno.h>

static const char FORMAT[] = "1", LABEL_FORMAT[] = "io.kmodsmith.format";

static const char *asset_key_field(const struct asset_key *key, size_t i)
{
	return *(const char *const *)((const char *)key + asset_fields[i].offset);
}

// Where it is looked for: a builder with one compiler before one with several.
static void list_asset_tags(const struct asset_key *want, struct strv *ret)
{
	struct asset_key any = *want;
	strv_add(ret, asset_tag(want));
	any.compiler = NULL;
	if (want->compiler && !want->digest && !want->core)
		strv_add(ret, asset_tag(&any));
}

static json_t *asset_labels(const struct asset_key *key)
{
	json_t *ret = json_object();
	for (size_t i = 0; i < ASSET_FIELDS; i++)
		if (asset_key_field(key, i))
			json_object_set_new(ret, asset_fields[i].label, json_text(asset_key_field(key, i)));
	return ret;
}

static int pack_asset_tree(void *ctx, struct pack *p, struct err *err)
{
	return pack_tree(p, ctx, err);
}

int asset_create(const struct layout *into, const struct root *tree, const struct asset_key *key,
		 struct oci_descriptor *ret, struct err *err)
{
	auto_oci_descriptor struct oci_descriptor layer = { 0 };
	auto_str char *tag = asset_tag(key), *title = str_fmt("%s.tar.zst", key->kind->name);
	char diff_id[DIGEST_HEX + 1];
	struct root from = *tree; // a callback's context cannot be const
	if (layout_layer_put(into, title, pack_asset_tree, &from, &layer, diff_id, err) < 0)
		return err_wrap(err, "pack %s", tag);
	const struct package_image image = {
		.type = key->kind->type,
		.arch = key->arch,
		.tag = tag,
		.layer = &layer,
		.diff_id = diff_id,
		.labels = asset_labels(key),
		.manifest_notes = asset_labels(key),
		.origin = PROVENANCE_BY_HAND,
	};
	json_object_set_new(image.labels, LABEL_FORMAT, json_text(FORMAT));
	json_object_set_new(image.labels, "io.kmodsmith.files", json_text("[]"));
	return package_publish(into, &image, ret, err);
}

// A build id unknown to one side fits; the compile checks the tree against the kernel.
static int compare_labels(const struct asset_key *want, const json_t *has, char **ret_why)
{
	if (!str_eq(json_string_value(json_object_get(has, LABEL_FORMAT)), FORMAT)) {
		*ret_why = str_fmt("its configuration does not have format %s", FORMAT);
		return 0;
	}
	for (size_t i = 0; i < ASSET_FIELDS; i++) {
		const char *value = json_string_value(json_object_get(has, asset_fields[i].label)),
			   *wanted = asset_key_field(want, i);
		if (asset_fields[i].compared == ASSET_NOTE || !wanted || str_eq(value, wanted) ||
		    (!value && asset_fields[i].compared == ASSET_IF_KNOWN))
			continue;
		*ret_why = str_fmt("%s is %s, wanted %s", asset_fields[i].what, value ? value : "not stated", wanted);
		return 0;
	}
	return 1;
}

static bool has_one_layer(const struct oci_manifest *m)
{
	return m->count == 1 && str_eq(m->layers[0].media_type, OCI_LAYER);
}

static int find_asset(void *ctx, struct repository *r, const char *tag, char ret_hex[DIGEST_HEX + 1], char **ret_why,
		      struct err *err)
{
	const struct asset_key *want = ctx;
	auto_str char *text = NULL, *config = NULL, *ref = want->digest ? oci_digest_text(want->digest) : str_dup(tag),
		      *name = str_fmt("%s in %s", ref, r->name);
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_json json_t *json = NULL;
	size_t len = 0, config_len = 0;
	int found = repository_manifest(r, ref, &text, &len, ret_hex, err);
	if (found == 0)
		*ret_why = str_fmt("it has no %s", ref);
	if (found <= 0)
		return found;
	if (oci_manifest_parse(text, len, name, &m, err) < 0)
		return -1;
	if (!str_eq(m.artifact_type, want->kind->type) || !has_one_layer(&m))
		return err_set(err, E_MANIFEST, "'%s' is not of type %s with one layer", name, want->kind->type);
	found = repository_document(r, &m.config, &config, &config_len, err);
	if (found == 0)
		return err_set(err, E_MANIFEST, "%s: configuration sha256:%s is missing", name, m.config.digest);
	if (found < 0 || oci_json(config, config_len, name, &json, err) < 0)
		return -1;
	return compare_labels(want, json_object_get(json_object_get(json, "config"), "Labels"), ret_why);
}

int asset_find(const struct layout *l, const struct asset_key *want, char ret_hex[DIGEST_HEX + 1], char **ret_why,
	       struct err *err)
{
	auto_repository struct repository *r = NULL;
	auto_strv struct strv tags = { 0 };
	auto_str char *all = NULL;
	auto_oci_index struct oci_index x = { 0 };
	struct asset_key key = *want;
	if (repository_open_layout(l->root.name, NULL, &r, err) < 0 || layout_index(l, &x, err) < 0)
		return -1;
	list_asset_tags(want, &tags);
	auto_str char *ref = want->digest ? oci_digest_text(want->digest) : NULL;
	if (ref && oci_index_find(&x, ref) < 0) { // its blob may be there still, after a quarantine of the layer
		*ret_why = str_fmt("it has no %s", ref);
		return 0;
	}
	for (size_t i = 0; i < tags.count; i++) {
		auto_str char *why = NULL;
		int found = find_asset(&key, r, tags.items[i], ret_hex, &why, err);
		if (found != 0)
			return found;
		str_add(&all, "%s%s", all ? ", " : "", why);
	}
	*ret_why = TAKE(all);
	return 0;
}

int asset_fetch(const struct fetch *f, const struct asset_key *want, const struct layout *into,
		char ret_hex[DIGEST_HEX + 1], struct err *err)
{
	size_t source;
	return asset_fetch_from(f, want, into, ret_hex, &source, err);
}

int asset_fetch_from(const struct fetch *f, const struct asset_key *want, const struct layout *into,
		     char ret_hex[DIGEST_HEX + 1], size_t *ret_source, struct err *err)
{
	auto_strv struct strv tags = { 0 };
	struct asset_key key = *want;
	struct fetch_item item = { .tags = &tags, .fits = find_asset, .ctx = &key };
	list_asset_tags(want, &tags);
	return fetch_item(f, &item, into, ret_hex, ret_source, err);
}

static int find_asset_layer(const struct layout *l, const char *hex, struct oci_descriptor *ret, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_str char *ref = oci_digest_text(hex);
	auto_oci_manifest struct oci_manifest m = { 0 };
	if (layout_index(l, &x, err) < 0)
		return -1;
	int at = oci_index_find(&x, ref);
	if (at < 0)
		return err_set(err, E_NOT_FOUND, "'%s' has no %s", l->root.name, ref);
	if (layout_manifest(l, &x.items[at], ref, &m, err) < 0)
		return -1;
	if (!has_one_layer(&m))
		return err_set(err, E_MANIFEST, "'%s' does not have exactly one layer of type %s", ref, OCI_LAYER);
	oci_descriptor_copy(&m.layers[0], ret);
	return 0;
}

int asset_layer(const struct layout *l, const char *hex, char ret[DIGEST_HEX + 1], struct err *err)
{
	auto_oci_descriptor struct oci_descriptor layer = { 0 };
	if (find_asset_layer(l, hex, &layer, err) < 0)
		return -1;
	memcpy(ret, layer.digest, DIGEST_HEX + 1);
	return 0;
}

// If two processes do this at once, one rename wins and the other copy is dropped.
int asset_unpack(const struct layout *from, const char *hex, const struct root *store, struct err *err)
{
	auto_oci_descriptor struct oci_descriptor layer = { 0 };
	auto_scratch struct scratch into = SCRATCH_NONE;
	if (root_exists(store, hex))
		return 0;
	if (find_asset_layer(from, hex, &layer, err) < 0 || scratch_make(store, "import", &into, err) < 0)
		return -1;
	// The stored layer is hashed again before use: disks lose data.
	auto_str char *name = str_fmt("layer sha256:%s", layer.digest);
	char found[DIGEST_HEX + 1];
	auto_fd int fd = layout_blob_open(from, layer.digest, err);
	if (fd < 0 || digest_file(fd, name, found, err) < 0)
		return -1;
	if (!str_eq(found, layer.digest))
		return err_set(err, E_STORE_CORRUPT, "%s has SHA-256 %s in '%s'", name, found, from->root.name);
	if (archive_unpack(fd, name, 0, &into.root, NULL, err) < 0)
		return -1;
	return scratch_keep(&into, hex, err);
}
