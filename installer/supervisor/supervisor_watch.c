// SPDX-License-Identifier: Apache-2.0
// What daemons do by themselves: they come up, and end.
#include "supervisor/supervisor_internal.h"

#include <stdio.h>
#include <sys/wait.h>

enum { ORPHAN_MS = 10 * 1000 }; // between the end of the program that forks and the daemon's pid file

static void describe_exit(int status, char *text, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(text, size, "ended by signal %d", WTERMSIG(status));
	else
		snprintf(text, size, "ended with exit status %d", WEXITSTATUS(status));
}

void supervisor_ended(struct supervisor *k, int pid, int status, int64_t now_ms)
{
	char text[64];
	describe_exit(status, text, sizeof(text));
	if (pid == k->after) {
		k->after = 0;
		progress_note(k->progress, "the program after the first start %s", text);
	}
	for (size_t i = 0; i < k->plan.count; i++) {
		struct supervised *s = &k->kept[i].s;
		if (s->pid != pid)
			continue;
		supervisor_read_output(k, i);
		if (s->state == SUPERVISED_STARTING && k->plan.items[i].is_forking && status == 0) {
			s->pid = 0; // it has gone into the background
			s->due_ms = now_ms + ORPHAN_MS;
		} else {
			supervisor_down(k, i, text, now_ms);
		}
	}
}

// Of a child the end is told by waitpid(), a moment after its program has gone; of one that was adopted nobody tells
// it.
static void find_daemon(struct supervisor *k, size_t i, int64_t now_ms)
{
	const struct supervised *s = &k->kept[i].s;
	int status;
	pid_t pid = k->sys->record ? -1 : waitpid(s->pid, &status, WNOHANG);
	if (pid > 0)
		supervisor_ended(k, pid, status, now_ms);
	else if (pid < 0)
		supervisor_down(k, i, "it ended", now_ms);
}

void supervisor_measure(struct supervisor *k, size_t i, int64_t now_ms)
{
	const struct daemon *d = &k->plan.items[i];
	const struct supervised *s = &k->kept[i].s;
	if (s->state == SUPERVISED_UP && !daemon_is(k->kern, s->pid, s->start, d->program))
		find_daemon(k, i, now_ms);
	else if (s->state == SUPERVISED_STARTING && (!d->is_forking || !s->pid))
		supervisor_adopt(k, i, EVENT_UP, now_ms);
}
