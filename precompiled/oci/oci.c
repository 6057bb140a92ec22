// SPDX-License-Identifier: Apache-2.0
// As strict as the specification, with one exception: some clients (skopeo) drop mediaType and artifactType from an
// index and its entries, so a missing mediaType there means a manifest. Callers that need the type read the document.
#include "precompiled/oci/oci.h"

enum { TAG_MAX = 128, TAG_KEPT = 95, TAG_DIGITS = 32 };

bool oci_digest_parse(const char *s, char ret[DIGEST_HEX + 1])
{
	if (!s || !str_starts(s, OCI_SHA256) || !digest_is_hex(s + strlen(OCI_SHA256)))
		return false;
	memcpy(ret, s + strlen(OCI_SHA256), DIGEST_HEX + 1);
	return true;
}

char *oci_tag(const char *name)
{
	char *tag = str_dup(*name ? name : "_");
	for (char *p = tag; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *p))
			*p = '_';
	if (*tag == '.' || *tag == '-') // registries refuse these as the first character
		*tag = '_';
	if (strlen(tag) <= TAG_MAX)
		return tag;
	char hex[DIGEST_HEX + 1];
	digest_data(name, strlen(name), hex);
	char *cut = str_fmt("%.*s-%.*s", TAG_KEPT, tag, TAG_DIGITS, hex);
	free(tag);
	return cut;
}

static int read_json(const char *data, size_t len, const char *name, int most, json_t **ret, struct err *err)
{
	json_error_t problem;
	if (len > (size_t)most)
		return err_set(err, E_TOO_LARGE, "'%s' has %zu bytes, more than the limit of %d", name, len, most);
	json_t *value = json_loadb(data, len, JSON_REJECT_DUPLICATES, &problem);
	if (!value)
		return err_set(err, E_MANIFEST, "'%s': not valid JSON at line %d: %s", name, problem.line,
			       problem.text);
	*ret = value;
	return 0;
}

int oci_json(const char *data, size_t len, const char *name, json_t **ret, struct err *err)
{
	return read_json(data, len, name, OCI_DOCUMENT_MAX, ret, err);
}

static char *sorted_json_text(const json_t *value)
{
	auto_str char *s = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
	if (!s)
		abort();
	return TAKE(s);
}

void oci_descriptor_done(struct oci_descriptor *d)
{
	free(d->media_type);
	free(d->artifact_type);
	json_decref(d->annotations);
	*d = (struct oci_descriptor){ 0 };
}

void oci_descriptor_copy(const struct oci_descriptor *from, struct oci_descriptor *ret)
{
	struct oci_descriptor d = *from;
	d.media_type = str_dup(from->media_type);
	d.artifact_type = str_dup(from->artifact_type);
	d.annotations = json_deep_copy(from->annotations); // of NULL: NULL
	*ret = d;
}

static void set_string(json_t *object, const char *key, const char *value)
{
	if (value)
		json_object_set_new(object, key, json_text(value));
}

static void set_annotations(json_t *object, json_t *annotations)
{
	if (json_object_size(annotations))
		json_object_set(object, "annotations", annotations);
}

static json_t *descriptor_json(const struct oci_descriptor *d)
{
	auto_str char *digest = oci_digest_text(d->digest);
	json_t *json = json_pack("{s:s, s:I}", "digest", digest, "size", (json_int_t)d->size);
	set_string(json, "mediaType", d->media_type);
	set_string(json, "artifactType", d->artifact_type);
	set_annotations(json, d->annotations);
	return json;
}

// The name of what is being parsed, for messages.
struct parse_context {
	const char *name;
	const char *part; // "config", "layers", ...
};

static int refuse_document(const struct parse_context *at, const char *what, struct err *err)
{
	return err_set(err, E_MANIFEST, "'%s': %s%s%s", at->name, at->part, *at->part ? " " : "", what);
}

// An optional string member; an empty one counts as absent.
static int read_string(const json_t *json, const char *key, const struct parse_context *at, char **ret, struct err *err)
{
	const json_t *value = json_object_get(json, key);
	if (value && !json_is_string(value))
		return refuse_document(at, "has a member that is not a string", err);
	if (json_string_length(value))
		*ret = str_dup(json_string_value(value));
	return 0;
}

