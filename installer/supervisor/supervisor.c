// SPDX-License-Identifier: Apache-2.0
#include "supervisor/supervisor.h"

#include "base/core/date.h"
#include "base/process/proc.h"
#include "daemons/syslog.h"
#include "daemons/vgpu_guest.h"
#include "driver_root/root_record.h"
#include "journal/node_lock.h"
#include "kmod/load/provider.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

enum { SUPERVISOR_RETRY_MS = 1000, SUPERVISOR_NEW_MS = 50, SUPERVISOR_BLIND_MS = 5000 };
#define SUPERVISOR_FAR_MS (1000LL * 60 * 60 * 24 * 365) // until something else changes

// Only when it has changed: an idle node writes nothing (P9).
static void write_record(struct supervisor *k)
{
	struct err why;
	auto_daemon_record struct daemon_record r = { .owner = getpid(), .driver = str_dup(k->driver) };
	if (!k->plan.count)
		return;
	r.owner_start = proc_start_time(k->node->kern, r.owner);
	r.items = mem_alloc((k->plan.count + 1) * sizeof(*r.items));
	for (size_t i = 0; i < k->plan.count; i++) {
		const struct daemon *d = &k->plan.items[i];
		const struct supervised_daemon *x = &k->daemons[i];
		struct daemon_entry *e = &r.items[r.count++];
		*e = (struct daemon_entry){ .name = str_dup(d->name),
					    .why = str_dup(d->why),
					    .state = str_dup(restart_policy_state_name(x->s.state)),
					    .pid = x->s.state == SUPERVISED_UP ? x->s.pid : 0,
					    .start = x->s.start,
					    .since = str_dup(x->since),
					    .restarts = x->s.restarts,
					    .last = *x->s.last ? str_dup(x->s.last) : NULL,
					    .why_not = *x->s.why_not ? str_dup(x->s.why_not) : NULL,
					    .is_needed = d->is_needed,
					    .is_foreign = x->is_foreign,
					    .dir = str_dup(d->dir),
					    .pid_file = str_dup(d->pid_file),
					    .socket = str_dup(d->socket),
					    .env = str_dup(d->env) };
		for (size_t a = 0; a < d->argv.count; a++)
			strv_add(&e->argv, str_dup(d->argv.items[a]));
		for (size_t l = 0; l < x->log.count; l++)
			strv_add(&e->log, str_dup(x->log.items[l]));
	}
	auto_json json_t *json = daemon_record_json(&r, NULL);
	auto_str char *text = json_dumps(json, 0);
	if (str_eq(text, k->written))
		return;
	if (daemon_record_write(k->node->host, k->boot, &r, &why) < 0) {
		progress_note(k->node->progress, "cannot record the state of the daemons: %s", why.text);
		return;
	}
	free(k->written);
	k->written = TAKE(text);
}

static void log_line(struct supervisor *k, size_t i, const char *text)
{
	enum { KEPT_MOST = 5 };
	struct strv *log = &k->daemons[i].log;
	progress_note(k->node->progress, "%s: %s", k->plan.items[i].name, text);
	if (log->count == KEPT_MOST) {
		free(log->items[0]);
		memmove(log->items, log->items + 1, log->count * sizeof(*log->items)); // with the NULL at its end
		log->count--;
	}
	strv_add(log, str_dup(text));
}

static void flush_line(struct supervisor *k, size_t i)
{
	struct supervised_daemon *x = &k->daemons[i];
	auto_str char *text = str_ndup(x->line, x->len);
	if (*str_trim(text))
		log_line(k, i, text);
	x->len = 0;
}

