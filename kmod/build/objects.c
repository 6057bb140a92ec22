// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/objects.h"

#include "base/file/digest.h"
#include "base/file/lockfile.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define OBJECTS_LOCK ".lock"
#define OBJECTS_ROOM ((uint64_t)256 << 20) // of free disk
enum { OBJECTS_KEPT = 4, OBJECTS_LOG_MOST = 4 << 20 };

// The lock lies beside the directory, where the sandbox does not see it. Its mtime is the last use. A file that was
// removed in the meantime locks nothing.
static int lock_objects(const struct root *all, const char *digest)
{
	auto_str char *name = str_fmt("%s" OBJECTS_LOCK, digest);
	auto_fd int fd = lockfile_open(all->fd, name, O_RDWR);
	struct stat st;
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 || !st.st_nlink || futimens(fd, NULL) < 0)
		return -1;
	return TAKE_FD(fd);
}

// Removes what older versions kept for all sources in one place, and the least recently used directory.
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
		auto_str char *file = str_fmt("%s" OBJECTS_LOCK, name);
		struct stat st;
		if (!digest_is_hex(name)) {
			if (!str_ends(name, OBJECTS_LOCK))
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
	if (count <= OBJECTS_KEPT)
		return;
	auto_str char *lock = str_fmt("%s" OBJECTS_LOCK, which);
	auto_fd int fd = lock_objects(all, which);
	if (fd >= 0 && root_rmtree(all, which, &ignored) >= 0)
		root_unlink(all, lock, &ignored);
}

void objects_open(struct compile *c, const struct root *cache, const char *same)
{
	static const char DIR[] = "objects";
	auto_root struct root all = ROOT_NONE, dir = ROOT_NONE;
	struct err ignored;
	struct statvfs st;
	if (!c->tools->ccache || root_mkdir_private(cache, DIR, &ignored) < 0 ||
	    root_sub(cache, DIR, &all, &ignored) < 0)
		return;
	auto_fd int lock = lock_objects(&all, same);
	if (lock < 0 || root_mkdirs(&all, same, 0700, &ignored) < 0)
		return;
	evict_oldest_objects(&all);
	// On a full disk ccache works without keeping anything, but fills the disk to the last byte first.
	if (root_sub(&all, same, &dir, &ignored) < 0 || fstatvfs(dir.fd, &st) < 0 ||
	    (uint64_t)st.f_bavail * st.f_frsize < OBJECTS_ROOM)
		return;
	c->objects = dir;
	dir = ROOT_NONE;
	c->objects_lock = TAKE_FD(lock);
}

void objects_close(struct compile *c)
{
	root_done(&c->objects);
	c->objects = ROOT_NONE;
	close_fdp(&c->objects_lock);
	c->objects_lock = -1;
}

// The log has a line "# INPUT" for each compile and some with its outcome. The makefiles also compile /dev/null, to
// learn what the compiler supports.
size_t objects_count(const struct root *job)
{
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	struct err absent;
	size_t count = 0;
	bool is_source = false;
	if (job->fd < 0 || root_read_most(job, OBJECTS_LOG, OBJECTS_LOG_MOST, &text, NULL, &absent) <= 0)
		return 0;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		if (str_starts(lines.items[i], "# "))
			is_source = str_ends(lines.items[i], ".c") || str_ends(lines.items[i], ".cpp");
		count += is_source && (str_eq(lines.items[i], "direct_cache_hit") ||
				       str_eq(lines.items[i], "preprocessed_cache_hit"));
	}
	return count;
}
