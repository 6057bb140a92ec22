// SPDX-License-Identifier: Apache-2.0
// Linked into every unit test: a test program that ends with more open files than it began with has failed, as one that
// loses memory has under AddressSanitizer.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIRST = 3, MOST = 1024 };

static pid_t self;
static unsigned char had[MOST];

static int look(void (*each)(int fd))
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;
	if (!dir)
		return 0;
	for (const struct dirent *e; (e = readdir(dir));) {
		int fd = atoi(e->d_name);
		if (fd < FIRST || fd >= MOST || fd == dirfd(dir) || had[fd])
			continue;
		each(fd);
		count++;
	}
	closedir(dir);
	return count;
}

static void remember(int fd)
{
	had[fd] = 1;
}

static void tell(int fd)
{
	char path[32], target[PATH_MAX] = "?";
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, target, sizeof(target) - 1) < 0)
		perror(path);
	fprintf(stderr, "left open: %d, %s\n", fd, target);
}

// A child that leaves by exit() may still have what its parent had open in that moment, and so has a test that failed.
static void end(int status, void *unused)
{
	(void)unused;
	if (status == EXIT_SUCCESS && getpid() == self && look(tell) > 0)
		_exit(EXIT_FAILURE);
}

__attribute__((constructor)) static void begin(void)
{
	self = getpid();
	look(remember);
	if (on_exit(end, NULL) != 0)
		abort();
}
