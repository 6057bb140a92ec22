// SPDX-License-Identifier: Apache-2.0
#include "cmd/container/serve_agent.h"

#include "base/process/launch.h"
#include "cluster/agent/agent_journal.h"

#include <poll.h>
#include <sys/wait.h>

enum { AGAIN_MS = 1000, DOUBLINGS = 6, STEADY_MS = 600000, LEAVE_MS = 25000, STEP_MS = 50 };

extern const struct cmd cmd_agent;

static int64_t agent_tick(void *ctx, int64_t now_ms)
{
	struct serve_agent *a = ctx;
	struct err why;
	pid_t child;
	if (a->child)
		return INT64_MAX;
	if (now_ms < a->due_ms)
		return a->due_ms;
	if (launch_self(&a->words, &child, &why) < 0) {
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
	struct serve_agent *a = ctx;
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

void serve_agent_open(const struct opt *const *tables, const void *values, struct serve_agent *ret,
		      struct serve_part *ret_part)
{
	strv_add(&ret->words.args, str_dup(cmd_agent.name));
	opt_words(tables, values, &cmd_agent, &ret->words.args, &ret->words.env);
	*ret_part = (struct serve_part){ .ctx = ret, .ended = agent_ended, .tick = agent_tick };
}

void serve_agent_done(struct serve_agent *a)
{
	int status;
	if (a->child)
		kill(a->child, SIGTERM);
	for (int left = LEAVE_MS; a->child && left > 0 && waitpid(a->child, &status, WNOHANG) == 0; left -= STEP_MS)
		poll(NULL, 0, STEP_MS);
	launch_words_done(&a->words);
}

static void replace_value(char **to, const char *text)
{
	free(*to);
	*to = str_dup(text);
}

static int request_current_target(struct job_values *v, const struct machine *m, struct err *err)
{
	auto_root struct root state = ROOT_NONE;
	struct target t = { 0 };
	if (job_state(v, m, &state, err) < 0)
		return -1;
	int r = agent_current(&state, &t, err);
	if (r > 0) {
		replace_value(&v->driver, t.driver);
		replace_value(&v->flavour, *t.flavour ? t.flavour : NULL);
		replace_value(&v->digest, t.package);
		target_params(&t, &v->params);
	}
	target_done(&t);
	return r;
}

// A source is of one version, which need not be the one that is loaded by now.
static void request_loaded_driver(struct job_values *v, const struct modules *loaded)
{
	if (!str_eq(v->driver, loaded->version))
		replace_value(&v->source, NULL);
	replace_value(&v->driver, loaded->version);
	replace_value(&v->flavour, loaded->flavour == FLAVOUR_AUTO ? NULL : flavour_name(loaded->flavour));
	replace_value(&v->digest, NULL);
}

int serve_agent_request(struct job_values *v, struct err *err)
{
	auto_machine struct machine m = { .host = ROOT_NONE, .kern = ROOT_NONE };
	auto_facts struct facts f = { 0 };
	if (machine_open(&v->origin.remote.common, &m, err) < 0 || facts_read(&m.host, &m.kern, &f, err) < 0)
		return -1;
	int r = request_current_target(v, &m, err);
	if (r < 0)
		return -1;
	if (f.loaded.version)
		request_loaded_driver(v, &f.loaded);
	return v->driver || v->source || v->payload || v->origin.package;
}
