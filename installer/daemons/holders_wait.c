// SPDX-License-Identifier: Apache-2.0
#include "daemons/holders_wait.h"

#include "base/core/date.h"
#include "base/process/proc.h"
#include "daemons/daemon_record.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

enum { POLL_MS = 500, TELL_MS = 10 * 1000 };

static const char *const names[] = { "refuse", "wait", "stop" };

static bool is_our_daemon(const struct daemon_record *r, const struct holder *h)
{
	for (size_t i = 0; i < r->count; i++)
		if (h->start && !r->items[i].is_foreign && r->items[i].pid == h->pid && r->items[i].start == h->start)
			return true;
	return false;
}

int holders_wait_omit_daemons(const struct root *host, const struct root *kern, struct holders *h, struct err *err)
{
	auto_daemon_record struct daemon_record record = { 0 };
	size_t kept = 0, running = 0;
	if (daemon_record_now(host, kern, &record, err) < 0)
		return -1;
	for (size_t i = 0; i < h->count; i++) {
		struct holder x = h->items[i];
		h->items[i] = h->items[kept];
		h->items[kept] = x;
		kept += !is_our_daemon(&record, &x);
	}
	while (h->count > kept)
		holder_done(&h->items[--h->count]);
	for (size_t i = 0; i < record.count; i++)
		running += !record.items[i].is_foreign && daemon_entry_runs(&record.items[i], kern);
	return running > 0;
}

bool holders_wait_parse(const char *text, enum holders_policy *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(text, names[i])) {
			*ret = (enum holders_policy)i;
			return true;
		}
	return false;
}

const char *holders_wait_name(enum holders_policy policy)
{
	return names[policy];
}

int holders_wait_deadline_ms(enum holders_policy policy, unsigned seconds)
{
	enum { WAIT_S = 300, STOP_S = 30, DAY_S = 24 * 60 * 60 };
	if (!seconds)
		seconds = policy == HOLDERS_STOP ? STOP_S : WAIT_S;
	return (int)(seconds < DAY_S ? seconds : DAY_S) * 1000;
}

// More references than dependents: the kernel would refuse this module after others have been unloaded.
char *holders_wait_uncounted(const struct modules *l)
{
	// With modeset=1 it keeps devices open inside the kernel, and closes them when it is unloaded.
	bool has_drm = modules_find(l, "nvidia_drm");
	for (size_t i = 0; i < l->count; i++) {
		const struct loaded_module *m = &l->items[i];
		bool is_drm_counted = has_drm && (str_eq(m->name, "nvidia") || str_eq(m->name, "nvidia_modeset"));
		if (m->refcount > m->holders.count && !is_drm_counted)
			return str_fmt("something that is not visible from here uses module %s (%u reference%s, %zu "
				       "dependent%s)",
				       m->name, m->refcount, str_plural(m->refcount), m->holders.count,
				       str_plural(m->holders.count));
	}
	return NULL;
}

char *holders_wait_blocker(enum holders_policy policy, const struct modules *loaded, const struct holders *holders,
			   bool has_daemons)
{
	size_t count = holders_blocking(holders);
	if (policy == HOLDERS_STOP)
		count -= holders->modules.count;
	if (!count && holders->console)
		return str_fmt("the kernel's console uses module nvidia_drm: %s", holders->console);
	if (!count)
		return has_daemons ? NULL : holders_wait_uncounted(loaded);
	auto_str char *first = holders_first(holders);
	return str_fmt("%zu holder(s), first: %s", count, first);
}

void holders_wait_note(struct progress *progress, const struct holders *holders)
{
	for (size_t i = 0; i < holders->count; i++) {
		auto_str char *text = holder_text(&holders->items[i]);
		if (holders->items[i].kind != HOLDER_MOUNT)
			progress_note(progress, "in use by %s", text);
	}
	for (size_t i = 0; i < holders->modules.count; i++)
		progress_note(progress, "in use by module %s", holders->modules.items[i]);
	if (holders->console)
		progress_note(progress, "in use by the kernel's console: %s", holders->console);
}

