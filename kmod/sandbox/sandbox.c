// SPDX-License-Identifier: Apache-2.0
// The parent's half: hand the description to a second start of this program as arguments.
#include "kmod/sandbox/sandbox.h"

#include "base/file/chown.h"
#include "kmod/sandbox/uid.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static bool is_same_dir(const struct root *root, const char *dir)
{
	struct stat a, b;
	return fstat(root->fd, &a) == 0 && stat(dir, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The child looks its paths up from "/".
static char *absolute_path(const struct root *root)
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
static char *inner_path(char *take, const char *base, size_t len)
{
	if (!take || !len || strncmp(take, base, len + 1) != 0)
		return take;
	char *ret = str_dup(take + len);
	free(take);
	return ret;
}

static bool is_in_opt(const char *program)
{
	auto_str char *path = program ? realpath(program, NULL) : NULL;
	return path && str_starts(path, "/opt/");
}

// A builder root's is its own; the machine's may hold anything.
static bool needs_opt(const struct sandbox *s)
{
	for (size_t i = 0; s->env && s->env[i]; i++)
		if (str_starts(s->env[i], "PATH=") && strstr(s->env[i], "/opt/"))
			return true;
	return s->base || is_in_opt(s->argv[0]) || is_in_opt(s->tool);
}

static void child_argv(const struct sandbox *s, uid_t uid, struct strv *argv)
{
	auto_str char *work = s->work ? absolute_path(s->work) : NULL,
		      *headers = s->headers ? absolute_path(s->headers) : NULL,
		      *base = s->base ? absolute_path(s->base) : NULL,
		      *cache = s->cache ? absolute_path(s->cache) : NULL;
	strv_add(argv, str_dup("/proc/self/exe"));
	strv_add(argv, str_dup(SANDBOX_ARG));
	auto_str char *named = str_dup(base);
	size_t foreign = foreign_len(base);
	if (foreign)
		strv_add(argv, str_fmt("--enter=%.*s/ns/mnt", (int)(foreign - strlen("/root")), named));
	work = inner_path(work, named, foreign);
	headers = inner_path(headers, named, foreign);
	cache = inner_path(cache, named, foreign);
	base = inner_path(base, named, foreign);
	if (base)
		strv_add(argv, str_fmt("--base=%s", base));
	if (work)
		strv_add(argv, str_fmt("--work=%s", work));
	if (cache)
		strv_add(argv, str_fmt("--cache=%s", cache));
	if (needs_opt(s))
		strv_add(argv, str_dup("--opt=yes"));
	strv_add(argv, str_fmt("--uid=%u", uid));
	strv_add(argv, str_fmt("--parent=%d", (int)getpid()));
	strv_add(argv, str_fmt("--dir=%s", s->dir ? s->dir : s->work ? SANDBOX_WORK : "/"));
	// A tree of this very file system is seen through /usr anyway.
	bool is_elsewhere = headers && (base || !is_same_dir(s->headers, "/"));
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

static int run_jailed(const struct sandbox *s, uid_t uid, struct proc_end *ret, struct err *err)
{
	auto_strv struct strv argv = { 0 };
	child_argv(s, uid, &argv);
	struct proc proc = { .argv = (const char *const *)argv.items,
			     .env = s->env,
			     .timeout_ms = s->timeout_ms,
			     .line = s->line,
			     .ctx = s->ctx };
	if (proc_run(&proc, ret, err) < 0)
		return -1;
	if (ret->status != SANDBOX_FAILED && ret->status != SANDBOX_EXCEEDED)
		return 0;
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, ret->tail, "\n");
	return err_set(err, ret->status == SANDBOX_FAILED ? E_SANDBOX : E_BUILD, "%s",
		       lines.count ? lines.items[lines.count - 1] : "no reason given");
}

// What was made is taken back, however it ended: who has no right to write everybody's files has to move and remove it.
int sandbox_run(const struct sandbox *s, struct proc_end *ret, struct err *err)
{
	const struct root *const given[] = { s->work, s->cache };
	struct err why;
	uid_t uid;
	if (uid_choose(&uid, err) < 0)
		return -1;
	bool is_other = uid != geteuid();
	for (size_t i = 0; i < ARRAY_SIZE(given) && is_other; i++)
		if (given[i] && chown_tree(given[i], uid, err) < 0)
			return -1;
	int r = run_jailed(s, uid, ret, err);
	for (size_t i = 0; i < ARRAY_SIZE(given) && is_other; i++) {
		if (!given[i] || chown_tree(given[i], 0, &why) == 0)
			continue;
		if (r == 0)
			*err = why;
		r = -1;
	}
	return r;
}
