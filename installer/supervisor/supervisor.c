// SPDX-License-Identifier: Apache-2.0
#include "daemons/syslog.h"
#include "driver_root/root_record.h"
#include "journal/node_lock.h"
#include "kmod/load/provider.h"
#include "supervisor/supervisor_internal.h"

// Of the host's own tree, as far as it has them; what is missing is named by the rules.
static void load_daemon_modules(const struct supervisor *k)
{
	struct err why;
	for (size_t i = 0; daemon_modules[i]; i++)
		if (provider_load(k->host, k->kern, k->sys, k->release, daemon_modules[i], 0, &why) < 0)
			progress_note(k->progress, "%s is not loaded: %s", daemon_modules[i], why.text);
}

static void supervised_daemon_done(struct supervised_daemon *x)
{
	close_fdp(&x->process);
	close_fdp(&x->out);
	free(x->since);
	strv_done(&x->log);
}

// The states of those that are in both plans go on; one whose program has come is looked at.
static void replace_plan(struct supervisor *k, struct daemons *plan)
{
	struct supervised_daemon *kept = mem_alloc((plan->count + 1) * sizeof(*kept));
	for (size_t i = 0; i < plan->count; i++) {
		kept[i] = (struct supervised_daemon){ .s = SUPERVISED, .process = -1, .out = -1 };
		for (size_t o = 0; o < k->plan.count; o++)
			if (str_eq(k->plan.items[o].name, plan->items[i].name)) {
				kept[i] = k->kept[o];
				k->kept[o] = (struct supervised_daemon){ .process = -1, .out = -1 };
				if (k->plan.items[o].is_absent && !plan->items[i].is_absent)
					kept[i].s.due_ms = 0;
			}
	}
	for (size_t o = 0; o < k->plan.count; o++)
		supervised_daemon_done(&k->kept[o]);
	free(k->kept);
	daemons_done(&k->plan);
	k->kept = kept;
	k->plan = *plan;
	*plan = (struct daemons){ 0 };
}

// What the rules want of the user space in place, under the lock, because the next one may be about to be.
static int read_daemon_plan(struct supervisor *k, char *take_dir, struct err *err)
{
	auto_root struct root driver = ROOT_NONE;
	auto_daemon_facts struct daemon_facts facts = { 0 };
	auto_daemons struct daemons plan = { 0 };
	free(k->driver);
	k->driver = take_dir;
	if (root_sub(k->host, k->driver, &driver, err) < 0 ||
	    daemon_facts_read(k->kern, &driver, &k->request, &facts, err) < 0)
		return -1;
	if (facts.is_bridge_down || facts.bridge)
		load_daemon_modules(k);
	daemons_rules(&facts, &plan);
	replace_plan(k, &plan);
	return 0;
}

static bool is_daemon_due(const struct supervisor *k, int64_t now_ms)
{
	bool due = k->due_ms <= now_ms;
	for (size_t i = 0; i < k->plan.count; i++)
		due = due || k->kept[i].s.due_ms <= now_ms;
	return due;
}

static void block_all(struct supervisor *k, const char *why, int64_t after_ms, int64_t now_ms)
{
	k->due_ms = k->plan.count ? SUPERVISED_NEVER : now_ms + after_ms;
	for (size_t i = 0; i < k->plan.count; i++)
		if (k->kept[i].s.due_ms <= now_ms)
			supervisor_blocked(k, i, why, after_ms, now_ms);
}

// Why there is nothing to start anything for, and when to look again; NULL = there is. Looking changes nothing (P9).
static const char *why_no_daemons(const struct supervisor *k, struct root_record *now, int64_t *ret_after_ms)
{
	struct err ignored;
	*ret_after_ms = WAITING_POLL_MS;
	if (!root_exists(k->kern, "sys/module/nvidia"))
		return "no driver is loaded";
	if (root_record_read(k->host, k->boot, now, &ignored) > 0)
		return NULL;
	*ret_after_ms = SUPERVISOR_FAR_MS;
	return "no user space of the driver is exported";
}

static void run_due_actions(struct supervisor *k, int64_t now_ms)
{
	struct err err;
	auto_root_record struct root_record now = { 0 };
	int64_t after_ms;
	const char *why = why_no_daemons(k, &now, &after_ms);
	auto_fd int lock = why ? -1 : node_lock_take(k->host, &err);
	if (!why && (lock < 0 || read_daemon_plan(k, TAKE(now.dir), &err) < 0)) {
		why = err.text;
		after_ms = lock < 0 && err.code == E_LOCKED ? SUPERVISOR_RETRY_MS : WAITING_POLL_MS;
	} else {
		k->is_known = true;
	}
	if (why) {
		block_all(k, why, after_ms, now_ms);
		return;
	}
	k->due_ms = SUPERVISED_NEVER;
	for (size_t i = 0; i < k->plan.count; i++)
		supervisor_act(k, i, now_ms);
}

static int64_t next_due_ms(const struct supervisor *k, int64_t now_ms)
{
	int64_t due = k->due_ms;
	for (size_t i = 0; i < k->plan.count; i++) {
		const struct supervised_daemon *x = &k->kept[i];
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
	supervisor_read_syslog(k);
	for (size_t i = 0; i < k->plan.count; i++) {
		supervisor_read_output(k, i);
		supervisor_measure(k, i, now_ms);
	}
	if (is_daemon_due(k, now_ms))
		run_due_actions(k, now_ms);
	supervisor_write_record(k);
	return next_due_ms(k, now_ms);
}

size_t supervisor_fds(const struct supervisor *k, struct pollfd *ret, size_t room)
{
	size_t count = 0;
	if (k->syslog >= 0 && room)
		ret[count++] = (struct pollfd){ .fd = k->syslog, .events = POLLIN };
	for (size_t i = 0; i < k->plan.count; i++) {
		if (k->kept[i].process >= 0 && count < room)
			ret[count++] = (struct pollfd){ .fd = k->kept[i].process, .events = POLLIN };
		if (k->kept[i].out >= 0 && count < room)
			ret[count++] = (struct pollfd){ .fd = k->kept[i].out, .events = POLLIN };
	}
	return count;
}

bool supervisor_is_well(const struct supervisor *k)
{
	for (size_t i = 0; i < k->plan.count; i++)
		if (k->plan.items[i].is_needed && k->kept[i].s.state != SUPERVISED_UP)
			return false;
	return true;
}

int supervisor_open(struct supervisor *k, char *const *environment, struct err *err)
{
	struct err why;
	k->syslog = syslog_open(k->host, &why);
	if (k->syslog < 0)
		progress_note(k->progress, "what daemons write to syslog is not seen: %s", why.text);
	if (daemon_request_read(environment, &k->request, err) < 0 ||
	    root_line(k->kern, "proc/sys/kernel/random/boot_id", &k->boot, err) < 0 ||
	    root_line(k->kern, "proc/sys/kernel/osrelease", &k->release, err) < 0)
		return -1;
	return daemon_record_read(k->host, k->boot, &k->old, err) < 0 ? -1 : 0;
}

void supervisor_done(struct supervisor *k)
{
	for (size_t i = 0; i < k->plan.count; i++)
		supervised_daemon_done(&k->kept[i]);
	free(k->kept);
	close_fdp(&k->syslog);
	daemons_done(&k->plan);
	daemon_record_done(&k->old);
	daemon_request_done(&k->request);
	free(k->boot);
	free(k->release);
	free(k->driver);
	free(k->written);
}
