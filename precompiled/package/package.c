// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/package.h"

#include "base/archive/pack.h"
#include "base/core/date.h"
#include "precompiled/repository/kind.h"

#include <errno.h>
#include <fcntl.h>

enum { FORMAT = 1, FILES_MAX = 1000 };
static const char LABEL_FORMAT[] = "io.kmodsmith.format", LABEL_FILES[] = "io.kmodsmith.files";

static const char HEX[] = "0123456789abcdef",
		  WORD[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,_+~-";

// One table for writing and reading. Lists are joined with commas.
static const struct {
	const char *label;
	const char *of; // the characters that it consists of; NULL = anything that can be printed
	size_t offset;
	bool is_list, is_required;
	bool is_note; // also an annotation of the manifest, readable without the configuration
} fields[] = {
	{ "io.kmodsmith.driver", WORD, offsetof(struct package_key, driver), false, true, true },
	{ "io.kmodsmith.flavour", WORD, offsetof(struct package_key, flavour), false, true, true },
	{ PACKAGE_RELEASE, NULL, offsetof(struct package_key, release), false, true, true },
	{ "io.kmodsmith.kernel.build-id", HEX, offsetof(struct package_key, build_id), false, false, true },
	{ "io.kmodsmith.arch", WORD, offsetof(struct package_key, arch), false, true, true },
	{ "io.kmodsmith.distro", NULL, offsetof(struct package_key, distro), false, false, true },
	{ "io.kmodsmith.compiler", NULL, offsetof(struct package_key, compiler), false, false, false },
	{ "io.kmodsmith.source", NULL, offsetof(struct package_key, source), false, false, false },
	{ "io.kmodsmith.signer", NULL, offsetof(struct package_key, signer), false, false, false },
	{ "io.kmodsmith.modules", WORD, offsetof(struct package_key, modules), true, true, true },
	{ "io.kmodsmith.patches", NULL, offsetof(struct package_key, patches), true, false, false },
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

json_t *package_key_json(const struct package_key *key)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "driver", json_text(key->driver),
			 "flavour", json_text(key->flavour), "release", json_text(key->release), "build_id",
			 json_text(key->build_id), "arch", json_text(key->arch), "distro", json_text(key->distro),
			 "compiler", json_text(key->compiler), "source", json_text(key->source), "signer",
			 json_text(key->signer), "modules", json_strv(&key->modules), "patches",
			 json_strv(&key->patches));
}

