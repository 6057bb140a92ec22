// SPDX-License-Identifier: Apache-2.0
// The actions of the state machines: a daemon is adopted, started, and its end told.
#include "supervisor/supervisor_internal.h"

#include "base/core/date.h"
#include "base/process/start_time.h"
#include "daemons/fabric_manager.h"
#include "daemons/vgpu_guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>

static struct daemon_env supervisor_env(const struct supervisor *k)
{
	return (struct daemon_env){ .host = k->host, .kern = k->kern, .sys = k->sys, .driver = k->driver };
}

static struct daemon_unit daemon_unit_of(const struct daemon *d)
{
	return (struct daemon_unit){ .name = d->name,
				     .dir = d->dir,
				     .pid_file = d->pid_file,
				     .socket = d->socket,
				     .env = d->env,
				     .argv = &d->argv };
}

static unsigned handle_event(struct supervisor *k, size_t i, const struct supervised_event *e, int64_t now_ms)
{
	struct supervised_daemon *x = &k->kept[i];
	enum supervised_state before = x->s.state;
	unsigned actions = restart_policy_step(&x->s, e, now_ms);
	if (x->s.state != before || !x->since) {
		free(x->since);
		x->since = date_text(time(NULL));
	}
	return actions;
}

void supervisor_blocked(struct supervisor *k, size_t i, const char *text, int64_t after_ms, int64_t now_ms)
{
	const struct supervised_event e = { .kind = EVENT_BLOCKED, .text = text, .after_ms = after_ms };
	handle_event(k, i, &e, now_ms);
}

void supervisor_down(struct supervisor *k, size_t i, const char *text, int64_t now_ms)
{
	const struct supervised_event e = { .kind = EVENT_ENDED, .text = text };
	close_fdp(&k->kept[i].process);
	k->kept[i].process = -1;
	handle_event(k, i, &e, now_ms);
	progress_note(k->progress, "%s: %s; tried again in %d s", k->plan.items[i].name, text,
		      (int)((k->kept[i].s.due_ms - now_ms) / 1000));
}

static void run_after(struct supervisor *k, size_t i)
{
	const struct strv *argv = &k->plan.items[i].after;
	auto_str char *root = root_path(k->host, k->driver);
	if (!argv->count)
		return;
	k->after = k->sys->process_start(k->sys, root, NULL, argv, STDERR_FILENO);
	progress_note(k->progress, "%s is up: %s", k->plan.items[i].name, argv->items[0]);
}

static void daemon_up(struct supervisor *k, size_t i, enum supervised_event_kind kind, int pid, uint64_t start,
		      int64_t now_ms)
{
	const struct supervised_event e = { .kind = kind, .pid = pid, .start = start };
	unsigned actions = handle_event(k, i, &e, now_ms);
	k->kept[i].process = k->sys->record ? -1 : k->sys->process_open(k->sys, pid);
	progress_note(k->progress, "%s %s, pid %d: %s", k->plan.items[i].name,
		      k->kept[i].is_foreign ? "of others runs already" :
		      kind == EVENT_ADOPTED ? "runs already" :
					      "is up",
		      pid, k->plan.items[i].why);
	if (actions & ACTION_AFTER)
		run_after(k, i);
}

static const struct daemon_entry *find_old_entry(const struct supervisor *k, const char *name)
{
	for (size_t i = 0; i < k->old.count; i++)
		if (str_eq(k->old.items[i].name, name))
			return &k->old.items[i];
	return NULL;
}