static void read_output(struct supervisor *k, size_t i)
{
	struct supervised_daemon *x = &k->daemons[i];
	char buf[4096];
	ssize_t n = 1;
	while (x->out >= 0 && (n = read(x->out, buf, sizeof(buf))) > 0)
		for (ssize_t c = 0; c < n; c++) {
			if (buf[c] == '\n' || x->len == sizeof(x->line))
				flush_line(k, i);
			if (buf[c] != '\n')
				x->line[x->len++] = buf[c];
		}
	if (x->out < 0 || n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	flush_line(k, i);
	close(TAKE_FD(x->out));
}

static void read_syslog(struct supervisor *k)
{
	char text[2048];
	const char *name, *message;
	ssize_t n;
	while (k->syslog >= 0 && (n = recv(k->syslog, text, sizeof(text) - 1, 0)) >= 0) {
		text[n] = '\0';
		if (!syslog_parse(text, &name, &message))
			continue;
		for (size_t i = 0; i < k->plan.count; i++) {
			const struct daemon *d = &k->plan.items[i];
			if (str_eq(name, d->name) || str_eq(name, strrchr(d->program, '/') + 1))
				log_line(k, i, message);
		}
	}
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
	struct supervised_daemon *x = &k->daemons[i];
	enum supervised_state before = x->s.state;
	unsigned actions = restart_policy_step(&x->s, e, now_ms);
	if (x->s.state != before || !x->since) {
		free(x->since);
		x->since = date_text(time(NULL));
	}
	return actions;
}

static void block_daemon(struct supervisor *k, size_t i, const char *text, int64_t after_ms, int64_t now_ms)
{
	const struct supervised_event e = { .kind = EVENT_BLOCKED, .text = text, .after_ms = after_ms };
	handle_event(k, i, &e, now_ms);
}

static void daemon_down(struct supervisor *k, size_t i, const char *text, int64_t now_ms)
{
	const struct supervised_event e = { .kind = EVENT_ENDED, .text = text };
	close_fdp(&k->daemons[i].process);
	k->daemons[i].process = -1;
	handle_event(k, i, &e, now_ms);
	progress_note(k->node->progress, "%s: %s; retrying in %d s", k->plan.items[i].name, text,
		      (int)((k->daemons[i].s.due_ms - now_ms) / 1000));
}

static void daemon_up(struct supervisor *k, size_t i, enum supervised_event_kind kind, int pid, uint64_t start,
		      int64_t now_ms)
{
	const struct supervised_event e = { .kind = kind, .pid = pid, .start = start };
	unsigned actions = handle_event(k, i, &e, now_ms);
	k->daemons[i].process = k->node->sys->record ? -1 : k->node->sys->process_open(k->node->sys, pid);
	progress_note(k->node->progress, "%s %s, pid %d: %s", k->plan.items[i].name,
		      k->daemons[i].is_foreign ? "is already running (not started by kmodsmith)" :
		      kind == EVENT_ADOPTED    ? "is already running" :
						 "is up",
		      pid, k->plan.items[i].why);
	const struct strv *after = &k->plan.items[i].after;
	if (!(actions & ACTION_AFTER) || !after->count)
		return;
	auto_str char *root = root_path(k->node->host, k->driver);
	k->after = k->node->sys->process_start(k->node->sys, root, NULL, after, STDERR_FILENO);
	progress_note(k->node->progress, "%s is up: %s", k->plan.items[i].name, after->items[0]);
}

static bool adopt_daemon(struct supervisor *k, size_t i, enum supervised_event_kind kind, int64_t now_ms)
{
	const struct daemon_unit unit = daemon_unit_of(&k->plan.items[i]);
	const struct daemon_entry *old = NULL;
	for (size_t o = 0; o < k->old.count && !old; o++)
		old = str_eq(k->old.items[o].name, unit.name) ? &k->old.items[o] : NULL;
	const struct supervised *s = &k->daemons[i].s;
	uint64_t start = kind == EVENT_UP && s->pid ? proc_start_time(k->node->kern, s->pid) : old ? old->start : 0;
	int pid = kind == EVENT_UP && s->pid ? s->pid : old ? old->pid : 0;
	if (!daemon_find(k->node, &unit, pid, start, &pid, &start))
		return false;
	// Started neither by us nor by the supervisor before us: an unload leaves it to its own supervisor.
	k->daemons[i].is_foreign = kind == EVENT_ADOPTED && !s->was_up && (!old || old->is_foreign);
	daemon_up(k, i, kind, pid, start, now_ms);
	return true;
}

static int start_daemon(struct supervisor *k, size_t i, int64_t now_ms, struct err *err)
{
	const struct daemon *d = &k->plan.items[i];
	const struct daemon_unit unit = daemon_unit_of(d);
	auto_root struct root driver = ROOT_NONE;
	if (d->is_configured && (root_sub(k->node->host, k->driver, &driver, err) < 0 ||
				 daemon_fabric_write(k->node->host, &driver, &k->request.settings, err) < 0))
		return -1;
	if (d->is_guest && vgpu_guest_write(k->node->host, k->node->kern, err) < 0)
		return -1;
	int pipes[2];
	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_set(err, errno, "make a pipe");
	close_fdp(&k->daemons[i].out);
	k->daemons[i].out = pipes[0];
	k->daemons[i].len = 0;
	auto_fd int out = pipes[1];
	fcntl(out, F_SETFL, 0); // a daemon that writes faster than we read blocks
	int pid = daemon_launch(k->node, k->driver, &unit, out, err);
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
		int64_t from = restart_policy_follower_due_ms(&k->daemons[l].s);
		auto_str char *text = str_fmt("waiting for %s", leader);
		if (from > now_ms)
			block_daemon(k, i, text, from == SUPERVISED_NEVER ? SUPERVISOR_RETRY_MS : from - now_ms,
				     now_ms);
		return from > now_ms;
	}
	return false;
}

