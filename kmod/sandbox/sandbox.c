// SPDX-License-Identifier: Apache-2.0
// The parent's half: choose a user for the child, and hand the description to a second start of this program as
// arguments.
#include "kmod/sandbox/sandbox.h"

#include "base/file/root.h"
#include "base/file/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

// 1879048192 to 2147352575: "unused" in systemd's table of uids (UIDS-GIDS.md), between the containers of
// systemd-nspawn and the foreign ones; useradd(8), subuid(5) and Kubernetes' user namespaces stay far below.
static const uint32_t FIRST = 1879048192, COUNT = 2147352576 - 1879048192;
enum { TRIES = 16 };

struct range {
	uint32_t first, outside, count; // outside: what the first is called there
};

static bool range_has(const struct range *r, uint32_t first, uint32_t count)
{
	return first >= r->first && first - r->first <= r->count && r->count - (first - r->first) >= count;
}

// Of a map's lines "INSIDE OUTSIDE COUNT": the one with the range above, or the one with the most.
static int choose_range(const struct root *proc, const char *path, struct range *ret, struct err *err)
{
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	*ret = (struct range){ 0 };
	int got = root_read(proc, path, &text, NULL, err);
	if (got <= 0)
		return got < 0 ? -1 : err_set(err, E_SANDBOX, "proc/%s does not exist", path);
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		struct range r = { 0 };
		char *rest = NULL;
		r.first = (uint32_t)strtoul(lines.items[i], &rest, 10);
		r.outside = (uint32_t)strtoul(rest, &rest, 10);
		r.count = (uint32_t)strtoul(rest, &rest, 10);
		if (range_has(&r, FIRST, COUNT)) {
			*ret = (struct range){ .first = FIRST, .count = COUNT };
			return 0;
		}
		if (r.count > ret->count)
			*ret = r;
	}
	return 0;
}

// In a user namespace of some other size: from the middle of what it has, where a container has no users of its own.
static bool narrow(struct range *r)
{
	if (r->first != FIRST) {
		r->first += r->count / 2;
		r->count /= 4;
	}
	return r->count > 0;
}

static bool is_uid_used(const struct root *proc, const struct strv *names, uid_t uid)
{
	for (size_t i = 0; i < names->count; i++) {
		auto_str char *path = str_fmt("%s/status", names->items[i]), *status = NULL;
		struct err gone;
		if (names->items[i][strspn(names->items[i], "0123456789")] != '\0' ||
		    root_read(proc, path, &status, NULL, &gone) <= 0)
			continue;
		char *rest = strstr(status, "\nUid:");
		rest = rest ? rest + strlen("\nUid:") : status + strlen(status);
		for (int k = 0; k < 4 && *rest; k++)
			if (strtoul(rest, &rest, 10) == uid)
				return true;
	}
	return false;
}

int sandbox_choose_uid(uid_t *ret, struct err *err)
{
	auto_root struct root proc = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	struct range users, groups;
	*ret = geteuid();
	if (*ret != 0)
		return 0;
	if (root_init(&proc, "/proc", err) < 0 || choose_range(&proc, "self/uid_map", &users, err) < 0 ||
	    choose_range(&proc, "self/gid_map", &groups, err) < 0 || root_list(&proc, ".", &names, err) < 0)
		return err_code(err, E_SANDBOX);
	if (!narrow(&users) || !narrow(&groups) || !range_has(&groups, users.first, users.count)) {
		// Without any capability root still owns the machine's files, those of proc/sys among them.
		return users.outside ? 0 : err_set(err, E_SANDBOX, "this user namespace has no user but root");
	}
	for (int i = 0; i < TRIES; i++) {
		uint32_t random;
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return err_set(err, E_SANDBOX, "cannot get a random number for a uid");
		*ret = users.first + random % users.count;
		if (!is_uid_used(&proc, &names, *ret))
			return 0;
	}
	return err_set(err, E_SANDBOX, "all %d uids tried between %u and %u are in use", TRIES, users.first,
		       users.first + users.count - 1);
}

