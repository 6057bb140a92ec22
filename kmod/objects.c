// SPDX-License-Identifier: Apache-2.0
#include "kmod/objects.h"

#include <sys/statvfs.h>

#define DIR "objects"
// On a full disk ccache goes on without keeping anything, but fills it to the last byte first.
#define ROOM_BYTES ((uint64_t)256 << 20)

static bool has_room(const struct root *dir)
{
	struct statvfs st;
	return fstatvfs(dir->fd, &st) == 0 && (uint64_t)st.f_bavail * st.f_frsize >= ROOM_BYTES;
}

void objects_open(const struct root *cache, const struct toolchain *tools, struct root *ret)
{
	auto_root struct root dir = ROOT_NONE;
	struct err ignored;
	*ret = ROOT_NONE;
	if (!tools->ccache || root_mkdirs(cache, DIR, 0755, &ignored) < 0 || root_sub(cache, DIR, &dir, &ignored) < 0 ||
	    !has_room(&dir))
		return;
	*ret = dir;
	dir = ROOT_NONE;
}

// For each compile a line "# INPUT" and some with what became of it. The kernel's makefiles also compile /dev/null, to
// learn what the compiler knows.
size_t objects_count(const struct root *job)
{
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	struct err absent;
	struct stat st;
	size_t count = 0;
	bool is_source = false;
	if (job->fd < 0 || root_stat(job, OBJECTS_LOG, &st, &absent) <= 0 || !S_ISREG(st.st_mode) ||
	    root_read(job, OBJECTS_LOG, &text, NULL, &absent) <= 0)
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
