// SPDX-License-Identifier: Apache-2.0
// How much a compile may write in total, which no limit of the kernel's counts without a quota on the file system: the
// process before the jail looks now and then, and ends it. It looks from outside, where nothing in the jail reaches it.
#include "kmod/sandbox/jail.h"

#include "base/core/date.h"
#include "base/file/subtree.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { MOST_FAILURES = 60, SHARE = 100 }; // of the time, one part in SHARE at most is for looking

struct written {
	const struct write_limit *room;
	uint64_t bytes;
	size_t files;
};

static bool is_too_much(const struct written *w)
{
	return w->bytes > w->room->bytes || w->files > w->room->files;
}

static int count_entry(void *written, int dir, const char *name, const struct stat *st)
{
	struct written *w = written;
	(void)dir, (void)name;
	w->bytes += (uint64_t)st->st_blocks * 512;
	w->files++;
	return is_too_much(w) ? -1 : 0;
}

// Files come and go while it looks, which may end a look early, but not for ever.
static char *check_limit(const struct write_limit *room, unsigned *failures)
{
	struct written sum = { .room = room };
	bool is_whole = true;
	for (size_t i = 0; i < ARRAY_SIZE(room->dirs); i++)
		if (room->dirs[i] >= 0 && subtree_each(room->dirs[i], ".", count_entry, &sum) < 0)
			is_whole = false;
	if (is_too_much(&sum))
		return sum.files > room->files ?
			       str_fmt("the compile made more than %zu files", room->files) :
			       str_fmt("the compile wrote more than %" PRIu64 " MiB", room->bytes >> 20);
	*failures = is_whole ? 0 : *failures + 1;
	return *failures < MOST_FAILURES ? NULL : str_dup("the files that the compile makes cannot be counted");
}

int sandbox_limit_writes(pid_t pid, const struct write_limit *room, char **ret_why)
{
	sigset_t child;
	int status = 0;
	unsigned failures = 0;
	struct timespec pause = { .tv_sec = 1 };
	*ret_why = NULL;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	for (;;) {
		pid_t ended = waitpid(pid, &status, *ret_why ? 0 : WNOHANG);
		if (ended == pid || (ended < 0 && errno != EINTR))
			return status;
		if (ended != 0 || sigtimedwait(&child, NULL, &pause) >= 0)
			continue;
		long start = clock_ms();
		*ret_why = check_limit(room, &failures);
		if (*ret_why)
			kill(pid, SIGKILL);
		long took = (clock_ms() - start) * SHARE;
		pause = (struct timespec){ .tv_sec = took < 1000 ? 1 : took / 1000 };
	}
}
