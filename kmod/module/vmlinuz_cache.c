// SPDX-License-Identifier: Apache-2.0
// An entry: a line with version and SHA-256 of what follows; a line each for key, release, machine with has_crcs, and
// banner; the symbols as in Module.symvers.
#include "kmod/module/vmlinuz_cache.h"

#include "base/file/digest.h"
#include "base/file/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>

#define DIR "cache/kernels"
#define MAGIC "kmodsmith kernel image " KMODSMITH_VERSION "." FORMAT " sha256 "
#define FORMAT "1" // changes with what vmlinuz.c makes of an image

enum { ENTRY_MAX = 16 << 20 };
static const uint64_t FREE_LEAST = 64 << 20; // of the disk: the journal and packages need it more

// The next line of an entry, ended by a NUL in place of the newline; NULL = there is none.
static char *next_line(char **at)
{
	char *line = *at, *stop = strchr(line, '\n');
	if (!stop)
		return NULL;
	*stop = '\0';
	*at = stop + 1;
	return line;
}

static int parse_entry(char *text, size_t len, const char *key, struct vmlinuz *ret)
{
	auto_vmlinuz struct vmlinuz v = { 0 };
	struct err ignored;
	char hex[DIGEST_HEX + 1];
	char *at = text, *magic = next_line(&at);
	if (!magic || !str_starts(magic, MAGIC))
		return 0;
	digest_data(at, len - (size_t)(at - text), hex);
	if (!str_eq(magic + strlen(MAGIC), hex))
		return 0;
	const char *of = next_line(&at), *release = of ? next_line(&at) : NULL,
		   *machine = release ? next_line(&at) : NULL, *banner = machine ? next_line(&at) : NULL;
	uint64_t number;
	if (!banner || !str_eq(of, key) || !str_u64(machine + 1, 10, &number))
		return 0;
	v.has_crcs = *machine == '+';
	v.machine = (int)number;
	v.release = str_dup(release);
	v.banner = str_dup(banner);
	v.symvers = symvers_new();
	if (symvers_add_text(v.symvers, at, len - (size_t)(at - text), key, &ignored) < 0)
		return 0;
	*ret = v;
	v = (struct vmlinuz){ 0 };
	return 1;
}

// Whoever may write the entry could have the proof say anything: it must be ours alone.
static int find_entry(const struct root *state, const char *key, struct vmlinuz *ret)
{
	auto_str char *path = str_fmt(DIR "/%s", key), *text = NULL;
	struct err ignored;
	struct stat st;
	size_t len;
	auto_fd int fd = root_open(state, path, O_RDONLY | O_NOFOLLOW, &ignored);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022 ||
	    file_read_most(fd, path, ENTRY_MAX, &text, &len, &ignored) < 0)
		return 0;
	return parse_entry(text, len, key, ret);
}

// Unfinished ones of killed processes count, too.
static void remove_oldest(const struct root *dir)
{
	auto_strv struct strv names = { 0 };
	struct err ignored;
	if (root_list(dir, ".", &names, &ignored) <= 0)
		return;
	for (size_t count = names.count; count > VMLINUZ_CACHE_MOST; count--) {
		const char *oldest = NULL;
		struct stat st, first = { 0 };
		for (size_t i = 0; i < names.count; i++) {
			if (root_stat(dir, names.items[i], &st, &ignored) <= 0)
				continue;
			if (!oldest || st.st_mtim.tv_sec < first.st_mtim.tv_sec ||
			    (st.st_mtim.tv_sec == first.st_mtim.tv_sec && st.st_mtim.tv_nsec < first.st_mtim.tv_nsec)) {
				oldest = names.items[i];
				first = st;
			}
		}
		if (oldest)
			root_rmtree(dir, oldest, &ignored);
	}
}

static bool is_plain(const char *s)
{
	return !strpbrk(s, "\t\n\r");
}

