// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/objects.h"

#include "base/file/chown.h"
#include "base/file/lockfile.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define DIR "objects"
#define LOCK ".lock"
// On a full disk ccache works without keeping anything, but fills the disk to the last byte first.
#define ROOM_BYTES ((uint64_t)256 << 20)
enum { MOST_LOG = 4 << 20 };

static bool has_room(const struct root *dir)
{
	struct statvfs st;
	return fstatvfs(dir->fd, &st) == 0 && (uint64_t)st.f_bavail * st.f_frsize >= ROOM_BYTES;
}

// Beside the directory, where the sandbox does not see it. Its time is that of the last use. A file that was removed in
// the meantime locks nothing.
static int lock_objects(const struct root *all, const char *digest)
{
	auto_str char *name = str_fmt("%s" LOCK, digest);
	auto_fd int fd = lockfile_open(all->fd, name, O_RDWR);
	struct stat st;
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 || !st.st_nlink || futimens(fd, NULL) < 0)
		return -1;
	return TAKE_FD(fd);
}

static void remove_objects(const struct root *all, const char *digest)
{
	auto_str char *name = str_fmt("%s" LOCK, digest);
	auto_fd int fd = lock_objects(all, digest);
	struct err ignored;
	if (fd >= 0 && root_rmtree(all, digest, &ignored) >= 0)
		root_unlink(all, name, &ignored);
}

// What older versions kept for all sources in one place goes, and of the directories the one that was used longest ago.
static void evict_oldest_objects(const struct root *all)
{
	auto_strv struct strv names = { 0 };
	struct err ignored;
	struct timespec oldest = { 0 };
	const char *which = NULL;
	size_t count = 0;
	root_list(all, ".", &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		auto_str char *file = str_fmt("%s" LOCK, name);
		struct stat st;
		if (!digest_is_hex(name)) {
			if (!str_ends(name, LOCK))
				root_rmtree(all, name, &ignored);
			continue;
		}
		count++;
		if (root_stat(all, file, &st, &ignored) <= 0)
			st.st_mtim = (struct timespec){ 0 };
		if (!which || st.st_mtim.tv_sec < oldest.tv_sec ||
		    (st.st_mtim.tv_sec == oldest.tv_sec && st.st_mtim.tv_nsec < oldest.tv_nsec)) {
			which = name;
			oldest = st.st_mtim;
		}
	}
	if (count > OBJECTS_KEPT)
		remove_objects(all, which);
}

void objects_open(const struct root *cache, const char *digest, const struct toolchain *tools, struct root *ret,
		  int *ret_lock)
{
	auto_root struct root all = ROOT_NONE, dir = ROOT_NONE;
	struct err ignored;
	*ret = ROOT_NONE;
	*ret_lock = -1;
	if (!tools->ccache || chown_private(cache, DIR, &ignored) < 0 || root_sub(cache, DIR, &all, &ignored) < 0)
		return;
	auto_fd int fd = lock_objects(&all, digest);
	if (fd < 0 || root_mkdirs(&all, digest, 0700, &ignored) < 0)
		return;
	evict_oldest_objects(&all);
	if (root_sub(&all, digest, &dir, &ignored) < 0 || !has_room(&dir))
		return;
	*ret = dir;
	dir = ROOT_NONE;
	*ret_lock = TAKE_FD(fd);
}

// For each compile a line "# INPUT" and some with what became of it. The kernel's makefiles also compile /dev/null, to
// learn what the compiler knows.
size_t objects_count(const struct root *job)
{
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	struct err absent;
	size_t count = 0;
	bool is_source = false;
	if (job->fd < 0 || root_read_most(job, OBJECTS_LOG, MOST_LOG, &text, NULL, &absent) <= 0)
		return 0;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		if (str_starts(lines.items[i], "# "))
			is_source = str_ends(lines.items[i], ".c");
		count += is_source && (str_eq(lines.items[i], "direct_cache_hit") ||
				       str_eq(lines.items[i], "preprocessed_cache_hit"));
	}
	return count;
}
