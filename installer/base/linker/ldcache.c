// SPDX-License-Identifier: Apache-2.0
// The root may be an unknown image, read by root on the host: everything in it has limits, far above what any
// distribution needs.
#include "base/linker/ldcache.h"

#include "base/linker/soname.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <fnmatch.h>

enum { INCLUDES = 8 /* nested */, CONF_FILES = 512, CONF_BYTES = 64 << 10, CONF_NAMES = 4096, CONF_DIRS = 1024 };
static const char CONF[] = "etc/ld.so.conf";

struct reading {
	const struct root *root;
	struct strv *dirs;
	unsigned files;    // read
	unsigned patterns; // followed: each is a look into a directory
};

static void add_conf_dir(struct strv *dirs, const char *path)
{
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, path, "/");
	auto_str char *dir = strv_join(&parts, "/");
	if (*dir && !strv_has(dirs, dir))
		strv_add(dirs, TAKE(dir));
}

static int too_many_files(const char *what, unsigned most, struct err *err)
{
	return err_set(err, E_TOO_LARGE, "/%s names more than %u %s", CONF, most, what);
}

static int read_conf(struct reading *r, const char *path, unsigned depth, struct err *err);

// Relative patterns are of the file's own directory. Directories are not matched, as no ld.so.conf needs that.
static int include_files(struct reading *r, const char *from, const char *pattern, unsigned depth, struct err *err)
{
	const char *slash = strrchr(from, '/');
	auto_str char *full =
		*pattern == '/' ? str_dup(pattern) : str_fmt("%.*s/%s", slash ? (int)(slash - from) : 0, from, pattern);
	char *last = strrchr(full, '/');
	auto_strv struct strv names = { 0 };
	*last++ = '\0';
	if (++r->patterns > CONF_FILES)
		return too_many_files("files", CONF_FILES, err);
	if (root_list_most(r->root, *full ? full : ".", CONF_NAMES, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", full, names.items[i]);
		if (fnmatch(last, names.items[i], FNM_PERIOD) == 0 && read_conf(r, path, depth + 1, err) < 0)
			return -1;
	}
	return 0;
}

static int read_conf(struct reading *r, const char *path, unsigned depth, struct err *err)
{
	static const char INCLUDE[] = "include";
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	if (depth >= INCLUDES)
		return 0;
	if (++r->files > CONF_FILES)
		return too_many_files("files", CONF_FILES, err);
	int is_there = root_read_entry(r->root, path, CONF_BYTES, &text, NULL, err);
	if (is_there <= 0)
		return is_there;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		lines.items[i][strcspn(lines.items[i], "#=")] = '\0'; // a type behind "=" was of libc5
		const char *line = str_trim(lines.items[i]), *rest = line + strlen(INCLUDE);
		if (*line == '/')
			add_conf_dir(r->dirs, line);
		if (r->dirs->count > CONF_DIRS)
			return too_many_files("directories", CONF_DIRS, err);
		if (!str_starts(line, INCLUDE) || !isspace((unsigned char)*rest))
			continue;
		auto_strv struct strv patterns = { 0 };
		strv_split(&patterns, rest, " \t");
		for (size_t k = 0; k < patterns.count; k++)
			if (include_files(r, path, patterns.items[k], depth, err) < 0)
				return -1;
	}
	return 0;
}

int ldcache_conf_dirs(const struct root *root, struct strv *dirs, struct err *err)
{
	struct reading r = { .root = root, .dirs = dirs };
	return read_conf(&r, CONF, 0, err) < 0 ? -1 : 0;
}

static const char CACHE[] = "etc/ld.so.cache", MAGIC[] = "glibc-ld.so.cache1.1";

struct header {
	char magic[20];
	uint32_t count, strings_len;
	uint8_t flags, unused[3];
	uint32_t extension, reserved[3];
};
struct slot {
	int32_t flags;
	uint32_t key, value; // from the beginning of the file
	uint32_t osversion;
	uint64_t hwcap;
};
_Static_assert(sizeof(struct header) == 48 && sizeof(struct slot) == 24, "as glibc has them");

