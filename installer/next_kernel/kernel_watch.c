// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/kernel_watch.h"

#include <errno.h>
#include <sys/inotify.h>

// A host whose files never stop changing is checked all the same.
enum { DIRS_MAX = 64, QUIETS_MAX = 20 };
static const char MODULES[] = "lib/modules", QUEUE[] = "kernels";
static const uint32_t EVENTS = IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE | IN_DELETE_SELF |
			       IN_MOVE_SELF | IN_ONLYDIR;

static void watch_subdirs(const struct kernel_watch *n, const char *dir, const char *inside)
{
	struct err ignored;
	auto_strv struct strv names = { 0 };
	root_list(n->host, dir, &names, &ignored);
	for (size_t i = 0; i < names.count && i < DIRS_MAX; i++) {
		auto_str char *path = str_fmt("%s/%s%s", dir, names.items[i], inside);
		root_watch(n->host, path, n->fd, EVENTS, &ignored);
	}
}

// Existing watches stay; missing directories are skipped.
static void watch_kernel_dirs(const struct kernel_watch *n)
{
	static const char *const dirs[] = { MODULES, "boot", "usr/src", "usr/src/kernels",
					    "etc/kmodsmith" }; // which driver
	struct err ignored;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		root_watch(n->host, dirs[i], n->fd, EVENTS, &ignored);
	watch_subdirs(n, MODULES, "");
	watch_subdirs(n, "ostree/deploy", "/deploy");
	root_watch(n->state, QUEUE, n->fd, EVENTS, &ignored);
}

int kernel_watch_open(const struct root *host, const struct root *state, int64_t quiet_ms, struct kernel_watch *ret,
		      struct err *err)
{
	*ret = (struct kernel_watch){ .host = host, .state = state, .quiet_ms = quiet_ms };
	ret->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (ret->fd < 0)
		return err_set(err, errno, "watch the kernels of the host");
	if (root_mkdirs(state, QUEUE, 0755, err) < 0)
		return -1;
	watch_kernel_dirs(ret);
	return 0;
}

void kernel_watch_done(struct kernel_watch *n)
{
	close_fdp(&n->fd);
	*n = KERNEL_WATCH_NONE;
}

void kernel_watch_read(struct kernel_watch *n, int64_t now_ms)
{
	char events[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool is_any = false;
	while (n->fd >= 0 && read(n->fd, events, sizeof(events)) > 0)
		is_any = true;
	if (!is_any)
		return;
	n->first_ms = n->is_dirty ? n->first_ms : now_ms;
	n->last_ms = now_ms;
	n->is_dirty = true;
	watch_kernel_dirs(n); // a directory may be new
}

int64_t kernel_watch_due(const struct kernel_watch *n)
{
	int64_t quiet = n->last_ms + n->quiet_ms, most = n->first_ms + QUIETS_MAX * n->quiet_ms;
	return !n->is_dirty ? INT64_MAX : quiet < most ? quiet : most;
}

void kernel_watch_clear(struct kernel_watch *n)
{
	struct err ignored;
	auto_strv struct strv queued = { 0 };
	root_list(n->state, QUEUE, &queued, &ignored);
	for (size_t i = 0; i < queued.count; i++) {
		auto_str char *path = str_fmt("%s/%s", QUEUE, queued.items[i]);
		root_unlink(n->state, path, &ignored);
	}
	watch_kernel_dirs(n);
	kernel_watch_read(n, 0); // our own doing
	n->is_dirty = false;
}
