// SPDX-License-Identifier: Apache-2.0
#include "precompiled/bundle/catalog_publish.h"

#include "precompiled/bundle/bundle_manifest.h"

static const char TYPES[] = "application/vnd.kmodsmith.", SIGNATURES[] = "sha256-";

// 1 = the catalogue lists it.
static int is_listed_in_catalog(const struct layout *l, const struct oci_descriptor *d, const char *tag,
				struct err *err)
{
	auto_oci_manifest struct oci_manifest m = { 0 };
	if (!tag || str_eq(tag, CATALOG_TAG) || str_starts(tag, SIGNATURES) || str_eq(d->media_type, OCI_INDEX))
		return 0;
	if (layout_manifest(l, d, tag, &m, err) < 0)
		return err_wrap(err, "list '%s'", tag);
	return m.artifact_type && str_starts(m.artifact_type, TYPES) && !str_eq(m.artifact_type, CATALOG_TYPE) &&
	       !str_eq(m.artifact_type, BUNDLE_MANIFEST_TYPE);
}

static int list_index(const struct layout *l, const struct oci_index *x, struct catalog *c, struct err *err)
{
	c->items = mem_alloc((x->count + 1) * sizeof(*c->items));
	for (size_t i = 0; i < x->count; i++) {
		const struct oci_descriptor *d = &x->items[i];
		const char *tag = oci_descriptor_annotation(d, OCI_REF_NAME);
		int r = is_listed_in_catalog(l, d, tag, err);
		if (r < 0)
			return -1;
		if (r == 0)
			continue;
		struct catalog_item *item = &c->items[c->count++];
		item->tag = str_dup(tag);
		item->size = d->size;
		memcpy(item->digest, d->digest, sizeof(item->digest));
	}
	return 0;
}

int catalog_publish_list(const struct layout *l, struct catalog *ret, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_catalog struct catalog c = { 0 };
	if (layout_index(l, &x, err) < 0 || list_index(l, &x, &c, err) < 0)
		return -1;
	*ret = c;
	c = (struct catalog){ 0 };
	return 0;
}

int catalog_publish_signatures(const struct layout *l, const struct catalog *list, const struct signature_maker *makers,
			       size_t count, bool *ret_made, struct err *err)
{
	struct oci_descriptor *manifests = mem_alloc((list->count + 1) * sizeof(*manifests));
	for (size_t i = 0; i < list->count; i++) {
		manifests[i].media_type = str_dup(OCI_MANIFEST);
		manifests[i].size = list->items[i].size;
		memcpy(manifests[i].digest, list->items[i].digest, sizeof(manifests[i].digest));
	}
	int r = signature_make_all(l, manifests, list->count, makers, count, ret_made, err);
	for (size_t i = 0; i < list->count; i++)
		oci_descriptor_done(&manifests[i]);
	free(manifests);
	return r;
}

// The number of the current catalogue; 0 = there is none.
static int read_catalog_number(const struct layout *l, const struct oci_index *x, uint64_t *ret, struct err *err)
{
	auto_str char *data = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_catalog struct catalog c = { 0 };
	size_t len = 0;
	int at = oci_index_find(x, CATALOG_TAG);
	*ret = 0;
	if (at < 0)
		return 0;
	if (layout_manifest(l, &x->items[at], CATALOG_TAG, &m, err) < 0)
		return -1;
	if (m.count != 1)
		return err_set(err, E_MANIFEST, "'%s' in '%s' is not a catalogue: it has %zu layers", CATALOG_TAG,
			       l->root.name, m.count);
	if (layout_blob_read(l, &m.layers[0], &data, &len, err) < 0 ||
	    catalog_parse(data, len, CATALOG_TAG, &c, err) < 0)
		return -1;
	*ret = c.number;
	return 0;
}

int catalog_publish(const struct layout *l, unsigned days, time_t now, const struct signature_maker *makers,
		    size_t count, struct catalog *ret, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_catalog struct catalog c = { .created = now, .expires = now + (time_t)days * 24 * 60 * 60 };
	if (layout_index(l, &x, err) < 0 || read_catalog_number(l, &x, &c.number, err) < 0 ||
	    list_index(l, &x, &c, err) < 0)
		return -1;
	c.number++;
	auto_json json_t *json = catalog_json(&c);
	if (signature_publish(l, CATALOG_TYPE, CATALOG_TAG, json, makers, count, err) < 0)
		return -1;
	*ret = c;
	c = (struct catalog){ 0 };
	return 0;
}
