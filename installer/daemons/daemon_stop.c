// SPDX-License-Identifier: Apache-2.0
#include "daemons/daemon_stop.h"

#include "base/process/proc.h"

#include <fcntl.h>

void daemon_stop_done(struct daemon_stop *s)
{
	daemon_record_done(&s->record);
	strv_done(&s->ended);
}

static struct daemon_env daemon_stop_env(const struct daemon_stop *s)
{
	return (struct daemon_env){
		.host = s->host, .kern = s->kern, .sys = s->sys, .driver = s->record.driver ? s->record.driver : "."
	};
}

int daemon_stop_all(struct daemon_stop *s, struct err *err)
{
	if (daemon_record_now(s->host, s->kern, &s->record, err) < 0)
		return -1;
	const struct daemon_env place = daemon_stop_env(s);
	for (size_t i = s->record.count; i-- > 0;) {
		const struct daemon_entry *e = &s->record.items[i];
		if (e->is_foreign || !daemon_entry_runs(e, s->kern))
			continue;
		if (daemon_end(&place, e->argv.items[0], e->pid, e->start, err) < 0)
			return err_wrap(err, "%s", e->name);
		strv_add(&s->ended, str_dup(e->name));
		progress_note(s->progress, "stopped %s (pid %d) to unload the driver", e->name, e->pid);
	}
	return s->ended.count > 0;
}

static int restart_daemon(const struct daemon_stop *s, struct daemon_entry *e, struct err *err)
{
	const struct daemon_env place = daemon_stop_env(s);
	const struct daemon_unit unit = daemon_entry_unit(e);
	auto_fd int out = root_open(s->kern, "dev/null", O_WRONLY, err);
	int pid = out < 0 ? -1 : daemon_launch(&place, &unit, out, err);
	if (pid < 0)
		return -1;
	e->pid = pid; // one that forks is found by its pid file
	e->start = proc_start_time(s->kern, pid);
	progress_note(s->progress, "started %s again because the driver stays loaded", e->name);
	return 0;
}

static int restart_daemons(struct daemon_stop *s, struct err *err)
{
	auto_str char *boot = NULL;
	for (size_t i = 0; i < s->record.count; i++)
		if (strv_has(&s->ended, s->record.items[i].name) && restart_daemon(s, &s->record.items[i], err) < 0)
			return err_wrap(err, "%s", s->record.items[i].name);
	return root_line(s->kern, "proc/sys/kernel/random/boot_id", &boot, err) <= 0 ?
		       -1 :
		       daemon_record_write(s->host, boot, &s->record, err);
}

void daemon_stop_undo(struct daemon_stop *s)
{
	struct err why;
	if (s->ended.count && !daemon_record_owned(&s->record, s->kern) && restart_daemons(s, &why) < 0)
		progress_note(s->progress, "cannot restart the stopped daemons: %s", why.text);
}
