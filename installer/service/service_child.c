// SPDX-License-Identifier: Apache-2.0
#include "service/service_child.h"

#include "base/core/date.h"
#include "base/process/log.h"

#include <sys/wait.h>

enum {
	AGAIN_MS = 1000,
	DOUBLINGS = 6,
	STEADY_MS = 600000,
	LEAVE_MS = 25000,
	STEP_MS = 50,
	ENDS_DOWN = 3,
	UP_MS = 60000
};

int64_t service_child_tick(struct service_child *c, int64_t now_ms)
{
	struct err why;
	sigset_t ours, before;
	pid_t child;
	if (c->child)
		return service_child_is_up(c, now_ms) ? INT64_MAX : c->since_ms + UP_MS;
	if (now_ms < c->due_ms)
		return c->due_ms;
	// It is born with the signals blocked that end it, and takes them once it can end well.
	sigprocmask(SIG_BLOCK, NULL, &before);
	service_block(&ours);
	c->words.blocked = &ours;
	int r = launch_self(&c->words, &child, NULL, &why);
	c->words.blocked = NULL;
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (r < 0) {
		log_warn("%s is not started: %s", c->name, why.text);
		c->due_ms = now_ms + (AGAIN_MS << DOUBLINGS);
		return c->due_ms;
	}
	c->child = child;
	c->since_ms = now_ms;
	return service_child_is_up(c, now_ms) ? INT64_MAX : now_ms + UP_MS;
}

bool service_child_is_up(const struct service_child *c, int64_t now_ms)
{
	return c->ends < ENDS_DOWN || (c->child && now_ms - c->since_ms >= UP_MS);
}

static void child_ended(struct service_child *c, int status, int64_t now_ms)
{
	c->child = 0;
	c->ends = now_ms - c->since_ms < STEADY_MS ? c->ends + 1 : 0;
	int64_t pause = (int64_t)AGAIN_MS << (c->ends < DOUBLINGS ? c->ends : DOUBLINGS);
	c->due_ms = now_ms + pause;
	log_warn("%s %s %d; started again in %lld s", c->name,
		 WIFSIGNALED(status) ? "was ended by signal" : "ended with status",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), (long long)pause / 1000);
}

static void part_ended(void *ctx, int pid, int status, int64_t now_ms)
{
	struct service_child *c = ctx;
	if (pid == c->child)
		child_ended(c, status, now_ms);
}

static int64_t part_tick(void *ctx, int64_t now_ms)
{
	return service_child_tick(ctx, now_ms);
}

void service_child_open(const char *name, struct launch_words *words, struct service_child *ret)
{
	*ret = (struct service_child){ .name = name, .words = *words };
	*words = (struct launch_words){ 0 };
}

struct service_part service_child_part(struct service_child *c)
{
	return (struct service_part){ .ctx = c, .ended = part_ended, .tick = part_tick };
}

void service_child_look(struct service_child *c)
{
	int status;
	if (c->child && waitpid(c->child, &status, WNOHANG) == c->child)
		child_ended(c, status, clock_ms());
	service_child_tick(c, clock_ms());
}

void service_child_done(struct service_child *c)
{
	int status;
	if (c->child)
		kill(c->child, SIGTERM);
	for (int left = LEAVE_MS; c->child && left > 0 && waitpid(c->child, &status, WNOHANG) == 0; left -= STEP_MS)
		poll(NULL, 0, STEP_MS);
	launch_words_done(&c->words);
}