static int read_annotations(const json_t *json, const struct parse_context *at, json_t **ret, struct err *err)
{
	json_t *notes = json_object_get(json, "annotations"), *value;
	const char *key;
	if (!notes || json_is_null(notes))
		return 0;
	if (!json_is_object(notes))
		return refuse_document(at, "has annotations that are not an object", err);
	json_object_foreach(notes, key, value)
	{
		if (!json_is_string(value))
			return refuse_document(at, "has an annotation that is not a string", err);
	}
	*ret = json_incref(notes);
	return 0;
}

// media_type: the default for a missing mediaType; NULL = it is required.
static int read_descriptor(const json_t *json, const struct parse_context *at, const char *media_type,
			   struct oci_descriptor *ret, struct err *err)
{
	auto_oci_descriptor struct oci_descriptor d = { 0 };
	const json_t *size = json_object_get(json, "size");
	if (!json_is_object(json))
		return refuse_document(at, "is not a descriptor", err);
	if (!oci_digest_parse(json_string_value(json_object_get(json, "digest")), d.digest))
		return refuse_document(at, "has no SHA-256 digest", err);
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return refuse_document(at, "has no size", err);
	d.size = (uint64_t)json_integer_value(size);
	if (read_string(json, "mediaType", at, &d.media_type, err) < 0 ||
	    read_string(json, "artifactType", at, &d.artifact_type, err) < 0 ||
	    read_annotations(json, at, &d.annotations, err) < 0)
		return -1;
	if (!d.media_type && !media_type)
		return refuse_document(at, "has no mediaType", err);
	if (!d.media_type)
		d.media_type = str_dup(media_type);
	*ret = d;
	d = (struct oci_descriptor){ 0 };
	return 0;
}

static int read_descriptors(const json_t *list, const struct parse_context *at, const char *media_type,
			    struct oci_descriptor **ret, size_t *count, struct err *err)
{
	if (!json_is_array(list))
		return refuse_document(at, "is not a list", err);
	*ret = mem_alloc(json_array_size(list) * sizeof(**ret));
	for (*count = 0; *count < json_array_size(list); (*count)++)
		if (read_descriptor(json_array_get(list, *count), at, media_type, &(*ret)[*count], err) < 0)
			return -1;
	return 0;
}

// Type and version of a document.
static int check_head(const json_t *json, const struct parse_context *at, const char *media_type, struct err *err)
{
	auto_str char *type = NULL;
	if (!json_is_object(json))
		return refuse_document(at, "not a JSON object", err);
	if (json_integer_value(json_object_get(json, "schemaVersion")) != 2)
		return refuse_document(at, "schemaVersion is not 2", err);
	if (read_string(json, "mediaType", at, &type, err) < 0)
		return -1;
	if (type && !str_eq(type, media_type))
		return err_set(err, E_MANIFEST, "'%s' is '%s', not '%s'", at->name, type, media_type);
	return 0;
}

void oci_manifest_done(struct oci_manifest *m)
{
	free(m->artifact_type);
	oci_descriptor_done(&m->config);
	for (size_t i = 0; i < m->count; i++)
		oci_descriptor_done(&m->layers[i]);
	free(m->layers);
	oci_descriptor_done(&m->subject);
	json_decref(m->annotations);
	*m = (struct oci_manifest){ 0 };
}

int oci_manifest_parse(const char *data, size_t len, const char *name, struct oci_manifest *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	const struct parse_context all = { name, "" }, config = { name, "config" }, layers = { name, "layers" },
				   subject = { name, "subject" };
	if (oci_json(data, len, name, &json, err) < 0 || check_head(json, &all, OCI_MANIFEST, err) < 0 ||
	    read_string(json, "artifactType", &all, &m.artifact_type, err) < 0 ||
	    read_descriptor(json_object_get(json, "config"), &config, NULL, &m.config, err) < 0 ||
	    read_descriptors(json_object_get(json, "layers"), &layers, NULL, &m.layers, &m.count, err) < 0 ||
	    read_annotations(json, &all, &m.annotations, err) < 0)
		return -1;
	const json_t *about = json_object_get(json, "subject");
	if (about && !json_is_null(about) && read_descriptor(about, &subject, NULL, &m.subject, err) < 0)
		return -1;
	*ret = m;
	m = (struct oci_manifest){ 0 };
	return 0;
}

static json_t *descriptors_json(const struct oci_descriptor *items, size_t count)
{
	json_t *list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, descriptor_json(&items[i]));
	return list;
}