enum { LITTLE_ENDIAN_CACHE = 2, FILES = 200000 /* read at most: the image may be hostile */ };

struct entry {
	char *name, *path; // path: absolute in the root
	int32_t flags;
	size_t order;
};
struct entries {
	struct entry *items;
	size_t count;
};

static void entries_done(struct entries *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->items[i].name);
		free(l->items[i].path);
	}
	free(l->items);
}
#define auto_entries __attribute__((cleanup(entries_done)))

// FLAG_ELF_LIBC6 with what ldconfig.h of glibc has for the machine; 0 = no library of a machine that we know.
static int32_t flags_of(const struct soname *s)
{
	static const struct {
		unsigned machine;
		bool is_64;
		int32_t flags;
	} known[] = {
		{ EM_X86_64, true, 0x0303 },
		{ EM_X86_64, false, 0x0803 }, // x32
		{ EM_386, false, 0x0003 },
		{ EM_AARCH64, true, 0x0a03 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (s->machine == known[i].machine && s->is_64 == known[i].is_64)
			return known[i].flags;
	return 0;
}

// 1 = a library; by its name first, because most files of a directory need not be opened then.
static int read_library(const struct root *root, const char *path, const char *name, struct soname *ret,
			struct err *err)
{
	bool is_named = (str_starts(name, "lib") || str_starts(name, "ld-")) && strstr(name, ".so");
	struct err ignored;
	struct stat st;
	auto_fd int fd = is_named ? root_open(root, path, O_RDONLY, &ignored) : -1;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return soname_read(fd, path, ret, err);
}

static int compare_file_versions(const void *a, const void *b)
{
	return str_version_cmp(*(char *const *)b, *(char *const *)a);
}

// The highest of several versions with the same SONAME first, because the first one gets the link.
int ldcache_links(const struct root *root, const struct strv *dirs, struct err *err)
{
	for (size_t i = 0; i < dirs->count; i++) {
		auto_strv struct strv names = { 0 };
		if (root_list(root, dirs->items[i], &names, err) < 0)
			return -1;
		if (names.count)
			qsort(names.items, names.count, sizeof(*names.items), compare_file_versions);
		for (size_t k = 0; k < names.count; k++) {
			const char *dir = dirs->items[i], *name = names.items[k];
			auto_str char *path = str_fmt("%s/%s", dir, name), *link = NULL;
			auto_soname struct soname s = { 0 };
			struct stat st;
			int r = root_stat(root, path, &st, err);
			if (r > 0)
				r = S_ISREG(st.st_mode) ? read_library(root, path, name, &s, err) : 0;
			if (r < 0)
				return -1;
			if (r == 0 || !s.name || str_eq(s.name, name))
				continue;
			link = str_fmt("%s/%s", dir, s.name);
			if (!root_exists(root, link) && root_symlink(root, name, link, err) < 0)
				return -1;
		}
	}
	return 0;
}

// A link is found by its own name, a file by its SONAME.
static int add_library(const struct root *root, const char *dir, const char *name, struct entries *ret, struct err *err)
{
	auto_str char *path = str_fmt("%s/%s", dir, name), *target = NULL;
	auto_soname struct soname s = { 0 };
	int is_library = read_library(root, path, name, &s, err);
	int32_t flags = is_library > 0 ? flags_of(&s) : 0;
	if (!flags)
		return is_library < 0 ? -1 : 0;
	int is_link = root_readlink(root, path, &target, err);
	if (is_link < 0)
		return -1;
	const char *key = is_link || !s.name ? name : s.name;
	auto_str char *linked = str_fmt("%s/%s", dir, key);
	ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
	ret->items[ret->count] = (struct entry){ .name = str_dup(key),
						 .path = str_fmt("/%s", root_exists(root, linked) ? linked : path),
						 .flags = flags,
						 .order = ret->count };
	ret->count++;
	return 0;
}

// A run of digits as a number; the linker reads it as an int, so a longer one overflows there too.
static int take_digits(const char **p)
{
	unsigned ret = 0;
	while (isdigit((unsigned char)**p))
		ret = ret * 10 + (unsigned)(*(*p)++ - '0');
	return (int)ret;
}

// _dl_cache_libcmp() of glibc's elf/dl-cache.c: the linker searches by it, so the order must be exactly this.
static int compare_names(const char *a, const char *b)
{
	while (*a) {
		bool is_a = isdigit((unsigned char)*a), is_b = isdigit((unsigned char)*b);
		if (is_a && is_b) {
			int x = take_digits(&a), y = take_digits(&b);
			if (x != y)
				return x < y ? -1 : 1;
		} else if (is_a != is_b) {
			return is_a ? 1 : -1;
		} else if (*a != *b) {
			return *a - *b;
		} else {
			a++;
			b++;
		}
	}
	return *a - *b;
}

// Descending; among equal ones that of the directory that comes first.
static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int r = compare_names(y->name, x->name);
	if (r == 0)
		r = x->flags != y->flags ? (x->flags < y->flags ? 1 : -1) : 0;
	return r != 0 ? r : x->order < y->order ? -1 : 1;
}

static uint32_t add_text(char **at, const char *start, const char *text)
{
	uint32_t ret = (uint32_t)(*at - start);
	size_t len = strlen(text) + 1;
	memcpy(*at, text, len);
	*at += len;
	return ret;
}

static char *build_cache(const struct entries *l, size_t *ret_len)
{
	size_t strings = 0, head = sizeof(struct header) + l->count * sizeof(struct slot);
	for (size_t i = 0; i < l->count; i++)
		strings += strlen(l->items[i].name) + strlen(l->items[i].path) + 2;
	char *data = mem_alloc(head + strings + 1), *at = data + head;
	struct header h = { .count = (uint32_t)l->count,
			    .strings_len = (uint32_t)strings,
			    .flags = LITTLE_ENDIAN_CACHE };
	memcpy(h.magic, MAGIC, sizeof(h.magic));
	memcpy(data, &h, sizeof(h));
	for (size_t i = 0; i < l->count; i++) {
		struct slot s = { .flags = l->items[i].flags, .key = add_text(&at, data, l->items[i].name) };
		s.value = add_text(&at, data, l->items[i].path);
		memcpy(data + sizeof(h) + i * sizeof(s), &s, sizeof(s));
	}
	*ret_len = head + strings;
	return data;
}

// The linker's own directories: Debian's for each architecture, and those of the other distributions.
int ldcache_write(const struct root *root, const struct strv *dirs, struct err *err)
{
	static const char *const own[] = { "lib/x86_64-linux-gnu",
					   "usr/lib/x86_64-linux-gnu",
					   "lib/aarch64-linux-gnu",
					   "usr/lib/aarch64-linux-gnu",
					   "lib64",
					   "usr/lib64",
					   "lib",
					   "usr/lib" };
	auto_strv struct strv all = { 0 };
	auto_entries struct entries found = { 0 };
	size_t len = 0;
	for (size_t i = 0; i < dirs->count; i++)
		add_conf_dir(&all, dirs->items[i]);
	if (ldcache_conf_dirs(root, &all, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		add_conf_dir(&all, own[i]);
	size_t left = FILES;
	for (size_t i = 0; i < all.count; i++) {
		auto_strv struct strv names = { 0 };
		if (root_list_most(root, all.items[i], left, &names, err) < 0)
			return -1;
		left -= names.count;
		for (size_t k = 0; k < names.count; k++)
			if (add_library(root, all.items[i], names.items[k], &found, err) < 0)
				return -1;
	}
	if (root_mkdirs(root, "etc", 0755, err) < 0)
		return -1;
	if (found.count)
		qsort(found.items, found.count, sizeof(*found.items), compare_entries);
	size_t kept = 0; // without duplicates
	for (size_t i = 0; i < found.count; i++) {
		const struct entry *last = kept ? &found.items[kept - 1] : NULL, *e = &found.items[i];
		if (last && last->flags == e->flags && str_eq(last->name, e->name)) {
			free(e->name);
			free(e->path);
		} else {
			found.items[kept++] = *e;
		}
	}
	found.count = kept;
	auto_str char *data = build_cache(&found, &len);
	return root_write(root, CACHE, data, len, 0644, err);
}
