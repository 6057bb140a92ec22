// SPDX-License-Identifier: Apache-2.0
// The parent's half: hand the description to a second start of this program as arguments.
#include "kmod/sandbox.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static bool is_same(const struct root *root, const char *dir)
{
	struct stat a, b;
	return fstat(root->fd, &a) == 0 && stat(dir, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The child looks its paths up from "/".
static char *absolute(const struct root *root)
{
	return *root->name && *root->name != '/' ? realpath(root->name, NULL) : str_dup(root->name);
}

// Of a path /proc/PID/root/...: the part up to "root", 0 = it is no such path.
static size_t foreign_len(const char *path)
{
	static const char PROC[] = "/proc/", ROOT[] = "/root/";
	size_t at = strlen(PROC);
	if (!path || !str_starts(path, PROC))
		return 0;
	size_t pid = strspn(path + at, "0123456789");
	return pid && str_starts(path + at + pid, ROOT) ? at + pid + strlen(ROOT) - 1 : 0;
}

bool sandbox_is_foreign(const struct root *root)
{
	return foreign_len(root->name) > 0;
}

// What lies in the mount namespace that the base lies in is named as it is named there.
static char *inner(char *take, const char *base, size_t len)
{
	if (!take || !len || strncmp(take, base, len + 1) != 0)
		return take;
	char *ret = str_dup(take + len);
	free(take);
	return ret;
}

static void describe(const struct sandbox *s, struct strv *argv)
{
	auto_str char *work = s->work ? absolute(s->work) : NULL, *headers = s->headers ? absolute(s->headers) : NULL,
		      *base = s->base ? absolute(s->base) : NULL, *cache = s->cache ? absolute(s->cache) : NULL;
	strv_add(argv, str_dup("/proc/self/exe"));
	strv_add(argv, str_dup(SANDBOX_ARG));
	auto_str char *named = str_dup(base);
	size_t foreign = foreign_len(base);
	if (foreign)
		strv_add(argv, str_fmt("--enter=%.*s/ns/mnt", (int)(foreign - strlen("/root")), named));
	work = inner(work, named, foreign);
	headers = inner(headers, named, foreign);
	cache = inner(cache, named, foreign);
	base = inner(base, named, foreign);
	if (base)
		strv_add(argv, str_fmt("--base=%s", base));
	if (work)
		strv_add(argv, str_fmt("--work=%s", work));
	if (cache)
		strv_add(argv, str_fmt("--cache=%s", cache));
	strv_add(argv, str_fmt("--dir=%s", s->dir ? s->dir : s->work ? SANDBOX_WORK : "/"));
	// A tree of this very file system is seen through /usr anyway.
	bool is_elsewhere = headers && (base || !is_same(s->headers, "/"));
	for (size_t i = 0; headers && s->dirs && i < s->dirs->count; i++) {
		const char *dir = s->dirs->items[i];
		bool is_scratch = str_eq(dir, s->scratch);
		if (is_elsewhere || is_scratch)
			strv_add(argv, str_fmt("--%s=%s%s=%s", is_scratch ? "scratch" : "show", headers, dir, dir));
	}
	strv_add(argv, str_dup("--"));
	for (size_t i = 0; s->argv[i]; i++)
		strv_add(argv, str_dup(s->argv[i]));
}

static int run(const struct sandbox *s, struct proc_end *ret, struct err *err)
{
	auto_strv struct strv argv = { 0 };
	describe(s, &argv);
	struct proc proc = { .argv = (const char *const *)argv.items,
			     .env = s->env,
			     .timeout_ms = s->timeout_ms,
			     .line = s->line,
			     .ctx = s->ctx };
	if (proc_run(&proc, ret, err) < 0)
		return -1;
	if (ret->status != SANDBOX_FAILED)
		return 0;
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, ret->tail, "\n");
	return err_set(err, E_SANDBOX, "%s", lines.count ? lines.items[lines.count - 1] : "no reason given");
}

// What was made is taken back, however it ended: who has no right to write everybody's files has to move and remove it.
int sandbox_run(const struct sandbox *s, struct proc_end *ret, struct err *err)
{
	bool is_root = geteuid() == 0;
	struct err why;
	if (s->work && is_root && own_tree(s->work, SANDBOX_UID, err) < 0)
		return -1;
	// What is below was made by it already.
	if (s->cache && is_root && fchownat(s->cache->fd, ".", SANDBOX_UID, SANDBOX_UID, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, errno, "give '%s' to uid %d", s->cache->name, SANDBOX_UID);
	int r = run(s, ret, err);
	if (!s->work || !is_root || own_tree(s->work, 0, &why) == 0)
		return r;
	if (r == 0)
		*err = why;
	return -1;
}