// What follows the first line; NULL = an entry cannot say it.
static char *entry_text(const char *key, const struct vmlinuz *v)
{
	enum { FIXED = 48 }; // of a line: CRC, kind, tabs
	const struct symvers *sv = v->symvers;
	auto_str char *head =
		str_fmt("%s\n%s\n%c%d\n%s\n", key, v->release, v->has_crcs ? '+' : '-', v->machine, v->banner);
	size_t at = strlen(head), room = at + 1;
	for (size_t i = 0; i < sv->count && room < ENTRY_MAX / 2; i++)
		room += FIXED + strlen(sv->items[i].name) + strlen(sv->items[i].owner) + strlen(sv->items[i].namespace);
	if (room >= ENTRY_MAX / 2 || !is_plain(v->banner) || !is_plain(v->release))
		return NULL;
	auto_str char *text = mem_grow(NULL, room, 1);
	memcpy(text, head, at + 1);
	for (size_t i = 0; i < sv->count; i++) {
		const struct symver *s = &sv->items[i];
		if (!is_plain(s->name) || !is_plain(s->namespace))
			return NULL;
		at += (size_t)snprintf(text + at, room - at, "0x%08x\t%s\t%s\tEXPORT_SYMBOL%s\t%s\n", s->crc, s->name,
				       s->owner, s->is_gpl ? "_GPL" : "", s->namespace);
	}
	return TAKE(text);
}

// Not synced: what a power cut leaves of it does not have its digest.
static void keep_entry(const struct root *state, const char *key, const struct vmlinuz *v)
{
	auto_root struct root dir = ROOT_NONE;
	struct err ignored;
	struct statvfs fs;
	char hex[DIGEST_HEX + 1];
	auto_str char *text = entry_text(key, v);
	if (!text || fstatvfs(state->fd, &fs) < 0 || (uint64_t)fs.f_bavail * fs.f_frsize < FREE_LEAST ||
	    root_mkdir_private(state, "cache", &ignored) < 0 || root_mkdir_private(state, DIR, &ignored) < 0 ||
	    root_sub(state, DIR, &dir, &ignored) < 0)
		return;
	digest_data(text, strlen(text), hex);
	auto_str char *entry = str_fmt(MAGIC "%s\n%s", hex, text);
	if (root_put(&dir, key, entry, strlen(entry), 0600, &ignored) == 0)
		remove_oldest(&dir);
}

int vmlinuz_cache_read(const struct root *state, const struct root *kern, int fd, const char *name, struct vmlinuz *ret,
		       struct err *err)
{
	struct err ignored;
	struct stat before, after;
	auto_str char *notes = NULL, *running = NULL, *key = NULL;
	const void *data;
	size_t len;
	if (!state)
		return vmlinuz_read(fd, name, ret, err);
	if (kern && root_read_most(kern, "sys/kernel/notes", ENTRY_MAX, &notes, &len, &ignored) > 0)
		running = vmlinuz_gnu_build_id(notes, len);
	if (running) {
		key = str_fmt("build-id-%s", running);
		if (find_entry(state, key, ret))
			return 1;
	}
	if (fstat(fd, &before) < 0)
		return file_fail("look at", name, err);
	if (file_map(fd, name, &data, &len, err) < 0)
		return -1;
	if (!key) {
		char hex[DIGEST_HEX + 1];
		digest_data(data, len, hex);
		key = str_fmt("sha256-%s", hex);
		if (find_entry(state, key, ret)) {
			file_unmap(data, len);
			return 1;
		}
	}
	int r = vmlinuz_parse(data, len, name, ret, err);
	file_unmap(data, len);
	// Of an image that was written meanwhile, or that the running kernel was not started from, nothing is kept;
	// nor without symbols, which are what takes long.
	if (r == 0 && ret->symvers && (!running || str_eq(ret->gnu_build_id, running)) && fstat(fd, &after) == 0 &&
	    after.st_size == before.st_size && after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
	    after.st_ctim.tv_nsec == before.st_ctim.tv_nsec)
		keep_entry(state, key, ret);
	return r;
}
