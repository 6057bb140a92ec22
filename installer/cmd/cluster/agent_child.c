// SPDX-License-Identifier: Apache-2.0
#include "cmd/cluster/agent_child.h"

#include "base/file/file.h"
#include "base/formats/json.h"
#include "base/process/launch.h"
#include "base/process/log.h"
#include "cluster/kube/client.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

enum { LOCKED_AGAIN_MS = 5000, LOCKED_MOST_MS = 300000, OUTPUT_MOST = 4 << 20 };

static void forget_child(struct agent_child *c)
{
	close_fdp(&c->out);
	launch_words_done(&c->words);
	*c = AGENT_CHILD_NONE;
}

static int start_child(struct agent_child *c, struct err *err)
{
	close_fdp(&c->out);
	c->out = -1;
	c->again_ms = 0;
	return launch_self_kept(&c->words, &c->pid, &c->out, err);
}

int agent_child_start(struct agent_child *c, struct launch_words *words, struct err *err)
{
	*c = (struct agent_child){ .is_there = true, .out = -1, .words = *words, .since_ms = kube_now_ms() };
	*words = (struct launch_words){ 0 };
	if (start_child(c, err) == 0)
		return 0;
	forget_child(c);
	return -1;
}

// What it wrote under "error"; NULL where it said nothing.
static const struct err_info *error_of(int out, char ret_text[128])
{
	struct err ignored;
	auto_str char *text = NULL;
	size_t len = 0;
	if (lseek(out, 0, SEEK_SET) < 0 || file_read_most(out, "output", OUTPUT_MOST, &text, &len, &ignored) < 0)
		return NULL;
	auto_json json_t *json = json_loadb(text ? text : "", len, 0, NULL);
	const json_t *error = json_object_get(json, "error");
	const char *code = json_string_value(json_object_get(error, "code"));
	const char *words = json_string_value(json_object_get(error, "text"));
	snprintf(ret_text, 128, "%.120s", words ? words : "");
	return code ? err_info_by_name(code) : NULL;
}

static void judge_child_result(const struct agent_child *c, int status, struct agent_end *ret)
{
	char text[128] = "";
	*ret = (struct agent_end){ .is_ok = WIFEXITED(status) && WEXITSTATUS(status) == 0,
				   .is_crash = WIFSIGNALED(status) };
	if (ret->is_ok)
		return;
	const struct err_info *info = ret->is_crash ? NULL : error_of(c->out, text);
	if (ret->is_crash)
		log_warn("'kmodsmith %s' was ended by signal %d", c->words.args.items[0], WTERMSIG(status));
	// `status` says no more than that it is not ready.
	if (!info)
		info = err_info(str_eq(c->words.args.items[0], "status") ? E_NOT_READY : E_SYSTEM);
	ret->failing = agent_failing(info);
	snprintf(ret->code, sizeof(ret->code), "%s", ret->is_crash ? "killed" : info->name);
	log_warn("'kmodsmith %s' failed: %s%s%s", c->words.args.items[0], ret->code, *text ? ": " : "", text);
}

bool agent_child_ended(struct agent_child *c, struct agent_end *ret)
{
	long now_ms = kube_now_ms();
	struct err err;
	int status = 0;
	if (c->again_ms) {
		if (now_ms < c->again_ms || start_child(c, &err) == 0)
			return false;
		*ret = (struct agent_end){ .failing = FAILING_TRANSIENT, .code = "E_SYSTEM" };
		forget_child(c);
		return true;
	}
	if (waitpid(c->pid, &status, WNOHANG) != c->pid)
		return false;
	judge_child_result(c, status, ret);
	// Somebody else's turn on this node, for instance of the child of an agent that was killed: it passes.
	if (str_eq(ret->code, "E_LOCKED") && now_ms - c->since_ms < LOCKED_MOST_MS) {
		c->again_ms = now_ms + LOCKED_AGAIN_MS;
		return false;
	}
	forget_child(c);
	return true;
}

void agent_child_stop(struct agent_child *c, int wait_ms)
{
	enum { STEP_MS = 50 };
	int status;
	if (!c->is_there)
		return;
	if (c->again_ms == 0) {
		kill(-c->pid, SIGTERM);
		for (; wait_ms > 0 && waitpid(c->pid, &status, WNOHANG) == 0; wait_ms -= STEP_MS)
			poll(NULL, 0, STEP_MS);
	}
	forget_child(c);
}