bool supervisor_adopt(struct supervisor *k, size_t i, enum supervised_event_kind kind, int64_t now_ms)
{
	const struct daemon_env place = supervisor_env(k);
	const struct daemon_unit unit = daemon_unit_of(&k->plan.items[i]);
	const struct daemon_entry *old = find_old_entry(k, unit.name);
	const struct supervised *s = &k->kept[i].s;
	uint64_t start = kind == EVENT_UP && s->pid ? start_time_of(k->kern, s->pid) : old ? old->start : 0;
	int pid = kind == EVENT_UP && s->pid ? s->pid : old ? old->pid : 0;
	if (!daemon_find(&place, &unit, pid, start, &pid, &start))
		return false;
	// Whom neither we nor who kept them before has started: an unload leaves it to its own supervisor.
	k->kept[i].is_foreign = kind == EVENT_ADOPTED && !s->was_up && (!old || old->is_foreign);
	daemon_up(k, i, kind, pid, start, now_ms);
	return true;
}

static int make_output_pipe(struct supervised_daemon *x, struct err *err)
{
	int pipes[2];
	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_set(err, errno, "make a pipe");
	close_fdp(&x->out);
	x->out = pipes[0];
	x->len = 0;
	fcntl(pipes[1], F_SETFL, 0); // a daemon that writes more than is read waits
	return pipes[1];
}

static int start(struct supervisor *k, size_t i, int64_t now_ms, struct err *err)
{
	const struct daemon *d = &k->plan.items[i];
	const struct daemon_env place = supervisor_env(k);
	const struct daemon_unit unit = daemon_unit_of(d);
	auto_root struct root driver = ROOT_NONE;
	if (d->is_configured && (root_sub(k->host, k->driver, &driver, err) < 0 ||
				 fabric_manager_write(k->host, &driver, &k->request.settings, err) < 0))
		return -1;
	if (d->is_guest && vgpu_guest_write(k->host, k->kern, err) < 0)
		return -1;
	auto_fd int out = make_output_pipe(&k->kept[i], err);
	int pid = out < 0 ? -1 : daemon_launch(&place, &unit, out, err);
	if (pid < 0)
		return -1;
	const struct supervised_event e = { .kind = EVENT_LAUNCHED, .pid = pid };
	handle_event(k, i, &e, now_ms);
	return 0;
}

static bool is_following(struct supervisor *k, size_t i, int64_t now_ms)
{
	const char *leader = k->plan.items[i].follows;
	for (size_t l = 0; leader && l < i; l++) {
		if (!str_eq(k->plan.items[l].name, leader))
			continue;
		int64_t from = restart_policy_follower_due_ms(&k->kept[l].s);
		auto_str char *text = str_fmt("waiting for %s", leader);
		if (from > now_ms)
			supervisor_blocked(k, i, text, from == SUPERVISED_NEVER ? SUPERVISOR_RETRY_MS : from - now_ms,
					   now_ms);
		return from > now_ms;
	}
	return false;
}

static void try_start(struct supervisor *k, size_t i, int64_t now_ms)
{
	const struct daemon *d = &k->plan.items[i];
	struct err why;
	if (supervisor_adopt(k, i, EVENT_ADOPTED, now_ms))
		return;
	if (d->why_not)
		supervisor_blocked(k, i, d->why_not, d->is_absent ? SUPERVISOR_FAR_MS : WAITING_POLL_MS, now_ms);
	else if (!is_following(k, i, now_ms) && start(k, i, now_ms, &why) < 0)
		supervisor_down(k, i, why.text, now_ms);
}

static void abort_start(struct supervisor *k, size_t i, int64_t now_ms)
{
	int pid = k->kept[i].s.pid;
	if (pid > 0 && !k->sys->record)
		kill(-pid, SIGKILL); // a session of its own, and our child that nobody has reaped yet
	supervisor_down(k, i, "it did not come up in time", now_ms);
}

void supervisor_act(struct supervisor *k, size_t i, int64_t now_ms)
{
	static const struct supervised_event tick = { .kind = EVENT_TICK };
	unsigned actions = restart_policy_step(&k->kept[i].s, &tick, now_ms);
	if (actions & ACTION_TELL)
		progress_note(k->progress, "%s is not started: %s", k->plan.items[i].name, k->kept[i].s.why_not);
	if (actions & ACTION_END)
		abort_start(k, i, now_ms);
	if (actions & ACTION_START)
		try_start(k, i, now_ms);
}
