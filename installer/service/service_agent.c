// SPDX-License-Identifier: Apache-2.0
#include "service/service_agent.h"

#include "base/process/log.h"

#include <poll.h>
#include <sys/wait.h>

enum { AGAIN_MS = 1000, DOUBLINGS = 6, STEADY_MS = 600000, LEAVE_MS = 25000, STEP_MS = 50 };

static int64_t agent_tick(void *ctx, int64_t now_ms)
{
	struct service_agent *a = ctx;
	struct err why;
	pid_t child;
	if (a->child)
		return INT64_MAX;
	if (now_ms < a->due_ms)
		return a->due_ms;
	if (launch_self(&a->words, &child, NULL, &why) < 0) {
		log_warn("the agent is not started: %s", why.text);
		a->due_ms = now_ms + (AGAIN_MS << DOUBLINGS);
		return a->due_ms;
	}
	a->child = child;
	a->since_ms = now_ms;
	return INT64_MAX;
}

static void agent_ended(void *ctx, int pid, int status, int64_t now_ms)
{
	struct service_agent *a = ctx;
	if (pid != a->child)
		return;
	a->child = 0;
	a->ends = now_ms - a->since_ms < STEADY_MS ? a->ends + 1 : 0;
	int64_t pause = (int64_t)AGAIN_MS << (a->ends < DOUBLINGS ? a->ends : DOUBLINGS);
	a->due_ms = now_ms + pause;
	if (WIFSIGNALED(status))
		log_warn("the agent was ended by signal %d; started again in %lld s", WTERMSIG(status),
			 (long long)pause / 1000);
	else
		log_warn("the agent ended with status %d; started again in %lld s", WEXITSTATUS(status),
			 (long long)pause / 1000);
}

void service_agent_open(struct launch_words *words, struct service_agent *ret, struct service_part *ret_part)
{
	ret->words = *words;
	*words = (struct launch_words){ 0 };
	*ret_part = (struct service_part){ .ctx = ret, .ended = agent_ended, .tick = agent_tick };
}

void service_agent_done(struct service_agent *a)
{
	int status;
	if (a->child)
		kill(a->child, SIGTERM);
	for (int left = LEAVE_MS; a->child && left > 0 && waitpid(a->child, &status, WNOHANG) == 0; left -= STEP_MS)
		poll(NULL, 0, STEP_MS);
	launch_words_done(&a->words);
}