char *oci_manifest_text(const struct oci_manifest *m)
{
	auto_json json_t *json =
		json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType", OCI_MANIFEST, "config",
			  descriptor_json(&m->config), "layers", descriptors_json(m->layers, m->count));
	set_string(json, "artifactType", m->artifact_type);
	set_annotations(json, m->annotations);
	if (m->subject.media_type)
		json_object_set_new(json, "subject", descriptor_json(&m->subject));
	return sorted_json_text(json);
}

void oci_index_done(struct oci_index *x)
{
	for (size_t i = 0; i < x->count; i++)
		oci_descriptor_done(&x->items[i]);
	free(x->items);
	*x = (struct oci_index){ 0 };
}

int oci_index_parse(const char *data, size_t len, const char *name, struct oci_index *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	auto_oci_index struct oci_index x = { 0 };
	const struct parse_context all = { name, "" }, manifests = { name, "manifests" };
	if (read_json(data, len, name, OCI_INDEX_MAX, &json, err) < 0 || check_head(json, &all, OCI_INDEX, err) < 0 ||
	    read_descriptors(json_object_get(json, "manifests"), &manifests, OCI_MANIFEST, &x.items, &x.count, err) < 0)
		return -1;
	*ret = x;
	x = (struct oci_index){ 0 };
	return 0;
}

char *oci_index_text(const struct oci_index *x)
{
	auto_json json_t *json = json_pack("{s:i, s:s, s:o}", "schemaVersion", 2, "mediaType", OCI_INDEX, "manifests",
					   descriptors_json(x->items, x->count));
	return sorted_json_text(json);
}

void oci_index_put(struct oci_index *x, const struct oci_descriptor *d, const char *tag)
{
	struct oci_descriptor copy;
	oci_descriptor_copy(d, &copy);
	auto_str char *ref = oci_digest_text(d->digest);
	int at = oci_index_find(x, ref);
	if (!tag && at >= 0 && !oci_descriptor_annotation(d, OCI_REF_NAME))
		tag = oci_descriptor_annotation(&x->items[at], OCI_REF_NAME); // an entry added again keeps its tag
	if (tag && !copy.annotations)
		copy.annotations = json_object();
	if (tag)
		json_object_set_new(copy.annotations, OCI_REF_NAME, json_text(tag));
	if (at < 0) {
		x->items = mem_grow(x->items, x->count + 1, sizeof(*x->items));
		at = (int)x->count++;
	} else {
		oci_descriptor_done(&x->items[at]);
	}
	x->items[at] = copy;
	const char *moved = oci_descriptor_annotation(&copy, OCI_REF_NAME);
	for (size_t i = 0; moved && i < x->count; i++)
		if (i != (size_t)at && str_eq(oci_descriptor_annotation(&x->items[i], OCI_REF_NAME), moved))
			json_object_del(x->items[i].annotations, OCI_REF_NAME);
}

int oci_index_find(const struct oci_index *x, const char *ref)
{
	char hex[DIGEST_HEX + 1];
	bool is_digest = oci_digest_parse(ref, hex);
	for (size_t i = 0; i < x->count; i++)
		if (is_digest ? str_eq(x->items[i].digest, hex) :
				str_eq(oci_descriptor_annotation(&x->items[i], OCI_REF_NAME), ref))
			return (int)i;
	return -1;
}

void oci_index_remove(struct oci_index *x, size_t i)
{
	oci_descriptor_done(&x->items[i]);
	memmove(x->items + i, x->items + i + 1, (--x->count - i) * sizeof(*x->items));
}

void oci_index_drop(struct oci_index *x, const char *ref)
{
	int i = oci_index_find(x, ref);
	if (i >= 0)
		oci_index_remove(x, (size_t)i);
}

void oci_index_tags(const struct oci_index *x, struct strv *ret)
{
	for (size_t i = 0; i < x->count; i++) {
		const char *tag = oci_descriptor_annotation(&x->items[i], OCI_REF_NAME);
		if (tag)
			strv_add(ret, str_dup(tag));
	}
}

void oci_index_untagged(const struct oci_index *x, const char *artifact_type, struct strv *ret)
{
	for (size_t i = 0; i < x->count; i++) {
		const struct oci_descriptor *d = &x->items[i];
		const char *name = oci_descriptor_annotation(d, OCI_REF_NAME);
		bool is_tagged = name && !strpbrk(name, ":/");
		bool is_other = (d->artifact_type && !str_eq(d->artifact_type, artifact_type)) ||
				(d->media_type && str_eq(d->media_type, OCI_INDEX));
		if (!is_tagged && !is_other)
			strv_add(ret, oci_digest_text(d->digest));
	}
}