static void try_start(struct supervisor *k, size_t i, int64_t now_ms)
{
	const struct daemon *d = &k->plan.items[i];
	struct err why;
	if (adopt_daemon(k, i, EVENT_ADOPTED, now_ms))
		return;
	if (d->why_not)
		block_daemon(k, i, d->why_not, d->is_absent ? SUPERVISOR_FAR_MS : WAITING_POLL_MS, now_ms);
	else if (!is_following(k, i, now_ms) && start_daemon(k, i, now_ms, &why) < 0)
		daemon_down(k, i, why.text, now_ms);
}

static void run_daemon_actions(struct supervisor *k, size_t i, int64_t now_ms)
{
	static const struct supervised_event tick = { .kind = EVENT_TICK };
	const struct supervised *s = &k->daemons[i].s;
	unsigned actions = restart_policy_step(&k->daemons[i].s, &tick, now_ms);
	if (actions & ACTION_TELL)
		progress_note(k->node->progress, "%s is not started: %s", k->plan.items[i].name, s->why_not);
	if (actions & ACTION_END) {
		if (s->pid > 0 && !k->node->sys->record)
			kill(-s->pid, SIGKILL); // in its own session, and our child that is not reaped yet
		daemon_down(k, i, "it did not start in time", now_ms);
	}
	if (actions & ACTION_START)
		try_start(k, i, now_ms);
}

enum { ORPHAN_MS = 10 * 1000 }; // between the exit of the forking program and the daemon's pid file

void supervisor_ended(struct supervisor *k, int pid, int status, int64_t now_ms)
{
	char text[64];
	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "ended by signal %d", WTERMSIG(status));
	else
		snprintf(text, sizeof(text), "ended with exit status %d", WEXITSTATUS(status));
	if (pid == k->after) {
		k->after = 0;
		progress_note(k->node->progress, "the program run after the first start %s", text);
	}
	for (size_t i = 0; i < k->plan.count; i++) {
		struct supervised *s = &k->daemons[i].s;
		if (s->pid != pid)
			continue;
		read_output(k, i);
		if (s->state == SUPERVISED_STARTING && k->plan.items[i].is_forking && status == 0) {
			s->pid = 0; // it runs in the background now
			s->due_ms = now_ms + ORPHAN_MS;
		} else {
			daemon_down(k, i, text, now_ms);
		}
	}
}