static int look_for_holders(const struct holders_wait *d, struct modules *loaded, struct holders *holders,
			    char **ret_who, struct err *err)
{
	modules_done(loaded);
	holders_done(holders);
	*loaded = (struct modules){ 0 };
	if (modules_read(d->node->host, d->node->kern, d->node->release, loaded, err) < 0 ||
	    holders_find(d->node->kern, loaded, holders, err) < 0)
		return -1;
	int ours = holders_wait_omit_daemons(d->node->host, d->node->kern, holders, err);
	if (ours < 0)
		return -1;
	*ret_who = holders_wait_blocker(d->policy, loaded, holders, ours > 0);
	return 0;
}

static int refuse_in_use(const char *who, const struct holders *h, struct err *err)
{
	err_set(err, E_IN_USE, "%s", who);
	if (!holders_blocking(h) && !h->console)
		return err_next(err, "look as root from the host's own pid namespace (in a pod: hostPID): `kmodsmith "
				     "holders`; what is in no process is a part of the kernel, and goes with a reboot");
	return holders_blocking(h) ? -1 : holders_next(h, err);
}

int holders_wait_check(const struct holders_wait *d, struct modules *ret_loaded, struct holders *ret, struct err *err)
{
	auto_str char *who = NULL;
	if (look_for_holders(d, ret_loaded, ret, &who, err) < 0)
		return -1;
	return who ? refuse_in_use(who, ret, err) : 0;
}

// The pid may belong to another process by now: check it again through the pidfd, which cannot change.
static int stop_holder(const struct holders_wait *d, const struct holder *h, struct err *err)
{
	auto_fd int process = d->node->sys->process_open(d->node->sys, h->pid);
	if (process < 0)
		return errno == ESRCH ? 0 : err_set(err, errno, "open process %d", h->pid);
	if (!h->start || h->pid == 1 || proc_start_time(d->node->kern, h->pid) != h->start)
		return 0;
	if (d->node->sys->process_signal(d->node->sys, process, h->pid, SIGTERM) < 0 && errno != ESRCH)
		return err_set(err, errno, "signal process %d", h->pid);
	progress_note(d->node->progress, "sent SIGTERM to pid %d %s", h->pid, h->comm);
	return 0;
}

// proc may be that of another pid namespace, where our pids mean other processes.
static int check_pid_namespace(const struct holders_wait *d, struct err *err)
{
	struct err ignored;
	uint64_t pid;
	auto_str char *self = NULL;
	if (d->node->sys->record || (root_readlink(d->node->kern, "proc/self", &self, &ignored) > 0 &&
				     str_u64(self, 10, &pid) && (pid_t)pid == getpid()))
		return 0;
	return err_set(err, E_RIGHTS,
		       "cannot stop holders: proc shows the processes of another pid namespace (hostPID is needed)");
}

static int stop_holders(const struct holders_wait *d, const struct holders *h, struct strv *asked, struct err *err)
{
	if (check_pid_namespace(d, err) < 0)
		return -1;
	for (size_t i = 0; i < h->count; i++) {
		const struct holder *x = &h->items[i];
		auto_str char *key = str_fmt("%d %llu", x->pid, (unsigned long long)x->start);
		if (x->kind == HOLDER_MOUNT || strv_has(asked, key))
			continue;
		if (stop_holder(d, x, err) < 0)
			return -1;
		strv_add(asked, TAKE(key));
	}
	return 0;
}

int holders_wait(const struct holders_wait *d, struct holders *ret, struct err *err)
{
	const struct timespec nap = { .tv_nsec = POLL_MS * 1000 * 1000 };
	auto_modules struct modules loaded = { 0 };
	auto_strv struct strv asked = { 0 };
	auto_str char *told = NULL;
	int64_t told_ms = 0;
	for (int64_t end = clock_ms() + d->timeout_ms;; nanosleep(&nap, NULL)) {
		auto_str char *who = NULL;
		if (look_for_holders(d, &loaded, ret, &who, err) < 0)
			return -1;
		if (!who)
			return 0;
		if (d->policy == HOLDERS_STOP && stop_holders(d, ret, &asked, err) < 0)
			return -1;
		int64_t now = clock_ms();
		if (d->policy == HOLDERS_REFUSE || now >= end)
			return refuse_in_use(who, ret, err);
		if (str_eq(who, told) && now - told_ms < TELL_MS)
			continue;
		progress_note(d->node->progress, "waiting for users of the driver: %s", who);
		free(told);
		told = TAKE(who);
		told_ms = now;
	}
}
