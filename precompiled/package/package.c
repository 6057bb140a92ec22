// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/package.h"

enum { FORMAT = 1, FILES_MAX = 1000 };
static const char LABEL_FORMAT[] = "io.kmodsmith.format", LABEL_FILES[] = "io.kmodsmith.files";

// One table for writing and reading. Lists are joined with commas.
static const struct {
	const char *label;
	size_t offset;
	bool is_list, is_required;
	bool is_note; // also an annotation of the manifest, readable without the configuration
} fields[] = {
	{ "io.kmodsmith.driver", offsetof(struct package_key, driver), false, true, true },
	{ "io.kmodsmith.flavour", offsetof(struct package_key, flavour), false, true, true },
	{ PACKAGE_RELEASE, offsetof(struct package_key, release), false, true, true },
	{ "io.kmodsmith.kernel.build-id", offsetof(struct package_key, build_id), false, false, true },
	{ "io.kmodsmith.arch", offsetof(struct package_key, arch), false, true, true },
	{ "io.kmodsmith.distro", offsetof(struct package_key, distro), false, false, true },
	{ "io.kmodsmith.compiler", offsetof(struct package_key, compiler), false, false, false },
	{ "io.kmodsmith.source", offsetof(struct package_key, source), false, false, false },
	{ "io.kmodsmith.modules", offsetof(struct package_key, modules), true, true, true },
	{ "io.kmodsmith.patches", offsetof(struct package_key, patches), true, false, false },
};

static void *package_key_field(const void *key, size_t i)
{
	return (char *)(uintptr_t)key + fields[i].offset;
}

void package_key_done(struct package_key *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i].is_list)
			strv_done(package_key_field(key, i));
		else
			free(*(char **)package_key_field(key, i));
	*key = (struct package_key){ 0 };
}

void package_done(struct package *p)
{
	for (size_t i = 0; i < p->count; i++) {
		free(p->files[i].name);
		free(p->files[i].module);
		free(p->files[i].srcversion);
	}
	free(p->files);
	free(p->place);
	package_key_done(&p->key);
	oci_descriptor_done(&p->manifest);
	oci_descriptor_done(&p->layer);
	root_done(&p->dir);
	scratch_done(&p->stage);
	*p = PACKAGE_NONE;
}

void package_move(struct package *from, struct package *to)
{
	package_done(to);
	*to = *from;
	*from = PACKAGE_NONE;
}

json_t *package_key_json(const struct package_key *key)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "driver", json_text(key->driver),
			 "flavour", json_text(key->flavour), "release", json_text(key->release), "build_id",
			 json_text(key->build_id), "arch", json_text(key->arch), "distro", json_text(key->distro),
			 "compiler", json_text(key->compiler), "source", json_text(key->source), "modules",
			 json_strv(&key->modules), "patches", json_strv(&key->patches));
}

char *package_tag(const struct package_key *key)
{
	auto_str char *name = str_fmt("%s-%s-%s-%s", key->driver, key->flavour, key->release, key->arch);
	return oci_tag(name);
}

char *package_dir(const struct package_key *key)
{
	return str_fmt("opt/lib/modules/%s", key->release);
}

static json_t *package_labels(const struct package_key *key, bool is_notes_only)
{
	json_t *ret = json_object();
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct strv *list = package_key_field(key, i);
		char *const *text = package_key_field(key, i);
		if (is_notes_only && !fields[i].is_note)
			continue;
		if (fields[i].is_list && list->count) {
			auto_str char *joined = strv_join(list, ",");
			json_object_set_new(ret, fields[i].label, json_text(joined));
		} else if (!fields[i].is_list && *text) {
			json_object_set_new(ret, fields[i].label, json_text(*text));
		}
	}
	return ret;
}

bool package_key_is_same(const struct package_key *a, const struct package_key *b)
{
	auto_json json_t *one = package_labels(a, false), *other = package_labels(b, false);
	return json_equal(one, other) == 1;
}

static char *files_text(const struct package_file *files, size_t count)
{
	auto_json json_t *list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:s, s:I}", "name", files[i].name, "module",
						      files[i].module, "srcversion", json_text(files[i].srcversion),
						      "sha256", files[i].sha256, "size", (json_int_t)files[i].size));
	return json_dumps(list, JSON_COMPACT | JSON_SORT_KEYS);
}

char *package_config(const struct package_key *key, const struct package_file *files, size_t count, const char *diff_id)
{
	auto_str char *list = files_text(files, count), *when = oci_created(), *diff = oci_digest_text(diff_id),
		      *format = str_fmt("%d", FORMAT);
	json_t *all = package_labels(key, false);
	json_object_set_new(all, LABEL_FORMAT, json_text(format));
	json_object_set_new(all, LABEL_FILES, json_text(list));
	auto_json json_t *config = json_pack("{s:s, s:s, s:s, s:{s:o}, s:{s:s, s:[s]}}", "architecture",
					     oci_arch(key->arch), "os", "linux", "created", when, "config", "Labels",
					     all, "rootfs", "type", "layers", "diff_ids", diff);
	return json_dumps(config, JSON_COMPACT | JSON_SORT_KEYS);
}

char *package_manifest(const struct package_key *key, const struct oci_descriptor *config,
		       const struct oci_descriptor *layer)
{
	auto_str char *when = oci_created(), *type = str_dup(PACKAGE_TYPE);
	auto_json json_t *notes = package_labels(key, true);
	struct oci_descriptor layers = *layer;
	struct oci_manifest m = {
		.artifact_type = type, .config = *config, .layers = &layers, .count = 1, .annotations = notes
	};
	json_object_set_new(notes, OCI_CREATED, json_text(when));
	json_object_set_new(notes, OCI_VERSION, json_text(key->driver));
	return oci_manifest_text(&m);
}

