// SPDX-License-Identifier: Apache-2.0
// What daemons say, on their output and to syslog: into our log, and the last lines of each for status (R-P4).
#include "daemons/syslog.h"
#include "supervisor/supervisor_internal.h"

#include <errno.h>
#include <sys/socket.h>

static void log_line(struct supervisor *k, size_t i, const char *text)
{
	enum { KEPT_MOST = 5 };
	struct strv *log = &k->kept[i].log;
	progress_note(k->progress, "%s: %s", k->plan.items[i].name, text);
	if (log->count == KEPT_MOST) {
		free(log->items[0]);
		memmove(log->items, log->items + 1, log->count * sizeof(*log->items)); // with the NULL at its end
		log->count--;
	}
	strv_add(log, str_dup(text));
}

static void line(struct supervisor *k, size_t i)
{
	struct supervised_daemon *x = &k->kept[i];
	auto_str char *text = str_ndup(x->line, x->len);
	if (*str_trim(text))
		log_line(k, i, text);
	x->len = 0;
}

void supervisor_read_output(struct supervisor *k, size_t i)
{
	struct supervised_daemon *x = &k->kept[i];
	char buf[4096];
	ssize_t n = 1;
	while (x->out >= 0 && (n = read(x->out, buf, sizeof(buf))) > 0)
		for (ssize_t c = 0; c < n; c++) {
			if (buf[c] == '\n' || x->len == sizeof(x->line))
				line(k, i);
			if (buf[c] != '\n')
				x->line[x->len++] = buf[c];
		}
	if (x->out < 0 || n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	line(k, i);
	close(TAKE_FD(x->out));
}

static const char *program_of(const struct daemon *d)
{
	const char *slash = strrchr(d->program, '/');
	return slash + 1;
}

void supervisor_read_syslog(struct supervisor *k)
{
	char text[2048];
	const char *name, *message;
	ssize_t n;
	while (k->syslog >= 0 && (n = recv(k->syslog, text, sizeof(text) - 1, 0)) >= 0) {
		text[n] = '\0';
		if (!syslog_parse(text, &name, &message))
			continue;
		for (size_t i = 0; i < k->plan.count; i++)
			if (str_eq(name, k->plan.items[i].name) || str_eq(name, program_of(&k->plan.items[i])))
				log_line(k, i, message);
	}
}
