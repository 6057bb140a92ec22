// SPDX-License-Identifier: Apache-2.0
#include "service/service.h"

#include "base/core/date.h"
#include "base/process/log.h"
#include "journal/node_lock.h"
#include "status/status_file.h"
#include "supervisor/supervisor.h"

#include <errno.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

enum { FDS_MOST = 64 };

// As the first process of a container we are the parent of every orphan, and as a subreaper of each daemon.
static void reap_children(const struct service_part *parts, size_t count)
{
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		for (size_t i = 0; i < count; i++)
			if (parts[i].ended)
				parts[i].ended(parts[i].ctx, pid, status, clock_ms());
}

// Does what is due, and waits for what comes next.
static void tick_and_poll(const struct service_part *parts, size_t count, int signals)
{
	struct pollfd fds[FDS_MOST] = { { .fd = signals, .events = POLLIN } };
	size_t used = 1;
	int64_t due = INT64_MAX;
	for (size_t i = 0; i < count; i++) {
		int64_t at = parts[i].tick ? parts[i].tick(parts[i].ctx, clock_ms()) : INT64_MAX;
		due = at < due ? at : due;
	}
	for (size_t i = 0; i < count; i++)
		used += parts[i].fds ? parts[i].fds(parts[i].ctx, fds + used, FDS_MOST - used) : 0;
	int64_t left = due == INT64_MAX ? -1 : due - clock_ms();
	int timeout = due == INT64_MAX ? -1 : left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
	poll(fds, used, timeout);
}

static int read_stop_signal(int signals)
{
	struct signalfd_siginfo info;
	while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGPIPE)
			return (int)info.ssi_signo;
	return 0;
}

void service_block(sigset_t *ret)
{
	// SIGPIPE: a log that nobody reads is not a reason to stop
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD, SIGPIPE };
	sigemptyset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(ret, signals[i]);
	sigprocmask(SIG_BLOCK, ret, NULL);
}

int service_run(const struct service_part *parts, size_t count, const sigset_t *signals, struct err *err)
{
	auto_fd int fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_set(err, errno, "wait for signals");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (;;) {
		reap_children(parts, count);
		tick_and_poll(parts, count, fd);
		int signal = read_stop_signal(fd);
		if (signal)
			return signal;
	}
}

struct daemons_part {
	const struct service_daemons *request;
	struct supervisor supervisor;
	bool is_told, was_well; // what was said last
	bool is_published;      // the same, for others to read
};

// Ready is taken back when a daemon that GPUs need is down, and given again when it is up (R-P1, R-G5).
static int publish_daemon_status(struct daemons_part *p, struct err *err)
{
	const struct node *node = p->request->node;
	auto_facts struct facts f = { 0 };
	auto_status struct status s = { 0 };
	auto_daemon_record struct daemon_record r = { 0 };
	if (facts_read(node->host, node->kern, &f, err) < 0 || status_read(&f, node, &s, err) < 0 ||
	    daemon_record_read(node->host, f.host.boot_id, &r, err) < 0)
		return -1;
	status_daemons(&s, &r, node->kern);
	return status_file_refresh(node->host, &f, &s, err);
}

// Returns false while another process is changing the node: it publishes the result itself.
static bool try_publish(struct daemons_part *p)
{
	struct err why;
	auto_fd int lock = node_lock_take(p->request->node->host, NODE_LOCK_CHANGE, &why);
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
	struct daemons_part p = { .request = daemons, .supervisor = { .node = daemons->node } };
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

void service_agent_request(const struct target *last, const struct modules *loaded, struct service_agent_request *r)
{
	if (last) {
		r->driver = last->driver;
		r->flavour = *last->flavour ? last->flavour : NULL;
		r->digest = last->package;
	}
	if (!loaded->version)
		return;
	if (!str_eq(r->driver, loaded->version)) // a source is of one version, which need not be the loaded one
		r->source = NULL;
	r->driver = loaded->version;
	r->flavour = loaded->flavour == MODULE_TYPE_AUTO ? NULL : module_type_name(loaded->flavour);
	r->digest = NULL;
}

bool service_agent_is_left(const char *loaded, bool is_change, int code)
{
	return loaded && (is_change || code == E_IN_USE);
}

bool service_agent_mends(int code)
{
	return code != E_USAGE && code != E_CONFIG;
}

enum { WAITING_MS = 2000, LOADED_MS = 30000, FAILED_MS = 60000 };

// Retries errors that may pass. The peermem container, or the next start, reports the others.
static int64_t peermem_tick(void *ctx, int64_t now_ms)
{
	struct service_peermem *p = ctx;
	struct err why;
	if (p->is_over)
		return INT64_MAX;
	int r = peermem_step(&p->peermem, &why);
	if (r >= 0)
		return p->peermem.now == PEERMEM_NONE ? INT64_MAX : now_ms + (r > 0 ? LOADED_MS : WAITING_MS);
	log_warn("the GPUs are ready without nvidia-peermem: %s: %s", err_info(why.code)->name, why.text);
	p->is_over = !err_info(why.code)->retryable;
	return now_ms + FAILED_MS;
}

struct service_part service_peermem_part(struct service_peermem *p)
{
	return (struct service_part){ .ctx = p, .tick = peermem_tick };
}