char *package_tag(const struct package_key *key)
{
	auto_str char *name = str_fmt("%s-%s-%s-%s", key->driver, key->flavour, key->release, key->arch);
	return oci_tag(name);
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

// Labels end up in messages, names of files and conditions of a Node.
static bool is_label_valid(const char *text, const char *of)
{
	if (of)
		return !text[strspn(text, of)];
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

static bool read_package_key(const json_t *labels, struct package_key *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *text = json_string_value(json_object_get(labels, fields[i].label));
		if ((fields[i].is_required && (!text || !*text)) || (text && !is_label_valid(text, fields[i].of)))
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

bool package_is_of_branch(const char *driver, const char *branch)
{
	return !*branch || (str_starts(driver, branch) && driver[strlen(branch)] == '.');
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
	if (want->branch && !package_is_of_branch(p->key.driver, want->branch)) {
		*ret_why = str_fmt("driver is %s, wanted one of branch %s", p->key.driver, want->branch);
		return 0;
	}
	if (want->is_signed && !p->key.signer) {
		*ret_why = str_dup("its modules are not signed, and this kernel loads no others");
		return 0;
	}
	if (want->but && strv_has(want->but, p->manifest.digest)) {
		*ret_why = str_fmt("sha256:%s is excluded", p->manifest.digest);
		return 0;
	}
	bool has_srcversion = false;
	for (size_t i = 0; want->srcversion && i < p->count; i++)
		has_srcversion |= str_eq(p->files[i].srcversion, want->srcversion);
	if (want->srcversion && !has_srcversion) {
		*ret_why = str_fmt("none of its modules has srcversion %s", want->srcversion);
		return 0;
	}
	for (size_t i = 0; want->modules && i < want->modules->count; i++) {
		if (!strv_has(&p->key.modules, want->modules->items[i])) {
			*ret_why = str_fmt("it has no %s", want->modules->items[i]);
			return 0;
		}
	}
	return !want->serves || want->serves(want->ctx, &p->key, ret_why);
}

int package_read(const struct layout *l, const struct oci_descriptor *manifest, struct package *ret, struct err *err)
{
	auto_str char *config = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	size_t config_len = 0;
	if (str_eq(manifest->media_type, OCI_INDEX)) // signatures under their fallback tag
		return 0;
	if (layout_manifest(l, manifest, manifest->digest, &m, err) < 0)
		return -1;
	if (!str_eq(m.artifact_type, PACKAGE_TYPE))
		return 0;
	if (layout_blob_read(l, &m.config, &config, &config_len, err) < 0 ||
	    package_parse(&m, manifest, config, config_len, ret, err) < 0)
		return -1;
	ret->place = repository_name(REPOSITORY_LAYOUT, l->root.name);
	return 1;
}

int package_find(const struct layout *l, const struct package_want *want, struct package *ret, char **ret_why,
		 struct err *err)
{
	auto_oci_index struct oci_index index = { 0 };
	auto_package struct package best = PACKAGE_NONE;
	auto_str char *why = NULL;
	if (layout_index(l, &index, err) < 0)
		return -1;
	for (size_t i = 0; i < index.count; i++) {
		auto_package struct package p = PACKAGE_NONE;
		auto_str char *reason = NULL;
		const struct oci_descriptor *d = &index.items[i];
		const char *release = oci_descriptor_annotation(d, PACKAGE_RELEASE);
		struct err ignored;
		// An annotation with another release saves reading the blobs; a missing one proves nothing.
		if ((d->media_type && !str_eq(d->media_type, OCI_MANIFEST)) ||
		    (release && want->release && !str_eq(release, want->release)) ||
		    package_read(l, d, &p, &ignored) <= 0)
			continue;
		if (package_fits(&p, want, &reason) == 0) {
			free(why);
			why = TAKE(reason);
		} else if (!best.count || str_version_cmp(p.key.driver, best.key.driver) >= 0) {
			package_move(&p, &best);
		}
	}
	if (best.count) {
		package_move(&best, ret);
		return 1;
	}
	if (ret_why)
		*ret_why = TAKE(why);
	return 0;
}

int package_publish(const struct layout *into, const struct package_image *image, struct oci_descriptor *ret,
		    struct err *err)
{
	auto_oci_descriptor struct oci_descriptor config = { 0 }, d = { 0 };
	auto_json json_t *manifest_notes = image->manifest_notes, *notes = image->notes;
	// The time of the inputs and not of the clock: the same content has the same digest wherever it is built.
	uint64_t seconds = 0;
	str_u64(getenv("SOURCE_DATE_EPOCH"), 10, &seconds);
	auto_str char *when = date_text((time_t)seconds), *diff = oci_digest_text(image->diff_id);
	const char *machine = image->arch; // container images have other names
	const char *arch = str_eq(machine, "x86_64") ? "amd64" : str_eq(machine, "aarch64") ? "arm64" : machine;
	auto_json json_t *json =
		json_pack("{s:s, s:s, s:s, s:{s:o}, s:{s:s, s:[s]}}", "architecture", arch, "os", "linux", "created",
			  when, "config", "Labels", image->labels, "rootfs", "type", "layers", "diff_ids", diff);
	auto_str char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	if (layout_document_put(into, OCI_CONFIG, text, &config, err) < 0)
		return -1;
	struct oci_descriptor layer = *image->layer;
	const struct oci_manifest m = { .artifact_type = (char *)(uintptr_t)image->type,
					.config = config,
					.layers = &layer,
					.count = 1,
					.annotations = manifest_notes };
	json_object_set_new(manifest_notes, OCI_CREATED, json_text(when));
	auto_str char *manifest = oci_manifest_text(&m);
	if (layout_document_put(into, OCI_MANIFEST, manifest, &d, err) < 0)
		return -1;
	d.artifact_type = str_dup(image->type);
	d.annotations = TAKE(notes);
	const struct provenance provenance = { .origin = image->origin };
	if (provenance_write(into, &d, &provenance, err) < 0 || layout_publish(into, &d, image->tag, err) < 0)
		return -1;
	*ret = d;
	d = (struct oci_descriptor){ 0 };
	return 0;
}

static int measure_package_file(const struct root *dir, struct package_file *f, struct err *err)
{
	auto_fd int fd = root_open(dir, f->name, O_RDONLY | O_NOFOLLOW, err);
	struct stat st;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "read '%s/%s'", dir->name, f->name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_SYSTEM, "'%s/%s' is not a regular file", dir->name, f->name);
	f->size = (uint64_t)st.st_size;
	return digest_file(fd, f->name, f->sha256, err);
}

struct package_content {
	const struct root *dir;
	const struct package_key *key;
	const struct package_file *files;
	size_t count;
};

static int pack_package(void *ctx, struct pack *pack, struct err *err)
{
	const struct package_content *c = ctx;
	auto_str char *dir = package_dir(c->key);
	for (const char *slash = strchr(dir, '/'); slash; slash = strchr(slash + 1, '/')) {
		auto_str char *parent = str_ndup(dir, (size_t)(slash - dir));
		if (pack_dir(pack, parent, err) < 0)
			return -1;
	}
	if (pack_dir(pack, dir, err) < 0)
		return -1;
	for (size_t i = 0; i < c->count; i++) {
		auto_str char *path = str_fmt("%s/%s", dir, c->files[i].name);
		auto_fd int fd = root_open(c->dir, c->files[i].name, O_RDONLY | O_NOFOLLOW, err);
		if (fd < 0 || pack_file(pack, path, fd, c->files[i].size, err) < 0)
			return -1;
	}
	return 0;
}

int package_create(const struct layout *into, const struct root *dir, const struct package_key *key,
		   struct package_file *files, size_t count, struct package *ret, struct err *err)
{
	auto_oci_descriptor struct oci_descriptor layer = { 0 }, manifest = { 0 };
	struct package_content content = { .dir = dir, .key = key, .files = files, .count = count };
	char diff_id[DIGEST_HEX + 1];
	auto_json json_t *list = json_array();
	for (size_t i = 0; i < count; i++) {
		struct package_file *f = &files[i];
		if (measure_package_file(dir, f, err) < 0)
			return err_wrap(err, "write the package");
		json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:s, s:I}", "name", f->name, "module", f->module,
						      "srcversion", json_text(f->srcversion), "sha256", f->sha256,
						      "size", (json_int_t)f->size));
	}
	if (layout_layer_put(into, "modules.tar.zst", pack_package, &content, &layer, diff_id, err) < 0)
		return err_wrap(err, "write the package");
	auto_str char *text = json_dumps(list, JSON_COMPACT | JSON_SORT_KEYS), *format = str_fmt("%d", FORMAT),
		      *tag = package_tag(key);
	const struct package_image image = {
		.type = PACKAGE_TYPE,
		.arch = key->arch,
		.tag = tag,
		.layer = &layer,
		.diff_id = diff_id,
		.labels = package_labels(key, false),
		.manifest_notes = package_labels(key, true),
		.notes = json_pack("{s:s}", PACKAGE_RELEASE, key->release),
		.origin = PROVENANCE_COMPILED,
	};
	json_object_set_new(image.labels, LABEL_FORMAT, json_text(format));
	json_object_set_new(image.labels, LABEL_FILES, json_text(text));
	json_object_set_new(image.manifest_notes, OCI_VERSION, json_text(key->driver));
	if (package_publish(into, &image, &manifest, err) < 0)
		return err_wrap(err, "write the package");
	return package_read(into, &manifest, ret, err) < 0 ? -1 : 0;
}