static bool read_package_key(const json_t *labels, struct package_key *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *text = json_string_value(json_object_get(labels, fields[i].label));
		if (fields[i].is_required && (!text || !*text))
			return false;
		if (text && fields[i].is_list)
			strv_split(package_key_field(key, i), text, ",");
		else if (text)
			*(char **)package_key_field(key, i) = str_dup(text);
	}
	// The release becomes part of a path.
	return !strchr(key->release, '/') && key->release[0] != '.';
}

static bool read_package_file(const json_t *json, struct package_file *f)
{
	const char *name = json_string_value(json_object_get(json, "name"));
	const char *module = json_string_value(json_object_get(json, "module"));
	const char *sha256 = json_string_value(json_object_get(json, "sha256"));
	const json_t *size = json_object_get(json, "size");
	if (!name || !*name || strchr(name, '/') || name[0] == '.' || !module || !digest_is_hex(sha256) ||
	    !json_is_integer(size) || json_integer_value(size) < 0)
		return false;
	f->name = str_dup(name);
	f->module = str_dup(module);
	f->srcversion = json_text_dup(json, "srcversion");
	memcpy(f->sha256, sha256, sizeof(f->sha256));
	f->size = (uint64_t)json_integer_value(size);
	return true;
}

static bool read_package_files(const json_t *labels, struct package *p)
{
	const char *text = json_string_value(json_object_get(labels, LABEL_FILES));
	auto_json json_t *list = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	size_t count = json_array_size(list);
	if (count == 0 || count > FILES_MAX)
		return false;
	p->files = mem_alloc(count * sizeof(*p->files));
	while (p->count < count && read_package_file(json_array_get(list, p->count), &p->files[p->count]))
		p->count++;
	return p->count == count;
}

// Every listed module has a file, every file belongs to a listed module, and no file name appears twice.
static bool is_consistent(const struct package *p)
{
	for (size_t i = 0; i < p->count; i++) {
		if (!strv_has(&p->key.modules, p->files[i].module))
			return false;
		for (size_t k = 0; k < i; k++)
			if (str_eq(p->files[i].name, p->files[k].name))
				return false;
	}
	for (size_t i = 0; i < p->key.modules.count; i++) {
		size_t k = 0;
		while (k < p->count && !str_eq(p->files[k].module, p->key.modules.items[i]))
			k++;
		if (k == p->count)
			return false;
	}
	return true;
}

int package_parse(const struct oci_manifest *manifest, const struct oci_descriptor *descriptor, const char *config,
		  size_t len, struct package *ret, struct err *err)
{
	auto_package struct package p = PACKAGE_NONE;
	auto_json json_t *json = NULL;
	if (!str_eq(manifest->artifact_type, PACKAGE_TYPE))
		return 0;
	if (oci_json(config, len, manifest->config.digest, &json, err) < 0)
		return -1;
	const json_t *all = json_object_get(json_object_get(json, "config"), "Labels");
	auto_str char *format = str_fmt("%d", FORMAT);
	if (!str_eq(json_string_value(json_object_get(all, LABEL_FORMAT)), format))
		return err_set(err, E_MANIFEST, "package sha256:%s does not have format %d", descriptor->digest,
			       FORMAT);
	if (manifest->count != 1 || !str_eq(manifest->layers[0].media_type, OCI_LAYER))
		return err_set(err, E_MANIFEST, "package sha256:%s does not have exactly one layer of type %s",
			       descriptor->digest, OCI_LAYER);
	if (!read_package_key(all, &p.key) || !read_package_files(all, &p) || !is_consistent(&p))
		return err_set(err, E_MANIFEST, "package sha256:%s: labels of its configuration are missing or invalid",
			       descriptor->digest);
	oci_descriptor_copy(descriptor, &p.manifest);
	oci_descriptor_copy(&manifest->layers[0], &p.layer);
	*ret = p;
	p = PACKAGE_NONE;
	return 1;
}

static bool has_srcversion(const struct package *p, const char *srcversion)
{
	for (size_t i = 0; i < p->count; i++)
		if (str_eq(p->files[i].srcversion, srcversion))
			return true;
	return false;
}

int package_fits(const struct package *p, const struct package_want *want, char **ret_why)
{
	const struct {
		const char *what, *has, *wants;
	} rows[] = {
		{ "digest", p->manifest.digest, want->digest },
		{ "driver", p->key.driver, want->driver },
		{ "flavour", p->key.flavour, want->flavour },
		{ "kernel release", p->key.release, want->release },
		// Headers alone may not contain the build id; then the CRC check decides.
		{ "kernel build id", p->key.build_id, p->key.build_id ? want->build_id : NULL },
		{ "architecture", p->key.arch, want->arch },
		{ "source digest", p->key.source, want->source },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].wants && !str_eq(rows[i].has, rows[i].wants)) {
			*ret_why = str_fmt("%s is %s, wanted %s", rows[i].what, rows[i].has, rows[i].wants);
			return 0;
		}
	}
	if (want->but && strv_has(want->but, p->manifest.digest)) {
		*ret_why = str_fmt("sha256:%s is excluded", p->manifest.digest);
		return 0;
	}
	if (want->srcversion && !has_srcversion(p, want->srcversion)) {
		*ret_why = str_fmt("none of its modules has srcversion %s", want->srcversion);
		return 0;
	}
	for (size_t i = 0; want->modules && i < want->modules->count; i++) {
		if (!strv_has(&p->key.modules, want->modules->items[i])) {
			*ret_why = str_fmt("it has no %s", want->modules->items[i]);
			return 0;
		}
	}
	return 1;
}