static void measure_daemon(struct supervisor *k, size_t i, int64_t now_ms)
{
	const struct daemon *d = &k->plan.items[i];
	const struct supervised *s = &k->daemons[i].s;
	if (s->state == SUPERVISED_STARTING && (!d->is_forking || !s->pid))
		adopt_daemon(k, i, EVENT_UP, now_ms);
	else if (s->state == SUPERVISED_UP && !daemon_is(k->node->kern, s->pid, s->start, d->program)) {
		// waitpid() reports the exit of a child a moment after its program is gone; for an adopted process
		// there is no report.
		int status;
		pid_t pid = k->node->sys->record ? -1 : waitpid(s->pid, &status, WNOHANG);
		if (pid > 0)
			supervisor_ended(k, pid, status, now_ms);
		else if (pid < 0)
			daemon_down(k, i, "it ended", now_ms);
	}
}

static void supervised_daemon_done(struct supervised_daemon *x)
{
	close_fdp(&x->process);
	close_fdp(&x->out);
	free(x->since);
	strv_done(&x->log);
}

// Daemons in both plans keep their state; one whose program was missing until now is looked at again.
static void replace_plan(struct supervisor *k, struct daemons *plan)
{
	struct supervised_daemon *kept = mem_alloc((plan->count + 1) * sizeof(*kept));
	for (size_t i = 0; i < plan->count; i++) {
		kept[i] = (struct supervised_daemon){ .s = SUPERVISED, .process = -1, .out = -1 };
		for (size_t o = 0; o < k->plan.count; o++)
			if (str_eq(k->plan.items[o].name, plan->items[i].name)) {
				kept[i] = k->daemons[o];
				k->daemons[o] = (struct supervised_daemon){ .process = -1, .out = -1 };
				if (k->plan.items[o].is_absent && !plan->items[i].is_absent)
					kept[i].s.due_ms = 0;
			}
	}
	for (size_t o = 0; o < k->plan.count; o++)
		supervised_daemon_done(&k->daemons[o]);
	free(k->daemons);
	daemons_done(&k->plan);
	k->daemons = kept;
	k->plan = *plan;
	*plan = (struct daemons){ 0 };
}

// Applies the rules to the user space in place, under the lock, because a new one may be about to replace it.
static int read_daemon_plan(struct supervisor *k, char *take_dir, struct err *err)
{
	auto_root struct root driver = ROOT_NONE;
	auto_daemon_facts struct daemon_facts facts = { 0 };
	auto_daemons struct daemons plan = { 0 };
	struct err why;
	free(k->driver);
	k->driver = take_dir;
	if (root_sub(k->node->host, k->driver, &driver, err) < 0 ||
	    daemon_facts_read(k->node->kern, &driver, &k->request, &facts, err) < 0)
		return -1;
	// From the host's own tree, as far as it has them; the rules report the missing ones.
	for (size_t i = 0; (facts.is_bridge_down || facts.bridge) && daemon_modules[i]; i++)
		if (provider_load(k->node->host, k->node->kern, k->node->sys, k->release, daemon_modules[i], 0, &why) <
		    0)
			progress_note(k->node->progress, "%s is not loaded: %s", daemon_modules[i], why.text);
	daemons_rules(&facts, &plan);
	replace_plan(k, &plan);
	return 0;
}

// Why there is nothing to supervise, and when to look again; NULL = there is. Looking changes nothing (P9).
static const char *why_no_daemons(const struct supervisor *k, struct root_record *now, int64_t *ret_after_ms)
{
	struct err ignored;
	*ret_after_ms = WAITING_POLL_MS;
	if (!root_exists(k->node->kern, "sys/module/nvidia"))
		return "no driver is loaded";
	if (root_record_read(k->node->host, k->boot, now, &ignored) > 0)
		return NULL;
	*ret_after_ms = SUPERVISOR_FAR_MS;
	return "no driver user space is exported";
}

