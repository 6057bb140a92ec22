// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>

static const char MANIFEST[] = "package.json";
enum { FORMAT = 1 };

void package_key_done(struct package_key *key)
{
	free(key->driver);
	free(key->flavour);
	free(key->release);
	free(key->build_id);
	free(key->arch);
	free(key->compiler);
	free(key->source);
	strv_done(&key->modules);
	strv_done(&key->patches);
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
	package_key_done(&p->key);
	root_done(&p->dir);
	*p = (struct package){ .dir = ROOT_NONE };
}

json_t *package_key_json(const struct package_key *key)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "driver", json_text(key->driver), "flavour",
			 json_text(key->flavour), "release", json_text(key->release), "build_id",
			 json_text(key->build_id), "arch", json_text(key->arch), "compiler", json_text(key->compiler),
			 "source", json_text(key->source), "modules", json_strv(&key->modules), "patches",
			 json_strv(&key->patches));
}

char *package_name(const struct package_key *key)
{
	auto_json json_t *json = package_key_json(key);
	auto_str char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	char hex[DIGEST_HEX + 1];
	digest_data(text, strlen(text), hex);
	char *name = str_fmt("%s-%s-%s-%s-%.12s", key->driver, key->flavour, key->release, key->arch, hex);
	for (char *p = name; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *p))
			*p = '_';
	return name;
}

static int measure(const struct root *dir, struct package_file *f, struct err *err)
{
	auto_fd int fd = root_open(dir, f->name, O_RDONLY | O_NOFOLLOW, err);
	struct stat st;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at '%s'", f->name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_STORE_CORRUPT, "'%s' is no regular file", f->name);
	f->size = (uint64_t)st.st_size;
	return digest_file(fd, f->name, f->sha256, err);
}

int package_write(const struct root *dir, const struct package_key *key, struct package_file *files, size_t count,
		  struct err *err)
{
	auto_json json_t *list = json_array();
	for (size_t i = 0; i < count; i++) {
		struct package_file *f = &files[i];
		if (measure(dir, f, err) < 0)
			return err_wrap(err, "complete the package");
		json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:s, s:I}", "name", f->name, "module", f->module,
						      "srcversion", json_text(f->srcversion), "sha256", f->sha256,
						      "size", (json_int_t)f->size));
	}
	auto_json json_t *manifest =
		json_pack("{s:i, s:o, s:O}", "format", FORMAT, "key", package_key_json(key), "files", list);
	return json_write(dir, MANIFEST, manifest, err);
}

static char *text_of(const json_t *object, const char *key)
{
	return str_dup(json_string_value(json_object_get(object, key)));
}

static void list_of(const json_t *object, const char *key, struct strv *ret)
{
	size_t i;
	json_t *item;
	json_array_foreach(json_object_get(object, key), i, item)
	{
		if (json_is_string(item))
			strv_add(ret, str_dup(json_string_value(item)));
	}
}

static void read_key(const json_t *json, struct package_key *key)
{
	*key = (struct package_key){
		.driver = text_of(json, "driver"),
		.flavour = text_of(json, "flavour"),
		.release = text_of(json, "release"),
		.build_id = text_of(json, "build_id"),
		.arch = text_of(json, "arch"),
		.compiler = text_of(json, "compiler"),
		.source = text_of(json, "source"),
	};
	list_of(json, "modules", &key->modules);
	list_of(json, "patches", &key->patches);
}

static bool read_file(const json_t *json, struct package_file *f)
{
	f->name = text_of(json, "name");
	f->module = text_of(json, "module");
	f->srcversion = text_of(json, "srcversion");
	const char *sha256 = json_string_value(json_object_get(json, "sha256"));
	const json_t *size = json_object_get(json, "size");
	if (!f->name || !*f->name || strchr(f->name, '/') || f->name[0] == '.' || !f->module ||
	    !digest_is_hex(sha256) || !json_is_integer(size) || json_integer_value(size) < 0)
		return false;
	memcpy(f->sha256, sha256, sizeof(f->sha256));
	f->size = (uint64_t)json_integer_value(size);
	return true;
}

static bool read_manifest(const json_t *json, struct package *p)
{
	const json_t *key = json_object_get(json, "key"), *files = json_object_get(json, "files");
	if (json_integer_value(json_object_get(json, "format")) != FORMAT || !json_is_object(key) ||
	    !json_is_array(files))
		return false;
	read_key(key, &p->key);
	if (!p->key.driver || !p->key.flavour || !p->key.release || !p->key.arch)
		return false;
	p->files = mem_alloc(json_array_size(files) * sizeof(*p->files));
	for (; p->count < json_array_size(files); p->count++)
		if (!read_file(json_array_get(files, p->count), &p->files[p->count])) {
			p->count++; // so that the half-read entry is freed too
			return false;
		}
	return p->count > 0;
}

int package_open(const struct root *dir, struct package *ret, struct err *err)
{
	auto_package struct package p = { .dir = ROOT_NONE };
	auto_json json_t *json = NULL;
	int r = json_read(dir, MANIFEST, &json, err);
	if (r == 0)
		return err_set(err, E_NOT_FOUND, "no package in '%s': it has no %s", dir->name, MANIFEST);
	if (r < 0)
		return err_code(err, err->code == E_CONFIG ? E_STORE_CORRUPT : err->code);
	if (!read_manifest(json, &p))
		return err_set(err, E_STORE_CORRUPT, "'%s/%s' is not a sound manifest of format %d", dir->name,
			       MANIFEST, FORMAT);
	if (root_sub(dir, ".", &p.dir, err) < 0)
		return -1;
	free(p.dir.name);
	p.dir.name = str_dup(dir->name);
	*ret = p;
	p = (struct package){ .dir = ROOT_NONE };
	return 0;
}

int package_verify(const struct package *p, struct err *err)
{
	for (size_t i = 0; i < p->count; i++) {
		struct package_file now = { .name = p->files[i].name };
		if (measure(&p->dir, &now, err) < 0)
			return err_wrap(err, "verify the package '%s'", p->dir.name);
		if (now.size != p->files[i].size || !str_eq(now.sha256, p->files[i].sha256))
			return err_set(err, E_DIGEST,
				       "'%s/%s' has SHA-256 %s and %llu bytes, its manifest says %s and %llu",
				       p->dir.name, now.name, now.sha256, (unsigned long long)now.size,
				       p->files[i].sha256, (unsigned long long)p->files[i].size);
	}
	return 0;
}

int package_file_open(const struct package *p, size_t i, struct err *err)
{
	return root_open(&p->dir, p->files[i].name, O_RDONLY | O_NOFOLLOW, err);
}

int package_fits(const struct package *p, const struct package_want *want, char **ret_why)
{
	const struct {
		const char *what, *has, *wants;
	} rows[] = {
		{ "driver", p->key.driver, want->driver },
		{ "flavour", p->key.flavour, want->flavour },
		{ "kernel release", p->key.release, want->release },
		// Headers alone may not tell the build id; the proof by CRC decides then.
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
	for (size_t i = 0; want->modules && i < want->modules->count; i++) {
		if (!strv_has(&p->key.modules, want->modules->items[i])) {
			*ret_why = str_fmt("it has no %s", want->modules->items[i]);
			return 0;
		}
	}
	return 1;
}
