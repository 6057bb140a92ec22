// SPDX-License-Identifier: Apache-2.0
#include "kmod/sandbox/uid.h"

#include "base/file/root.h"

#include <sys/random.h>

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
		return got < 0 ? -1 : err_set(err, E_SANDBOX, "there is no proc/%s", path);
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

static bool is_status_of(const char *status, uid_t uid)
{
	const char *line = strstr(status, "\nUid:");
	char *rest = (char *)(uintptr_t)(line ? line + strlen("\nUid:") : "");
	for (int i = 0; i < 4 && *rest; i++)
		if (strtoul(rest, &rest, 10) == uid)
			return true;
	return false;
}

static bool is_uid_used(const struct root *proc, const struct strv *names, uid_t uid)
{
	for (size_t i = 0; i < names->count; i++) {
		auto_str char *path = str_fmt("%s/status", names->items[i]), *status = NULL;
		struct err gone;
		if (names->items[i][strspn(names->items[i], "0123456789")] == '\0' &&
		    root_read(proc, path, &status, NULL, &gone) > 0 && is_status_of(status, uid))
			return true;
	}
	return false;
}

int uid_choose(uid_t *ret, struct err *err)
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
			return err_set(err, E_SANDBOX, "no random number for a uid");
		*ret = users.first + random % users.count;
		if (!is_uid_used(&proc, &names, *ret))
			return 0;
	}
	return err_set(err, E_SANDBOX, "of the uids %u to %u, %d were tried and are in use", users.first,
		       users.first + users.count - 1, TRIES);
}