static void run_due_actions(struct supervisor *k, int64_t now_ms)
{
	struct err err;
	auto_root_record struct root_record now = { 0 };
	int64_t after_ms;
	const char *why = why_no_daemons(k, &now, &after_ms);
	auto_fd int lock = why ? -1 : node_lock_take(k->node->host, NODE_LOCK_CHANGE, &err);
	if (!why && (lock < 0 || read_daemon_plan(k, TAKE(now.dir), &err) < 0)) {
		why = err.text;
		after_ms = lock < 0 && err.code == E_LOCKED ? SUPERVISOR_RETRY_MS : WAITING_POLL_MS;
	} else {
		k->is_known = true;
	}
	k->due_ms = !why || k->plan.count ? SUPERVISED_NEVER : now_ms + after_ms;
	for (size_t i = 0; i < k->plan.count; i++) {
		if (!why)
			run_daemon_actions(k, i, now_ms);
		else if (k->daemons[i].s.due_ms <= now_ms)
			block_daemon(k, i, why, after_ms, now_ms);
	}
}

static int64_t next_due_ms(const struct supervisor *k, int64_t now_ms)
{
	int64_t due = k->due_ms;
	for (size_t i = 0; i < k->plan.count; i++) {
		const struct supervised_daemon *x = &k->daemons[i];
		bool is_new = x->s.state == SUPERVISED_STARTING && (!k->plan.items[i].is_forking || !x->s.pid);
		bool is_blind = x->s.state == SUPERVISED_UP && x->process < 0; // kernels before 5.3
		int64_t at = is_new   ? now_ms + SUPERVISOR_NEW_MS :
			     is_blind ? now_ms + SUPERVISOR_BLIND_MS :
					x->s.due_ms;
		due = at < due ? at : due;
	}
	return due;
}

int64_t supervisor_tick(struct supervisor *k, int64_t now_ms)
{
	read_syslog(k);
	for (size_t i = 0; i < k->plan.count; i++) {
		read_output(k, i);
		measure_daemon(k, i, now_ms);
	}
	bool is_due = k->due_ms <= now_ms;
	for (size_t i = 0; i < k->plan.count; i++)
		is_due = is_due || k->daemons[i].s.due_ms <= now_ms;
	if (is_due)
		run_due_actions(k, now_ms);
	write_record(k);
	return next_due_ms(k, now_ms);
}

size_t supervisor_fds(const struct supervisor *k, struct pollfd *ret, size_t room)
{
	size_t count = 0;
	if (k->syslog >= 0 && room)
		ret[count++] = (struct pollfd){ .fd = k->syslog, .events = POLLIN };
	for (size_t i = 0; i < k->plan.count; i++) {
		if (k->daemons[i].process >= 0 && count < room)
			ret[count++] = (struct pollfd){ .fd = k->daemons[i].process, .events = POLLIN };
		if (k->daemons[i].out >= 0 && count < room)
			ret[count++] = (struct pollfd){ .fd = k->daemons[i].out, .events = POLLIN };
	}
	return count;
}

bool supervisor_is_well(const struct supervisor *k)
{
	for (size_t i = 0; i < k->plan.count; i++)
		if (k->plan.items[i].is_needed && k->daemons[i].s.state != SUPERVISED_UP)
			return false;
	return true;
}

int supervisor_open(struct supervisor *k, char *const *environment, struct err *err)
{
	struct err why;
	k->syslog = syslog_open(k->node->host, &why);
	if (k->syslog < 0)
		progress_note(k->node->progress, "cannot read what daemons write to syslog: %s", why.text);
	if (daemon_request_read(environment, &k->request, err) < 0 ||
	    root_line(k->node->kern, "proc/sys/kernel/random/boot_id", &k->boot, err) < 0 ||
	    root_line(k->node->kern, "proc/sys/kernel/osrelease", &k->release, err) < 0)
		return -1;
	return daemon_record_read(k->node->host, k->boot, &k->old, err) < 0 ? -1 : 0;
}

void supervisor_done(struct supervisor *k)
{
	for (size_t i = 0; i < k->plan.count; i++)
		supervised_daemon_done(&k->daemons[i]);
	free(k->daemons);
	close_fdp(&k->syslog);
	daemons_done(&k->plan);
	daemon_record_done(&k->old);
	daemon_request_done(&k->request);
	free(k->boot);
	free(k->release);
	free(k->driver);
	free(k->written);
}
