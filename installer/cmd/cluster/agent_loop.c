// SPDX-License-Identifier: Apache-2.0
// This machine as the agent's turn wants it: a policy in a file, what is loaded and stored, children, and a log.
#include "base/file/file.h"
#include "base/process/log.h"
#include "cluster/agent/loop.h"
#include "cmd/cluster/agent.h"
#include "cmd/cluster/agent_child.h"
#include "cmd/container/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

enum { IDLE_MS = 1000, LEAVE_MS = 20000 };

struct agent_run {
	const struct agent_host *host;
	struct stat stamp; // of the policy's file
	struct agent_child child;
};

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

// What means nothing is complained of once, not at every look.
static int reread_policy_file(void *ctx, struct policy *ret, struct err *err)
{
	struct agent_run *s = ctx;
	struct stat st;
	auto_str char *text = NULL;
	size_t len = 0;
	auto_fd int fd = file_open_arg(s->host->policy, O_RDONLY | O_NONBLOCK, err);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "%s", s->host->policy);
	if (is_same_file(&st, &s->stamp))
		return 0;
	s->stamp = st;
	if (file_read_most(fd, s->host->policy, POLICY_BYTES, &text, &len, err) < 0 ||
	    policy_parse(text, len, ret, err) < 0)
		return -1;
	return 1;
}

static int read_agent_facts(void *ctx, const struct target *const *names, size_t count, struct agent_facts *ret,
			    struct target *ret_new, struct err *err)
{
	const struct agent_run *s = ctx;
	return agent_read_facts(&s->host->place, names, count, ret, ret_new, err);
}

static void read_agent_holders(void *ctx, struct agent_holders *ret)
{
	const struct agent_run *s = ctx;
	agent_read_holders(&s->host->place, ret);
}

static int begin_child(void *ctx, enum agent_work work, const struct target *target, struct err *err)
{
	struct agent_run *s = ctx;
	auto_launch_words struct launch_words words = { 0 };
	if (s->host->words(s->host->ctx, work, target, &words, err) < 0)
		return -1;
	return agent_child_start(&s->child, &words, err);
}

static bool child_has_ended(void *ctx, struct agent_end *ret)
{
	struct agent_run *s = ctx;
	return agent_child_ended(&s->child, ret);
}

static void log_agent_action(void *ctx, const char *what)
{
	(void)ctx;
	log_info("%s", what);
}

static void log_agent_trouble(void *ctx, const char *what, const struct err *why)
{
	(void)ctx;
	log_warn("%s: %s", what, why->text);
}

static int next_agent_signal(const sigset_t *set)
{
	static const struct timespec none;
	for (int signal; (signal = sigtimedwait(set, NULL, &none)) > 0;)
		if (signal != SIGCHLD && signal != SIGPIPE)
			return signal;
	return 0;
}

int agent_loop(const struct agent_host *host, struct err *err)
{
	struct agent_run agent_run = { .host = host, .child = AGENT_CHILD_NONE };
	const struct agent_site site = {
		.state = host->place.state,
		.boot = host->boot,
		.node = host->node,
		.kube = host->kube,
		.machine = { &agent_run, reread_policy_file, read_agent_facts, read_agent_holders, begin_child,
			     child_has_ended, log_agent_action, log_agent_trouble },
	};
	struct agent a;
	sigset_t set;
	int signal = 0;
	if (agent_open(&site, &a, err) < 0)
		return -1;
	serve_block(&set);
	while (!(signal = next_agent_signal(&set)))
		agent_turn(&a, IDLE_MS);
	agent_child_stop(&agent_run.child, LEAVE_MS);
	agent_done(&a);
	return signal;
}
