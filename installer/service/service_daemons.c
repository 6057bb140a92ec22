// SPDX-License-Identifier: Apache-2.0
// The daemons, and what others read of them.
#include "base/process/log.h"
#include "journal/node_lock.h"
#include "service/service.h"
#include "status/status_file.h"
#include "supervisor/supervisor.h"

struct daemons_part {
	const struct service_daemons *request;
	struct supervisor supervisor;
	bool is_told, was_well; // what was said last
	bool is_published;      // the same, for others to read
};

// Ready is taken back when a daemon that GPUs need is down, and given again when it is up (R-P1, R-G5).
static int publish_daemon_status(struct daemons_part *p, struct err *err)
{
	const struct service_daemons *d = p->request;
	auto_facts struct facts f = { 0 };
	auto_status struct status s = { 0 };
	auto_daemon_record struct daemon_record r = { 0 };
	if (facts_read(d->host, d->kern, &f, err) < 0 ||
	    status_read(&f, d->host, d->kern, d->host, d->sys, &s, err) < 0 ||
	    daemon_record_read(d->host, f.host.boot_id, &r, err) < 0)
		return -1;
	status_daemons(&s, &r, d->kern);
	return status_file_refresh(d->host, &f, &s, err);
}

// False = somebody changes the node now, and tells of it: later.
static bool try_publish(struct daemons_part *p)
{
	struct err why;
	auto_fd int lock = node_lock_take(p->request->host, NODE_LOCK_CHANGE, &why);
	if (lock < 0 && why.code == E_LOCKED)
		return false;
	if (lock < 0 || publish_daemon_status(p, &why) < 0)
		log_warn("the state of this node is not published: %s", why.text);
	return true;
}

// Returns when to try again.
static int64_t announce_daemons(struct daemons_part *p, int64_t now_ms)
{
	enum { RETRY_MS = 1000 };
	bool is_well = supervisor_is_well(&p->supervisor);
	if (!p->supervisor.is_known)
		return INT64_MAX;
	if (!p->is_told || is_well != p->was_well) {
		p->request->say(p->request->ctx, is_well);
		p->is_told = true;
		p->was_well = is_well;
		p->is_published = !p->supervisor.plan.count;
	}
	p->is_published = p->is_published || try_publish(p);
	return p->is_published ? INT64_MAX : now_ms + RETRY_MS;
}

static size_t daemons_fds(void *ctx, struct pollfd *ret, size_t room)
{
	struct daemons_part *p = ctx;
	return supervisor_fds(&p->supervisor, ret, room);
}

static void daemons_ended(void *ctx, int pid, int status, int64_t now_ms)
{
	struct daemons_part *p = ctx;
	supervisor_ended(&p->supervisor, pid, status, now_ms);
}

static int64_t daemons_tick(void *ctx, int64_t now_ms)
{
	struct daemons_part *p = ctx;
	int64_t due = supervisor_tick(&p->supervisor, now_ms), later = announce_daemons(p, now_ms);
	return later < due ? later : due;
}

int service_daemons_run(const struct service_daemons *daemons, const struct service_part *more, size_t count,
			const sigset_t *signals, struct err *err)
{
	struct daemons_part p = { .request = daemons,
				  .supervisor = { .host = daemons->host,
						  .kern = daemons->kern,
						  .sys = daemons->sys,
						  .progress = daemons->progress } };
	struct service_part parts[SERVICE_PARTS_MAX] = {
		{ .ctx = &p, .fds = daemons_fds, .ended = daemons_ended, .tick = daemons_tick }
	};
	for (size_t i = 0; i < count; i++)
		parts[i + 1] = more[i];
	int r = supervisor_open(&p.supervisor, environ, err);
	if (r == 0)
		r = service_run(parts, count + 1, signals, err);
	supervisor_done(&p.supervisor);
	return r;
}
