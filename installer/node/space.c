// SPDX-License-Identifier: Apache-2.0
#include "node/space.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum { PATH_LEN = 4096 };

static char *link_at(int dir, const char *path)
{
	char target[PATH_LEN + 1];
	ssize_t len = readlinkat(dir, path, target, PATH_LEN);
	return len > 0 ? str_ndup(target, (size_t)len) : NULL;
}

// "/proc/1/root": NULL when the host is not named so.
static char *other_namespace(const struct root *host)
{
	unsigned pid;
	int end = 0;
	return sscanf(host->name, "/proc/%u/root%n", &pid, &end) == 1 && end &&
			       strspn(host->name + end, "/") == strlen(host->name + end) ?
		       str_fmt("%u/ns/mnt", pid) :
		       NULL;
}

static int enter(struct space *s, const char *ns, struct err *err)
{
	auto_str char *other = link_at(s->proc, ns), *own = link_at(s->proc, "self/ns/mnt");
	if (!other || str_eq(own, other))
		return 0;
	s->other = openat(s->proc, ns, O_RDONLY | O_CLOEXEC);
	s->root = openat(s->proc, "self/root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	s->cwd = openat(s->proc, "self/cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd int back = openat(s->proc, "self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (s->other < 0 || s->root < 0 || s->cwd < 0 || back < 0 || s->sys->mount_enter(s->sys, s->other) < 0)
		return err_set(err, errno == EPERM ? E_RIGHTS : errno,
			       "enter the host's mount namespace (CAP_SYS_ADMIN and CAP_SYS_CHROOT are needed)");
	s->own = TAKE_FD(back);
	return 0;
}

int space_open(const struct root *host, const struct root *kern, const struct sys *sys, struct space *ret,
	       struct err *err)
{
	auto_space struct space s = SPACE_NONE;
	auto_str char *ns = other_namespace(host);
	s.kern = kern;
	s.sys = sys;
	s.proc = root_open(kern, "proc", O_PATH | O_DIRECTORY, err);
	if (s.proc < 0 || (ns && enter(&s, ns, err) < 0))
		return -1;
	*ret = s;
	s = SPACE_NONE;
	return 0;
}

void space_done(struct space *s)
{
	// A namespace's own root is not ours when we were started in a chroot.
	if (s->own >= 0 && s->sys->mount_enter(s->sys, s->own) == 0 && fchdir(s->root) == 0 && chroot(".") == 0 &&
	    fchdir(s->cwd) == 0)
		close_fdp(&s->own);
	close_fdp(&s->proc);
	close_fdp(&s->root);
	close_fdp(&s->cwd);
	close_fdp(&s->other);
	*s = SPACE_NONE;
}

int space_mounts(const struct space *s, struct mounts *ret, struct err *err)
{
	auto_str char *text = NULL;
	auto_fd int fd = openat(s->proc, "self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || file_read(fd, "mountinfo", &text, NULL, err) < 0)
		return fd < 0 ? file_fail("open", "self/mountinfo of proc", err) : -1;
	mounts_parse(text, ret);
	return 0;
}

char *space_path(const struct space *s, int fd)
{
	char link[32];
	snprintf(link, sizeof(link), "self/fd/%d", fd);
	return link_at(s->proc, link);
}
