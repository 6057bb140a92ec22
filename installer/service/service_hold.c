// SPDX-License-Identifier: Apache-2.0
#include "service/service_hold.h"

#include "base/core/date.h"
#include "base/process/launch.h"
#include "base/process/log.h"
#include "kmod/load/bounded.h"

#include <sys/wait.h>

enum {
	LOOK_MS = 30 * 1000,
	AGAIN_MS = 120 * 1000, // while something is in the way: each look asks the repositories
	PROOF_MS = 60 * 60 * 1000,
	END_MS = 2 * 1000,
	LEAVE_MS = 8 * 1000, // of the 30 s that a pod has
	FAILED_MS = 60 * 1000,
	KILL_WAIT_MS = 1000,
};

static int start_look(const char *why, int *ret)
{
	auto_launch_words struct launch_words words = { 0 };
	const char *const args[] = { "driver-manager", "hold", why };
	struct err failed;
	pid_t child;
	for (size_t i = 0; i < ARRAY_SIZE(args) && args[i]; i++)
		strv_add(&words.args, str_dup(args[i]));
	if (launch_self(&words, &child, NULL, &failed) < 0) {
		log_warn("what the operator wants next is not looked at: %s", failed.text);
		return -1;
	}
	*ret = child;
	return 0;
}

static int64_t tick_hold(void *ctx, int64_t now_ms)
{
	struct service_hold *h = ctx;
	if (h->child && now_ms >= h->end_ms)
		kill(-h->child, SIGKILL);
	if (h->child)
		return now_ms < h->end_ms ? h->end_ms : INT64_MAX;
	if (now_ms < h->due_ms)
		return h->due_ms;
	h->due_ms = now_ms + AGAIN_MS;
	h->end_ms = now_ms + PROOF_MS;
	return start_look(NULL, &h->child) < 0 ? h->due_ms : h->end_ms;
}

static void hold_ended(void *ctx, int pid, int status, int64_t now_ms)
{
	struct service_hold *h = ctx;
	if (pid != h->child)
		return;
	h->child = 0;
	h->due_ms = now_ms + (WIFEXITED(status) && WEXITSTATUS(status) == 0 ? LOOK_MS : AGAIN_MS);
}

struct service_part service_hold_part(struct service_hold *h)
{
	return (struct service_part){ .ctx = h, .ended = hold_ended, .tick = tick_hold };
}

// One that the kernel does not let go is left behind.
static void wait_for_look(int child, int ms)
{
	int status;
	bool is_ended = bounded_wait(child, ms);
	if (!is_ended) {
		kill(-child, SIGKILL);
		is_ended = bounded_wait(child, KILL_WAIT_MS);
	}
	if (is_ended)
		waitpid(child, &status, 0);
}

void service_hold_last(struct service_hold *h, bool is_failed)
{
	int child;
	if (h->child) {
		kill(-h->child, SIGTERM);
		wait_for_look(h->child, END_MS);
		h->child = 0;
	}
	if (start_look(is_failed ? "starting" : "leaving", &child) == 0)
		wait_for_look(child, is_failed ? FAILED_MS : LEAVE_MS);
}
