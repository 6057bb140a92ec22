// SPDX-License-Identifier: Apache-2.0
#include "service/service_kernels.h"

#include "base/file/file.h"
#include "base/process/boot_record.h"
#include "base/process/log.h"
#include "host/kernel.h"
#include "next_kernel/boot_candidates.h"
#include "next_kernel/kernel_report.h"

#include <signal.h>
#include <sys/wait.h>

enum { SECOND_MS = 1000, INTERVAL_S = 15 * 60, QUIET_S = 10, CRASH_FIRST_S = 60, CRASH_DOUBLINGS = 6 };

static unsigned limit_seconds(unsigned seconds, unsigned otherwise)
{
	enum { DAY_S = 24 * 60 * 60 };
	return !seconds ? otherwise : seconds < DAY_S ? seconds : DAY_S;
}

// The kernels as they are now, in one digest; the configuration is part of it.
static int digest_kernels(const struct service_kernels *k, char ret[DIGEST_HEX + 1], size_t *ret_count, struct err *err)
{
	auto_str char *running = NULL, *text = str_dup("");
	auto_boot_candidates struct boot_candidates c = { 0 };
	if (root_line(k->request.node->kern, "proc/sys/kernel/osrelease", &running, err) < 0 ||
	    boot_candidates_read(k->request.node->host, running ? running : "", k->request.roots, &c, err) < 0)
		return -1;
	for (size_t i = 0; i < c.count; i++)
		str_add(&text, "%s %s %s\n", c.items[i].release, c.items[i].stamp,
			c.items[i].lacks ? c.items[i].lacks : "");
	if (k->request.config)
		file_add_stamp(&text, k->request.config);
	digest_data(text, strlen(text), ret);
	*ret_count = c.count;
	return 0;
}

static bool has_kernel_report(const struct service_kernels *k)
{
	struct err ignored;
	auto_kernel_report struct kernel_report f = { 0 };
	auto_str char *boot_id = boot_record_id(k->request.node->kern);
	return kernel_report_read(k->request.node->host, boot_id, &f, &ignored) > 0;
}

static bool is_look_needed(struct service_kernels *k)
{
	struct err why;
	char now[DIGEST_HEX + 1];
	size_t count = 0;
	if (digest_kernels(k, now, &count, &why) < 0) {
		log_warn("the kernels of this host cannot be looked at: %s", why.text);
		return false;
	}
	bool is_same = str_eq(now, k->seen), is_first = !*k->seen;
	memcpy(k->seen, now, sizeof(now));
	return is_first ? count || has_kernel_report(k) : !is_same || (count && !k->is_well);
}

static int64_t tick_kernels(void *ctx, int64_t now_ms)
{
	struct service_kernels *k = ctx;
	struct err why;
	pid_t child;
	kernel_watch_read(&k->kernel_watch, now_ms);
	if (k->child)
		return INT64_MAX;
	int64_t noticed = kernel_watch_due(&k->kernel_watch), due = noticed < k->due_ms ? noticed : k->due_ms;
	if (now_ms < due)
		return due;
	kernel_watch_clear(&k->kernel_watch);
	k->due_ms = now_ms + k->interval_ms;
	if (!is_look_needed(k))
		return k->due_ms;
	if (launch_self(&k->words, &child, NULL, &why) < 0) {
		log_warn("prebuilding for other installed kernels is disabled: %s", why.text);
		return k->due_ms;
	}
	k->child = child;
	return INT64_MAX;
}

static size_t kernels_fds(void *ctx, struct pollfd *ret, size_t room)
{
	const struct service_kernels *k = ctx;
	if (!room || k->kernel_watch.fd < 0)
		return 0;
	*ret = (struct pollfd){ .fd = k->kernel_watch.fd, .events = POLLIN };
	return 1;
}

// After a failure it is started again at the next interval; it knows itself what is worth another try.
static void kernels_child_ended(void *ctx, int pid, int status, int64_t now_ms)
{
	struct service_kernels *k = ctx;
	if (pid != k->child)
		return;
	k->child = 0;
	k->is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (WIFEXITED(status)) {
		k->crashes = 0;
		return;
	}
	int64_t pause = (int64_t)CRASH_FIRST_S * SECOND_MS
			<< (k->crashes < CRASH_DOUBLINGS ? k->crashes : CRASH_DOUBLINGS);
	k->crashes++;
	k->due_ms = now_ms + (pause < k->interval_ms ? pause : k->interval_ms);
	log_warn("the prebuild worker was killed by signal %d; next try in %lld s", WTERMSIG(status),
		 (long long)(k->due_ms - now_ms) / SECOND_MS);
}

void service_kernels_open(const struct service_kernels_request *request, struct launch_words *words,
			  struct service_kernels *ret, struct service_part *ret_part)
{
	struct err why;
	const unsigned interval_s = limit_seconds(request->interval_s, INTERVAL_S);
	if (kernel_watch_open(request->node->host, request->node->state,
			      (int64_t)limit_seconds(request->quiet_s, QUIET_S) * SECOND_MS, &ret->kernel_watch,
			      &why) < 0)
		log_warn("new kernels are seen every %u s only: %s", interval_s, why.text);
	ret->request = *request;
	ret->interval_ms = (int64_t)interval_s * SECOND_MS;
	ret->words = *words;
	*words = (struct launch_words){ 0 };
	*ret_part = (struct service_part){
		.ctx = ret, .fds = kernels_fds, .ended = kernels_child_ended, .tick = tick_kernels
	};
}

void service_kernels_done(struct service_kernels *k)
{
	if (k->child)
		kill(-k->child, SIGTERM);
	kernel_watch_done(&k->kernel_watch);
	launch_words_done(&k->words);
}