// Of a path /proc/PID/root or one below it: the part up to "root", 0 = not such a path.
static size_t foreign_len(const char *path)
{
	static const char PROC[] = "/proc/", ROOT[] = "/root";
	size_t at = strlen(PROC);
	if (!path || !str_starts(path, PROC))
		return 0;
	size_t pid = strspn(path + at, "0123456789"), len = at + pid + strlen(ROOT);
	return pid && str_starts(path + at + pid, ROOT) && (path[len] == '/' || !path[len]) ? len : 0;
}

bool sandbox_is_foreign(const struct root *root)
{
	return foreign_len(root->name) > 0;
}

// As the child looks it up, from "/": inside base's mount namespace by its name there. NULL = none.
static char *child_path(const struct root *root, const char *base, size_t foreign)
{
	if (!root)
		return NULL;
	auto_str char *path = *root->name && *root->name != '/' ? realpath(root->name, NULL) : str_dup(root->name);
	bool is_of_base = path && foreign && strncmp(path, base, foreign) == 0 && foreign_len(path) == foreign;
	return is_of_base ? str_dup(path + foreign) : TAKE(path);
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
	auto_str char *named = child_path(s->base, NULL, 0);
	size_t foreign = foreign_len(named);
	auto_str char *base = child_path(s->base, named, foreign), *work = child_path(s->work, named, foreign),
		      *headers = child_path(s->headers, named, foreign), *cache = child_path(s->cache, named, foreign);
	strv_add(argv, str_dup("/proc/self/exe"));
	strv_add(argv, str_dup(SANDBOX_ARG));
	if (foreign)
		strv_add(argv, str_fmt("--enter=%.*s/ns/mnt", (int)(foreign - strlen("/root")), named));
	if (base)
		strv_add(argv, str_fmt("--base=%s", base));
	if (work)
		strv_add(argv, str_fmt("--work=%s", work));
	if (cache)
		strv_add(argv, str_fmt("--cache=%s", cache));
	if (needs_opt(s))
		strv_add(argv, str_dup("--opt=yes"));
	if (s->is_networked)
		strv_add(argv, str_dup("--network=yes"));
	if (s->resolver)
		strv_add(argv, str_fmt("--file=%s/%s=/etc/resolv.conf", work, s->resolver));
	strv_add(argv, str_fmt("--uid=%u", uid));
	strv_add(argv, str_fmt("--parent=%d", (int)getpid()));
	strv_add(argv, str_fmt("--dir=%s", s->dir ? s->dir : s->work ? SANDBOX_WORK : "/"));
	// A tree of this very file system is seen through /usr anyway.
	struct stat top, of_headers;
	bool is_elsewhere = headers && (base || fstat(s->headers->fd, &of_headers) < 0 || stat("/", &top) < 0 ||
					top.st_dev != of_headers.st_dev || top.st_ino != of_headers.st_ino);
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

// The files are chowned back however it ended: without CAP_DAC_OVERRIDE we could not move or remove them.
int sandbox_run(const struct sandbox *s, struct proc_end *ret, struct err *err)
{
	const struct root *const given[] = { s->work, s->cache };
	auto_strv struct strv argv = { 0 };
	struct err why;
	uid_t uid = geteuid();
	if (!s->is_networked && sandbox_choose_uid(&uid, err) < 0)
		return -1;
	bool is_other = uid != geteuid();
	for (size_t i = 0; i < ARRAY_SIZE(given) && is_other; i++)
		if (given[i] && scratch_chown(given[i], uid, err) < 0)
			return -1;
	child_argv(s, uid, &argv);
	const struct proc proc = { .argv = (const char *const *)argv.items,
				   .env = s->env,
				   .timeout_ms = s->timeout_ms,
				   .line = s->line,
				   .ctx = s->ctx };
	int r = proc_run(&proc, ret, err);
	if (r == 0 && (ret->status == SANDBOX_FAILED || ret->status == SANDBOX_EXCEEDED)) {
		auto_strv struct strv lines = { 0 };
		strv_split(&lines, ret->tail, "\n");
		r = err_set(err, ret->status == SANDBOX_FAILED ? E_SANDBOX : E_BUILD, "%s",
			    lines.count ? lines.items[lines.count - 1] : "no reason given");
	}
	for (size_t i = 0; i < ARRAY_SIZE(given) && is_other; i++) {
		if (!given[i] || scratch_chown(given[i], 0, &why) == 0)
			continue;
		if (r == 0)
			*err = why;
		r = -1;
	}
	return r;
}
